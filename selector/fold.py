"""Outcomes in columns, and what each does to its pair: the arithmetic below `State`, a change at a time.

A pair is one comparison (base, change) and one scenario. It fails if the outcome that speaks for any metric that
decides does; of several of one metric the strongest source speaks, then the newest. An outcome is folded when it
became known and never taken back: what corrects it later changes nothing of what was known before.

However the outcomes are cut into batches, every number comes out equal to the last bit, since each is the sum of
the same terms in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tithe.data.known import SOURCES, VERDICTS, KnownOutcomes
from tithe.data.records import FAILING, STRENGTH, Outcome, Scenario, Sha

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Comparison = tuple[Sha, Sha]
"""Base and change."""
DIRECT = frozenset({"ab", "import"})
"""Sources that measure a change by itself, at a time that its arrival alone decides."""


class Cells:
    """A number for every scenario and metric that decides it; those of one scenario stand together."""

    def __init__(self, scenarios: Sequence[Scenario]) -> None:
        pairs = [(at, s.name, metric) for at, s in enumerate(scenarios) for metric in dict.fromkeys(s.gate)]
        self.of: Mapping[tuple[str, str], int] = {
            (name, metric): n for n, (_, name, metric) in enumerate(pairs)
        }
        self.scenario: Indices = np.array([at for at, _, _ in pairs], dtype=np.intp)
        """(cells,), the scenario of each."""
        self.alone = bool(len(pairs) == len(scenarios))
        """Whether one metric decides every scenario."""

    def find(self, scenario: str, metric: str) -> int:
        """The cell; -1 where that metric does not decide it, or there is no such scenario."""
        return self.of.get((scenario, metric), -1)


@dataclass(frozen=True, eq=False)
class Columns:
    """Outcomes in the order in which they became known, (n,) each.

    Attributes:
        comparisons: Base and change, by the numbers in `comparison`.
        weight: Confidence times weight.
        strength: Of the source.
        direct: Whether its source measures a change by itself; see `DIRECT`.
    """

    comparisons: tuple[Comparison, ...]
    comparison: NDArray[np.int32]
    cell: NDArray[np.int32]
    failing: NDArray[np.bool_]
    weight: Floats
    strength: NDArray[np.int8]
    direct: NDArray[np.bool_]
    known_at: Floats

    def __len__(self) -> int:
        return len(self.known_at)

    def before(self, t: float) -> Columns:
        """Those that were known before `t`."""
        return self._taken(np.arange(int(np.searchsorted(self.known_at, t, side="left"))), self.known_at)

    def known(self, at: Floats) -> Columns:
        """The same outcomes, had each become known `at` then, (n,).

        What becomes known at once is ordered by change, scenario and metric, and then as it was.
        """
        told = sorted(range(len(self.comparisons)), key=lambda n: self.comparisons[n][::-1])
        rank = np.empty(len(told), dtype=np.int32)
        rank[told] = np.arange(len(told))
        return self._taken(np.lexsort((self.cell, rank[self.comparison], at)), at)

    def _taken(self, rows: Indices, at: Floats) -> Columns:
        return Columns(
            self.comparisons,
            self.comparison[rows],
            self.cell[rows],
            self.failing[rows],
            self.weight[rows],
            self.strength[rows],
            self.direct[rows],
            at[rows],
        )


def in_columns(outcomes: Iterable[Outcome], cells: Cells) -> Columns:
    """The outcomes that are in order and usable: of a cell, and not an error."""
    numbers: dict[Comparison, int] = {}
    rows = [
        (
            numbers.setdefault((outcome.base, outcome.change), len(numbers)),
            cell,
            outcome.verdict in FAILING,
            outcome.weight * outcome.confidence,
            STRENGTH[outcome.source],
            outcome.source in DIRECT,
            outcome.known_at,
        )
        for outcome in outcomes
        if outcome.verdict != "error" and (cell := cells.find(outcome.scenario, outcome.metric)) >= 0
    ]
    table = list(zip(*rows, strict=True)) if rows else [()] * 7
    return Columns(
        tuple(numbers),
        np.array(table[0], dtype=np.int32),
        np.array(table[1], dtype=np.int32),
        np.array(table[2], dtype=np.bool_),
        np.array(table[3], dtype=np.float64),
        np.array(table[4], dtype=np.int8),
        np.array(table[5], dtype=np.bool_),
        np.array(table[6], dtype=np.float64),
    )


def from_known(known: KnownOutcomes, cells: Cells) -> Columns:
    """What the store gave in columns; see `in_columns`."""
    rows = known.rows
    width = int(rows["metric"].max()) + 1 if len(rows) else 1
    key = rows["scenario"].astype(np.int64) * width + rows["metric"]
    kinds, kind = np.unique(key, return_inverse=True)
    cell_of = np.array(
        [cells.find(known.texts[int(k) // width], known.texts[int(k) % width]) for k in kinds], dtype=np.int32
    )
    cell = cell_of[kind] if len(rows) else np.zeros(0, dtype=np.int32)
    used = np.flatnonzero((cell >= 0) & (rows["verdict"] != _ERROR))
    rows, cell = rows[used], cell[used]
    both = rows["base"].astype(np.int64) << 32 | rows["change"]
    pairs, comparison = np.unique(both, return_inverse=True)
    return Columns(
        tuple((Sha(known.texts[int(p) >> 32]), Sha(known.texts[int(p) & 0xFFFFFFFF])) for p in pairs),
        comparison.astype(np.int32),
        cell,
        _FAILING[rows["verdict"]],
        rows["weight"] * rows["confidence"],
        _STRENGTH[rows["source"]],
        _DIRECT[rows["source"]],
        rows["known_at"],
    )


_ERROR = VERDICTS.index("error")
_FAILING = np.array([verdict in FAILING for verdict in VERDICTS])
_DIRECT = np.array([source in DIRECT for source in SOURCES])
_STRENGTH = np.array([STRENGTH[source] for source in SOURCES], dtype=np.int8)  # type: ignore[index]


@dataclass(frozen=True, eq=False)
class Step:
    """What some outcomes of one comparison did, (n,) each, every scenario at most once.

    Attributes:
        failing, measured: Added weight of failing, and of having been measured.
        flipped: +1 where the pair fails now, -1 where it did, 0 where nothing changed.
        first: Whether the pair was not measured before.
        fails: Whether it fails now.
    """

    scenario: Indices
    failing: Floats
    measured: Floats
    flipped: NDArray[np.int32]
    first: NDArray[np.int32]
    fails: NDArray[np.bool_]


class Ledger:
    """What was said last of every cell of one comparison."""

    __slots__ = ("_cell", "_failing", "_strength", "_weight", "fails")

    def __init__(self) -> None:
        self._cell = np.zeros(0, dtype=np.int32)
        self._failing = np.zeros(0, dtype=np.bool_)
        self._weight = np.zeros(0)
        self._strength = np.zeros(0, dtype=np.int8)
        self.fails = 0
        """Pairs that fail."""

    def fold(self, columns: Columns, rows: slice, cells: Cells) -> Iterator[Step]:
        """Takes in those outcomes, all of this comparison; what they did, in as few steps as can be."""
        scenario = cells.scenario[columns.cell[rows]]
        for part in _distinct(scenario):
            yield self._step(columns, np.arange(rows.start, rows.stop)[part], scenario[part], cells)

    def _step(self, columns: Columns, rows: Indices, scenario: Indices, cells: Cells) -> Step:
        cell = columns.cell[rows]
        before, was, known = self._pairs(cell, scenario, cells)
        self._put(cell, columns.failing[rows], columns.weight[rows], columns.strength[rows])
        fails, weight, _ = self._pairs(cell, scenario, cells)
        flipped = fails.astype(np.int32) - before
        self.fails += int(flipped.sum())
        return Step(
            scenario,
            fails * weight - before * was,
            weight - was,
            flipped,
            (~known).astype(np.int32),
            fails,
        )

    def _put(
        self,
        cell: NDArray[np.int32],
        failing: NDArray[np.bool_],
        weight: Floats,
        strength: NDArray[np.int8],
    ) -> None:
        at, there = self._find(cell)
        speaks = np.flatnonzero(there)
        speaks = speaks[strength[speaks] >= self._strength[at[speaks]]]
        to = at[speaks]
        self._failing[to], self._weight[to] = failing[speaks], weight[speaks]
        self._strength[to] = strength[speaks]
        new = np.flatnonzero(~there)
        if not new.size:
            return
        new = new[np.argsort(cell[new], kind="stable")]
        place = np.searchsorted(self._cell, cell[new])
        self._cell = np.insert(self._cell, place, cell[new])
        self._failing = np.insert(self._failing, place, failing[new])
        self._weight = np.insert(self._weight, place, weight[new])
        self._strength = np.insert(self._strength, place, strength[new])

    def _find(self, cell: NDArray[np.int32]) -> tuple[Indices, NDArray[np.bool_]]:
        at = np.searchsorted(self._cell, cell)
        there = np.zeros(len(cell), dtype=np.bool_)
        inside = at < len(self._cell)
        there[inside] = self._cell[at[inside]] == cell[inside]
        return at, there

    def _pairs(
        self, cell: NDArray[np.int32], scenario: Indices, cells: Cells
    ) -> tuple[NDArray[np.bool_], Floats, NDArray[np.bool_]]:
        """Whether each scenario's pair fails, its weight, and whether it is known at all.

        The weight is the largest of the metrics that fail if any does, otherwise the least of those that passed.
        """
        if cells.alone:
            at, there = self._find(cell)
            fails, weight = np.zeros(len(cell), dtype=np.bool_), np.zeros(len(cell))
            fails[there], weight[there] = self._failing[at[there]], self._weight[at[there]]
            return fails, weight, there
        own = cells.scenario[self._cell]
        low, high = np.searchsorted(own, scenario), np.searchsorted(own, scenario, side="right")
        fails, weight, known = np.zeros(len(cell), dtype=np.bool_), np.zeros(len(cell)), low < high
        for n in np.flatnonzero(known):
            part = slice(int(low[n]), int(high[n]))
            failing, weights = self._failing[part], self._weight[part]
            fails[n] = failing.any()
            weight[n] = weights[failing].max() if fails[n] else weights.min()
        return fails, weight, known


def _distinct(scenario: Indices) -> Iterator[Indices]:
    """Positions, in parts in which no scenario stands twice; each scenario's own order is kept."""
    order = np.argsort(scenario, kind="stable")
    ranked = scenario[order]
    starts = np.flatnonzero(np.concatenate([[True], ranked[1:] != ranked[:-1]]))
    if len(starts) == len(scenario):
        yield np.arange(len(scenario), dtype=np.intp)
        return
    turn = np.arange(len(scenario)) - np.repeat(starts, np.diff(np.append(starts, len(scenario))))
    nth = np.empty(len(scenario), dtype=np.intp)
    nth[order] = turn
    for number in range(int(nth.max()) + 1):
        yield np.flatnonzero(nth == number)
