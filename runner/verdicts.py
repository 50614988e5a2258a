"""From numbers to words: the verdict of one metric, and the outcomes that the model learns from.

Pure functions. A verdict never says more than its samples: `regressed` and `improved` come with the estimate
and interval of the confirmation alone, and "no evidence" always with the effect that would have been seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tithe.data.records import (
    ArmName,
    Direction,
    Launch,
    Metric,
    MetricName,
    Outcome,
    Picked,
    RunReport,
    Scenario,
    ScenarioName,
    Sha,
    Source,
    Verdict,
    VerdictName,
)
from tithe.runner import stats
from tithe.runner.bounds import bound, first_look

if TYPE_CHECKING:
    from tithe.data.config import DecisionPolicy
    from tithe.data.noise import Noise

RANDOM_FAILURE = 0.02
"""One-sided level of Fisher's test by which failures of one arm and not the other are believed: four launches
of an arm that all fail, beside four that all pass, have p = 1/70."""
FLAKY_FAILURE = 0.002
"""The same for an arm that fails sometimes, before it is looked at again with fresh launches."""
UNEVEN_FAILURES = 0.25
"""Above this, failures of the arms are alike enough to call the times of the others `same`."""


@dataclass(frozen=True)
class Reading:
    """What one stage found for one metric. `mean`, `half` and `sd` are on the log scale; `z` is signed."""

    n: int
    mean: float
    half: float
    sd: float
    df: float
    z: float
    significant: bool
    relevant: bool
    same: bool

    @property
    def candidate(self) -> bool:
        return self.significant and self.relevant

    @property
    def sign(self) -> int:
        return 1 if self.mean > 0 else -1

    @property
    def ratios(self) -> tuple[float, float, float]:
        """Head over base and the ends of its interval."""
        return _exp(self.mean), _exp(self.mean - self.half), _exp(self.mean + self.half)


def first_reading(
    values: Sequence[float], policy: DecisionPolicy, noise: Noise | None, *, alpha: float
) -> Reading | None:
    """The first stage after these block statistics; None before its first look."""
    if len(values) < first_look(stats.prior_df(noise)):
        return None
    seen = stats.see(values, noise)
    return _reading(seen, stats.look(seen, policy, noise, alpha=alpha), 1)


def confirm_reading(
    values: Sequence[float],
    sign: int,
    policy: DecisionPolicy,
    noise: Noise | None,
    *,
    alpha: float,
    planned: int = 0,
) -> Reading | None:
    """The confirmation of an effect of that sign after these fresh block statistics, `planned` of which were
    to decide it; None before its first look."""
    if len(values) < first_look(stats.prior_df(noise)):
        return None
    seen = stats.see(values, noise)
    look = stats.confirm_look(seen, sign, seen.n == planned, policy, noise, alpha=alpha)
    return _reading(seen, look, sign)


def _reading(seen: stats.Seen, look: stats.Look, sign: int) -> Reading:
    return Reading(
        seen.n,
        float(seen.mean),
        float(look.half),
        float(look.sd),
        float(look.df),
        sign * float(look.z),
        bool(look.significant),
        bool(look.relevant),
        bool(look.same),
    )


def effect_name(sign: int, direction: Direction) -> VerdictName:
    """What a larger (+1) or smaller (-1) head is called."""
    return "regressed" if (sign > 0) == (direction == "smaller") else "improved"


def timed_verdict(
    scenario: Scenario,
    metric: Metric,
    verdict: VerdictName,
    reading: Reading | None,
    policy: DecisionPolicy,
    noise: Noise | None,
    *,
    alpha: float,
    blocks: int,
    launches: int,
    confirmed: bool = False,
    note: str = "",
) -> Verdict:
    """The verdict record of a metric that was measured; `reading` is the stage that the numbers come from."""
    if reading is None:
        return Verdict(
            scenario.name,
            metric.name,
            verdict,
            blocks=blocks,
            launches=launches,
            confirmed=confirmed,
            note=note,
        )
    threshold = float(stats.threshold_log(policy, stats.noise_sd(reading.sd, noise)))
    detectable = None
    if verdict not in ("regressed", "improved"):
        detectable = _relative(
            stats.detectable_log(
                reading.n,
                reading.sd,
                reading.df,
                alpha=alpha,
                max_blocks=policy.max_blocks,
                d0=stats.prior_df(noise),
                threshold=threshold,
            )
        )
    ratio, low, high = reading.ratios
    one_sided = float(stats.two_sided_p(reading.z)) / 2
    return Verdict(
        scenario.name,
        metric.name,
        verdict,
        ratio=ratio,
        low=low,
        high=high,
        p=one_sided if confirmed else 2 * one_sided,
        blocks=blocks,
        launches=launches,
        confirmed=confirmed,
        threshold=_relative(threshold),
        detectable=detectable,
        note=note,
    )


def _relative(log: float) -> float:
    """A relative effect from a log ratio, a number in JSON too."""
    return math.expm1(min(log, 700.0))


def _exp(log: float) -> float:
    """exp that stays a number in JSON: custom metrics may differ by any factor."""
    return math.exp(min(max(log, -700.0), 700.0))


@dataclass(frozen=True)
class Failures:
    """Launches of both arms and how many of them did not end well, with the first reason of each arm."""

    base: int = 0
    base_failed: int = 0
    head: int = 0
    head_failed: int = 0
    base_note: str = ""
    head_note: str = ""

    @classmethod
    def of(cls, launches: Iterable[Launch], gate: Sequence[MetricName]) -> Failures:
        """Counts them; a launch without a usable value of a metric that decides has failed too."""
        total = {"base": 0, "head": 0}
        notes: dict[ArmName, list[str]] = {"base": [], "head": []}
        for launch in launches:
            total[launch.arm] += 1
            missing = [name for name in gate if not stats.usable(launch.values.get(name))]
            if launch.status != "ok":
                notes[launch.arm].append(launch.note or launch.status)
            elif missing:
                notes[launch.arm].append(f"no positive value of {', '.join(missing)}")
        base, head = notes["base"], notes["head"]
        return cls(
            total["base"],
            len(base),
            total["head"],
            len(head),
            base[0] if base else "",
            head[0] if head else "",
        )

    @property
    def base_dead(self) -> bool:
        return self.base_failed == self.base > 0

    @property
    def head_dead(self) -> bool:
        return self.head_failed == self.head > 0

    @property
    def sign(self) -> int:
        """+1 where head fails more often than base, -1 where less, 0 where neither."""
        more = self.head_failed * self.base - self.base_failed * self.head
        return (more > 0) - (more < 0)

    @property
    def p(self) -> float:
        """Fisher's exact test, one-sided in the direction of `sign`: the chance of so uneven failures."""
        failed, total = self.base_failed + self.head_failed, self.base + self.head
        if not failed or not self.sign:
            return 1.0
        size, seen = (self.head, self.head_failed) if self.sign > 0 else (self.base, self.base_failed)
        ways = sum(
            math.comb(size, k) * math.comb(total - size, failed - k)
            for k in range(seen, min(size, failed) + 1)
        )
        return ways / math.comb(total, failed)

    def words(self) -> str:
        """Empty where nothing failed."""
        parts = [
            f"{arm} failed {failed} of {total} launches ({note})"
            for arm, failed, total, note in (
                ("head", self.head_failed, self.head, self.head_note),
                ("base", self.base_failed, self.base, self.base_note),
            )
            if failed
        ]
        return "; ".join(parts)


def confidence(verdict: Verdict, wanted_effect: float, max_blocks: int) -> float:
    """The chance that a verdict is right, as the model counts it.

    Confirmed effects: 1 - p. `same`: the chance that the effect is smaller than wanted. `broken` and `fixed`:
    1 less Fisher's p. `inconclusive`: the chance that there is no effect of the wanted size.
    """
    if verdict.verdict in ("regressed", "improved", "broken", "fixed"):
        return 1.0 - (verdict.p if verdict.p is not None else RANDOM_FAILURE)
    if verdict.ratio is None or verdict.low is None or verdict.high is None:
        return 0.5
    return _chance_below(verdict.ratio, verdict.low, verdict.high, wanted_effect, max_blocks)


def _chance_below(ratio: float, low: float, high: float, wanted: float, max_blocks: int) -> float:
    """P(|log effect| < log(1 + wanted)) under a normal posterior with a flat prior.

    The error is read off the interval as half-width over its bound, with the bound of an intermediate look:
    a record does not say at which one it stopped, and they differ little.
    """
    from statistics import NormalDist

    z = bound(max(max_blocks // 2, 3), max_blocks, stats.SAME_ALPHA, 8)
    error = max((math.log(high) - math.log(low)) / 2 / z, stats.MIN_SD)
    edge = math.log1p(wanted)
    posterior = NormalDist(math.log(ratio), error)
    return posterior.cdf(edge) - posterior.cdf(-edge)


def outcomes(
    report: RunReport,
    scenarios: Iterable[Scenario],
    *,
    policy: DecisionPolicy,
    source: Source,
    picked: Picked,
    known_at: float,
) -> list[Outcome]:
    """What the model learns from a report: one outcome for each gate metric that something is known of.

    `error` says nothing about the change and gives none. `inconclusive` is a negative with the weight
    P(effect < wanted), and so is an effect that no confirmation stands behind. `report.base` and
    `report.head` are full commit ids.
    """
    gates: dict[ScenarioName, Scenario] = {scenario.name: scenario for scenario in scenarios}
    found = []
    for verdict in report.verdicts:
        scenario = gates.get(verdict.scenario)
        if scenario is None or verdict.metric not in scenario.gate or verdict.verdict == "error":
            continue
        sure = min(max(confidence(verdict, policy.wanted_effect, policy.max_blocks), 0.0), 1.0)
        found.append(
            Outcome(
                Sha(report.base),
                Sha(report.head),
                verdict.scenario,
                verdict.metric,
                verdict.verdict,
                known_at,
                source,
                picked,
                ratio=verdict.ratio,
                low=verdict.low,
                high=verdict.high,
                confidence=sure,
                weight=sure if verdict.verdict == "inconclusive" else 1.0,
                run=report.id,
            )
        )
    return found
