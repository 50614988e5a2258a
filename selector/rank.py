"""The seam behind which every way of ranking stands: the model, the prior, and the baselines.

A ranker sees one change and all scenarios and says how likely each is to fail. All go through the same
scheduler, so that a comparison compares rankings and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tithe.data.graph import ScenarioGraph
from tithe.data.records import Change, Scenario
from tithe.selector.cost import decision_costs
from tithe.selector.features import State, Touched, touched
from tithe.selector.paths import kind_of
from tithe.selector.schedule import Value, value_of

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Context:
    """One change before all scenarios, at one moment.

    Attributes:
        rows: (scenarios, features) float32, the columns of `tithe.selector.features.FEATURES`.
        launch_seconds: (scenarios,) machine time of one launch.
        blocks: (scenarios,) expected blocks of a decision with nothing there.
        seed: Of whatever a ranker draws.
    """

    scenarios: tuple[Scenario, ...]
    change: Change
    rows: NDArray[np.float32]
    near: Touched
    launch_seconds: Floats
    blocks: Floats
    seed: int


@dataclass(frozen=True)
class Ranking:
    """Chances of failing, (scenarios,) in [0, 1]; with `order` (higher first) instead of chance per cost.

    `probability` is what is said about each; `joint` says whether scenarios that depend on the same touched
    file are taken to catch the same fault.
    """

    probability: Floats
    order: Floats | None = None
    joint: bool = False


@dataclass(frozen=True)
class Ranker:
    """A named way of ranking; `name` is what a selection says about its model."""

    name: str
    rank: Callable[[Context], Ranking]


def context_of(state: State, change: Change, graph: ScenarioGraph, t: float, seed: int) -> Context:
    """What is known about `change` as of `t`; moves `state` forward to `t`."""
    state.advance(t)
    near = touched(change, graph, state.scenarios)
    rows = state.rows_of(change, near, graph)
    return Context(state.scenarios, change, rows, near, state.launch_seconds, state.blocks, seed)


def costs_of(context: Context, ranking: Ranking) -> Floats:
    """Seconds of a whole decision of each scenario, (scenarios,)."""
    return decision_costs(context.scenarios, context.launch_seconds, ranking.probability, context.blocks)


def value_for(context: Context, ranking: Ranking, keep: Sequence[int]) -> Value:
    """What the scheduler maximises over the scenarios `keep` (indices)."""
    at = np.array(keep, dtype=np.intp)
    evidence = None
    if ranking.joint:
        telling = np.array(
            [kind_of(path) in {"code", "config"} for path in context.near.paths], dtype=np.bool_
        )
        evidence = (context.near.proximity * context.near.weight)[:, telling][at]
    return value_of(ranking.probability[at], evidence)
