"""How much a scenario's block statistic scatters when nothing changed, from the blocks on record.

The statistic of a block is the mean log of its head launches minus the mean log of its base launches. What
a run found is in its mean, so the scatter is taken around each comparison's own mean, and real
regressions on record do not inflate the noise. A comparison is one pair of revisions within one run: a
bisection measures many pairs in one run, and each has its own mean.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

from tithe.data.records import MetricName, ScenarioName

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


Location = Literal["mean", "lowest", "highest"]
"""What stands for an arm in a block: the mean log of its launches, or the lowest or highest one."""
LOCATIONS: tuple[Location, ...] = ("mean", "lowest", "highest")
TRIM = 2.5
"""With trimming, blocks further than that many standard deviations from the median count as that far away."""
CHOICE_DF = 16
"""Degrees of freedom below which a history does not say which statistic scatters least."""
CHOICE_GAIN = 0.9
"""What the scatter must shrink to, for another statistic than the plain mean: less may be luck."""


@dataclass(frozen=True)
class Noise:
    """Standard deviation of one block's statistic (a difference of logs), and its degrees of freedom.

    With it goes the statistic itself, chosen as the one that scattered least in the history: a run must not
    choose its own. The lowest of two launches is better than their mean where launches are only ever
    disturbed upwards; trimming is where now and then a block is far off.
    """

    sd: float
    df: float
    location: Location = "mean"
    trimmed: bool = False
    heavy: float = 0.0
    """The scatter without trimming, where there is trimming: a few blocks cannot tell which of them is far off."""

    @property
    def statistic(self) -> str:
        """In words."""
        return f"trimmed {self.location}" if self.trimmed else self.location


@dataclass(frozen=True)
class Scatter:
    """A `Noise` that travels, with what it is of."""

    scenario: ScenarioName
    metric: MetricName
    sd: float
    df: float
    location: Location = "mean"
    trimmed: bool = False
    heavy: float = 0.0


@dataclass(frozen=True)
class SampleColumns:
    """Samples as parallel arrays of shape (n,), one entry per launch and metric.

    All but `value` and `is_head` are integer codes whose order does not matter; `comparison` tells runs
    apart, `block` the blocks of a run (its stage included). `sha` is the launch's own commit.
    """

    series: NDArray[np.int64]
    """Scenario and metric."""
    comparison: NDArray[np.int64]
    block: NDArray[np.int64]
    is_head: NDArray[np.bool_]
    sha: NDArray[np.int64]
    value: NDArray[np.float64]


def pooled(columns: SampleColumns) -> dict[int, Noise]:
    """The pooled noise of each series that has a comparison of two blocks or more, of the statistic that
    scatters least.

    A block counts when every value is positive and both arms have equally many, on one revision each;
    launches that are not ok are the caller's to leave out, with their blocks. With n_c blocks in
    comparison c: sd² = Σ_c Σ_b (x_cb − mean_c)² / df, df = Σ_c (n_c − 1). The result does not depend on the
    order of the samples, to the last bit.
    """
    import numpy as np

    if columns.value.size == 0:
        return {}
    # The value is the last key, so that sums run in one order however the samples came.
    order = np.lexsort((columns.value, columns.is_head, columns.block, columns.comparison, columns.series))
    series, comparison, block = columns.series[order], columns.comparison[order], columns.block[order]
    is_head, sha, value = columns.is_head[order], columns.sha[order], columns.value[order]
    starts = _starts(series, comparison, block)

    good = np.isfinite(value) & (value > 0)
    log = np.log(np.where(good, value, 1.0))
    whole = np.logical_and.reduceat(good, starts)
    heads = np.add.reduceat(is_head.astype(np.int64), starts)
    sizes = np.diff(np.append(starts, value.size))
    whole &= (heads * 2 == sizes) & (heads > 0)
    base_sha, base_one = _only(sha, ~is_head, starts)
    head_sha, head_one = _only(sha, is_head, starts)
    whole &= base_one & head_one
    if not whole.any():
        return {}
    log, is_head = log[np.repeat(whole, sizes)], is_head[np.repeat(whole, sizes)]
    sizes, heads = sizes[whole], heads[whole]
    first = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    keys = [key[starts][whole] for key in (series, comparison)] + [base_sha[whole], head_sha[whole]]
    found = {
        location: _scatter(keys, _statistic(log, is_head, first, heads, location)) for location in LOCATIONS
    }
    return {key: _chosen({at: found[at][key] for at in LOCATIONS}) for key in found["mean"]}


def choose(values: Mapping[Location, Sequence[float]]) -> Noise:
    """The noise of blocks of one comparison, from their statistic at each location.

    Raises:
        ValueError: fewer than two blocks.
    """
    import numpy as np

    if len(values["mean"]) < 2:
        raise ValueError("scatter takes two blocks or more")
    one = np.zeros(len(values["mean"]), dtype=np.int64)
    return _chosen({at: _scatter([one] * 4, np.array(some))[0] for at, some in values.items()})


def pulled_in(values: NDArray[np.float64], sd: float) -> NDArray[np.float64]:
    """Block statistics (last axis), those beyond TRIM standard deviations from the median moved to there."""
    import numpy as np

    middle = np.median(values, axis=-1, keepdims=True)
    return np.clip(values, middle - TRIM * sd, middle + TRIM * sd)


class _Scatter(NamedTuple):
    """Of one series at one location: plain, and with blocks that are far off pulled in."""

    plain: float
    trimmed: float
    df: int


def _chosen(found: Mapping[Location, _Scatter]) -> Noise:
    df = found["mean"].df
    best, sd = Noise(found["mean"].plain, float(df)), found["mean"].plain
    if df < CHOICE_DF:
        return best
    # Simple ones first: what is chosen instead must be better by more than luck.
    for trimmed in (False, True):
        for location in LOCATIONS:
            own = found[location].trimmed if trimmed else found[location].plain
            if own < CHOICE_GAIN * sd:
                heavy = found[location].plain if trimmed else 0.0
                best, sd = Noise(own, float(df), location, trimmed, heavy), own
    return best


def _statistic(
    log: NDArray[np.float64],
    is_head: NDArray[np.bool_],
    starts: NDArray[np.int64],
    heads: NDArray[np.int64],
    location: Location,
) -> NDArray[np.float64]:
    """Head minus base of each block; `starts` are its launches' first places, `heads` their number by arm."""
    import numpy as np

    if location == "mean":
        head = np.add.reduceat(np.where(is_head, log, 0.0), starts)
        base = np.add.reduceat(np.where(is_head, 0.0, log), starts)
        return np.asarray((head - base) / heads)
    edge = np.inf if location == "lowest" else -np.inf
    reduce = np.minimum.reduceat if location == "lowest" else np.maximum.reduceat
    head, base = (reduce(np.where(arm, log, edge), starts) for arm in (is_head, ~is_head))
    return np.asarray(head - base)


def _scatter(keys: Sequence[NDArray[np.int64]], statistic: NDArray[np.float64]) -> dict[int, _Scatter]:
    """Scatter around each comparison's own middle, pooled by series; `keys`: series, then what tells
    comparisons apart."""
    import numpy as np

    order = np.lexsort((statistic, *reversed(keys)))
    statistic, keys = statistic[order], [key[order] for key in keys]
    starts = _starts(*keys)
    counts = np.diff(np.append(starts, statistic.size))
    of = keys[0][starts]

    def around_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
        means = np.add.reduceat(values, starts) / counts
        rest: NDArray[np.float64] = values - np.repeat(means, counts)
        return rest

    rest = around_mean(statistic)
    plain = np.add.reduceat(rest**2, starts)
    # Sorted by their value within each comparison: the middle one or two are its median.
    middle = (statistic[starts + (counts - 1) // 2] + statistic[starts + counts // 2]) / 2
    middle = np.repeat(middle, counts)
    limit = TRIM * _typical(keys[0], rest * np.repeat(np.sqrt(counts / np.maximum(counts - 1, 1)), counts))
    trimmed = np.add.reduceat(around_mean(np.clip(statistic, middle - limit, middle + limit)) ** 2, starts)
    edges = [*_starts(of).tolist(), of.size]
    result: dict[int, _Scatter] = {}
    for first, end in pairwise(edges):
        df = int((counts[first:end] - 1).sum())
        if df > 0:
            result[int(of[first])] = _Scatter(
                math.sqrt(math.fsum(plain[first:end].tolist()) / df),
                math.sqrt(math.fsum(trimmed[first:end].tolist()) / df),
                df,
            )
    return result


def _typical(series: NDArray[np.int64], rest: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard deviation of each residual's series, from the median size of its residuals, which outliers
    do not move; exact for a normal distribution."""
    import numpy as np

    order = np.lexsort((np.abs(rest), series))
    starts = _starts(series)
    counts = np.diff(np.append(starts, rest.size))
    size = np.abs(rest)[order]
    median = (size[starts + (counts - 1) // 2] + size[starts + counts // 2]) / 2
    return np.repeat(1.4826 * median, counts)


def _starts(*keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each run of equal keys begins, in arrays that are sorted by them."""
    import numpy as np

    differs = np.zeros(keys[0].size, dtype=bool)
    differs[0] = True
    for key in keys:
        differs[1:] |= key[1:] != key[:-1]
    return np.flatnonzero(differs)


def _only(
    sha: NDArray[np.int64], mask: NDArray[np.bool_], starts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The one revision of an arm in each block, and whether it is one."""
    import numpy as np

    largest = np.maximum.reduceat(np.where(mask, sha, np.iinfo(np.int64).min), starts)
    smallest = np.minimum.reduceat(np.where(mask, sha, np.iinfo(np.int64).max), starts)
    return largest, largest == smallest
