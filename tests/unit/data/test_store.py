"""The store keeps what it is given, once, and answers as of a moment."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tithe.data.errors import StoreError
from tithe.data.records import (
    Candidate,
    Change,
    DiffSummary,
    FileEdit,
    Launch,
    LaunchId,
    MetricName,
    Outcome,
    RunId,
    RunRecord,
    ScenarioName,
    Selection,
    Sha,
)
from tithe.data.store import Store

A, B, C = (Sha(letter * 40) for letter in "abc")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.db") as store:
        yield store


def launch(number: int = 0, **changed: object) -> Launch:
    plain = Launch(
        id=LaunchId(f"run-1/{number}"),
        run=RunId("run-1"),
        scenario=ScenarioName("lm"),
        arm="base",
        sha=A,
        stage="first",
        block=0,
        position=0,
        place="a",
        started_at=1000.0 + number,
        seconds=1.5,
        status="ok",
        exit_code=0,
        values={MetricName("wall"): 1.25, MetricName("rss"): 2e8},
        phases={"first-batch": 0.5},
    )
    return replace(plain, **changed)  # type: ignore[arg-type]


def outcome(**changed: object) -> Outcome:
    plain = Outcome(
        base=A,
        change=B,
        scenario=ScenarioName("lm"),
        metric=MetricName("wall"),
        verdict="regressed",
        known_at=100.0,
        source="ab",
        picked="chosen",
        ratio=1.1,
    )
    return replace(plain, **changed)  # type: ignore[arg-type]


def change(sha: Sha, index: int, **changed: object) -> Change:
    plain = Change(sha, A, index, "Ada", 50.0 + index, "subject", (FileEdit("a.py", 1, 2),))
    return replace(plain, **changed)  # type: ignore[arg-type]


def test_changes_come_back_as_they_were_in_history_order(store: Store) -> None:
    files = (FileEdit("b.py", 3, 1), FileEdit("a.png", -1, -1, "old.png"))
    first = change(B, 0, files=files, body="two\nlines", merge=True)
    second = change(C, 1, files=())
    assert store.add_changes([second, first, first]) == 2
    assert store.changes() == [first, second]
    assert store.last_change() == second


def test_a_diff_under_test_is_off_history_until_git_says_otherwise(store: Store) -> None:
    diff = change(B, -1, time=70.0)
    store.add_changes([change(C, 0), diff])
    assert [one.sha for one in store.changes()] == [C]
    assert [one.sha for one in store.changes(off_history=True)] == [C, B]
    landed = change(B, 1, files=(FileEdit("x", 1, 1), FileEdit("y", 1, 1)))
    assert store.add_changes([landed]) == 0
    assert store.add_changes([diff]) == 0
    assert store.changes() == [change(C, 0), landed]


def test_an_empty_store_answers_with_nothing(store: Store) -> None:
    assert store.changes() == []
    assert store.last_change() is None
    assert store.outcomes() == []
    assert list(store.launches()) == []
    assert store.noise() == {}
    assert store.launch_seconds() == {}
    assert store.promoted() is None
    assert set(store.counts().values()) == {0}
    assert store.check() == []


def test_tags_are_those_of_the_last_call(store: Store) -> None:
    store.set_tags({"v1": A, "v2": B})
    store.set_tags({"v2": C})
    assert store.tags() == {"v2": C}
    store.set_tags({})
    assert store.tags() == {}


def test_launches_are_filtered_and_keep_warm_ups_and_failures(store: Store) -> None:
    kept = [
        launch(0, stage="warmup"),
        launch(1, status="failed", exit_code=None, values={}, phases={}, note="no such command"),
        launch(2, run=RunId("run-2")),
        launch(3, scenario=ScenarioName("other")),
    ]
    assert store.add_launches(reversed(kept)) == 4
    assert store.add_launches(kept) == 0
    assert list(store.launches()) == kept
    assert list(store.launches(run=RunId("run-2"))) == [kept[2]]
    assert list(store.launches(scenario=ScenarioName("other"))) == [kept[3]]
    assert list(store.launches(stage="warmup", run=RunId("run-1"))) == [kept[0]]
    assert list(store.launches(run=RunId("nobody"))) == []


def test_two_unlike_launches_of_one_id_are_both_kept(store: Store) -> None:
    store.add_launches([launch(0), launch(0, seconds=9.0)])
    assert {one.seconds for one in store.launches()} == {1.5, 9.0}


def test_launches_that_start_at_once_are_all_read_in_parts(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tithe.data.store._CHUNK", 3)
    kept = [launch(number, started_at=5.0) for number in range(7)]
    store.add_launches(kept)
    found = list(store.launches())
    assert sorted(found, key=lambda one: one.id) == kept


def test_writing_while_launches_are_read_is_allowed(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tithe.data.store._CHUNK", 2)
    store.add_launches([launch(number) for number in range(5)])
    for number, _ in zip(range(5), store.launches(), strict=False):
        store.add_outcomes([outcome(known_at=float(number))])
    assert store.counts()["outcomes"] == 5


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_no_number_is_refused_and_nothing_of_the_write_stays(
    store: Store, value: float
) -> None:
    with pytest.raises(StoreError, match=r"run-1/1.*'wall'"):
        store.add_launches([launch(0), launch(1, values={MetricName("wall"): value})])
    assert store.counts()["launches"] == 0
    assert store.add_launches([launch(0)]) == 1  # words given by the undone write are not remembered
    assert store.check() == []


@pytest.mark.parametrize(
    "bad",
    [
        outcome(known_at=math.nan),
        outcome(source="guess"),
        outcome(scenario=ScenarioName("\ud800")),
    ],
)
def test_a_record_that_breaks_a_rule_is_one_line_and_nothing_stays(store: Store, bad: Outcome) -> None:
    with pytest.raises(StoreError) as caught:
        store.add_outcomes([outcome(), bad])
    assert "\n" not in str(caught.value)
    assert store.counts()["outcomes"] == 0


def test_mean_seconds_leave_warm_ups_out(store: Store) -> None:
    store.add_launches(
        [launch(0, stage="warmup", seconds=100.0), launch(1, seconds=1.0), launch(2, seconds=2.0)]
    )
    assert store.launch_seconds() == {"lm": 1.5}


def test_the_same_outcome_twice_is_once_whatever_type_its_numbers_have(store: Store) -> None:
    assert store.add_outcomes([outcome(), outcome(), outcome(known_at=100, weight=1)]) == 1


SOURCES = ("import", "ab", "bisect", "human")


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_strongest_source_speaks_in_any_order_of_arrival(store: Store, order: tuple[int, ...]) -> None:
    known = [outcome(source=source, known_at=10.0 - rank) for rank, source in enumerate(SOURCES)]
    for number in order:
        store.add_outcomes([known[number]])
    assert store.outcomes() == [known[3]]
    assert store.outcomes(superseded=True) == sorted(known, key=lambda one: one.known_at)


def test_of_equal_sources_the_newest_speaks_as_of_the_moment(store: Store) -> None:
    early, late = outcome(known_at=5.0, verdict="same"), outcome(known_at=9.0, source="sweep")
    store.add_outcomes([late, early])
    assert store.outcomes() == [late]
    assert store.outcomes(until=9.0) == [early]
    assert store.outcomes(until=5.0) == []


def test_other_subjects_are_left_alone(store: Store) -> None:
    others = [
        outcome(source="human"),
        outcome(base=C),
        outcome(change=C),
        outcome(scenario=ScenarioName("other")),
        outcome(metric=MetricName("cpu")),
    ]
    store.add_outcomes(others)
    assert len(store.outcomes()) == 5


def run_record(**changed: object) -> RunRecord:
    plain = RunRecord(RunId("run-1"), "check", A, B, 7.0, "host-1", "chosen", "sel-1")
    return replace(plain, **changed)  # type: ignore[arg-type]


def test_runs_by_kind_and_the_later_of_two_unlike_ones(store: Store) -> None:
    sweep = run_record(id=RunId("run-2"), kind="sweep", started_at=1.0)
    store.add_run(run_record())
    store.add_run(sweep)
    assert store.runs() == [sweep, run_record()]
    assert store.runs(kind="sweep") == [sweep]
    store.add_run(run_record(started_at=8.0))
    store.add_run(run_record())
    assert store.runs(kind="check") == [run_record(started_at=8.0)]


def test_a_selection_comes_back(store: Store) -> None:
    candidate = Candidate(ScenarioName("lm"), 0.25, {"cpu": 3.0}, 1, "chosen", ("near",))
    selection = Selection(
        "sel-1", "main", "HEAD", DiffSummary(1, 2, 3, ("a",)), {"cpu": 60.0}, 1, "prior", (candidate,), ()
    )
    store.add_selection(selection, 5.0)
    store.add_selection(selection, 4.0)
    assert store.selection("sel-1") == selection
    assert store.selection("sel-2") is None
    assert store.counts()["selections"] == 1


def test_models_and_roll_back(store: Store) -> None:
    store.add_model("001", "models/001", 1.0, {"auc": 0.5})
    store.add_model("002", "models/002", 2.0, {"window": [1, 2]})
    store.promote("001")
    store.promote("002")
    assert [(row.version, row.promoted, dict(row.info)) for row in store.models()] == [
        ("001", False, {"auc": 0.5}),
        ("002", True, {"window": [1, 2]}),
    ]
    store.promote("001")
    store.add_model("001", "elsewhere", 1.0, {})  # a promoted model can be described anew
    assert store.promoted() == "001"
    with pytest.raises(StoreError, match="no model '003'"):
        store.promote("003")


def test_a_transaction_is_all_or_nothing(store: Store) -> None:
    def two_writes() -> None:
        with store.transaction():
            store.add_outcomes([outcome()])
            store.set_tags({"v1": A})
            raise KeyError

    with pytest.raises(KeyError):
        two_writes()
    assert store.counts()["outcomes"] == 0
    assert store.tags() == {}
    store.add_outcomes([outcome()])
    assert store.outcomes() == [outcome()]


def test_light_commands_do_not_pay_for_sqlite_utils(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from tithe.data.store import Store\n"
        "store = Store.open(Path(sys.argv[1])); store.changes(); store.outcomes(); store.launch_seconds()\n"
        "print(sorted({'sqlite_utils', 'pandas', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "s.db")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_counts_by_verdict_and_filters_say_what_all_outcomes_say(store: Store) -> None:
    from collections import Counter

    made = [
        outcome(known_at=float(at), verdict=verdict, source=source, scenario=ScenarioName(name))
        for at, (verdict, source, name) in enumerate(
            [
                ("same", "ab", "a"),
                ("regressed", "bisect", "a"),
                ("same", "sweep", "a"),
                ("improved", "import", "b"),
                ("same", "ab", "c"),
            ]
        )
    ]
    store.add_outcomes(made)
    told = store.outcomes()
    assert (
        store.verdict_counts()
        == dict(Counter(one.verdict for one in told))
        == {"improved": 1, "regressed": 1, "same": 1}
    )
    assert store.outcomes(scenarios=[ScenarioName("a"), ScenarioName("nobody")]) == [
        o for o in told if o.scenario == "a"
    ]
    assert store.outcomes(scenarios=[]) == []
    assert store.outcomes(since=3.0) == [o for o in told if o.known_at >= 3.0]
