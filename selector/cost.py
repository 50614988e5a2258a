"""What a whole decision costs: not one launch, but both arms, warm-up, blocks and confirmation by its chance.

Blocks come from simulations of the sequential test (`tithe.runner.stats`): with nothing there it ends after
2.7 blocks on average, with an effect well above the wanted one after 3 to 6; what the first stage finds is
then confirmed by a run of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tithe.data.records import Scenario, ScenarioName

LAUNCHES_PER_BLOCK = 4
BLOCKS_SAME = 2.7
"""Of a decision with nothing there, where the noise is not known."""
BLOCKS_MORE_REGRESSED = 1.3
"""What a first stage with an effect takes beyond one with nothing there."""
BLOCKS_CONFIRM = 1.5
"""Of the confirmation, as a multiple of a first stage with nothing there."""
FALSE_CONFIRMATIONS = 0.02
"""Share of decisions with nothing there that are confirmed for nothing; mostly noisier days."""
SHRINK_DF = 50.0
UNKNOWN_SECONDS = 3.0
"""Of a launch, where neither this scenario nor any other was ever measured."""


def blocks_same(noise_sd: float, wanted_effect: float, max_blocks: int) -> float:
    """Expected blocks until nothing is seen of the wanted effect, at that noise of one block (log scale).

    2 + 8 (noise / wanted)², which fits the simulated 2.7, 5.7 and 10 blocks at 2.5, 1.5 and 1 noise.
    """
    return min(2.0 + 8.0 * (noise_sd / math.log1p(wanted_effect)) ** 2, float(max_blocks))


def expected_blocks(
    noise: Mapping[ScenarioName, tuple[float, float]], wanted_effect: float, max_blocks: int
) -> dict[ScenarioName, float]:
    """`blocks_same` of each scenario from the (sd, degrees of freedom) of its block statistic.

    What few blocks say of one scenario's noise is worth little beside what all say of the host's, and would make
    prices that outweigh chances: variances are shrunk to the pooled one, which counts for SHRINK_DF.
    """
    weight = sum(df for _, df in noise.values())
    if not weight:
        return {}
    pooled = sum(df * sd * sd for sd, df in noise.values()) / weight
    return {
        name: blocks_same(
            math.sqrt((df * sd * sd + SHRINK_DF * pooled) / (df + SHRINK_DF)), wanted_effect, max_blocks
        )
        for name, (sd, df) in noise.items()
    }


def launches(scenario: Scenario, probability: float, blocks: float = BLOCKS_SAME) -> float:
    """Expected launches of a decision, both arms, warm-up included.

    Args:
        probability: Chance that the change makes it regress.
        blocks: Of a decision with nothing there.
    """
    first = blocks + probability * BLOCKS_MORE_REGRESSED
    confirmed = probability + (1 - probability) * FALSE_CONFIRMATIONS
    return 2 * scenario.warmup + LAUNCHES_PER_BLOCK * (first + confirmed * BLOCKS_CONFIRM * blocks)


def decision_cost(
    scenario: Scenario, launch_seconds: float, probability: float, blocks: float = BLOCKS_SAME
) -> float:
    """Expected seconds of machine time of a whole decision, at `launch_seconds` a launch."""
    return launches(scenario, probability, blocks) * launch_seconds


def block_estimates(
    scenarios: Sequence[Scenario], known: Mapping[ScenarioName, float]
) -> NDArray[np.float64]:
    """Blocks of a decision with nothing there, (scenarios,); the middle one's where the noise is not known."""
    there = [known[scenario.name] for scenario in scenarios if scenario.name in known]
    like = float(np.median(there)) if there else BLOCKS_SAME
    return np.array([known.get(scenario.name, like) for scenario in scenarios], dtype=np.float64)


def launch_estimates(
    scenarios: Sequence[Scenario], known: Mapping[ScenarioName, float]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Seconds of a launch of each scenario, and where they are only a guess.

    A scenario that was never measured is taken to cost what the middle one of its resource costs, and never
    more than its time-out.
    """
    measured: dict[str, list[float]] = {}
    for scenario in scenarios:
        if known.get(scenario.name, 0.0) > 0:
            measured.setdefault(scenario.resource, []).append(known[scenario.name])
    anything = [seconds for values in measured.values() for seconds in values]
    seconds = np.empty(len(scenarios))
    guessed = np.zeros(len(scenarios), dtype=np.bool_)
    for at, scenario in enumerate(scenarios):
        if known.get(scenario.name, 0.0) > 0:
            seconds[at] = known[scenario.name]
            continue
        guessed[at] = True
        like = measured.get(scenario.resource) or anything
        seconds[at] = min(float(np.median(like)) if like else UNKNOWN_SECONDS, scenario.timeout_s)
    return seconds, guessed


def decision_costs(
    scenarios: Sequence[Scenario],
    seconds: NDArray[np.float64],
    probability: NDArray[np.float64],
    blocks: NDArray[np.float64],
) -> NDArray[np.float64]:
    """`decision_cost` of every scenario, (scenarios,)."""
    return np.array(
        [
            decision_cost(scenario, float(second), float(chance), float(number))
            for scenario, second, chance, number in zip(scenarios, seconds, probability, blocks, strict=True)
        ],
        dtype=np.float64,
    )
