"""Change points of simulated series whose steps, if any, are known."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, pairwise

import numpy as np
import pytest

from tithe.data import steps

SD = 0.02
Floats = np.ndarray


def noise(kind: str, n: int, rng: np.random.Generator) -> Floats:
    values = rng.standard_normal(n)
    if kind == "t3":
        values = rng.standard_t(3, n)
    elif kind == "outliers":
        values = np.where(rng.random(n) < 0.05, values * 8, values)
    elif kind == "skewed":
        values = rng.exponential(1, n) - 1
    elif kind == "neighbours alike":
        for at in range(1, n):
            values[at] = 0.4 * values[at - 1] + 0.92 * values[at]
    elif kind == "drift":
        values = values + np.linspace(0, 8, n)
    elif kind == "two states":
        values = values + np.cumsum(rng.random(n) < 0.05) % 2 * 6
    return values * SD


KINDS = ("normal", "t3", "outliers", "skewed", "neighbours alike", "drift", "two states")


def sure(logs: Floats) -> list[steps.Step]:
    return [step for step in steps.detect(logs) if step.confidence >= 0.5]


@pytest.mark.parametrize("kind", KINDS)
def test_where_nothing_stepped_little_is_found(kind: str) -> None:
    rng = np.random.default_rng(2)
    found = sum(len(sure(noise(kind, 300, rng))) for _ in range(60))
    assert found <= 9  # in 18,000 places


@pytest.mark.parametrize("kind", KINDS[:-1])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_step_of_five_sigma_is_found_where_it_is(kind: str, sign: int) -> None:
    rng = np.random.default_rng(3)
    hits = covered = 0
    for _ in range(40):
        at = int(rng.integers(20, 280))
        logs = noise(kind, 300, rng)
        logs[at:] += sign * 5 * SD
        near = [step for step in sure(logs) if abs(step.at - at) <= 2 and step.effect * sign > 0]
        hits += bool(near)
        covered += bool(near) and near[0].low <= at <= near[0].high
        if near:
            # In a drift the levels are those of stretches that drift themselves.
            assert abs(abs(near[0].effect) - 5 * SD) < (6 if kind == "drift" else 2.5) * SD
    assert hits >= (28 if kind == "drift" else 36)
    assert covered >= 0.85 * hits


def test_several_steps_are_told_apart() -> None:
    rng = np.random.default_rng(4)
    logs = noise("normal", 200, rng)
    for at, size in ((40, 6), (90, -6), (150, 10)):
        logs[at:] += size * SD
    assert [(step.at, step.effect > 0) for step in sure(logs)] == [(40, True), (90, False), (150, True)]


def test_a_step_is_known_with_its_fifth_witness_and_not_before() -> None:
    rng = np.random.default_rng(5)
    logs = noise("normal", 100, rng)
    logs[60:] += 10 * SD
    (step,) = sure(logs)
    assert (step.at, step.known) == (60, 64)
    assert sure(logs[:64]) == []
    (early,) = sure(logs[:65])
    assert early.at == 60


def test_one_outlier_however_large_is_no_step() -> None:
    rng = np.random.default_rng(6)
    for size in (10, 100, 1000):
        logs = noise("normal", 100, rng)
        logs[50] += size * SD
        assert sure(logs) == []


@pytest.mark.parametrize(
    "make",
    [lambda: np.zeros(50), lambda: np.zeros(3), lambda: np.array([]), lambda: np.repeat([0.0, 1.0], 20)],
    ids=["constant", "short", "empty", "exact"],
)
def test_series_without_noise(make: Callable[[], Floats]) -> None:
    logs = make()
    found = steps.detect(logs)
    assert [step.at for step in found] == ([20] if len(logs) == 40 else [])


def test_a_smallest_effect_is_kept_to() -> None:
    rng = np.random.default_rng(7)
    logs = noise("normal", 100, rng)
    logs[50:] += 6 * SD
    assert len(steps.detect(logs, smallest=0.05)) == 1
    assert steps.detect(logs, smallest=0.5) == []


def test_the_search_finds_the_best_partition() -> None:
    """Against all partitions of short series, by brute force."""
    rng = np.random.default_rng(8)
    for _ in range(20):
        values = rng.standard_normal(17)
        values[rng.integers(5, 12) :] += 3
        cuts = [cut for k in range(3) for cut in combinations(range(1, 17), k)]
        best = min(cuts, key=lambda cut, values=values: cost(values, cut))  # type: ignore[misc]
        assert steps.partition(values, 1.0, 4.0) == list(best)


def cost(values: Floats, bounds: tuple[int, ...]) -> float:
    parts = [values[a:b] for a, b in pairwise([0, *bounds, len(values)])]
    if min(map(len, parts)) < steps.SHORTEST:
        return float("inf")
    return float(sum(((part - part.mean()) ** 2).sum() for part in parts)) + 4.0 * len(bounds)
