"""Shrinking on a small program of real functions: what is kept, what is refused, and what is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tithe.data.config import load
from tithe.data.errors import LaunchError
from tithe.data.git import GitRepo
from tithe.data.records import Launch, MetricName, RunId, Scenario, Sha, ShrinkReport
from tithe.runner.local import LocalExecutor
from tithe.shrinker.shrink import shrink

CONFIG = """\
[tithe]
main = "main"

[[scenario]]
name = "train"
command = "python train.py --steps 64 --seed 3"
metrics = ["ttfb", "wall"]
"""
TRAIN = """\
import sys, time
from tithe.first_batch_mark import first_batch

def load(): return list(range(10))
def step(i): time.sleep(0.01)
def log(i): return i
def finish(): return 1
def main():
    load(); first_batch()
    for i in range(int(sys.argv[sys.argv.index("--steps") + 1])):
        step(i)
        if i == 5: log(i)
    finish()
main()
"""


class Bench:
    def __init__(self, root: Path, sha: Sha) -> None:
        self.config = load(root)
        self.repo = GitRepo.open(root)
        self.sha = sha
        self.sunk: list[Launch] = []

    def shrink(self, **changes: object) -> ShrinkReport:
        scenario: Scenario = replace(self.config.scenarios[0], **changes)  # type: ignore[arg-type]
        with LocalExecutor(self.config, self.repo) as executor:
            return shrink(scenario, self.sha, executor, run=RunId("r"), sink=self.sunk.extend)


@pytest.fixture
def bench(workshop: Callable[..., object]) -> Bench:
    repository = workshop("repository")
    sha = repository.commit("start", {"tithe.toml": CONFIG, "train.py": TRAIN})  # type: ignore[attr-defined]
    return Bench(repository.root, Sha(sha))  # type: ignore[attr-defined]


def test_for_a_first_batch_the_launch_is_ended_there(bench: Bench) -> None:
    report = bench.shrink()
    assert report.stop in ("first-step", "first-batch")
    assert report.command == bench.config.scenarios[0].command
    assert report.fidelity["functions before the first batch"] == 1.0
    assert report.fidelity["all functions"] < 1.0
    assert report.cost_after_s < report.cost_before_s
    assert set(report.signal) == {"ttfb"}
    assert (report.lost, report.warnings) == ((), ())
    assert [launch.stage for launch in bench.sunk] == ["record"] * 3


def test_for_other_metrics_steps_are_cut_to_the_fewest_that_lose_nothing(bench: Bench) -> None:
    report = bench.shrink(gate=(MetricName("wall"),))
    assert report.stop == "none"
    assert report.command == ("python", "train.py", "--steps", "8", "--seed", "3")  # log() runs in step 5
    assert report.fidelity == {"all functions": 1.0}
    assert report.signal["wall"] < 1


def test_what_cannot_be_shrunk_stays_and_the_loss_is_named(bench: Bench) -> None:
    command = ("python", "train.py", "--steps", "6")
    report = bench.shrink(gate=(MetricName("wall"),), command=command)
    assert report.command == command
    assert report.cost_after_s == report.cost_before_s
    assert "train.py:log" in report.warnings[0]


def test_a_scenario_that_fails_is_not_shrunk(bench: Bench) -> None:
    with pytest.raises(LaunchError, match="the full run is failed"):
        bench.shrink(command=("python", "none.py"))
