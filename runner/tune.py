"""Which error level and which threshold catch most within the bound on false alarms: the ROC, from recorded blocks.

Nobody can run five thousand A/A decisions to see one false alarm. But blocks in which nothing differs carry no sign:
flipping the arms of each at random, and starting anywhere in the record, gives as many decisions as wanted with the
noise that is really there, in the order in which it came. And since a false alarm has to get through two independent
stages, its rate is the product of two rates that can each be seen. How sure that is depends on how many recordings
there are, not on how often they were drawn from: the bound comes from resampling recordings.

What is caught is measured on the recorded blocks of effects that are known (confirmed by decisions, told by people,
or planted), and, marked as such, on quiet blocks that were shifted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tithe.data.noise import LOCATIONS, Location, Noise, choose
from tithe.data.records import Detectable, Launch, MetricName, RunId, ScenarioName, Sha, TunePoint
from tithe.runner import stats
from tithe.runner.aa import smallest_effect
from tithe.runner.simulate import Looks, confirm, first_stage, looks
from tithe.runner.stats import Floats

if TYPE_CHECKING:
    from tithe.data.config import DecisionPolicy

ALPHAS = (0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005)
FACTORS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
FEWEST_BLOCKS = 16
"""Quiet blocks of a scenario below which it says too little to be drawn from."""
PATHS = 24_000
"""Decisions drawn for each point, over all recordings."""
SHIFTS = (1.0, 1.5, 2.0, 3.0)
"""Effects that quiet blocks are shifted by, in multiples of the wanted effect."""
RESAMPLES = 400
LEVEL = 0.95
"""One-sided, of the bound on false alarms."""


@dataclass(frozen=True)
class Recording:
    """Blocks of one scenario's metric, in the order in which they were made: a statistic for each location."""

    scenario: ScenarioName
    metric: MetricName
    values: Mapping[Location, Floats]
    effect: int = 0
    """Sign of the effect that is known to be in it; 0 where both arms are the same."""
    gates: int = 1

    def __len__(self) -> int:
        return len(self.values["mean"])


Known = Mapping[tuple[Sha, Sha, ScenarioName, MetricName], int]
"""Sign of effects that are known to be there, by base, head, scenario and metric."""


def recordings(
    launches: Iterable[Launch], gates: Mapping[ScenarioName, Sequence[MetricName]], known: Known
) -> list[Recording]:
    """Quiet recordings (one revision against itself, all runs of a scenario one after the other), then those
    with a known effect. Of other comparisons nobody knows what is in them."""
    blocks: dict[tuple[ScenarioName, RunId, Sha, Sha], dict[tuple[float, str, int], list[Launch]]] = {}
    pairs: dict[tuple[RunId, ScenarioName, str, int], list[Launch]] = {}
    for launch in launches:
        if launch.stage != "warmup" and launch.scenario in gates:
            pairs.setdefault((launch.run, launch.scenario, launch.stage, launch.block), []).append(launch)
    for (run, scenario, stage, number), made in pairs.items():
        shas = {arm: {one.sha for one in made if one.arm == arm} for arm in ("base", "head")}
        if len(made) != 4 or any(len(some) != 1 for some in shas.values()):
            continue
        (base,), (head,) = shas["base"], shas["head"]
        began = min(one.started_at for one in made)
        blocks.setdefault((scenario, run, base, head), {})[began, stage, number] = made
    quiet: dict[tuple[ScenarioName, MetricName], list[list[Launch]]] = {}
    moved: list[Recording] = []
    for (scenario, _, base, head), made_blocks in sorted(blocks.items(), key=lambda item: min(item[1])):
        ordered = [made for _, made in sorted(made_blocks.items(), key=lambda item: item[0])]
        for metric in gates[scenario]:
            if base == head:
                quiet.setdefault((scenario, metric), []).extend(ordered)
            elif sign := known.get((base, head, scenario, metric), 0):
                found = _recording(scenario, metric, ordered, sign, len(gates[scenario]))
                if len(found) >= 2:
                    moved.append(found)
    still = [
        found
        for (scenario, metric), made in sorted(quiet.items())
        if len(found := _recording(scenario, metric, made, 0, len(gates[scenario]))) >= FEWEST_BLOCKS
    ]
    return still + sorted(moved, key=lambda one: (one.scenario, one.metric, len(one)))


def _recording(
    scenario: ScenarioName, metric: MetricName, blocks: Sequence[Sequence[Launch]], effect: int, gates: int
) -> Recording:
    values = {
        at: np.array([v for block in blocks if (v := stats.block_statistic(block, metric, at)) is not None])
        for at in LOCATIONS
    }
    return Recording(scenario, metric, values, effect, gates)


@dataclass(frozen=True)
class Unit:
    """What is drawn from: a stretch of quiet blocks, with the noise that another stretch of them shows."""

    noise: Noise
    values: Floats
    gates: int


def units(quiet: Sequence[Recording]) -> list[Unit]:
    """Each recording in two halves, one as the history of the other: decisions do not know their own noise."""
    found = []
    for one in quiet:
        middle = len(one) // 2
        for own, other in ((slice(middle), slice(middle, None)), (slice(middle, None), slice(middle))):
            noise = choose({at: values[other].tolist() for at, values in one.values.items()})
            found.append(Unit(noise, one.values[stats.location(noise)][own], one.gates))
    return found


def drawn(values: Floats, paths: int, blocks: int, rng: np.random.Generator) -> Floats:
    """Stretches of the record, from anywhere in it (around its end), the arms of each block flipped by chance;
    shape (paths, blocks)."""
    starts = rng.integers(len(values), size=(paths, 1))
    signs = rng.choice(np.array([-1.0, 1.0]), size=(paths, blocks))
    found: Floats = values[(starts + np.arange(blocks)) % len(values)] * signs
    return found


@dataclass(frozen=True)
class _Drawn:
    """Decisions that were drawn once, for every setting to judge: first stages and confirmations."""

    first: Looks
    again: Looks
    gates: int
    sign: int = 0
    """Of the effect that is in them."""


def _decisions(unit: Unit, paths: int, blocks: int, rng: np.random.Generator, shift: float = 0.0) -> _Drawn:
    first, again = (drawn(unit.values, paths, blocks, rng) + shift for _ in range(2))
    return _Drawn(
        looks(first, unit.noise), looks(again, unit.noise, confirming=True), unit.gates, int(shift > 0)
    )


def _known(
    one: Recording, noise: Noise | None, blocks: int, rng: np.random.Generator, paths: int = 200
) -> _Drawn:
    """Blocks of a known effect are drawn with repetition: they are few, and in no order."""
    values = one.values[stats.location(noise)]
    first, again = (rng.choice(values, size=(paths, blocks)) for _ in range(2))
    return _Drawn(looks(first, noise), looks(again, noise, confirming=True), one.gates, one.effect)


@dataclass(frozen=True)
class _Rates:
    suspected: float
    confirmed: float
    """Of quiet decisions: of suspicions of chance, that a confirmation agrees with. Of others: caught."""
    blocks: float

    @property
    def alarms(self) -> float:
        return self.suspected * self.confirmed


def roc(
    found: Sequence[Recording], policy: DecisionPolicy, *, seed: int, paths: int = PATHS
) -> tuple[TunePoint, ...]:
    """Every pair of error level and threshold factor: what it lets through, what it catches, what it costs.

    Raises:
        ValueError: no recording is quiet.
    """
    still = [one for one in found if not one.effect]
    units_ = units(still)
    if not units_:
        raise ValueError("there are no quiet blocks to draw from")
    history = {
        (one.scenario, one.metric): choose({at: values.tolist() for at, values in one.values.items()})
        for one in still
    }
    rng, most, each = np.random.default_rng(seed), policy.max_blocks, max(paths // len(units_), 200)
    quiet = [_decisions(unit, each, most, rng) for unit in units_]
    moved = [_known(one, history.get((one.scenario, one.metric)), most, rng) for one in found if one.effect]
    shifts = [math.log1p(times * policy.wanted_effect) for times in SHIFTS]
    shifted = [_decisions(unit, max(each // 8, 100), most, rng, shift) for unit in units_ for shift in shifts]
    points = []
    for alpha in ALPHAS:
        for factor in FACTORS:
            tried = replace(policy, alpha=alpha, noise_factor=factor)
            rates = [_quiet_rates(one, tried, np.random.default_rng(seed)) for one in quiet]
            caught = [_rates(one, tried) for one in moved]
            planted = [_rates(one, tried) for one in shifted]
            estimate, upper = _alarms(rates, np.random.default_rng((seed, 1)))
            week = policy.decisions_per_week
            points.append(
                TunePoint(
                    alpha,
                    factor,
                    suspected=float(np.mean([one.suspected for one in rates])),
                    alarms_per_week=week * estimate,
                    alarms_per_week_high=week * upper,
                    caught=float(np.mean([one.confirmed for one in caught])) if caught else None,
                    caught_shifted=float(np.mean([one.confirmed for one in planted])),
                    launches_quiet=4 * float(np.mean([one.blocks for one in rates])),
                    launches_moved=4 * float(np.mean([one.blocks for one in planted])),
                )
            )
    return tuple(points)


def best(points: Sequence[TunePoint], allowed: float) -> TunePoint | None:
    """The point that catches most of those whose bound on false alarms lies within `allowed` a week; None where
    none does. Known effects count where there are any; ties go to fewer launches, then to the stricter level."""
    fit = [point for point in points if point.alarms_per_week_high <= allowed]
    if not fit:
        return None

    def key(point: TunePoint) -> tuple[float, float, float, float]:
        shown = point.caught_shifted if point.caught is None else (point.caught + point.caught_shifted) / 2
        # Shares are measured to a percent or so: what differs by less is alike.
        return (-round(shown, 2), point.launches_quiet, point.alpha, -point.noise_factor)

    return min(fit, key=key)


def _quiet_rates(one: _Drawn, policy: DecisionPolicy, rng: np.random.Generator) -> _Rates:
    own = _for_gates(policy, one.gates)
    candidate, used, plan = first_stage(one.first, own)
    suspected = np.abs(candidate) == 1
    # A confirmation is planned as the suspicions ask for; where there was none, as the weakest would.
    plans = plan[suspected]
    if not plans.size:
        seen = one.first.seen[-1]
        weakest = float(np.median(stats.threshold_log(own, seen.noise)))
        sd = float(np.median(seen.sd))
        plans = stats.planned([weakest], [sd], own, one.first.noise, alpha=stats.stage_alpha(own))
    sign = np.ones(one.again.paths, dtype=np.int8)
    found = confirm(one.again, sign, rng.choice(plans, size=one.again.paths), own)
    blocks = float(used.mean()) + float(suspected.mean()) * float(found.blocks.mean())
    return _Rates(float(suspected.mean()), float((found.verdict == 1).mean()), blocks)


def _rates(one: _Drawn, policy: DecisionPolicy) -> _Rates:
    """Of decisions with an effect in them."""
    own = _for_gates(policy, one.gates)
    candidate, used, plan = first_stage(one.first, own)
    suspected = np.abs(candidate) == 1
    found = confirm(one.again, candidate, np.where(suspected, plan, own.max_blocks + 1), own)
    blocks = used + np.where(suspected, found.blocks, 0)
    caught = suspected & (found.verdict == one.sign)
    return _Rates(float(suspected.mean()), float(caught.mean()), float(blocks.mean()))


def _for_gates(policy: DecisionPolicy, gates: int) -> DecisionPolicy:
    """The simulation decides one metric: with its share of the level."""
    return replace(policy, alpha=stats.stage_alpha(policy, gates))


def _alarms(rates: Sequence[_Rates], rng: np.random.Generator) -> tuple[float, float]:
    """Rate of false alarms and its upper bound, over recordings as the sample."""
    each = np.array([one.alarms for one in rates])
    picks: NDArray[np.int64] = rng.integers(len(each), size=(RESAMPLES, len(each)))
    return float(each.mean()), float(np.quantile(each[picks].mean(1), LEVEL))


def poisson_upper(events: int, level: float = LEVEL) -> float:
    """Upper bound of a Poisson mean of which so many events were seen (Garwood 1936)."""
    from scipy.special import gammaincinv

    return float(gammaincinv(events + 1, level))


def detectable(found: Sequence[Recording], policy: DecisionPolicy) -> list[Detectable]:
    """Of every quiet recording, what a decision of full length shows under the policy."""
    rows = []
    for one in found:
        if one.effect:
            continue
        noise = choose({at: values.tolist() for at, values in one.values.items()})
        shown = smallest_effect(noise.sd, policy, policy.max_blocks, one.gates)
        threshold = math.expm1(float(stats.threshold_log(policy, noise.sd)))
        rows.append(
            Detectable(one.scenario, one.metric, len(one), noise.sd, noise.statistic, threshold, shown)
        )
    return rows
