"""What a host and a scenario can be trusted with: the same revision on both sides, and what scatters all the same.

Before anybody asks what a change does, blocks in which nothing changed say how much one block scatters, how small an
effect that lets be seen, and whether the launches are of the kind that averages mean anything for: a host that warms
up or slows down, launches that come in two kinds, and two places of one revision that differ are named here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tithe.data.noise import LOCATIONS, choose
from tithe.data.records import Launch, MetricName, NoiseReading, Scenario
from tithe.runner import stats
from tithe.runner.bounds import MOST, first_look

if TYPE_CHECKING:
    from tithe.data.config import DecisionPolicy

ODD = 0.001
"""A finding is named when chance alone shows as much this seldom."""
FEWEST_FOR_KINDS = 12
"""Launches below which two kinds cannot be told from one that scatters."""
DRAWS = 4000
SD_LEVEL = 0.9
"""Of the interval of a block's noise."""

Floats = NDArray[np.float64]


def assess(
    scenario: Scenario, metric: MetricName, launches: Sequence[Launch], policy: DecisionPolicy
) -> NoiseReading:
    """What A/A blocks of one metric say; `launches` without warm-ups, in order."""
    blocks: dict[int, list[Launch]] = {}
    for launch in launches:
        blocks.setdefault(launch.block, []).append(launch)
    found = {
        at: [v for b in blocks.values() if (v := stats.block_statistic(b, metric, at)) is not None]
        for at in LOCATIONS
    }
    logs = np.array(
        [math.log(v) for launch in launches if stats.usable(v := launch.values.get(metric)) and v]
    )
    if len(found["mean"]) < 2:
        return NoiseReading(scenario.name, metric, len(found["mean"]), len(launches), word="unknown")
    noise = choose(found)
    values = stats.settled(found[noise.location], noise)
    sd = max(noise.sd, stats.MIN_SD)
    low, high = _sd_interval(sd, len(values) - 1)
    shown = smallest_effect(sd, policy, policy.max_blocks, len(scenario.gate))
    needed = _needed(sd, policy, len(scenario.gate))
    findings = tuple(_findings(logs, np.array(found["mean"])))
    return NoiseReading(
        scenario.name,
        metric,
        len(values),
        len(launches),
        launch_sd=float(logs.std(ddof=1)),
        block_sd=sd,
        block_sd_low=low,
        block_sd_high=high,
        statistic=noise.statistic,
        detectable=shown,
        needed=needed,
        findings=findings,
        word="odd"
        if findings
        else "quiet"
        if needed is not None and needed <= policy.max_blocks
        else "noisy",
    )


def smallest_effect(sd: float, policy: DecisionPolicy, blocks: int, gates: int) -> float:
    """Relative effect that this many blocks show with 80 % power, with a history of this noise behind them."""
    d0 = stats.MAX_PRIOR_DF
    alpha = stats.stage_alpha(policy, gates)
    log = stats.detectable_log(
        blocks,
        sd,
        d0 + blocks - 1,
        alpha=alpha,
        max_blocks=max(blocks, policy.max_blocks),
        d0=d0,
        threshold=float(stats.threshold_log(policy, sd)),
    )
    return math.expm1(min(log, 700.0))


def _needed(sd: float, policy: DecisionPolicy, gates: int) -> int | None:
    """Fewest blocks that show the wanted effect; None where no number of blocks that is run does."""
    for blocks in range(first_look(stats.MAX_PRIOR_DF), MOST + 1):
        if smallest_effect(sd, policy, blocks, gates) <= policy.wanted_effect:
            return blocks
    return None


def _sd_interval(sd: float, df: int) -> tuple[float, float]:
    """Equal-tailed interval of a standard deviation from the chi-squared distribution."""
    from scipy.special import chdtri

    tail = (1 - SD_LEVEL) / 2
    return sd * math.sqrt(df / float(chdtri(df, tail))), sd * math.sqrt(df / float(chdtri(df, 1 - tail)))


def _findings(logs: Floats, values: Floats) -> list[str]:
    found = []
    slope, p = _slope(logs)
    if p < ODD:
        change = math.expm1(slope * (len(logs) - 1))
        found.append(f"drifts: {change * 100:+.1f} % from the first launch to the last")
    # Places swap from block to block, so that a difference between them changes sign with every block.
    signs = np.where(np.arange(len(values)) % 2 == 0, 1.0, -1.0)
    bias, p = _mean(values * signs)
    if p < ODD:
        found.append(f"the two places of one revision differ by {abs(math.expm1(bias)) * 100:.1f} %")
    if len(logs) >= FEWEST_FOR_KINDS:
        explained, gap = _split(logs)
        if explained > _split_by_chance(len(logs)):
            found.append(f"launches come in two kinds, {math.expm1(gap) * 100:.0f} % apart")
    return found


def _slope(logs: Floats) -> tuple[float, float]:
    """Slope of a straight line through the launches in their order, and its two-sided p."""
    n = len(logs)
    if n < 8:
        return 0.0, 1.0
    x = np.arange(n) - (n - 1) / 2
    y = logs - logs.mean()
    slope = float((x @ y) / (x @ x))
    rest = float(((y - slope * x) ** 2).sum())
    error = math.sqrt(max(rest, 1e-300) / (n - 2) / float(x @ x))
    return slope, _two_sided(slope / error, n - 2)


def _mean(values: Floats) -> tuple[float, float]:
    n = len(values)
    if n < 4:
        return 0.0, 1.0
    mean = float(values.mean())
    error = max(float(values.std(ddof=1)), 1e-150) / math.sqrt(n)
    return mean, _two_sided(mean / error, n - 1)


def _two_sided(t: float, df: int) -> float:
    from scipy.special import stdtr

    return 2.0 * float(stdtr(df, -abs(t)))


def _split(logs: Floats) -> tuple[float, float]:
    """Share of the variance that the best split into a lower and an upper kind explains, and their distance."""
    ordered = np.sort(logs)
    n = len(ordered)
    total = float(((ordered - ordered.mean()) ** 2).sum())
    if total <= 0:
        return 0.0, 0.0
    sums = np.cumsum(ordered)[:-1]
    sizes = np.arange(1, n)
    gaps = (sums[-1] + ordered[-1] - sums) / (n - sizes) - sums / sizes
    between = sizes * (n - sizes) / n * gaps**2
    # A single launch apart is an outlier and no kind.
    between[0] = between[-1] = 0.0
    best = int(np.argmax(between))
    return float(between[best]) / total, float(gaps[best])


@lru_cache(maxsize=64)
def _split_by_chance(n: int) -> float:
    """What normal launches of one kind seldom exceed, by simulation."""
    rng = np.random.default_rng(n)
    found = np.array([_split(row)[0] for row in rng.standard_normal((DRAWS, n))])
    return float(np.quantile(found, 1 - ODD))
