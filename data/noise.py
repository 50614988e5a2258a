"""How much a scenario's block statistic scatters when nothing changed, from the blocks on record.

The statistic of a block is the mean log of its head launches minus the mean log of its base launches. What
a run found is in its mean, so the scatter is taken around each comparison's own mean, and real
regressions on record do not inflate the noise. A comparison is one pair of revisions within one run: a
bisection measures many pairs in one run, and each has its own mean.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Noise:
    """Standard deviation of one block's statistic (a difference of logs), and its degrees of freedom."""

    sd: float
    df: float


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
    """The pooled noise of each series that has a comparison of two blocks or more.

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
    statistic = (
        np.add.reduceat(np.where(is_head, log, 0.0), starts)
        - np.add.reduceat(np.where(is_head, 0.0, log), starts)
    ) / np.maximum(heads, 1)

    keys = [series[starts], comparison[starts], base_sha, head_sha]
    series, comparison, base_sha, head_sha = (key[whole] for key in keys)
    statistic = statistic[whole]
    order = np.lexsort((statistic, head_sha, base_sha, comparison, series))
    statistic = statistic[order]
    series, comparison = series[order], comparison[order]
    starts = _starts(series, comparison, base_sha[order], head_sha[order])
    counts = np.diff(np.append(starts, statistic.size))
    means = np.add.reduceat(statistic, starts) / counts
    squares = np.add.reduceat((statistic - np.repeat(means, counts)) ** 2, starts)

    of = series[starts]
    edges = [*_starts(of).tolist(), of.size]
    noises: dict[int, Noise] = {}
    for first, end in pairwise(edges):
        df = int((counts[first:end] - 1).sum())
        if df > 0:
            sd = math.sqrt(math.fsum(squares[first:end].tolist()) / df)
            noises[int(of[first])] = Noise(sd=sd, df=float(df))
    return noises


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
