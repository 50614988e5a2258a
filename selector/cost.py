"""What a whole decision costs: not one launch, but both arms, warm-up, blocks and confirmation by its chance.

Blocks come from simulations of the sequential test (`tithe.runner.stats`): with nothing there it ends after
2.7 blocks on average, with an effect well above the wanted one after 3 to 6; what the first stage finds is
then confirmed by a run of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tithe.data.records import Scenario, ScenarioName

LAUNCHES_PER_BLOCK = 4
BLOCKS_SAME = 2.7
BLOCKS_REGRESSED = 4.0
BLOCKS_CONFIRM = 4.0
FALSE_CONFIRMATIONS = 0.02
"""Share of decisions with nothing there that are confirmed for nothing; mostly noisier days."""
UNKNOWN_SECONDS = 3.0
"""Of a launch, where neither this scenario nor any other was ever measured."""


def launches(scenario: Scenario, probability: float) -> float:
    """Expected launches of a decision, both arms, warm-up included.

    Args:
        probability: Chance that the change makes it regress.
    """
    first = (1 - probability) * BLOCKS_SAME + probability * BLOCKS_REGRESSED
    confirmed = probability + (1 - probability) * FALSE_CONFIRMATIONS
    return 2 * scenario.warmup + LAUNCHES_PER_BLOCK * (first + confirmed * BLOCKS_CONFIRM)


def decision_cost(scenario: Scenario, launch_seconds: float, probability: float) -> float:
    """Expected seconds of machine time of a whole decision, at `launch_seconds` a launch."""
    return launches(scenario, probability) * launch_seconds


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
    scenarios: Sequence[Scenario], seconds: NDArray[np.float64], probability: NDArray[np.float64]
) -> NDArray[np.float64]:
    """`decision_cost` of every scenario, (scenarios,)."""
    return np.array(
        [
            decision_cost(scenario, float(second), float(chance))
            for scenario, second, chance in zip(scenarios, seconds, probability, strict=True)
        ],
        dtype=np.float64,
    )
