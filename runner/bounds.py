"""Group-sequential bounds: how extreme a statistic must be to stop after the n-th of at most K blocks.

Looking after every block and stopping at the first p below alpha would multiply the false alarms (eleven
looks at .05 make .13). The bounds spend alpha over all looks together. They are on the scale of z, the normal
equivalent of the moderated t: stop after n blocks when |z| >= bound(n) = c * (n / K) ** (SHAPE - 1/2), the
family of Wang and Tsiatis (1987) between O'Brien-Fleming (0, nothing stops early) and Pocock (1/2, constant).
c comes from simulating the very statistic that is used, small degrees of freedom and dropped history
included (`scripts/bounds`), because normal theory is wrong by a factor of two at the second block.
"""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from tithe.runner.bounds_table import TABLE

SHAPE = 0.45
"""Nearer to Pocock: nearly all runs are A/A or carry large effects, and both stop early with it."""
PRIOR_DFS = (0, 2, 4, 8)
"""Degrees of freedom that a history may count for; what it has is rounded down to one of these."""
ALPHAS = (0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 5e-4, 2e-4, 1e-4, 5e-5, 2e-5)
"""Two-sided levels of the table, over all looks together."""
FEWEST, MOST = 2, 24
"""Range of the maximal number of blocks."""

_NORMAL = NormalDist()


def first_look(d0: int) -> int:
    """Number of blocks at the first look: a plain t of one degree of freedom says nothing."""
    return 2 if d0 else 3


def table(d0: int) -> tuple[tuple[float, ...], ...]:
    """Scaled bounds, a row for each of `ALPHAS`, in it one for each maximal number of blocks."""
    return TABLE[d0]


@lru_cache(maxsize=4096)
def bound(n: int, max_blocks: int, alpha: float, d0: int) -> float:
    """|z| at which a comparison of at most `max_blocks` blocks stops after `n` of them.

    `alpha` is two-sided over all looks; for a one-sided test of level a pass 2 * a. Levels between those of
    the table are interpolated on the scale of z, levels below it are split (Bonferroni) onto the smallest.

    Raises:
        ValueError: `max_blocks` outside FEWEST..MOST, `alpha` outside (0, 1), or `d0` not in PRIOR_DFS.
    """
    if not FEWEST <= max_blocks <= MOST:
        raise ValueError(f"max_blocks must lie between {FEWEST} and {MOST}, not {max_blocks}")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must lie between 0 and 1, not {alpha}")
    if d0 not in PRIOR_DFS:
        raise ValueError(f"d0 must be one of {PRIOR_DFS}, not {d0}")
    if n < first_look(d0):
        return math.inf
    column = max(max_blocks, first_look(d0)) - FEWEST
    scaled = [row[column] for row in TABLE[d0]]
    where = [_quantile(level) for level in ALPHAS]
    wanted = _quantile(alpha)
    if wanted <= where[0]:
        c = scaled[0] * wanted / where[0]
    elif wanted >= where[-1]:
        c = scaled[-1] * wanted / where[-1]
    else:
        right = next(i for i, z in enumerate(where) if z >= wanted)
        share = (wanted - where[right - 1]) / (where[right] - where[right - 1])
        c = scaled[right - 1] + share * (scaled[right] - scaled[right - 1])
    return float(c * n ** (SHAPE - 0.5))


def _quantile(alpha: float) -> float:
    return -_NORMAL.inv_cdf(alpha / 2)
