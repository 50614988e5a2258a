"""Slow-downs of known size in a scenario's own code, made as commits and measured: what a decision should catch.

What is planted must be able to move the metric: only functions that the scenario runs (and, for a time to first
batch, runs before it) are sites, and each slow-down is scaled by how often its function is really called. The
injections are drawn by a seed and registered before the first of them is measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING

from tithe.data.git import GitRepo
from tithe.data.records import Launch, Metric, MetricName, RunId, Scenario, Sha
from tithe.runner import inject
from tithe.runner.executor import BlockSpec
from tithe.runner.inject import Injection, Kind, Site
from tithe.runner.local import LocalExecutor

if TYPE_CHECKING:
    from tithe.data.config import DecisionPolicy

SIZES = (1.0, 1.5, 2.0, 3.0)
"""Sizes that are drawn, in multiples of the wanted effect."""
PLANTABLE: Mapping[str, tuple[Kind, ...]] = {
    "ttfb": inject.KINDS,
    "wall": inject.KINDS,
    "cpu": ("busy", "allocating", "importing"),
    "rss": ("allocating",),
}
"""Metrics whose size is known from what is planted, and the kinds that move them."""


@dataclass(frozen=True)
class Planted:
    """One slow-down that was measured: its commit, its share of the metric, and what was said of it."""

    base: Sha
    head: Sha
    metric: MetricName
    share: float
    injection: Injection
    launches: tuple[Launch, ...]


@dataclass(frozen=True)
class Ground:
    """What a scenario gives to plant in."""

    scenario: Scenario
    sha: Sha
    metric: MetricName
    sites: tuple[Site, ...]
    contents: Mapping[str, bytes]
    level: float
    """Median of the metric on launches with nothing planted."""


def ground(
    executor: LocalExecutor, repo: GitRepo, scenario: Scenario, sha: Sha, run: RunId, seed: int
) -> Ground | str:
    """What there is to plant in, or why there is nothing."""
    metric = next((name for name in scenario.gate if name in PLANTABLE), None)
    if metric is None:
        return "what moves its own numbers, and how much, cannot be foreseen"
    counted = executor.count_functions(scenario, sha)
    if counted.status != "ok":
        return counted.note
    until = counted.first_batch_s if metric == "ttfb" else None
    ran = {name for name, at in counted.functions.items() if until is None or at <= until}
    # Qualified names have a function within a function as `f.<locals>.g`, sites as `f.g`.
    called = {name.replace(".<locals>", "") for name in ran}
    paths = {name.rpartition(":")[0] for name in ran}
    blobs = {path: blob for path, blob in repo.files(sha).items() if path in paths}
    found = dict(repo.blobs(blobs.values()))
    contents = {path: found[blob] for path, blob in blobs.items() if blob in found}
    sites = tuple(
        site
        for site in inject.sites(contents)
        if site.place == "import" or f"{site.path}:{site.name}" in called
    )
    if not sites:
        return "none of the functions that it runs can take a slow-down"
    spec = BlockSpec(run, scenario, sha, sha, "record", 0, seed)
    values = [
        one.values[metric] for one in executor.record(spec, 3) if one.status == "ok" and metric in one.values
    ]
    if not values:
        return "its launches gave no value"
    return Ground(scenario, sha, metric, sites, contents, median(values))


def draw(
    grounds: Sequence[Ground], count: int, policy: DecisionPolicy, seed: int
) -> list[tuple[Ground, Injection]]:
    """What is going to be planted, scenarios in turn; amounts are shares of the metric until they are scaled."""
    amounts = tuple(round(size * policy.wanted_effect, 6) for size in SIZES)
    found: list[tuple[Ground, Injection]] = []
    for index, one in enumerate(grounds):
        own = len(range(index, count, len(grounds)))
        drawn = inject.draw(
            one.sites,
            seed=seed * 1009 + index,
            count=own,
            amounts=amounts,
            kinds=PLANTABLE[one.metric],
            growths=("call", "size"),
        )
        found += [(one, injection) for injection in drawn]
    return found


def measure(
    executor: LocalExecutor,
    repo: GitRepo,
    plan: Sequence[tuple[Ground, Injection]],
    *,
    run: RunId,
    seed: int,
    blocks: int,
) -> Iterator[Planted | str]:
    """Plants one after the other and measures each in a fixed number of blocks; yields why one could not be.

    Each is a run of its own, named after `run`: blocks of two slow-downs of one scenario are not one comparison.
    """
    for number, (here, injection) in enumerate(plan):
        own = RunId(f"{run}.{number}")
        made = _scaled(executor, repo, here, injection, run, seed)
        if isinstance(made, str):
            yield f"{here.scenario.name}: {injection.site.path}:{injection.site.name or 'import'}: {made}"
            continue
        head = repo.changed(
            here.sha, inject.edit(here.contents, made), f"A planted slow-down ({seed}, {number})"
        )
        if why := executor.prepare(head):
            yield f"{here.scenario.name}: {why}"
            continue
        launches: list[Launch] = []
        for at in range(-1, blocks):
            spec = BlockSpec(
                own, here.scenario, here.sha, head, "warmup" if at < 0 else "record", max(at, 0), seed
            )
            launches += executor.run_block(spec)
        yield Planted(here.sha, head, here.metric, injection.amount, made, tuple(launches))


def _scaled(
    executor: LocalExecutor, repo: GitRepo, here: Ground, injection: Injection, run: RunId, seed: int
) -> Injection | str:
    """The injection with the seconds that make the share of the metric that it was drawn with."""
    whole = injection.amount * here.level
    if here.metric == "rss":
        # Memory that is let go of is taken again: the peak grows by one call's share, however many there are.
        return replace(injection, amount=whole / inject.BYTES_PER_SECOND, growth="call")
    if injection.kind == "importing":
        return replace(injection, amount=whole)
    counter = inject.counting(injection)
    head = repo.changed(here.sha, inject.edit(here.contents, counter), "A counter in place of a slow-down")
    if why := executor.prepare(head):
        return why
    metric = Metric(MetricName(inject.COUNT_METRIC), "")
    scenario = replace(
        here.scenario,
        metrics=(*here.scenario.metrics, metric),
        stop="first-batch" if here.metric == "ttfb" else here.scenario.stop,
    )
    spec = BlockSpec(run, scenario, here.sha, head, "record", 0, seed)
    (launch,) = executor.record(spec, 1)
    counted = launch.values.get(metric.name, 0.0)
    if launch.status != "ok" or counted < 1:
        return launch.note or "it is not called there"
    return inject.scaled(injection, whole, counted)
