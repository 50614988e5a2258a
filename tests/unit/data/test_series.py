"""From points to outcomes: what a series says of which change, and when it was known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tithe.data import series
from tithe.data.points import Point
from tithe.data.records import Outcome, ScenarioName, Sha
from tithe.data.series import Place

NAME = ScenarioName("bench")
DAY = 86400.0
HISTORY = {f"{n:040x}": Place(Sha(f"{n:040x}"), n, n * DAY) for n in range(200)}


def point(n: int, value: float, **more: object) -> Point:
    made = Point("bench", value, commit=f"{n:040x}", host="box", at=n * DAY + 3600)
    return replace(made, **more)  # type: ignore[arg-type]


def values(n: int, *, step: int | None = None, ratio: float = 1.5, seed: int = 1) -> np.ndarray:
    found = np.exp(np.random.default_rng(seed).normal(0, 0.01, n))
    if step is not None:
        found[step:] *= ratio
    return found


def told(points: list[Point], **more: object) -> list[Outcome]:
    given = {"smallest": 0.05, "now": 1e12, **more}
    return list(series.outcomes(NAME, points, HISTORY, **given))  # type: ignore[arg-type]


def test_a_step_is_the_outcome_of_its_change() -> None:
    found = told([point(n, value) for n, value in enumerate(values(60, step=30))])
    (step,) = [one for one in found if one.verdict != "same"]
    assert (step.verdict, step.base, step.change) == ("regressed", f"{29:040x}", f"{30:040x}")
    assert step.ratio == pytest.approx(1.5, rel=0.05)
    assert (step.source, step.picked, step.scenario, step.metric) == ("import", "swept", NAME, "value")
    assert step.confidence > 0.9
    # All others are there too, but for those that nobody can know yet.
    assert {one.change for one in found} == {f"{n:040x}" for n in range(1, 56)}


@pytest.mark.parametrize(
    ("ratio", "direction", "verdict"),
    [
        (1.5, "smaller", "regressed"),
        (0.6, "smaller", "improved"),
        (1.5, "larger", "improved"),
        (0.6, "larger", "regressed"),
    ],
)
def test_directions(ratio: float, direction: str, verdict: str) -> None:
    found = told([point(n, v, direction=direction) for n, v in enumerate(values(60, step=30, ratio=ratio))])
    assert [one.verdict for one in found if one.verdict != "same"] == [verdict]


def test_nothing_is_known_before_its_last_witness_was_measured() -> None:
    points = [point(n, value) for n, value in enumerate(values(60, step=30))]
    for one in told(points):
        witness = HISTORY[one.change].index + 4
        assert one.known_at >= witness * DAY + 3600
    # Measured a year later: known a year later.
    late = [
        replace(one, at=one.at + 365 * DAY) if one.commit == f"{33:040x}" else one for one in points if one.at
    ]
    for one in told(late):
        if HISTORY[one.change].index >= 29:
            assert one.known_at >= 33 * DAY + 365 * DAY
    # Clocks that run ahead of us: not later than now.
    assert max(one.known_at for one in told(late, now=50 * DAY)) <= 50 * DAY + series.EDGE_S


def test_points_of_the_future_change_no_outcome_of_the_past() -> None:
    whole = [point(n, value) for n, value in enumerate(values(80, step=30))]
    early = {(one.change, one.verdict) for one in told(whole[:60]) if one.verdict != "same"}
    late = {(one.change, one.verdict) for one in told(whole) if one.verdict != "same"}
    assert early == late == {(f"{30:040x}", "regressed")}


def test_a_gap_is_an_interval_and_no_change() -> None:
    kept = [n for n in range(60) if not 28 <= n <= 33]
    found = told([point(n, values(60, step=30)[n]) for n in kept])
    (step,) = [one for one in found if one.verdict != "same"]
    assert (HISTORY[step.base].index, HISTORY[step.change].index) == (27, 34)


def test_hosts_versions_and_foreign_commits_do_not_mix() -> None:
    points = [point(n, value) for n, value in enumerate(values(60))]
    foreign = [point(500, 9.0), point(501, 9.0)]
    assert told(points + foreign) == told(points)
    doubled = [replace(one, value=one.value * 1.0001) for one in points]
    assert {one.verdict for one in told(points + doubled)} == {"same"}


@pytest.mark.parametrize("count", [0, 1, 9])
def test_short_series_say_nothing(count: int) -> None:
    assert told([point(n, 1.0) for n in range(count)]) == []


def test_values_that_have_no_logarithm_are_left_out() -> None:
    points = [point(n, value) for n, value in enumerate(values(60, step=30))]
    points[10] = replace(points[10], value=0.0)
    found = told(points)
    assert f"{10:040x}" not in {one.change for one in found}
    assert [one.verdict for one in found if one.verdict != "same"] == ["regressed"]
