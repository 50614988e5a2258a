"""Which scenarios to run for one change: rank, price, schedule, and say why.

The result is a partition: every scenario of the configuration is in `selected` or in `rest`, once, with its
chance, its cost and its reasons. The same input gives the same bytes, and with them the same id.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tithe.data.codec import to_json
from tithe.data.errors import UsageError
from tithe.data.graph import ScenarioGraph
from tithe.data.records import Candidate, Change, DiffSummary, ScenarioName, Selection
from tithe.selector.features import State
from tithe.selector.history import History
from tithe.selector.paths import PathKind, kind_of
from tithe.selector.policies import PRIOR
from tithe.selector.rank import Ranker, context_of, costs_of, value_for
from tithe.selector.reasons import Told, reasons
from tithe.selector.schedule import schedule

if TYPE_CHECKING:
    from tithe.data.config import Config
    from tithe.selector.model import Model

WORDS: frozenset[PathKind] = frozenset({"docs", "tests"})
"""Kinds of files that no scenario runs unless the graph says so: a change of these alone costs nothing."""
SHOWN_PATHS = 20
SHOWN_WARNINGS = 20


def select(
    history: History,
    config: Config,
    change: Change,
    graph: ScenarioGraph,
    model: Model | None,
    *,
    budget: Mapping[str, float],
    seed: int,
    now: float,
    base: str,
    head: str,
    tier: str = "change",
    unavailable: Mapping[ScenarioName, str] | None = None,
    ranker: Ranker | None = None,
    state: State | None = None,
) -> Selection:
    """Selects under a budget.

    Args:
        change: The diff under test.
        graph: Of its head.
        model: The promoted model; None for the prior.
        budget: Seconds of machine time by resource. A scenario of another resource is left out.
        now: Nothing that became known at or after this moment is used.
        tier: `change` leaves scenarios of the tier `release` out; `release` takes all.
        unavailable: Scenarios that cannot run here, with the reason.
        ranker: Instead of `model`, for comparisons; it is asked about every change, one of words only too.
        state: Of `history` and the scenarios in the order of their names, not yet past `now`; made here if
            not given. One that is kept saves the walk through history when many changes follow one another.

    Raises:
        UsageError: No budget, or one that is not a positive, finite number of seconds.
    """
    _check_budget(budget)
    scenarios = tuple(sorted(config.scenarios, key=lambda scenario: scenario.name))
    if state is None:
        state = State(history, scenarios)
    elif state.scenarios != scenarios:
        raise ValueError("the state belongs to other scenarios")
    context = context_of(state, change, graph, now, seed)
    used = ranker or (model.ranker() if model else PRIOR)
    ranking = used.rank(context)
    cost = np.ceil(costs_of(context, ranking) * 1000) / 1000  # as it is said, so that the sum holds as said

    barred: dict[int, tuple[str, str]] = {}
    words_only = ranker is None and all(kind_of(path) in WORDS for path in context.near.paths)
    for at, scenario in enumerate(scenarios):
        if scenario.tier == "release" and tier == "change":
            barred[at] = ("tier", "only measured for releases")
        elif scenario.resource not in budget:
            barred[at] = ("resource", f"the budget gives no time on {scenario.resource}")
        elif why := (unavailable or {}).get(scenario.name, ""):
            barred[at] = ("unavailable", why)
        elif words_only and not context.near.proximity[at].any():
            barred[at] = ("words", "only documents and tests changed, and none that it uses")
    open_ = [at for at in range(len(scenarios)) if at not in barred]
    value = value_for(context, ranking, open_)
    open_cost = cost[open_]
    plan = schedule(
        value,
        open_cost,
        [scenarios[at].resource for at in open_],
        budget,
        order=None if ranking.order is None else ranking.order[open_],
    )
    chosen = [open_[at] for at in plan.chosen]
    merit = ranking.probability / cost if ranking.order is None else ranking.order
    left = sorted(
        set(range(len(scenarios))) - set(chosen),
        key=lambda at: (at in barred, -merit[at], scenarios[at].name),
    )
    spent: dict[str, float] = {}
    for at in chosen:
        spent[scenarios[at].resource] = spent.get(scenarios[at].resource, 0.0) + float(cost[at])

    told = Told(state, context, model=used.name not in {PRIOR.name})

    def candidate(at: int, rank: int, picked: str, *more: str) -> Candidate:
        why = reasons(told, at)
        return Candidate(
            scenarios[at].name,
            round(float(ranking.probability[at]), 6),
            {scenarios[at].resource: float(cost[at])},
            rank,
            picked,
            (*more, *why),
        )

    unpaid = sorted({scenarios[at].resource for at, why in barred.items() if why[0] == "resource"})
    selected = tuple(candidate(at, rank, "chosen") for rank, at in enumerate(chosen, 1))
    rest = []
    for rank, at in enumerate(left, len(chosen) + 1):
        if at in barred:
            rest.append(candidate(at, rank, *barred[at]))
        else:
            resource = scenarios[at].resource
            remaining = budget[resource] - spent.get(resource, 0.0)
            rest.append(candidate(at, rank, "budget", f"costs {cost[at]:.3g} s, {remaining:.3g} s are left"))
    selection = Selection(
        "",
        base,
        head,
        summary(change),
        dict(sorted(budget.items())),
        seed,
        used.name,
        selected,
        tuple(rest),
        _warnings(graph, state, used.name, [float(cost[at]) for at in open_], selected, unpaid),
    )
    return renamed(selection)


def renamed(selection: Selection, *, warnings: tuple[str, ...] | None = None) -> Selection:
    """The selection under the id of its content; with other warnings if given."""
    told = selection if warnings is None else replace(selection, warnings=warnings)
    return replace(told, id=content_id(told))


def content_id(selection: Selection) -> str:
    """Sixteen hexadecimal digits of the hash of everything in it but its id."""
    return hashlib.sha256(to_json(replace(selection, id="")).encode()).hexdigest()[:16]


def summary(change: Change) -> DiffSummary:
    """The diff as far as a reader wants to see it."""
    by_size = sorted(change.files, key=lambda e: (-(max(e.added, 0) + max(e.deleted, 0)), e.path))
    return DiffSummary(
        len(change.files),
        sum(max(edit.added, 0) for edit in change.files),
        sum(max(edit.deleted, 0) for edit in change.files),
        tuple(edit.path for edit in by_size[:SHOWN_PATHS]),
    )


def _check_budget(budget: Mapping[str, float]) -> None:
    if not budget:
        raise UsageError("no budget was given", mend="give machine time such as 60s or cpu=10m")
    for resource, seconds in budget.items():
        if not (math.isfinite(seconds) and seconds > 0):
            raise UsageError(
                f"a budget of {seconds:g} s for {resource} buys nothing", mend="give machine time such as 60s"
            )


def _warnings(
    graph: ScenarioGraph,
    state: State,
    name: str,
    costs: list[float],
    selected: tuple[Candidate, ...],
    unpaid: list[str],
) -> tuple[str, ...]:
    found = []
    if not state.tick:
        found.append("no outcomes are known yet: the ranking follows the import graph, words and costs alone")
    elif name == PRIOR.name:
        found.append("no trained model serves: the ranking follows the prior")
    if costs and not selected:
        found.append(
            f"nothing is selected: the budget is below the cheapest decision, which costs {np.min(costs):.3g} s"
            + ("; costs are guesses, which `tithe noise` replaces" if state.guessed.any() else "")
        )
    if unpaid:
        found.append(f"the budget gives no time on {', '.join(unpaid)}: their scenarios are left out")
    found += graph.warnings
    if len(found) > SHOWN_WARNINGS:
        found = [*found[:SHOWN_WARNINGS], f"and {len(found) - SHOWN_WARNINGS} more of the import graph"]
    return tuple(found)
