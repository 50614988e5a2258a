"""Where a series of one value per commit stepped: change points of a benchmark's history, as labels.

The optimal partition of the series into stretches of constant level, by the pruned search of Killick et al. (2012), on
values that single outliers have been pulled out of. What it finds is then asked three questions that a partition does
not ask, since most of what looks like a step in such histories is none: is the jump at the step, or did the series
drift there? Does the level come back again and again, as where a machine has two states? Is there enough on both
sides? What remains is a step, with the interval that it lies in and the moment from which on it could be seen.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PENALTY = 2.6
"""Of a change point, in variances, times the log of the number of values: tuned on simulated series without a step."""
SHORTEST = 5
"""Values of a stretch, at least."""
SURROUNDINGS = 5
"""Values on either side that a step is seen by; the last of them is when it could be known."""
PULL = 3.0
"""Values further than that many standard deviations from the median of their neighbours count as that far away."""
AT_THE_STEP = 0.6
"""Part of the difference in level that must lie between the two values around a step."""
LEVELS_LIKE = 3
"""How many stretches of one level make a state that comes and goes, where others lie between them."""
COVER = 0.95
ROUNDS = 3


@dataclass(frozen=True)
class Step:
    """A step before the value at `at`: that value is the first of the new level. Indices are into the series."""

    at: int
    low: int
    high: int
    """The step lies before one of the values low..high with 95 % chance."""
    effect: float
    """Difference of the log levels; positive: larger."""
    confidence: float
    """Chance that there is a step, from its size in standard errors and what else it could be."""
    known: int
    """Index of the value with which it could be known."""


def noise(logs: Floats) -> float:
    """Standard deviation of values around their level, from the differences of neighbours: steps and drift are few
    among these, and outliers do not move their median."""
    differences = np.abs(np.diff(logs))
    if not differences.size:
        return 0.0
    middle = float(np.median(differences)) * 1.4826 / math.sqrt(2)
    if middle > 0:
        return middle
    # More than half are exactly alike, as where a clock is coarse: the others say how coarse.
    some = differences[differences > 0]
    return float(np.median(some)) / 2 if some.size else 0.0


def calm(logs: Floats, sd: float) -> Floats:
    """The series with single outliers pulled to their neighbours' median; steps stay where they are."""
    if len(logs) < 5:
        return logs
    padded = np.concatenate([logs[2:0:-1], logs, logs[-2:-4:-1]])
    windows = np.lib.stride_tricks.sliding_window_view(padded, 5)
    middle = np.median(windows, axis=1)
    return np.clip(logs, middle - PULL * sd, middle + PULL * sd)


def partition(values: Floats, sd: float, penalty: float) -> list[int]:
    """First indices of the stretches after the first one, of the partition with the least squared error plus
    `penalty` variances for each stretch."""
    n = len(values)
    sums = np.concatenate([[0.0], np.cumsum(values - values.mean())])
    squares = np.concatenate([[0.0], np.cumsum((values - values.mean()) ** 2)])
    variance = sd * sd
    best = np.full(n + 1, np.inf)
    best[0] = -penalty * variance
    last = np.zeros(n + 1, dtype=np.int64)
    starts = np.array([0])
    for end in range(SHORTEST, n + 1):
        length = end - starts
        total = sums[end] - sums[starts]
        cost = squares[end] - squares[starts] - total * total / length
        whole = best[starts] + cost + penalty * variance
        pick = int(np.argmin(whole))
        best[end], last[end] = whole[pick], starts[pick]
        # A start that is worse by the penalty now stays worse: it is never needed again.
        keep = best[starts] + cost <= best[end]
        starts = np.append(starts[keep], end - SHORTEST + 1)
    found = []
    end = n
    while last[end] > 0:
        end = int(last[end])
        found.append(end)
    return found[::-1]


def scale(values: Floats, bounds: list[int]) -> float:
    """What a level's mean scatters by, times the root of its length: the standard deviation within stretches,
    larger where neighbours are alike (a sum of values that hang together scatters more)."""
    rest = np.concatenate([values[a:b] - values[a:b].mean() for a, b in pairwise(bounds)])
    spread = float(np.sqrt((rest @ rest) / max(len(values) - len(bounds) + 1, 1)))
    norm = float(rest @ rest)
    alike = float(rest[1:] @ rest[:-1]) / norm if norm > 0 else 0.0
    alike = min(max(alike, 0.0), 0.8)
    return spread * math.sqrt((1 + alike) / (1 - alike))


def detect(logs: Floats, *, smallest: float = 0.0) -> list[Step]:
    """The steps of a series of log values without gaps (leave unmeasured commits out), of at least `smallest`.

    A step within the last `SURROUNDINGS` values is not told yet: it could be an outlier that lasts.
    """
    n = len(logs)
    if n < 2 * SURROUNDINGS:
        return []
    sd = noise(logs)
    if sd <= 0:
        sd = 1e-9
    values = calm(logs, sd)
    penalty = PENALTY * math.log(n)
    bounds = [0, *partition(values, sd, penalty), n]
    for _ in range(ROUNDS):
        # Too many stretches hide part of the noise, so that what is left is looked at again with what is known of it.
        whole = scale(values, bounds)
        if whole <= 1.1 * sd:
            break
        sd = whole
        bounds = [0, *partition(values, sd, penalty), n]
    levels = [float(np.median(values[a:b])) for a, b in pairwise(bounds)]
    found = []
    for number, at in enumerate(bounds[1:-1], 1):
        step = _step(values, bounds, levels, number, sd)
        if step is not None and abs(step.effect) >= max(smallest, 2 * sd) and at + SURROUNDINGS <= n:
            found.append(step)
    return found


def _step(values: Floats, bounds: list[int], levels: list[float], number: int, sd: float) -> Step | None:
    start, at, end = bounds[number - 1], bounds[number], bounds[number + 1]
    before, after = values[max(start, at - 25) : at], values[at : min(end, at + 25)]
    if min(len(before), len(after)) < SHORTEST:
        return None
    effect = levels[number] - levels[number - 1]
    near = float(np.median(after[:SURROUNDINGS]) - np.median(before[-SURROUNDINGS:]))
    if near * effect <= 0 or abs(near) < AT_THE_STEP * abs(effect):
        return None  # a drift, cut into stairs
    # Within each side the level must not move as fast as across the step.
    slope = _slope(before) * len(before) + _slope(after) * len(after)
    if slope * effect > 0 and abs(slope) > abs(effect):
        return None
    error = sd * math.sqrt(1 / len(before) + 1 / len(after))
    z = abs(effect) / error
    confidence = 1 - math.exp(-max(0.0, z * z / 2 - math.log(len(values)) * PENALTY / 2))
    if _comes_and_goes(levels, number, sd):
        confidence *= 0.3
    low, high = _interval(values, start, at, end, levels[number - 1], levels[number], sd)
    return Step(at, low, high, effect, min(confidence, 0.999), min(at + SURROUNDINGS - 1, len(values) - 1))


def _slope(values: Floats) -> float:
    """Of a straight line, between the medians of the outer thirds: a single value does not turn it."""
    third = len(values) // 3
    if third < 1:
        return 0.0
    return float(np.median(values[-third:]) - np.median(values[:third])) / (len(values) - third)


def _comes_and_goes(levels: list[float], number: int, sd: float) -> bool:
    """Whether both levels of a step were there before it, or come after it, several times: two states."""

    def often(level: float) -> bool:
        return sum(abs(other - level) < 2 * sd for other in levels) >= LEVELS_LIKE

    return often(levels[number]) and often(levels[number - 1])


def _interval(
    values: Floats, start: int, at: int, end: int, before: float, after: float, sd: float
) -> tuple[int, int]:
    """Where the step lies with 95 % chance, for normal noise around the two levels and any place alike."""
    low, high = max(start + 1, at - 10), min(end - 1, at + 10)
    piece = values[low:high]
    gain = ((piece - after) ** 2 - (piece - before) ** 2) / (2 * sd * sd)
    # A step before index i: values up to i - 1 are of the old level.
    logs = np.concatenate([[0.0], np.cumsum(gain)])
    weights = np.exp(logs - logs.max())
    weights /= weights.sum()
    order = np.argsort(-weights, kind="stable")
    needed = order[: int(np.searchsorted(np.cumsum(weights[order]), COVER)) + 1]
    return low + int(needed.min()), low + int(needed.max())
