"""Where in a range of changes a metric stepped, as a probability for every change.

A block of change x against the good end measures δ·[step at or before x] plus noise. Position τ, size δ and
noise σ are unknown together: the posterior lives on a grid of (τ, δ, σ) and τ is read off by summing over the
rest, so that uncertainty about the levels makes it slower to judge, not wrong. The likelihood is Student's t:
under a normal one a single outlier at 10 σ is believed to be a step, and costs twice the launches.

A crash is the same problem with launches that pass or fail.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

TAIL_DF = 5.0
"""Degrees of freedom of the likelihood."""
PRIOR_FLOOR = 0.1
"""Share of the prior that is spread evenly: a change that seems unable to do it is never ruled out."""
FAIL_BEFORE, FAIL_AFTER = 0.02, 0.95
"""Chance that a launch fails before and after a crash came in."""


def start_weights(count: int, prior: Sequence[float] | None) -> Floats:
    """The prior of each of `count` changes: `prior` (any scale) mixed with an even share."""
    even = np.full(count, 1.0 / count)
    if prior is None:
        return even
    given = np.clip(np.nan_to_num(np.asarray(prior, dtype=np.float64), posinf=0.0), 0.0, None)
    total = float(given.sum())
    return even if total <= 0 else (1 - PRIOR_FLOOR) * given / total + PRIOR_FLOOR * even


class StepPosterior:
    """Position of one step in a number.

    Args:
        count: changes in the range, oldest first.
        effect: first estimate of the step (log ratio), whose sign is taken as known.
        sd: first estimate of the noise of a block.
        sd_df: degrees of freedom that stand behind `sd`.
        prior: of each change, on any scale.
    """

    def __init__(
        self, count: int, effect: float, sd: float, *, sd_df: float, prior: Sequence[float] | None = None
    ) -> None:
        self._delta = effect * np.linspace(0.1, 2.0, 24)
        self._sigma = sd * np.geomspace(1 / 3, 3, 9)
        df = max(sd_df, 1.0)
        square = (sd / self._sigma) ** 2
        noise = df / 2 * (np.log(square) - square)
        self._log: Floats = np.zeros((count, self._delta.size, self._sigma.size))
        self._log += np.log(start_weights(count, prior))[:, None, None] + noise[None, None, :]

    def observe(self, low: int, high: int, value: float) -> None:
        """A block of change `high` (head) against change `low` (base), by index; -1 is the good end."""
        scale = self._sigma * math.sqrt((TAIL_DF - 2) / TAIL_DF)

        def density(difference: Floats) -> Floats:
            found: Floats = -(TAIL_DF + 1) / 2 * np.log1p((difference / scale) ** 2 / TAIL_DF) - np.log(scale)
            return found

        self._log += density(np.full((1, 1, 1), value))
        self._log[low + 1 : high + 1] += density(value - self._delta[None, :, None]) - density(
            np.full((1, 1, 1), value)
        )

    def probabilities(self) -> Floats:
        weights = np.exp(self._log - self._log.max())
        chances: Floats = weights.sum(axis=(1, 2))
        chances /= chances.sum()
        return chances

    def effect(self) -> tuple[float, float]:
        """Mean of the step's size and of the noise."""
        weights = np.exp(self._log - self._log.max())
        weights /= weights.sum()
        sizes, noises = weights.sum(axis=(0, 2)), weights.sum(axis=(0, 1))
        return float(sizes @ self._delta), float(noises @ self._sigma)

    def information(self) -> Floats:
        """Expected information of a block of each change against the good end."""
        size, noise = self.effect()
        return np.asarray(
            np.interp(np.cumsum(self.probabilities()), _SHARES, _channel(round(abs(size) / noise, 1)))
        )


_SHARES: Floats = np.linspace(0.0, 1.0, 201)


@lru_cache(maxsize=256)
def _channel(d: float) -> Floats:
    """Mutual information between [step at or before] with chance π and a normal value `d` σ apart, for π in
    _SHARES."""
    grid = np.linspace(-8.0, d + 8.0, 801)
    before = np.exp(-0.5 * grid**2) / math.sqrt(2 * math.pi)
    after = np.exp(-0.5 * (grid - d) ** 2) / math.sqrt(2 * math.pi)
    share = _SHARES[:, None]
    mixed = np.maximum((1 - share) * before + share * after, 1e-300)
    step = grid[1] - grid[0]
    gain = share * after * np.log(np.maximum(after, 1e-300) / mixed) + (1 - share) * before * np.log(
        np.maximum(before, 1e-300) / mixed
    )
    found: Floats = np.maximum(gain.sum(axis=1) * step, 0.0)
    found[0] = found[-1] = 0.0
    return found


class CrashPosterior:
    """Position of the change from which on launches fail (or, `mended`, from which on they pass).

    Args:
        rate: chance that a launch of the failing side fails, where it is known to fail only sometimes.
    """

    def __init__(
        self,
        count: int,
        *,
        mended: bool = False,
        rate: float = FAIL_AFTER,
        prior: Sequence[float] | None = None,
    ) -> None:
        self._log: Floats = np.log(start_weights(count, prior))
        bad = min(max(rate, 0.1), FAIL_AFTER)
        self._before, self._after = (bad, FAIL_BEFORE) if mended else (FAIL_BEFORE, bad)

    def observe(self, at: int, failed: int, launches: int) -> None:
        """`failed` of `launches` launches of the change with index `at` failed; -1 is the good end."""

        def score(chance: float) -> float:
            return failed * math.log(chance) + (launches - failed) * math.log1p(-chance)

        self._log += score(self._before)
        self._log[: at + 1] += score(self._after) - score(self._before)

    def probabilities(self) -> Floats:
        weights = np.exp(self._log - self._log.max())
        return np.asarray(weights / weights.sum())

    def information(self) -> Floats:
        """Information of a perfect answer, which has its maximum where that of an imperfect one has."""
        share = np.clip(np.cumsum(self.probabilities()), 0.0, 1.0)
        inner = np.clip(share, 1e-12, 1 - 1e-12)
        return np.asarray(
            -(inner * np.log(inner) + (1 - inner) * np.log1p(-inner)) * ((share > 0) & (share < 1))
        )
