"""The mean over scenarios and how sure it is."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tithe.data.records import MetricName, ScenarioName, Verdict
from tithe.runner.summary import geometric_mean


def verdict(ratio: float | None, *, gate: bool = True) -> Verdict:
    return Verdict(ScenarioName("s"), MetricName("m"), "same", ratio, gate=gate)


def test_halves_and_doubles_cancel() -> None:
    found = geometric_mean([verdict(0.5), verdict(2.0)])
    assert found is not None
    assert found[0] == pytest.approx(1.0)
    assert found[1] is not None
    assert found[1] < 0.1


def test_what_decides_not_or_was_not_measured_is_left_out() -> None:
    assert geometric_mean([verdict(None), verdict(3.0, gate=False)]) is None
    assert geometric_mean([verdict(1.5), verdict(9.0, gate=False)]) == (pytest.approx(1.5), None, None)


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    """Simulation: 95 of 100, within what 1,000 draws leave open."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(1000):
        _, low, high = geometric_mean([verdict(float(np.exp(x))) for x in rng.normal(0.1, 0.05, 8)]) or (
            0,
            0,
            0,
        )
        covered += low <= math.exp(0.1) <= high  # type: ignore[operator]
    assert 930 <= covered <= 968
