"""Error rates, power and blocks of the whole rule, by simulation (seeded, vectorised)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from tithe.data.config import DecisionPolicy
from tithe.data.noise import Noise
from tithe.runner import stats
from tithe.runner.simulate import Simulated, decide

SD = 0.02
POLICY = DecisionPolicy(wanted_effect=0.05, floor=0.02)
HISTORY = Noise(SD, 60.0)


def simulated(effect: float, paths: int, noise: Noise | None, *, sd: float = SD, seed: int = 3) -> Simulated:
    rng = np.random.default_rng(seed)
    shape = (paths, POLICY.max_blocks)
    return decide(rng.normal(effect, sd, shape), rng.normal(effect, sd, shape), POLICY, noise)


@pytest.mark.parametrize("noise", [HISTORY, None])
def test_false_alarms_stay_below_the_level(noise: Noise | None) -> None:
    """Simulates 20,000 A/A decisions. Stopping for `same` only lowers the rate."""
    found = simulated(0.0, 20_000, noise)
    level = stats.stage_alpha(POLICY)
    assert np.mean(np.abs(found.candidate) == 1) < level
    assert found.rate(1, -1) < 5e-4
    assert found.rate(0) > 0.98


@pytest.mark.parametrize("noise", [HISTORY, None])
def test_first_stage_level_holds_without_the_stop_for_same(noise: Noise | None) -> None:
    """Simulates 20,000 A/A decisions that may never say `same`, with a threshold of nothing.

    A history that fits exactly still counts for few degrees of freedom, so the rate is then lower.
    """
    policy = DecisionPolicy(wanted_effect=1e-9, floor=1e-9)
    rng = np.random.default_rng(8)
    draws = rng.normal(0.0, SD, (20_000, policy.max_blocks))
    crossed = np.zeros(len(draws), dtype=bool)
    for n in range(2 if noise else 3, policy.max_blocks + 1):
        seen = stats.see(draws[:, :n], noise)
        crossed |= stats.look(seen, policy, noise, alpha=stats.stage_alpha(policy)).significant
    level = stats.stage_alpha(policy)
    assert level * (0.8 if noise is None else 0.2) < crossed.mean() < level * 1.2


def test_most_unchanged_runs_end_after_three_blocks() -> None:
    """Simulates 4,000 A/A decisions at a wanted effect of 2.4 σ."""
    assert simulated(0.0, 4_000, HISTORY).blocks.mean() < 3.6


@pytest.mark.parametrize(("effect", "power", "blocks"), [(0.05, 0.95, 12.0), (0.10, 0.999, 6.0)])
def test_power_and_blocks_with_confirmation(effect: float, power: float, blocks: float) -> None:
    """Simulates 4,000 decisions at 2.4 and 4.8 σ: confirmed, and with few blocks in both stages together."""
    found = simulated(math.log1p(effect), 4_000, HISTORY)
    assert found.rate(1) > power
    assert found.rate(-1) == 0
    assert found.blocks.mean() < blocks


@pytest.mark.parametrize("effect", [0.05, 0.10])
def test_the_confirmed_estimate_is_unbiased_and_its_interval_honest(effect: float) -> None:
    """Simulates 4,000 decisions; the first stage's own estimate would be inflated."""
    truth = math.log1p(effect)
    found = simulated(truth, 4_000, HISTORY)
    there = ~np.isnan(found.mean)
    assert np.mean(found.mean[there]) == pytest.approx(truth, rel=0.02)
    assert np.mean(np.abs(found.mean[there] - truth) <= found.half[there]) > 0.94


def test_a_noisier_day_than_history_is_survived() -> None:
    """Simulates 20,000 A/A decisions with 1.5 times the noise that history knows."""
    found = simulated(0.0, 20_000, HISTORY, sd=1.5 * SD)
    assert np.mean(np.abs(found.candidate) == 1) < 0.03
    assert found.rate(1, -1) < 2e-3


def heavy(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    return rng.standard_t(2, shape) * SD / 2


def outliers(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    return rng.normal(0, SD, shape) * np.where(rng.random(shape) < 0.05, 10, 1)


def bimodal(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    modes: NDArray[np.float64] = rng.choice(np.array([-SD, 0.0, 0.0, SD]), shape)
    return rng.normal(0, SD / 4, shape) + modes


@pytest.mark.parametrize("draw", [heavy, outliers, bimodal])
def test_other_noise_raises_no_more_confirmed_alarms(draw: object) -> None:
    """Simulates 20,000 A/A decisions each under t₂, 5 % outliers of ten times, and two modes."""
    assert callable(draw)
    rng = np.random.default_rng(21)
    shape = (20_000, POLICY.max_blocks)
    first, again = draw(rng, shape), draw(rng, shape)
    sd = float(np.sqrt(np.mean(np.clip(first, -1, 1) ** 2)))
    assert decide(first, again, POLICY, Noise(sd, 60.0)).rate(1, -1) < 1e-3
