"""Looks for the cheapest way to run a scenario that still executes the same functions of the repository.

Two kinds of launches, never mixed: counted ones say what ran and are not timed; timed ones are untouched. A
candidate must lose nothing. The number of steps is doubled from one until nothing is lost, which costs at
most twice the last attempt.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tithe.data.codec import to_json
from tithe.data.errors import LaunchError, SetupError
from tithe.data.records import Launch, RunId, Scenario, Sha, ShrinkReport
from tithe.data.text import safe_line
from tithe.runner.executor import BlockSpec
from tithe.runner.local import FunctionCount, LocalExecutor
from tithe.shrinker.fidelity import Fidelity, compare
from tithe.shrinker.reducers import for_first_batch, on_cpu, step_knobs, with_steps

TIMED = 3
"""Untouched launches of the full scenario, and of each candidate that keeps everything."""
WORTH = 0.95
"""A candidate is taken only if it costs at most this share of the full one, or of one that proves more."""


@dataclass(frozen=True)
class _Kept:
    scenario: Scenario
    fidelity: Fidelity
    launches: tuple[Launch, ...]

    @property
    def cost_s(self) -> float:
        return _median([launch.seconds for launch in self.launches])


def shrink(
    scenario: Scenario,
    sha: Sha,
    executor: LocalExecutor,
    *,
    run: RunId,
    sink: Callable[[Sequence[Launch]], object],
    progress: Callable[[str], None] | None = None,
) -> ShrinkReport:
    """A cheaper scenario with the same functions, or the same scenario with the reason why there is none.

    `sink` receives the timed launches of the full scenario, as they are: its cost is worth knowing.

    Raises:
        SetupError: the revision cannot be made runnable.
        LaunchError: the full scenario fails, so that there is nothing to compare with.
    """
    say = progress or (lambda _: None)
    if why := executor.prepare(sha):
        raise SetupError(why)
    warnings: list[str] = []
    say(f"{scenario.name}: counting the functions of the full run")
    reference = scenario
    full = executor.count_functions(scenario, sha)
    if full.status != "ok" and on_cpu(scenario) != scenario:
        reference = on_cpu(scenario)
        warnings.append(f"it does not run here as it is ({full.note}); compared with its run on the CPU")
        full = executor.count_functions(reference, sha)
    if full.status != "ok":
        raise LaunchError(
            f"the full run is {full.status}: {full.note}", where=scenario.name, mend="mend the scenario first"
        )
    if not full.functions:
        warnings.append("no function of the checkout was seen: the same code cannot be told from other code")
    before_batch = "ttfb" in scenario.gate
    launches = executor.record(BlockSpec(run, reference, sha, sha, "record", 0, 0), TIMED)
    if reference == scenario:
        sink(launches)
    whole = _Kept(reference, compare(full, full, before_batch=before_batch), launches)
    best = whole
    lost: tuple[str, ...] = ()
    for number, candidate in enumerate(_candidates(reference), start=1):
        if isinstance(candidate, _Steps):
            found, missed = _fewest_steps(candidate, full, executor, sha, before_batch, say)
        else:
            say(f"{scenario.name}: trying stop = {candidate.stop}")
            found, missed = _try(candidate, full, executor, sha, before_batch)
        lost = missed or lost
        if found is None:
            continue
        say(f"{scenario.name}: timing it")
        timed = executor.record(BlockSpec(run, found[0], sha, sha, "record", number, 0), TIMED)
        kept = _Kept(found[0], found[1], timed)
        if all(launch.status == "ok" for launch in timed) and kept.cost_s <= WORTH * best.cost_s:
            best = kept
    if best is whole:
        warnings.append(_why_none(lost))
    return _report(scenario, whole, best, warnings, before_batch)


@dataclass(frozen=True)
class _Steps:
    """The scenario with fewer steps; how many is to be found."""

    scenario: Scenario


def _candidates(scenario: Scenario) -> Iterator[Scenario | _Steps]:
    """In the order of what they prove: one that comes later must be clearly cheaper."""
    if set(scenario.gate) == {"ttfb"}:
        yield from for_first_batch(scenario)
    elif step_knobs(scenario.command):
        yield _Steps(scenario)
    if on_cpu(scenario) != scenario:
        yield on_cpu(scenario)


def _try(
    candidate: Scenario, full: FunctionCount, executor: LocalExecutor, sha: Sha, before_batch: bool
) -> tuple[tuple[Scenario, Fidelity] | None, tuple[str, ...]]:
    """The candidate if it loses nothing, and what it loses."""
    counted = executor.count_functions(candidate, sha)
    if counted.status != "ok":
        return None, ()
    fidelity = compare(full, counted, before_batch=before_batch)
    return ((candidate, fidelity) if not fidelity.lost else None), fidelity.lost


def _fewest_steps(
    steps: _Steps,
    full: FunctionCount,
    executor: LocalExecutor,
    sha: Sha,
    before_batch: bool,
    say: Callable[[str], None],
) -> tuple[tuple[Scenario, Fidelity] | None, tuple[str, ...]]:
    knobs = step_knobs(steps.scenario.command)
    missed: tuple[str, ...] = ()
    count = 1
    while count < max(knob.value for knob in knobs):
        say(f"{steps.scenario.name}: trying {count} steps")
        candidate = with_steps(steps.scenario, knobs, count)
        found, missed = _try(candidate, full, executor, sha, before_batch)
        if found is not None:
            return found, ()
        count *= 2
    return None, missed


def _why_none(lost: tuple[str, ...]) -> str:
    if not lost:
        return "nothing cheaper was found: no reducer fits its command and metrics"
    example = safe_line(lost[0], limit=100)
    return f"nothing cheaper keeps the same functions; the last attempt lost {len(lost)}, such as {example}"


def _report(
    scenario: Scenario, whole: _Kept, best: _Kept, warnings: list[str], before_batch: bool
) -> ShrinkReport:
    fidelity = {"all functions": best.fidelity.whole}
    if before_batch:
        fidelity = {"functions before the first batch": best.fidelity.decisive, **fidelity}
    signal: dict[str, float] = {}
    for name in scenario.gate:
        before = _median([launch.values[name] for launch in whole.launches if name in launch.values])
        after = _median([launch.values[name] for launch in best.launches if name in launch.values])
        if before and after:
            signal[name] = after / before
    report = ShrinkReport(
        id="",
        scenario=scenario.name,
        command=best.scenario.command,
        env=dict(best.scenario.env),
        stop=best.scenario.stop,
        cost_before_s=whole.cost_s,
        cost_after_s=best.cost_s,
        fidelity=fidelity,
        signal=signal,
        lost=best.fidelity.lost,
        warnings=tuple(warnings),
    )
    return replace(report, id=hashlib.sha256(to_json(report).encode()).hexdigest()[:16])


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else 0.0
