"""Walks a demo's new era change by change with one policy: select, run; sweep and bisect at releases.

Everything but the launches is the product's own code: the selection, the engine, the sweep, the bisection, training.
Launches are drawn from a recording. What a policy may know at each change is what was known before it: the
recorded history, and what this very walk has found so far.
"""

from __future__ import annotations

import math
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from recording import Recording

from tithe.attribution.bisection import bisect
from tithe.attribution.explained import unexplained
from tithe.attribution.labels import labels
from tithe.data.config import Config
from tithe.data.graph import ScenarioGraph
from tithe.data.noise import Noise
from tithe.data.records import (
    FAILING,
    Change,
    MetricName,
    Outcome,
    RunId,
    Scenario,
    ScenarioName,
    Sha,
)
from tithe.runner import engine
from tithe.runner.recorded import RecordedExecutor
from tithe.selector.history import History
from tithe.selector.model import Model
from tithe.selector.rank import Ranker
from tithe.selector.select import select
from tithe.selector.train import train

HOUR, DAY = 3600.0, 86400.0
BANK = 4.0
"""Changes' worth of budget that may be saved up for a later change."""


@dataclass(frozen=True)
class World:
    """One demo repository: its history, what was recorded, and what is true."""

    seed: int
    config: Config
    past: tuple[Change, ...]
    changes: tuple[Change, ...]
    releases: tuple[tuple[str, Sha], ...]
    """Releases of the new era in order, after the one that the recorded history ends with."""
    start: Sha
    graph_of: Callable[[Change], ScenarioGraph]
    recording: Recording
    known: tuple[Outcome, ...]
    """Outcomes of the recorded history."""
    launch_seconds: Mapping[ScenarioName, float]
    blocks: Mapping[ScenarioName, float]
    """Of a decision with nothing there, by the noise of the recorded history."""
    noise: Mapping[tuple[ScenarioName, MetricName], Noise]
    truth: Mapping[Sha, frozenset[ScenarioName]]
    """Changes that make scenarios slower or break them, and which."""


@dataclass(frozen=True)
class Policy:
    """How scenarios are chosen: `ranker` None is tithe itself (prior and model, retrained at each release)."""

    name: str
    ranker: Ranker | None = None
    everything: bool = False
    """Run all scenarios on every change: what the others' cost is a share of."""


@dataclass
class Walk:
    """What one walk found and spent."""

    spent: dict[str, float] = field(default_factory=lambda: {"check": 0.0, "sweep": 0.0, "bisect": 0.0})
    at_change: set[Sha] = field(default_factory=set)
    at_release: set[Sha] = field(default_factory=set)
    blamed: set[Sha] = field(default_factory=set)
    unnamed: int = 0
    """Bisections that named nobody."""

    @property
    def total(self) -> float:
        return sum(self.spent.values())


@dataclass(frozen=True)
class Plan:
    """Machine seconds by use. `check_s` is an average change's; `sweep_s` and `bisect_s` are a release's."""

    check_s: float
    sweep_s: float
    bisect_s: float
    every: int
    """Sweep only at every so many releases, and at the last."""


def walk(world: World, policy: Policy, *, plan: Plan | None, draw: int) -> Walk:
    """One walk over all changes.

    Args:
        plan: what may be spent; None for everything on every change, and no sweep.
        draw: seed of the launches drawn and of everything random.
    """
    found = Walk()
    executor = RecordedExecutor(
        world.recording.pool,
        seed=draw,
        setup_s=world.recording.setup_s,
        unrunnable=world.recording.unrunnable,
    )
    outcomes = list(world.known)
    releases = {sha: at for at, (_, sha) in enumerate(world.releases)}
    scenarios = [s for s in world.config.scenarios if (world.start, s.name) in world.recording.pool]
    config = replace(world.config, scenarios=tuple(scenarios))
    seen = list(world.past)
    swept = world.start
    bank = 0.0
    with tempfile.TemporaryDirectory() as folder:
        model = (
            _train(world, config, seen, outcomes, Path(folder), None, draw)
            if policy.ranker is None and not policy.everything
            else None
        )
        for number, change in enumerate(world.changes):
            before = executor.spent()
            if policy.everything:
                chosen = scenarios
            else:
                assert plan is not None
                bank = min(bank + plan.check_s, BANK * plan.check_s)
                chosen = (
                    _chosen(world, config, policy, model, change, seen, outcomes, bank, draw)
                    if bank > 0
                    else []
                )
            report = engine.run(
                chosen,
                change.parent,
                change.sha,
                executor,
                config.decision,
                run=RunId(f"check-{number}"),
                seed=draw,
                noise=world.noise,
                sink=_drop,
                budget_s=None if policy.everything else max(bank, 0.0),
            )
            known_at = change.time + HOUR
            fresh = engine.outcomes(
                report, chosen, policy=config.decision, source="ab", picked="chosen", known_at=known_at
            )
            outcomes += fresh
            for outcome in fresh:
                if outcome.verdict in FAILING:
                    _name(found, world, change.sha, outcome.scenario, found.at_change)
            spent = executor.spent() - before
            found.spent["check"] += spent
            bank -= spent
            seen.append(change)
            at = releases.get(change.sha)
            if at is None:
                continue
            last = at == len(world.releases) - 1
            if plan is not None and ((at + 1) % plan.every == 0 or last):
                _release(world, config, executor, swept, change, seen, outcomes, found, plan, draw)
                swept = change.sha
            if model is not None or (policy.ranker is None and not policy.everything):
                model = _train(world, config, seen, outcomes, Path(folder), model, draw)
    return found


def _chosen(
    world: World,
    config: Config,
    policy: Policy,
    model: Model | None,
    change: Change,
    seen: Sequence[Change],
    outcomes: Sequence[Outcome],
    budget_s: float,
    draw: int,
) -> list[Scenario]:
    """What `tithe select` would choose at this change, with what was known before it."""
    selection = select(
        History((*seen, change), tuple(outcomes), world.launch_seconds, world.blocks),
        config,
        change,
        world.graph_of(change),
        model,
        budget={"cpu": budget_s},
        seed=draw,
        now=change.time,
        base=change.parent,
        head=change.sha,
        ranker=policy.ranker,
    )
    return [config.scenario(candidate.scenario) for candidate in selection.selected]


def _release(
    world: World,
    config: Config,
    executor: RecordedExecutor,
    base: Sha,
    tip: Change,
    seen: Sequence[Change],
    outcomes: list[Outcome],
    found: Walk,
    plan: Plan,
    draw: int,
) -> None:
    """The sweep of a release, and a bisection of what it found and no check had explained."""
    before = executor.spent()
    order = list(config.scenarios)
    random.Random(f"{tip.sha} {draw}").shuffle(order)
    report = engine.run(
        order,
        base,
        tip.sha,
        executor,
        config.decision,
        run=RunId(f"sweep-{tip.sha[:10]}"),
        seed=draw,
        noise=world.noise,
        sink=_drop,
        budget_s=plan.sweep_s,
    )
    found.spent["sweep"] += executor.spent() - before
    shas = [change.sha for change in seen]
    commits = shas[shas.index(base) + 1 :]
    gates = {scenario.name: scenario.gate for scenario in config.scenarios}
    failing = [v for v in report.verdicts if v.verdict in FAILING and v.metric in gates[v.scenario]]
    # The largest first: what it turns out to be explains others, and they are asked about it before anybody else.
    failing.sort(key=lambda verdict: (-(verdict.ratio or math.inf), verdict.scenario))
    culprits: dict[Sha, float] = {}
    left = plan.bisect_s
    for number, verdict in enumerate(failing):
        here = [o for o in outcomes if o.scenario == verdict.scenario and o.change in set(commits)]
        if left <= 0 or not unexplained(verdict, here, config.decision):
            continue
        before = executor.spent()
        metric = next(m for m in config.scenario(verdict.scenario).metrics if m.name == verdict.metric)
        answer = bisect(
            config.scenario(verdict.scenario),
            metric,
            base,
            tip.sha,
            commits,
            executor,
            config.decision,
            run=RunId(f"bisect-{tip.sha[:10]}-{number}"),
            seed=draw,
            noise=world.noise.get((verdict.scenario, verdict.metric)),
            prior=_prior(commits, culprits),
            sink=_drop,
            budget_s=left,
        )
        found.spent["bisect"] += executor.spent() - before
        left -= executor.spent() - before
        outcomes += labels(answer, commits, known_at=tip.time + DAY)
        if answer.culprit is None or not answer.verified:
            found.unnamed += 1
            continue
        for sha in (answer.culprit, *answer.other_steps):
            culprits[sha] = 1.0
        if answer.verification is not None and answer.verification.verdict in FAILING:
            _name(found, world, answer.culprit, verdict.scenario, found.at_release)


def _prior(commits: Sequence[Sha], culprits: Mapping[Sha, float]) -> dict[Sha, float] | None:
    """Half of the chance on changes that were found guilty for another scenario, the rest spread evenly."""
    guilty = [sha for sha in commits if sha in culprits]
    if not guilty:
        return None
    even = 0.5 / len(commits)
    return {sha: even + (0.5 / len(guilty) if sha in guilty else 0.0) for sha in commits}


def _name(found: Walk, world: World, sha: Sha, scenario: ScenarioName, where: set[Sha]) -> None:
    if scenario in world.truth.get(sha, frozenset()):
        where.add(sha)
    else:
        found.blamed.add(sha)


def _train(
    world: World,
    config: Config,
    seen: Sequence[Change],
    outcomes: Sequence[Outcome],
    folder: Path,
    incumbent: Model | None,
    seed: int,
) -> Model | None:
    history = History(tuple(seen), tuple(outcomes), world.launch_seconds, world.blocks)
    report = train(
        history,
        config,
        world.graph_of,
        folder,
        incumbent=incumbent,
        now=seen[-1].time + DAY + HOUR,
        seed=seed,
    )
    return Model.load(folder / report.version) if report.better and report.version else incumbent


def _drop(_: object) -> None:
    """Launches of a replay are on record already."""
