"""The table of bounds, a part of it simulated again."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from tithe.runner import bounds
from tithe.runner.simulate import running_maximum


@pytest.mark.parametrize("d0", bounds.PRIOR_DFS)
def test_table_is_what_a_fresh_simulation_says(d0: int) -> None:
    """Simulates 60,000 A/A paths: the share beyond each bound is the level, within four standard errors."""
    paths = 60_000
    tops = running_maximum(paths, d0, np.random.default_rng((77, d0)))
    for max_blocks in (3, 5, 12, 24):
        column = max_blocks - bounds.FEWEST
        for alpha, row in zip(bounds.ALPHAS, bounds.table(d0), strict=True):
            if alpha < 1e-3:
                continue
            rate = float((tops[:, column] > row[column]).mean())
            assert abs(rate - alpha) < 4 * math.sqrt(alpha / paths) + 1e-4, (max_blocks, alpha)


def test_bounds_follow_level_blocks_and_look() -> None:
    assert bounds.bound(4, 12, 0.001, 8) > bounds.bound(4, 12, 0.01, 8) > bounds.bound(4, 12, 0.05, 8)
    assert bounds.bound(4, 20, 0.01, 8) > bounds.bound(4, 8, 0.01, 8)
    assert bounds.bound(2, 12, 0.01, 8) > bounds.bound(12, 12, 0.01, 8)
    assert bounds.bound(12, 12, 0.01, 8) > 2.576, "many looks cost more than one"
    assert bounds.bound(2, 12, 0.01, 0) == math.inf


def test_levels_between_and_beyond_the_table_are_monotone() -> None:
    levels = np.geomspace(0.9, 1e-9, 200)
    found = [bounds.bound(6, 12, float(level), 8) for level in levels]
    assert all(left < right for left, right in pairwise(found))


@pytest.mark.parametrize(
    ("n", "max_blocks", "alpha", "d0"),
    [(2, 1, 0.01, 8), (2, 25, 0.01, 8), (2, 12, 0.0, 8), (2, 12, 1.0, 8), (2, 12, 0.01, 3)],
)
def test_outside_the_table_is_an_error(n: int, max_blocks: int, alpha: float, d0: int) -> None:
    with pytest.raises(ValueError, match="must"):
        bounds.bound(n, max_blocks, alpha, d0)
