"""What a sweep found, less what is known already."""

from __future__ import annotations

import math

import pytest

from tithe.attribution.explained import explained_log, unexplained
from tithe.data.config import DecisionPolicy
from tithe.data.records import MetricName, Outcome, ScenarioName, Sha, Verdict, VerdictName

NAME, METRIC = ScenarioName("lm"), MetricName("ttfb")
POLICY = DecisionPolicy(wanted_effect=0.05, floor=0.02)


def outcome(verdict: VerdictName, ratio: float | None, scenario: str = "lm") -> Outcome:
    return Outcome(
        Sha("a"),
        Sha("b"),
        ScenarioName(scenario),
        METRIC,
        verdict,
        1.0,
        source="ab",
        picked="chosen",
        ratio=ratio,
    )


def sweep(ratio: float, half: float = 0.02) -> Verdict:
    return Verdict(NAME, METRIC, "regressed", ratio, ratio * (1 - half), ratio * (1 + half), confirmed=True)


@pytest.mark.parametrize(
    ("ratio", "known", "open_"),
    [
        (1.30, [], True),
        (1.30, [outcome("regressed", 1.29)], False),
        (1.30, [outcome("regressed", 1.12)], True),
        (1.30, [outcome("regressed", 1.12), outcome("regressed", 1.16)], False),
        (1.30, [outcome("regressed", 1.30, scenario="other")], True),
        (1.30, [outcome("same", 1.30)], True),
        # An improvement in between hid part of it.
        (1.10, [outcome("regressed", 1.10), outcome("improved", 0.80)], True),
        (1.06, [outcome("regressed", 1.02)], False),
    ],
)
def test_unexplained(ratio: float, known: list[Outcome], open_: bool) -> None:
    assert unexplained(sweep(ratio), known, POLICY) is open_


def test_broken_is_explained_by_the_change_that_broke_it() -> None:
    broken = Verdict(NAME, METRIC, "broken", confirmed=True)
    assert unexplained(broken, [], POLICY)
    assert unexplained(broken, [outcome("regressed", 1.4)], POLICY)
    assert not unexplained(broken, [outcome("broken", None)], POLICY)


def test_explained_is_the_product_of_the_ratios() -> None:
    known = [outcome("regressed", 1.2), outcome("improved", 0.9), outcome("inconclusive", 1.5)]
    assert explained_log(known, sweep(1.3)) == pytest.approx(math.log(1.2 * 0.9))
