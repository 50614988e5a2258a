"""Bisections of simulated ranges: who is named, when nobody is, and what it costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest

from tithe.attribution.bisection import UNEXPLAINED, bisect
from tithe.attribution.labels import labels
from tithe.data.config import DecisionPolicy
from tithe.data.errors import UsageError
from tithe.data.noise import Noise
from tithe.data.records import (
    BUILTIN_METRICS,
    BisectReport,
    Launch,
    Metric,
    MetricName,
    RunId,
    Scenario,
    ScenarioName,
    Sha,
)
from tithe.runner.recorded import RecordedExecutor
from tithe.runner.simulate import launches

WALL = BUILTIN_METRICS["wall"]
SPEED = Metric(MetricName("speed"), "1/s", "larger")
SD = 0.02
POLICY = DecisionPolicy()
GOOD = Sha("g" * 40)


@dataclass
class Range:
    """A range of changes. `steps` maps an index to the factor that comes in there."""

    count: int = 64
    steps: Mapping[int, float] = field(default_factory=lambda: {37: 1.1})
    crashing: Sequence[int] = ()
    unrunnable: Sequence[int] = ()
    metric: Metric = WALL
    good_crashes: bool = False
    noise: Noise | None = field(default_factory=lambda: Noise(SD, 60.0))
    kept: list[Launch] = field(default_factory=list)

    @property
    def commits(self) -> tuple[Sha, ...]:
        return tuple(Sha(f"{index:040d}") for index in range(self.count))

    @property
    def scenario(self) -> Scenario:
        return Scenario(ScenarioName("s"), ("true",), (self.metric,), (self.metric.name,))

    def executor(self, seed: int = 1) -> RecordedExecutor:
        draws = np.random.default_rng(5).normal(0, SD, 300)
        pool: dict[tuple[Sha, ScenarioName], list[Launch]] = {}
        level = 1.0
        made: dict[float, list[Launch]] = {}
        dead = launches(GOOD, self.scenario, {}, failed="exit 1")
        for index, sha in enumerate((GOOD, *self.commits), start=-1):
            level *= self.steps.get(index, 1.0)
            if level not in made:
                made[level] = launches(sha, self.scenario, {self.metric.name: list(np.exp(draws) * level)})
            crashes = index in self.crashing or (index < 0 and self.good_crashes)
            pool[sha, self.scenario.name] = dead if crashes else made[level]
        unrunnable = {self.commits[index]: "syntax error" for index in self.unrunnable}
        return RecordedExecutor(pool, seed=seed, unrunnable=unrunnable)

    def solve(
        self, seed: int = 1, budget_s: float | None = None, prior: Mapping[Sha, float] | None = None
    ) -> BisectReport:
        return bisect(
            self.scenario,
            self.metric,
            GOOD,
            self.commits[-1],
            self.commits,
            self.executor(seed),
            POLICY,
            run=RunId("r"),
            seed=seed,
            noise=self.noise,
            prior=prior,
            sink=self.kept.extend,
            budget_s=budget_s,
        )


@pytest.mark.parametrize(
    ("ratio", "metric", "verdict"),
    [
        (1.1, WALL, "regressed"),
        (0.85, WALL, "improved"),
        (0.85, SPEED, "regressed"),
        (1.2, SPEED, "improved"),
    ],
)
@pytest.mark.parametrize("at", [0, 20, 63])
def test_names_and_verifies_the_change_with_the_step(
    ratio: float, metric: Metric, verdict: str, at: int
) -> None:
    some = Range(steps={at: ratio}, metric=metric)
    report = some.solve()
    assert report.culprit == some.commits[at]
    assert report.verified
    assert report.verification is not None
    assert report.verification.verdict == verdict
    assert report.candidates[0].sha == report.culprit
    assert report.candidates[0].probability >= 0.95
    assert report.reason == ""
    assert report.other_steps == ()
    assert report.launches == len(some.kept)
    assert len({launch.id for launch in some.kept}) == len(some.kept)


def test_works_without_history() -> None:
    some = Range(noise=None)
    assert some.solve().culprit == some.commits[37]


def test_an_effect_that_does_not_reproduce_is_blamed_on_nobody() -> None:
    some = Range(steps={})
    report = some.solve()
    assert report.culprit is None
    assert not report.verified
    assert "does not reproduce" in report.reason
    assert report.launches < 40
    assert labels(report, some.commits, known_at=1.0) == []


def test_changes_that_cannot_run_are_passed_over() -> None:
    some = Range(crashing=(28, 29, 30, 31, 32), unrunnable=(33, 45))
    report = some.solve()
    assert report.culprit == some.commits[37]
    assert "could not be measured" in report.warnings[0]


@pytest.mark.parametrize("at", [31, 33, 36])
def test_a_step_within_a_gap_is_answered_with_the_range(at: int) -> None:
    gap = range(31, 36)
    some = Range(steps={at: 1.15}, unrunnable=tuple(gap))
    report = some.solve()
    assert report.culprit is None
    assert {suspect.sha for suspect in report.candidates if suspect.probability > 0.05} == {
        some.commits[index] for index in range(31, 37)
    }
    assert "syntax error" in report.reason
    assert report.verification is not None
    assert report.verification.verdict == "regressed"
    assert {outcome.verdict for outcome in labels(report, some.commits, known_at=1.0)} == {"same"}


def test_a_crash_is_followed_as_pass_and_fail() -> None:
    some = Range(steps={10: 1.5}, crashing=range(41, 64))
    report = some.solve()
    assert report.culprit == some.commits[41]
    assert report.verification is not None
    assert report.verification.verdict == "broken"
    assert report.launches < 80
    assert [outcome.verdict for outcome in labels(report, some.commits, known_at=1.0)] == ["broken"]


def test_a_mended_crash_and_a_broken_set_up() -> None:
    mended = Range(steps={}, crashing=range(22), good_crashes=True)
    report = mended.solve()
    assert report.culprit == mended.commits[22]
    assert report.verification is not None
    assert report.verification.verdict == "fixed"
    broken = Range(steps={}, unrunnable=range(50, 64))
    report = broken.solve()
    assert report.culprit == broken.commits[50]
    assert report.launches == 0


def test_ends_that_cannot_be_judged() -> None:
    assert "both ends fail" in Range(good_crashes=True, crashing=(63,)).solve().reason
    some = Range()
    with pytest.raises(UsageError, match="does not lead"):
        bisect(
            some.scenario,
            WALL,
            GOOD,
            Sha("x"),
            some.commits,
            some.executor(),
            POLICY,
            run=RunId("r"),
            seed=1,
            sink=some.kept.extend,
        )


def test_further_steps_are_looked_for_where_one_does_not_explain_all() -> None:
    some = Range(steps={15: 1.3, 48: 1.3})
    report = some.solve()
    assert {report.culprit, *report.other_steps} == {some.commits[15], some.commits[48]}
    assert UNEXPLAINED not in report.warnings


def test_a_used_up_budget_says_how_far_it_came() -> None:
    report = Range().solve(budget_s=30.0)
    assert report.culprit is None
    assert "budget" in report.reason
    assert report.candidates
    assert report.spent_s < 60.0


def test_a_good_prior_saves_launches_and_a_wrong_one_does_not_mislead() -> None:
    some = Range()
    plain = some.solve()
    right = some.solve(prior={some.commits[37]: 1.0})
    wrong = some.solve(prior={some.commits[5]: 1.0})
    assert right.launches < plain.launches
    assert right.culprit == wrong.culprit == some.commits[37]


def test_labels_hold_the_culprit_and_the_innocents_and_leave_out_what_is_not_known() -> None:
    some = Range(unrunnable=(45, 31))
    report = some.solve()
    found = {outcome.change: outcome for outcome in labels(report, some.commits, known_at=7.0)}
    culprit = found[some.commits[37]]
    assert (culprit.verdict, culprit.base, culprit.source) == ("regressed", some.commits[36], "bisect")
    assert culprit.ratio == pytest.approx(1.1, rel=0.03)
    assert found[some.commits[0]].base == GOOD
    assert {outcome.verdict for sha, outcome in found.items() if sha != some.commits[37]} == {"same"}
    assert all(outcome.confidence > 0.98 and outcome.known_at == 7.0 for outcome in found.values())
    skipped = {step.sha for step in report.steps if step.ratio is None}
    assert skipped
    assert not skipped & set(found)
    assert len(found) > 50


@pytest.mark.parametrize(("d", "accuracy", "blocks"), [(5.0, 0.98, 30), (3.0, 0.95, 40)])
def test_accuracy_over_many_ranges(d: float, accuracy: float, blocks: int) -> None:
    """Simulates 60 ranges of 64 changes with a step of `d` σ at random: wrongly named at most once."""
    rng = np.random.default_rng(12)
    right = wrong = 0
    used = 0.0
    for seed in range(60):
        at = int(rng.integers(64))
        some = Range(steps={at: math.exp(d * SD)})
        report = some.solve(seed)
        right += report.culprit == some.commits[at]
        wrong += report.culprit not in (None, some.commits[at])
        used += report.launches / 4
    assert right / 60 >= accuracy
    assert wrong <= 1
    assert used / 60 < blocks
