"""The A/B engine: how many blocks are run, when it stops, and what it then says.

First stage: blocks of four launches, looked at after every block, until an effect, `same`, or the last
block. An effect is then a suspicion: only a confirmation with fresh launches makes it a verdict, and its
numbers come from the confirmation alone. A false alarm has to get through both stages. All metrics share the
launches; those of `Scenario.gate` decide, the others are read off and never stop anything. Failing launches
are judged first, for a launch that crashed was not fast.

Every block goes to the sink the moment it is there, so that whatever ends the run loses at most the block
in flight.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from tithe.data.errors import LaunchError, SetupError
from tithe.data.records import (
    Launch,
    Metric,
    MetricName,
    RunId,
    RunReport,
    Scenario,
    ScenarioName,
    Sha,
    Stage,
    Verdict,
    VerdictName,
)
from tithe.data.units import format_duration
from tithe.runner import stats
from tithe.runner.executor import BlockSpec, Executor
from tithe.runner.verdicts import (
    FLAKY_FAILURE,
    RANDOM_FAILURE,
    UNEVEN_FAILURES,
    Failures,
    Reading,
    confirm_reading,
    effect_name,
    first_reading,
    outcomes,
    timed_verdict,
)

if TYPE_CHECKING:
    from tithe.data.config import DecisionPolicy
    from tithe.data.noise import Noise

__all__ = ["Comparison", "Sink", "compare", "first_stage", "outcomes", "run"]

Sink = Callable[[Sequence[Launch]], object]

FLAKY_BLOCKS = 6
"""Fresh blocks that a suspicion of failing more often is confirmed with."""


ProgressSink = Callable[[str], None]
"""Told after every block, in one line, where a run stands."""
BlockSink = Callable[[Stage, int, int, Reading | None], None]
"""Told of every block: its stage, blocks of the stage, launches of the comparison, first gate metric so
far."""


@dataclass
class _Blocks:
    """Carries out blocks of one comparison and keeps what they measured."""

    scenario: Scenario
    base: Sha
    head: Sha
    executor: Executor
    run: RunId
    seed: int
    sink: Sink
    offset: int = 0
    launches: list[Launch] = field(default_factory=list)
    count: int = 0

    def one(self, stage: Stage, block: int) -> tuple[Launch, ...]:
        spec = BlockSpec(self.run, self.scenario, self.base, self.head, stage, self.offset + block, self.seed)
        made = self.executor.run_block(spec)
        self.sink(made)
        self.count += len(made)
        if stage != "warmup":
            self.launches.extend(made)
        return made


@dataclass(frozen=True)
class Comparison:
    """One scenario, base against head: the verdicts of all its metrics and the launches that they come
    from."""

    verdicts: tuple[Verdict, ...]
    launches: tuple[Launch, ...]
    """Without warm-ups, in order."""

    def gate(self, scenario: Scenario) -> tuple[Verdict, ...]:
        return tuple(verdict for verdict in self.verdicts if verdict.metric in scenario.gate)


@dataclass(frozen=True)
class FirstStage:
    """What the first stage ended with: readings by metric, or failures that decide."""

    readings: Mapping[MetricName, Reading]
    failures: Failures
    blocks: int
    launches: tuple[Launch, ...]
    candidates: Mapping[MetricName, int]
    """Sign of the effect of every gate metric that showed one."""
    broken: int = 0
    """+1 head fails where base passes, -1 the reverse, 0 neither."""
    flaky: bool = False
    """The failures that decide are not of every launch: fresh blocks have to confirm them."""
    dead: bool = False
    """Both arms fail."""


def compare(
    scenario: Scenario,
    base: Sha,
    head: Sha,
    executor: Executor,
    policy: DecisionPolicy,
    *,
    run: RunId,
    seed: int,
    noise: Mapping[MetricName, Noise],
    sink: Sink,
    block_offset: int = 0,
    on_block: BlockSink | None = None,
) -> Comparison:
    """What `head` does to the metrics of a scenario, beside `base`.

    `noise` is the history of each metric's block statistic on this host, as far as there is one. Blocks are
    numbered from `block_offset`, so that two comparisons of the same revisions in one run stay apart.

    A revision that cannot be made runnable is a verdict (`broken` for head, `error` for base), and so is a
    host that cannot launch (`error`): nothing but a programming error or an interrupt is raised.
    """
    tell = on_block or _silent
    blocks = _Blocks(scenario, base, head, executor, run, seed, sink, block_offset)
    try:
        if why := executor.prepare(base):
            return _all(blocks, "error", f"base is not runnable: {why}")
        if why := executor.prepare(head):
            return _all(blocks, "broken", f"head is not runnable: {why}", confirmed=True)
        for block in range(scenario.warmup):
            blocks.one("warmup", block)
        first = _first(blocks, policy, noise, tell)
        return _conclude(blocks, first, policy, noise, tell)
    except (LaunchError, SetupError) as error:
        return _all(blocks, "error", str(error))


def first_stage(
    scenario: Scenario,
    base: Sha,
    head: Sha,
    executor: Executor,
    policy: DecisionPolicy,
    *,
    run: RunId,
    seed: int,
    noise: Mapping[MetricName, Noise],
    sink: Sink,
) -> FirstStage:
    """The sequential test alone, without confirmation, on revisions that are runnable: for a bisection's
    ends.

    Raises:
        LaunchError, SetupError: the executor cannot carry out a block.
    """
    blocks = _Blocks(scenario, base, head, executor, run, seed, sink)
    for block in range(scenario.warmup):
        blocks.one("warmup", block)
    return _first(blocks, policy, noise, _silent)


def run(
    scenarios: Sequence[Scenario],
    base: Sha,
    head: Sha,
    executor: Executor,
    policy: DecisionPolicy,
    *,
    run: RunId,
    seed: int,
    noise: Mapping[tuple[ScenarioName, MetricName], Noise],
    sink: Sink,
    budget_s: float | None = None,
    progress: ProgressSink | None = None,
) -> RunReport:
    """Compares the revisions on one scenario after another, in the order given.

    No scenario is started once `budget_s` machine seconds are spent (set-up included); those left are named
    in a warning and get no verdict. A scenario that fails does not stop the next one.
    """
    start, began = executor.spent(), time.monotonic()
    verdicts: list[Verdict] = []
    warnings: list[str] = []
    for index, scenario in enumerate(scenarios):
        if budget_s is not None and executor.spent() - start >= budget_s:
            left = [one.name for one in scenarios[index:]]
            warnings.append(f"budget of {budget_s:g} s used up; not run: {', '.join(left)}")
            break
        own = {metric: value for (name, metric), value in noise.items() if name == scenario.name}
        tell = None if progress is None else _teller(progress, scenario, index, len(scenarios), policy, began)
        found = compare(
            scenario, base, head, executor, policy, run=run, seed=seed, noise=own, sink=sink, on_block=tell
        )
        verdicts += [replace(v, gate=v.metric in scenario.gate) for v in found.verdicts]
        errors = {verdict.note for verdict in found.verdicts if verdict.verdict == "error"}
        warnings.extend(f"{scenario.name}: {note}" for note in sorted(errors))
    return RunReport(run, base, head, tuple(verdicts), executor.spent() - start, tuple(warnings))


def _first(
    blocks: _Blocks, policy: DecisionPolicy, noise: Mapping[MetricName, Noise], tell: BlockSink
) -> FirstStage:
    scenario = blocks.scenario
    alpha = stats.stage_alpha(policy, len(scenario.gate))
    values: dict[MetricName, list[float]] = {metric.name: [] for metric in scenario.metrics}
    readings: dict[MetricName, Reading] = {}
    candidates: dict[MetricName, int] = {}
    directions = {metric.name: metric.direction for metric in scenario.metrics}
    failures = Failures()
    number = 0

    def stage(*, broken: int = 0, flaky: bool = False, dead: bool = False) -> FirstStage:
        return FirstStage(readings, failures, number, tuple(blocks.launches), candidates, broken, flaky, dead)

    while number < policy.max_blocks:
        made = blocks.one("first", number)
        number += 1
        failures = Failures.of(blocks.launches, scenario.gate)
        if failures.base_dead and failures.head_dead:
            return stage(dead=True)
        one_dead = failures.base_dead or failures.head_dead
        if one_dead and failures.p <= RANDOM_FAILURE:
            return stage(broken=failures.sign)
        if not one_dead and failures.p <= FLAKY_FAILURE:
            return stage(broken=failures.sign, flaky=True)
        for name, found in _values(made, scenario.metrics, noise).items():
            values[name].append(found)
        for metric in scenario.metrics:
            reading = first_reading(values[metric.name], policy, noise.get(metric.name), alpha=alpha)
            if reading is not None:
                readings[metric.name] = reading
                if metric.name in scenario.gate and reading.candidate:
                    candidates[metric.name] = reading.sign
        tell("first", number, blocks.count, readings.get(scenario.gate[0]))
        if any(effect_name(sign, directions[name]) == "regressed" for name, sign in candidates.items()):
            break
        settled = [name in candidates or (name in readings and readings[name].same) for name in scenario.gate]
        # As long as one arm may be failing more often, times that are alike say little: it is looked at on.
        if all(settled) and failures.p > UNEVEN_FAILURES:
            break
    return stage()


def _conclude(
    blocks: _Blocks,
    first: FirstStage,
    policy: DecisionPolicy,
    noise: Mapping[MetricName, Noise],
    tell: BlockSink,
) -> Comparison:
    failures = first.failures
    if first.dead:
        return _all(blocks, "error", failures.words(), first.blocks)
    if first.broken and not first.flaky:
        name = _failure_name(first.broken)
        return _all(blocks, name, failures.words(), first.blocks, confirmed=True, p=failures.p)
    if first.flaky:
        again = Failures()
        fresh: list[Launch] = []
        for block in range(FLAKY_BLOCKS):
            fresh.extend(blocks.one("confirm", block))
            tell("confirm", block + 1, blocks.count, None)
            again = Failures.of(fresh, blocks.scenario.gate)
            if again.sign == first.broken and again.p <= RANDOM_FAILURE / FLAKY_BLOCKS:
                break
        total = first.blocks + len(fresh) // 4
        if again.sign == first.broken and again.p <= RANDOM_FAILURE:
            name = _failure_name(first.broken)
            return _all(blocks, name, again.words(), total, confirmed=True, p=again.p)
        note = f"failures were uneven at first ({failures.words()}) and not again"
        return _timed(blocks, first, {}, set(), policy, noise, total, note)
    if not first.candidates:
        return _timed(blocks, first, {}, set(), policy, noise, first.blocks, failures.words())
    readings, confirmed, count = _confirm(blocks, first, policy, noise, tell)
    words = Failures.of(blocks.launches, blocks.scenario.gate).words()
    return _timed(blocks, first, readings, confirmed, policy, noise, first.blocks + count, words)


def _confirm(
    blocks: _Blocks,
    first: FirstStage,
    policy: DecisionPolicy,
    noise: Mapping[MetricName, Noise],
    tell: BlockSink,
) -> tuple[dict[MetricName, Reading], set[MetricName], int]:
    """Fresh blocks for every candidate: readings of all metrics, the names confirmed, blocks used."""
    scenario = blocks.scenario
    alpha = stats.stage_alpha(policy, len(scenario.gate))
    planned = {
        name: int(
            stats.planned(
                abs(first.readings[name].mean), first.readings[name].sd, policy, noise.get(name), alpha=alpha
            )
        )
        for name in first.candidates
    }
    pending = dict(first.candidates)
    values: dict[MetricName, list[float]] = {metric.name: [] for metric in scenario.metrics}
    readings: dict[MetricName, Reading] = {}
    confirmed: set[MetricName] = set()
    number = 0
    while pending and number < policy.max_blocks:
        made = blocks.one("confirm", number)
        number += 1
        for name, found in _values(made, scenario.metrics, noise).items():
            values[name].append(found)
        for metric in scenario.metrics:
            sign = first.candidates.get(metric.name, 1)
            reading = confirm_reading(
                values[metric.name],
                sign,
                policy,
                noise.get(metric.name),
                alpha=alpha,
                planned=planned.get(metric.name, 0),
            )
            if reading is None or metric.name in confirmed:
                continue
            readings[metric.name] = reading
            if metric.name in pending and number >= planned[metric.name]:
                if reading.candidate:
                    confirmed.add(metric.name)
                if reading.candidate or reading.same:
                    del pending[metric.name]
        tell("confirm", number, blocks.count, readings.get(scenario.gate[0]))
        if number >= 3 and not any(values[name] for name in pending):
            break
    return readings, confirmed, number


def _timed(
    blocks: _Blocks,
    first: FirstStage,
    again: Mapping[MetricName, Reading],
    confirmed: set[MetricName],
    policy: DecisionPolicy,
    noise: Mapping[MetricName, Noise],
    count: int,
    note: str,
) -> Comparison:
    """Verdicts from readings: of the confirmation for candidates and for metrics that decide nothing."""
    scenario = blocks.scenario
    alpha = stats.stage_alpha(policy, len(scenario.gate))
    verdicts = []
    for metric in scenario.metrics:
        name = metric.name
        own = name in first.candidates or name not in scenario.gate
        reading = again.get(name) if own and again else first.readings.get(name)
        notes = [note] if note else []
        if name in confirmed and reading is not None:
            verdict = effect_name(first.candidates[name], metric.direction)
        elif name not in scenario.gate and reading is not None and reading.candidate:
            # It stopped nothing and was given no fresh blocks of its own: said, and not confirmed.
            verdict = effect_name(reading.sign, metric.direction)
            notes.append("does not decide, not confirmed")
        elif reading is not None and reading.same:
            verdict = "same"
        else:
            verdict = "inconclusive"
            if name in first.candidates:
                seen = first.readings[name]
                word = effect_name(first.candidates[name], metric.direction)
                notes.append(f"{word} in the first {seen.n} blocks, not confirmed by fresh ones")
            elif reading is None:
                notes.append("too few launches gave a value")
        verdicts.append(
            timed_verdict(
                scenario,
                metric,
                verdict,
                reading,
                policy,
                noise.get(name),
                alpha=alpha,
                blocks=count,
                launches=blocks.count,
                confirmed=name in confirmed,
                note="; ".join(notes),
            )
        )
    return Comparison(tuple(verdicts), tuple(blocks.launches))


def _all(
    blocks: _Blocks,
    verdict: VerdictName,
    note: str,
    count: int = 0,
    *,
    confirmed: bool = False,
    p: float | None = None,
) -> Comparison:
    """The same verdict for every gate metric: a failure is a fact of the scenario, not of one clock."""
    scenario = blocks.scenario
    made = [
        Verdict(
            scenario.name,
            metric.name,
            verdict,
            p=p,
            blocks=count,
            launches=blocks.count,
            confirmed=confirmed,
            note=note,
        )
        for metric in scenario.metrics
        if metric.name in scenario.gate
    ]
    return Comparison(tuple(made), tuple(blocks.launches))


def _failure_name(sign: int) -> VerdictName:
    return "broken" if sign > 0 else "fixed"


def _values(
    launches: Sequence[Launch], metrics: Sequence[Metric], noise: Mapping[MetricName, Noise]
) -> dict[MetricName, float]:
    found = {
        metric.name: stats.block_statistic(launches, metric.name, stats.location(noise.get(metric.name)))
        for metric in metrics
    }
    return {name: value for name, value in found.items() if value is not None}


def _teller(
    progress: ProgressSink, scenario: Scenario, index: int, total: int, policy: DecisionPolicy, began: float
) -> BlockSink:
    """`began`: when the run began, on the monotonic clock."""
    start = time.monotonic()

    def left(block: int) -> str:
        now = time.monotonic()
        here = (now - start) / max(block, 1) * (policy.max_blocks - block)
        # The scenarios so far say what the others will take; before the first has ended, this one as it is.
        each = (start - began) / index if index else now - start
        return format_duration(round(here + each * (total - index - 1)))

    def tell(stage: Stage, block: int, launches: int, reading: Reading | None) -> None:
        effect = ""
        if reading is not None:
            ratio, low, high = reading.ratios
            effect = f", {ratio:.3f} times base ({low:.3f} to {high:.3f})"
        name = "confirmation" if stage == "confirm" else "first stage"
        progress(
            f"{index + 1}/{total} {scenario.name}: {name}, block {block} of at most {policy.max_blocks}, "
            f"{launches} launches{effect}; up to {left(block)} left"
        )

    return tell


def _silent(*_: object) -> None:
    return
