"""What is known at a moment: changes, outcomes, costs; and which of it labels which pair.

A pair is one change and one scenario. It fails if the latest outcome of any metric that decides does. Only an
outcome that was measured against the change's own parent labels that pair; one over a range of changes says
that the scenario can fail, and not who did it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tithe.data.records import Change, Outcome, ScenarioName
from tithe.selector.fold import Cells, Columns, Floats, Indices, in_columns

HALF_LIVES = (5.0, 20.0, 80.0)
"""Of a scenario's own rate, in measured changes."""
LABEL_LAG = 1
"""A direct measurement is taken to be known just after this many later changes, in a replayed history."""


@dataclass(frozen=True)
class History:
    """What the selector may look at.

    The outcomes are all that there are, those that others supersede too: at an earlier moment they were what was
    known. `launch_seconds` (mean machine time of one launch) and `blocks` (expected blocks of a decision with nothing
    there, from the noise), by scenario where they are known, price a selection. They are today's and no features.
    """

    changes: tuple[Change, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    launch_seconds: Mapping[ScenarioName, float] = field(default_factory=dict)
    blocks: Mapping[ScenarioName, float] = field(default_factory=dict)
    columns: Columns | None = None
    """Instead of `outcomes`, where they are millions; of the cells of the scenarios in order of their names."""

    def in_columns(self, cells: Cells) -> Columns:
        """The outcomes of `cells`, in the order in which they became known."""
        return in_columns(in_order(self.outcomes), cells) if self.columns is None else self.columns


@dataclass(frozen=True, eq=False)
class Labels:
    """Whether changes made scenarios fail, (n,) each, in order of change and scenario.

    Attributes:
        change: Place in the history's changes; `scenario` in the scenarios.
        weight: What each counts: confidence times weight, above 0.
    """

    change: Indices
    scenario: Indices
    failing: NDArray[np.bool_]
    weight: Floats

    def __len__(self) -> int:
        return len(self.change)


def in_order(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """By the time that they were known; what was known at once, in an order that no input order moves."""
    return sorted(
        outcomes, key=lambda o: (o.known_at, o.change, o.scenario, o.metric, o.base, o.run, o.verdict)
    )


def labels(changes: Sequence[Change], columns: Columns, cells: Cells) -> Labels:
    """A label for every pair measured against the change's own parent.

    Of several outcomes of one metric the strongest source speaks, then the newest. A pair fails if any metric does;
    its weight is the largest of those that fail, otherwise the least of those that passed.
    """
    place = {(change.parent, change.sha): at for at, change in enumerate(changes)}
    own = np.array([place.get(comparison, -1) for comparison in columns.comparisons], dtype=np.intp)
    change = own[columns.comparison] if len(columns) else np.zeros(0, dtype=np.intp)
    rows = np.flatnonzero(change >= 0)
    rows = rows[np.lexsort((columns.strength[rows], columns.cell[rows], change[rows]))]
    rows = rows[_lasts(change[rows], columns.cell[rows])]
    change, scenario = change[rows], cells.scenario[columns.cell[rows]]
    failing, weight = columns.failing[rows], columns.weight[rows]
    starts = np.flatnonzero(np.concatenate([[True], _lasts(change, scenario)[:-1]])) if len(rows) else rows
    if not len(rows):
        return Labels(change, scenario, failing, weight)
    fails = np.logical_or.reduceat(failing, starts)
    most = np.maximum.reduceat(np.where(failing, weight, 0.0), starts)
    least = np.minimum.reduceat(np.where(failing, np.inf, weight), starts)
    counts = np.where(fails, most, least)
    kept = counts > 0
    return Labels(change[starts][kept], scenario[starts][kept], fails[kept], counts[kept])


def _lasts(one: NDArray[np.integer], other: NDArray[np.integer]) -> NDArray[np.bool_]:
    """(n,), whether what follows is of another pair; equal pairs stand together."""
    if not len(one):
        return np.zeros(0, dtype=np.bool_)
    return np.concatenate([(one[1:] != one[:-1]) | (other[1:] != other[:-1]), [True]])


def replayed(changes: Sequence[Change], columns: Columns, *, lag: int = LABEL_LAG) -> Columns:
    """The outcomes as they would have been known, had each change been measured soon after it came.

    A recorded history is often measured long after its changes. Taken as it is, every training row would
    see an empty past and `select` a full one. A direct measurement therefore counts as known no later than
    just after the `lag`-th next change; what was inferred later (bisection, sweeps, people) keeps its time.
    """
    ordered = sorted(changes, key=lambda change: change.time)
    follower = {change.sha: ordered[at + lag].time for at, change in enumerate(ordered[: len(ordered) - lag])}
    latest = np.array([follower.get(sha, np.inf) for _, sha in columns.comparisons])
    if not len(columns):
        return columns
    moment = np.where(columns.direct, latest[columns.comparison], np.inf)
    return columns.known(np.minimum(columns.known_at, moment))
