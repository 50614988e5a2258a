"""The noise of a block is pooled around each comparison's own mean."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import variance

import pytest

from tithe.data.records import Launch, LaunchId, MetricName, RunId, RunRecord, ScenarioName, Sha, Stage
from tithe.data.store import Store

BASE, HEAD, OTHER = (Sha(letter * 40) for letter in "abc")
KEY = (ScenarioName("lm"), MetricName("wall"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.db") as store:
        yield store


def block(
    number: int, base: float, head: float, *, run: str = "r", stage: Stage = "first", head_sha: Sha = HEAD
) -> list[Launch]:
    """Four launches, ABBA, whose block statistic is log(head / base)."""
    spread = 1.1
    return [
        Launch(
            id=LaunchId(f"{run}/{stage}/{number}/{position}"),
            run=RunId(run),
            scenario=KEY[0],
            arm="head" if position in (1, 2) else "base",
            sha=head_sha if position in (1, 2) else BASE,
            stage=stage,
            block=number,
            position=position,
            place="a",
            started_at=float(10 * number + position),
            seconds=1.0,
            status="ok",
            exit_code=0,
            values={
                KEY[1]: (head if position in (1, 2) else base) * (spread if position < 2 else 1 / spread)
            },
        )
        for position in range(4)
    ]


def test_the_scatter_is_that_around_each_runs_own_mean(store: Store) -> None:
    quiet, shifted = [1.0, 1.01, 0.98], [1.5, 1.53]
    for number, head in enumerate(quiet):
        store.add_launches(block(number, 1.0, head))
    for number, head in enumerate(shifted):
        store.add_launches(block(number, 2.0, 2 * head, run="s"))
    found = store.noise()[KEY]
    squares = 2 * variance(map(math.log, quiet)) + variance(map(math.log, shifted))
    assert found.df == 3
    assert found.sd == pytest.approx(math.sqrt(squares / 3), rel=1e-9)


def test_the_stages_of_one_comparison_share_their_mean_and_warm_ups_are_not_used(store: Store) -> None:
    store.add_launches(block(0, 1.0, 1.0))
    store.add_launches(block(0, 1.0, 1.1, stage="confirm"))
    store.add_launches(block(0, 1.0, 9.0, stage="warmup"))
    found = store.noise()[KEY]
    assert found.df == 1
    assert found.sd == pytest.approx(math.log(1.1) / math.sqrt(2), rel=1e-9)


def test_probes_of_unlike_revisions_in_one_run_are_not_one_comparison(store: Store) -> None:
    store.add_launches(block(0, 1.0, 1.0, stage="probe"))
    store.add_launches(block(1, 1.0, 2.0, stage="probe", head_sha=OTHER))
    assert store.noise() == {}


@pytest.mark.parametrize("spoil", ["failed", "missing", "negative", "both-failed"])
def test_a_block_that_is_not_whole_is_left_out(store: Store, spoil: str) -> None:
    store.add_launches(block(0, 1.0, 1.0) + block(1, 1.0, 1.1))
    whole = store.noise()
    bad = block(2, 1.0, 5.0)
    if spoil == "failed":
        bad[1] = replace(bad[1], status="failed", exit_code=1)
    elif spoil == "missing":
        del bad[1]
    elif spoil == "negative":
        bad[0] = replace(bad[0], values={KEY[1]: -1.0})
    else:  # one launch of each arm: what is left would look like a small whole block
        bad[0] = replace(bad[0], status="failed", exit_code=1, values={})
        bad[1] = replace(bad[1], status="timeout", exit_code=None, values={})
    store.add_launches(bad)
    assert store.noise() == whole
    assert whole[KEY].df == 1


def test_hosts_can_be_told_apart(store: Store) -> None:
    for run, host, head in (("r", "one", 1.1), ("s", "two", 1.4)):
        store.add_run(RunRecord(RunId(run), "run", BASE, HEAD, 1.0, host))
        store.add_launches(block(0, 1.0, 1.0, run=run) + block(1, 1.0, head, run=run))
    assert store.noise()[KEY].df == 2
    assert store.noise(host="two")[KEY].sd == pytest.approx(math.log(1.4) / math.sqrt(2), rel=1e-9)
    assert store.noise(host="three") == {}


def test_the_order_of_arrival_changes_no_bit(tmp_path: Path) -> None:
    dice = random.Random(5)
    launches = [
        one
        for run in "qrst"
        for number in range(6)
        for one in block(number, dice.lognormvariate(0, 0.1), dice.lognormvariate(0, 0.1), run=run)
    ]
    answers = []
    for turn in range(3):
        dice.shuffle(launches)
        with Store.open(tmp_path / f"{turn}.db") as store:
            store.add_launches(launches)
            answers.append(store.noise())
    assert answers[0] == answers[1] == answers[2]
    assert answers[0][KEY].df == 20
