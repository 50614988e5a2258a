"""What a handful of blocks says about the ratio of two arms: the moderated t and everything read off it.

One process launch is the sampling unit, one block of four launches gives one number: the mean log value of
the head's launches minus that of the base's. Few blocks mean few degrees of freedom, and few degrees of
freedom are what makes a t-test need many blocks; a scenario's history knows its noise far better than two
blocks do. So today's variance is shrunk towards the history's (Smyth 2004, limma), which counts for at most
four degrees of freedom, because noise differs from hour to hour; where today's variance is too large for
it, the history is dropped. It is never dropped for being too large: that errs to the safe side.

All functions take arrays or scalars: the engine and the simulations that check it run the same code.
Everything is on the scale of natural logarithms until a verdict is written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tithe.data.noise import Location, Noise, pulled_in
from tithe.runner.bounds import PRIOR_DFS, bound, first_look

if TYPE_CHECKING:
    from tithe.data.config import DecisionPolicy
    from tithe.data.records import ArmName, Launch, MetricName

Floats = NDArray[np.float64]

MAX_PRIOR_DF = 4
"""With eight, decisions in an hour that was louder than its history kept one and a half times the level that was
asked for; with four they kept it, for 1 % more launches where nothing is there."""
TRIM_FROM = 5
"""Blocks from which on trimming tells those far off: of fewer, two or three hit by one burst are the majority."""
MISFIT = 0.2
"""Today's variance is held against the history when its F-test says less than this (upper tail). On recorded
blocks, a neighbour that was not there when the history was made let two and a half times as many false alarms
through at .05, for 3 % fewer blocks."""
MIN_SD = 1e-4
"""No host resolves less than a hundredth of a percent; keeps a constant metric from dividing by nothing."""
SAME_ALPHA = 0.10
"""Level of the repeated interval that must lie inside ± the wanted effect: an effect just as large as wanted
is called `same` in at most half of this share of runs."""
INTERVAL_ALPHA = 0.05
"""Level of the interval of a confirmation."""
SHRINK = 0.85
"""Part of the first stage's estimate that a confirmation is planned for: it is inflated, for it stopped the
stage."""
PLAN_POWER = 0.8
"""Chance that a confirmation of that effect ends at its first look."""
FEWEST_CONFIRM = 3
"""Blocks of a confirmation at least: where the history does not fit, two would leave an interval of one degree of
freedom, which says nothing."""
FIRST_SHARE = 0.7
"""Part of a confirmation's error level that is spent at its planned look, the only one of most; the rest is
spread over later ones."""
POWER = 0.8
"""Of the effect that a verdict calls detectable."""

_CONFIRM_Z = -NormalDist().inv_cdf(INTERVAL_ALPHA / 2)


def stage_alpha(policy: DecisionPolicy, gates: int = 1) -> float:
    """Error level of each of the two stages, two-sided, for one of `gates` deciding metrics.

    Two independent stages of level a let a false alarm through with a², so a = sqrt(alarms allowed /
    decisions).
    """
    level = policy.alpha or math.sqrt(policy.false_alarms_per_week / policy.decisions_per_week)
    return min(max(level, 1e-9), 0.5) / max(gates, 1)


def prior_df(noise: Noise | None) -> int:
    """Degrees of freedom that a history counts for: one of `bounds.PRIOR_DFS`, rounded down."""
    if noise is None or not math.isfinite(noise.sd) or noise.sd < 0:
        return 0
    have = min(noise.df, MAX_PRIOR_DF)
    return max(d0 for d0 in PRIOR_DFS if d0 <= max(have, 0))


def usable(value: float | None) -> bool:
    """Whether a value has a logarithm."""
    return value is not None and math.isfinite(value) and value > 0


def block_statistic(
    launches: Iterable[Launch], metric: MetricName, location: Location = "mean"
) -> float | None:
    """Log value of head minus log value of base in one block; None where an arm has no value.

    An arm's value is the mean log of its launches, or the lowest or highest. Only launches that ended well
    count; values that have no logarithm are treated as not there.
    """
    logs: dict[ArmName, list[float]] = {"base": [], "head": []}
    for launch in launches:
        value = launch.values.get(metric)
        if launch.status == "ok" and value is not None and usable(value):
            logs[launch.arm].append(math.log(value))
    if not logs["base"] or not logs["head"]:
        return None
    if location == "mean":
        return math.fsum(logs["head"]) / len(logs["head"]) - math.fsum(logs["base"]) / len(logs["base"])
    edge = min if location == "lowest" else max
    return edge(logs["head"]) - edge(logs["base"])


def location(noise: Noise | None) -> Location:
    """What stands for an arm in a block, as the history says."""
    return noise.location if noise is not None and prior_df(noise) else "mean"


def settled(values: ArrayLike, noise: Noise | None) -> Floats:
    """Block statistics (last axis) as they count: those far off pulled in, where the history says so."""
    found = np.asarray(values, dtype=np.float64)
    if noise is None or not noise.trimmed or not prior_df(noise):
        return found
    return pulled_in(found, max(noise.sd, MIN_SD))


def misfits(n: int, variance: ArrayLike, noise: Noise, sd: float) -> NDArray[np.bool_]:
    """Whether `n` blocks of that variance are too loud for a history of that standard deviation."""
    from scipy.special import fdtrc

    today = np.asarray(variance, dtype=np.float64)
    if n < 2:
        return np.zeros_like(today, dtype=bool)
    history = np.float64(max(sd, MIN_SD) ** 2)
    return np.asarray(fdtrc(n - 1, max(noise.df, prior_df(noise)), today / history) < MISFIT)


def moderated(n: int, variance: ArrayLike, noise: Noise | None) -> tuple[Floats, Floats]:
    """Standard deviation of one block and its degrees of freedom, after `n` blocks of that variance."""
    today = np.asarray(variance, dtype=np.float64)
    d0 = prior_df(noise)
    d = n - 1
    if noise is None or d0 == 0:
        return np.maximum(np.sqrt(today), MIN_SD), np.full_like(today, d)
    history = np.float64(max(noise.sd, MIN_SD) ** 2)
    pooled = (d0 * history + d * today) / (d0 + d)
    df = np.full_like(today, d0 + d)
    if d > 0:
        misfit = misfits(n, today, noise, noise.sd)
        pooled = np.where(misfit, today, pooled)
        df = np.where(misfit, float(d), df)
    return np.maximum(np.sqrt(pooled), MIN_SD), df


def z_of_t(t: ArrayLike, df: ArrayLike) -> Floats:
    """Normal equivalent: the z that is as rare as this t (signed)."""
    from scipy.special import ndtri, stdtr

    t_ = np.asarray(t, dtype=np.float64)
    tail = np.maximum(stdtr(np.asarray(df, dtype=np.float64), -np.abs(t_)), 1e-300)
    return np.asarray(-np.sign(t_) * ndtri(tail), dtype=np.float64)


def t_of_z(z: float, df: ArrayLike) -> Floats:
    """The t that is as rare as this z."""
    from scipy.special import ndtr, stdtrit

    return np.asarray(-stdtrit(np.asarray(df, dtype=np.float64), ndtr(-abs(z))), dtype=np.float64)


def two_sided_p(z: ArrayLike) -> Floats:
    from scipy.special import ndtr

    return np.asarray(2 * ndtr(-np.abs(np.asarray(z, dtype=np.float64))), dtype=np.float64)


def half_width(n: int, sd: ArrayLike, df: ArrayLike, z: float) -> Floats:
    """Half the interval around the mean of `n` blocks whose ends are `z` normal-equivalent errors away."""
    return np.asarray(t_of_z(z, df) * np.asarray(sd) / math.sqrt(n), dtype=np.float64)


def threshold_log(policy: DecisionPolicy, noise_sd: ArrayLike) -> Floats:
    """Dynamic threshold max(floor, k × noise) as a log ratio."""
    return np.maximum(math.log1p(policy.floor), policy.noise_factor * np.asarray(noise_sd, dtype=np.float64))


def detectable_log(
    n: int, sd: float, df: float, *, alpha: float, max_blocks: int, d0: int, threshold: float
) -> float:
    """Smallest log ratio that `n` blocks of this noise show with 80 % power, as two quantiles of t.

    The estimate has to be significant, and to reach the threshold (a log ratio).
    """
    from scipy.special import stdtrit

    error = sd / math.sqrt(n)
    needed = float(t_of_z(bound(max(n, first_look(d0)), max_blocks, alpha, d0), df)) * error
    return float(max(needed, threshold) + stdtrit(df, POWER) * error)


@dataclass(frozen=True)
class Seen:
    """What `n` blocks measure, before anything is decided; arrays where arrays came in. Logs."""

    n: int
    mean: Floats
    sd: Floats
    df: Floats
    z: Floats
    """Normal equivalent of the moderated t, signed; of the wider scatter where too few blocks are trimmed."""
    noise: Floats
    """What the threshold is taken from."""


def see(values: ArrayLike, noise: Noise | None) -> Seen:
    """The moderated t of block statistics (last axis).

    Where the history says that blocks are now and then far off, they are pulled in; but not where more of them are
    than it says, for then it does not fit and is dropped, with all that it says.
    """
    raw = np.asarray(values, dtype=np.float64)
    n = raw.shape[-1]
    mean, variance = raw.mean(axis=-1), raw.var(axis=-1, ddof=1) if n > 1 else np.zeros(raw.shape[:-1])
    if noise is None or not noise.trimmed or not prior_df(noise):
        sd, df = moderated(n, variance, noise)
        return Seen(n, mean, sd, df, z_of_t(mean / (sd / math.sqrt(n)), df), noise_sd(sd, noise))
    heavy = max(noise.heavy, noise.sd)
    loud = misfits(n, variance, noise, heavy)
    pulled = settled(raw, noise)
    sd, df = moderated(n, pulled.var(axis=-1, ddof=1) if n > 1 else variance, noise)
    wide, wide_df = sd, df
    if n < TRIM_FROM:
        wide, wide_df = moderated(n, variance, replace(noise, sd=heavy))
    alone, alone_df = np.maximum(np.sqrt(variance), MIN_SD), np.full_like(df, n - 1)
    mean = np.where(loud, mean, pulled.mean(axis=-1))
    sd, df = np.where(loud, alone, sd), np.where(loud, alone_df, df)
    wide, wide_df = np.where(loud, alone, wide), np.where(loud, alone_df, wide_df)
    return Seen(n, mean, sd, df, z_of_t(mean / (wide / math.sqrt(n)), wide_df), noise_sd(sd, noise))


@dataclass(frozen=True)
class Look:
    """What one look at `n` blocks says; arrays where arrays came in."""

    sd: Floats
    df: Floats
    z: Floats
    """Normal equivalent of the moderated t, signed."""
    half: Floats
    """Half-width of the interval that `same` is judged by, on the log scale."""
    significant: NDArray[np.bool_]
    relevant: NDArray[np.bool_]
    """The estimate reaches the threshold."""
    same: NDArray[np.bool_]
    """The interval lies inside ± the wanted effect."""


def same_half(seen: Seen, max_blocks: int, d0: int) -> Floats:
    """Half the interval that the first stage judges `same` by: repeated, valid whenever the stage stops."""
    return half_width(seen.n, seen.sd, seen.df, bound(seen.n, max_blocks, SAME_ALPHA, d0))


def confirm_half(seen: Seen) -> Floats:
    """Half the interval of a confirmation, the plain one of INTERVAL_ALPHA."""
    return half_width(seen.n, seen.sd, seen.df, _CONFIRM_Z)


def judge_first(seen: Seen, half: Floats, policy: DecisionPolicy, d0: int, *, alpha: float) -> Look:
    """The first stage: two-sided."""
    return Look(
        seen.sd,
        seen.df,
        seen.z,
        half,
        np.abs(seen.z) >= bound(seen.n, policy.max_blocks, alpha, d0),
        np.abs(seen.mean) >= threshold_log(policy, seen.noise),
        np.abs(seen.mean) + half <= math.log1p(policy.wanted_effect),
    )


def confirm_bound(n: int, first: ArrayLike, policy: DecisionPolicy, d0: int, *, alpha: float) -> Floats:
    """z that confirms, one-sided, after `n` blocks; `first`: at the planned look."""
    later = bound(n, policy.max_blocks, min(2 * (1 - FIRST_SHARE) * alpha, 0.99), d0)
    return np.where(first, _first_bound(alpha), later)


def _first_bound(alpha: float) -> float:
    return -NormalDist().inv_cdf(min(FIRST_SHARE * alpha, 0.49))


def judge_confirm(
    seen: Seen,
    half: Floats,
    sign: ArrayLike,
    first: ArrayLike,
    policy: DecisionPolicy,
    d0: int,
    *,
    alpha: float,
) -> Look:
    """The confirmation: one-sided, in the direction `sign` (±1); `first`: at the planned look."""
    towards = np.asarray(sign)
    return Look(
        seen.sd,
        seen.df,
        seen.z * towards,
        half,
        seen.z * towards >= confirm_bound(seen.n, first, policy, d0, alpha=alpha),
        seen.mean * towards >= threshold_log(policy, seen.noise),
        np.abs(seen.mean) + half <= math.log1p(policy.wanted_effect),
    )


def look(seen: Seen, policy: DecisionPolicy, noise: Noise | None, *, alpha: float) -> Look:
    """The first stage, at a look."""
    d0 = prior_df(noise)
    return judge_first(seen, same_half(seen, policy.max_blocks, d0), policy, d0, alpha=alpha)


def confirm_look(
    seen: Seen,
    sign: ArrayLike,
    first: ArrayLike,
    policy: DecisionPolicy,
    noise: Noise | None,
    *,
    alpha: float,
) -> Look:
    """The confirmation, looked at from the planned number of fresh blocks on (`first` there)."""
    return judge_confirm(seen, confirm_half(seen), sign, first, policy, prior_df(noise), alpha=alpha)


def noise_sd(sd: ArrayLike, noise: Noise | None) -> Floats:
    """The noise that the threshold is taken from: the history's where there is one, otherwise today's."""
    sd_ = np.asarray(sd, dtype=np.float64)
    return np.full_like(sd_, noise.sd) if noise is not None and prior_df(noise) else sd_


def planned(
    estimate: ArrayLike, sd: ArrayLike, policy: DecisionPolicy, noise: Noise | None, *, alpha: float
) -> NDArray[np.int64]:
    """Blocks after which a confirmation is first looked at.

    `estimate` is the first stage's, as a positive log effect. The plan is for SHRINK of it, but for no less
    than the threshold. Seldom looking again keeps the estimate nearly unbiased.
    """
    from scipy.special import stdtrit

    d0 = prior_df(noise)
    scatter = np.asarray(sd, dtype=np.float64)
    threshold = threshold_log(policy, noise_sd(scatter, noise))
    effect = np.maximum(SHRINK * np.asarray(estimate, dtype=np.float64), threshold)
    plan = np.full(np.broadcast(effect, scatter).shape, policy.max_blocks, dtype=np.int64)
    # The fewest that are enough: from the most downwards, smaller numbers overwrite.
    for n in range(policy.max_blocks - 1, max(first_look(d0), FEWEST_CONFIRM) - 1, -1):
        df = d0 + n - 1
        needed = (
            (float(t_of_z(_first_bound(alpha), df)) + float(stdtrit(df, PLAN_POWER))) * scatter / math.sqrt(n)
        )
        plan = np.where(needed <= effect, n, plan)
    return plan
