"""The decision rule on simulated blocks, vectorised over paths: where the bounds and the stated rates come
from.

It calls the functions of `tithe.runner.stats` that the engine calls, on arrays, so a change of the rule is a
change of what is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tithe.data.records import Launch, LaunchId, MetricName, RunId, Scenario, Sha
from tithe.runner import bounds, stats
from tithe.runner.stats import Floats

if TYPE_CHECKING:
    from tithe.data.config import DecisionPolicy
    from tithe.data.noise import Noise


def running_maximum(paths: int, d0: int, rng: np.random.Generator) -> Floats:
    """Scaled maxima of |z| under no effect: (paths, MOST - FEWEST + 1), a column for each maximal number of
    blocks."""
    from scipy.special import fdtrc

    total = np.zeros(paths)
    squares = np.zeros(paths)
    history = rng.chisquare(d0, paths) / d0 if d0 else np.ones(paths)
    top = np.zeros(paths)
    columns = []
    grids: dict[int, tuple[Floats, Floats]] = {}
    for n in range(1, bounds.MOST + 1):
        draw = rng.standard_normal(paths)
        total += draw
        squares += draw * draw
        if n >= bounds.first_look(d0):
            d = n - 1
            today = np.maximum((squares - total * total / n) / d, 0)
            variance, df = today, np.full(paths, d)
            if d0:
                misfit = fdtrc(d, d0, today / history) < stats.MISFIT
                variance = np.where(misfit, today, (d0 * history + d * today) / (d0 + d))
                df = np.where(misfit, d, d0 + d)
            t = np.abs(total) / np.sqrt(np.maximum(variance * n, 1e-300))
            z = np.empty(paths)
            for one in np.unique(df):
                if one not in grids:
                    ts = np.sinh(np.linspace(0, np.arcsinh(1e6), 6000))
                    grids[one] = ts, stats.z_of_t(ts, float(one))
                rows = df == one
                z[rows] = np.interp(t[rows], *grids[one])
            top = np.maximum(top, z * n ** (0.5 - bounds.SHAPE))
        if n >= bounds.FEWEST:
            columns.append(top.copy())
    return np.stack(columns, axis=1)


@dataclass(frozen=True)
class Simulated:
    """What became of many comparisons of the same effect; arrays have one entry for each."""

    verdict: NDArray[np.int8]
    """+1 head larger, -1 head smaller (both confirmed), 0 same, 2 inconclusive."""
    candidate: NDArray[np.int8]
    """What the first stage said alone: +1, -1, 0 or 2."""
    blocks: NDArray[np.int64]
    """First stage and confirmation."""
    mean: Floats
    """Log effect of the confirmation, NaN where there was none."""
    half: Floats
    """Half-width of its interval."""

    def rate(self, *verdicts: int) -> float:
        return float(np.isin(self.verdict, verdicts).mean())


@dataclass(frozen=True)
class Looks:
    """All looks at many comparisons, which error levels and thresholds only read: made once, judged often."""

    seen: tuple[stats.Seen, ...]
    """From the first look to the last block."""
    halves: tuple[Floats, ...]
    noise: Noise | None
    paths: int


def looks(blocks: Floats, noise: Noise | None, *, confirming: bool = False) -> Looks:
    """The looks at block statistics (paths, max_blocks), of a first stage or of confirmations."""
    paths, most = blocks.shape
    d0 = stats.prior_df(noise)
    start = 2 if confirming else bounds.first_look(d0)
    seen = [stats.see(blocks[:, :n], noise) for n in range(start, most + 1)]
    halves = [stats.confirm_half(one) if confirming else stats.same_half(one, most, d0) for one in seen]
    return Looks(tuple(seen), tuple(halves), noise, paths)


def first_stage(
    found: Looks, policy: DecisionPolicy
) -> tuple[NDArray[np.int8], NDArray[np.int64], NDArray[np.int64]]:
    """What the first stage says of each path (as `Simulated.candidate`), its blocks, and the planned blocks of
    a confirmation (0 where there is none)."""
    d0 = stats.prior_df(found.noise)
    alpha = stats.stage_alpha(policy)
    candidate = np.full(found.paths, 2, dtype=np.int8)
    used = np.full(found.paths, policy.max_blocks, dtype=np.int64)
    plan = np.zeros(found.paths, dtype=np.int64)
    open_ = np.ones(found.paths, dtype=bool)
    for seen, half in zip(found.seen, found.halves, strict=True):
        look = stats.judge_first(seen, half, policy, d0, alpha=alpha)
        hit = open_ & look.significant & look.relevant
        same = open_ & look.same & ~hit
        candidate[hit] = np.where(seen.mean > 0, 1, -1)[hit]
        candidate[same] = 0
        used[hit | same] = seen.n
        if hit.any():
            plan[hit] = stats.planned(np.abs(seen.mean)[hit], seen.sd[hit], policy, found.noise, alpha=alpha)
        open_ &= ~(hit | same)
    return candidate, used, plan


@dataclass(frozen=True)
class Confirmed:
    """What became of confirmations; arrays have one entry for each."""

    verdict: NDArray[np.int8]
    """The sign that was to be confirmed, 0 same, 2 inconclusive."""
    blocks: NDArray[np.int64]
    mean: Floats
    half: Floats


def confirm(
    found: Looks, sign: NDArray[np.int8], plan: NDArray[np.int64], policy: DecisionPolicy
) -> Confirmed:
    """The confirmation of effects of these signs on fresh blocks."""
    d0 = stats.prior_df(found.noise)
    alpha = stats.stage_alpha(policy)
    verdict = np.full(found.paths, 2, dtype=np.int8)
    used = np.full(found.paths, policy.max_blocks, dtype=np.int64)
    mean, width = np.full(found.paths, np.nan), np.full(found.paths, np.nan)
    pending = np.ones(found.paths, dtype=bool)
    for seen, half in zip(found.seen, found.halves, strict=True):
        look = stats.judge_confirm(seen, half, sign, plan == seen.n, policy, d0, alpha=alpha)
        now = pending & (plan <= seen.n)
        hit = now & look.significant & look.relevant
        same = now & look.same & ~hit
        done = hit | same | (now & (seen.n == policy.max_blocks))
        verdict[hit] = sign[hit]
        verdict[same] = 0
        used[done] = seen.n
        mean[done], width[done] = seen.mean[done], half[done]
        pending &= ~done
    return Confirmed(verdict, used, mean, width)


def decide(first: Floats, confirmation: Floats, policy: DecisionPolicy, noise: Noise | None) -> Simulated:
    """The whole rule on block statistics: (paths, max_blocks) for the first stage and for the
    confirmation."""
    candidate, used, plan = first_stage(looks(first, noise), policy)
    verdict = candidate.copy()
    mean, half = np.full(len(first), np.nan), np.full(len(first), np.nan)
    rows = np.flatnonzero(np.abs(candidate) == 1)
    if rows.size:
        found = confirm(
            looks(confirmation[rows], noise, confirming=True), candidate[rows], plan[rows], policy
        )
        verdict[rows], mean[rows], half[rows] = found.verdict, found.mean, found.half
        used[rows] += found.blocks
    return Simulated(verdict, candidate, used, mean, half)


def launches(
    sha: Sha,
    scenario: Scenario,
    values: Mapping[MetricName, Sequence[float]],
    *,
    seconds: float = 1.0,
    failed: str = "",
) -> list[Launch]:
    """Made-up launches of a revision for a `RecordedExecutor`, one for each value.

    With `failed` all end with exit code 1 and that note, without values.
    """
    count = max((len(some) for some in values.values()), default=1)
    return [
        Launch(
            LaunchId(f"{sha}-{scenario.name}-{index}"),
            RunId("simulated"),
            scenario.name,
            "head",
            sha,
            "record",
            index // 4,
            index % 4,
            "a" if index % 2 else "b",
            float(index),
            seconds,
            "failed" if failed else "ok",
            1 if failed else 0,
            {} if failed else {name: some[index] for name, some in values.items()},
            note=failed,
        )
        for index in range(count)
    ]
