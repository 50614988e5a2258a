"""What functions take of the scenarios that run them, as of any moment, by file.

Held in columns, so that years of weekly observations fit. The newest launch of a scenario that was watched for its
functions speaks: one that it did not call takes nothing, however much that took before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tithe.data.records import Observation, ScenarioName

MODULE = "<module>"
"""Name of what the import of a file runs."""

Row = tuple[int, str, str, int, float, float]
"""Number of the observation, path, name, calls, share, own."""


@dataclass(frozen=True, eq=False)
class UseColumns:
    """Functions of watched launches, (n,) each.

    Attributes:
        texts: Paths and names, by the numbers in `path` and `name`.
        seen: Number of the observation.
        calls, share, own: As in `tithe.data.records.FunctionUse`.
    """

    texts: tuple[str, ...]
    seen: NDArray[np.int32]
    path: NDArray[np.int32]
    name: NDArray[np.int32]
    calls: NDArray[np.float64]
    share: NDArray[np.float64]
    own: NDArray[np.float64]

    def taken(self, rows: NDArray[np.intp], seen: NDArray[np.int32]) -> UseColumns:
        """Those `rows`, with other numbers of their observations."""
        return replace(
            self,
            seen=seen,
            path=self.path[rows],
            name=self.name[rows],
            calls=self.calls[rows],
            share=self.share[rows],
            own=self.own[rows],
        )

    @cached_property
    def by_path(self) -> Mapping[str, NDArray[np.intp]]:
        """The rows of each file."""
        order = np.argsort(self.path, kind="stable")
        numbers, starts = np.unique(self.path[order], return_index=True)
        parts = np.split(order, starts[1:]) if len(numbers) else []
        return {self.texts[int(number)]: part for number, part in zip(numbers, parts, strict=True)}


def columns(rows: Iterable[Row]) -> UseColumns:
    """The rows in columns."""
    texts: dict[str, int] = {}
    table = [
        (seen, texts.setdefault(path, len(texts)), texts.setdefault(name, len(texts)), calls, share, own)
        for seen, path, name, calls, share, own in rows
    ]
    seen, path, name, calls, share, own = zip(*table, strict=True) if table else [()] * 6
    whole = [np.array(column, dtype=np.int32) for column in (seen, path, name)]
    real = [np.array(column, dtype=np.float64) for column in (calls, share, own)]
    return UseColumns(tuple(texts), whole[0], whole[1], whole[2], real[0], real[1], real[2])


def columns_of(observations: Sequence[Observation]) -> UseColumns:
    """The functions that these observations hold themselves, numbered by their places."""
    return columns(
        (at, use.path, use.name, use.calls, use.share, use.own)
        for at, seen in enumerate(observations)
        for use in seen.functions
    )


@dataclass(frozen=True, eq=False)
class FileUse:
    """What the functions of one file take, (n,) each.

    Attributes:
        row: The scenario, as a row of the graph.
        names: Of the functions.
        calls, share, own: As in `tithe.data.records.FunctionUse`.
    """

    row: NDArray[np.intp]
    names: Sequence[str]
    calls: NDArray[np.float64]
    share: NDArray[np.float64]
    own: NDArray[np.float64]

    def named(self, symbols: Iterable[str]) -> NDArray[np.bool_]:
        """(n,), those that one of `symbols` names: a function, a method by its last name, a class with all of its."""
        wanted = frozenset(symbols)
        return np.array([not wanted.isdisjoint(name.split(".")) for name in self.names], dtype=np.bool_)


class Uses:
    """The uses as of one moment. `watched`: rows of the scenarios of which a watched launch speaks."""

    def __init__(self, columns: UseColumns, to: NDArray[np.intp]) -> None:
        """`to`: of each observation, the row in the graph of the scenario that it speaks for; -1 for none."""
        self._columns, self._to = columns, to
        self.watched: NDArray[np.intp] = np.sort(to[to >= 0])

    def of(self, path: str) -> FileUse:
        """What the functions of a file take; nothing where none was seen."""
        columns = self._columns
        rows = columns.by_path.get(path, np.zeros(0, dtype=np.intp))
        to = self._to[columns.seen[rows]]
        rows, to = rows[to >= 0], to[to >= 0]
        names = [columns.texts[int(name)] for name in columns.name[rows]]
        return FileUse(to, names, columns.calls[rows], columns.share[rows], columns.own[rows])


def speaking(
    columns: UseColumns,
    latest: Mapping[ScenarioName, Sequence[int]],
    row: Mapping[ScenarioName, int],
    count: int,
) -> Uses | None:
    """The uses as of a moment; None where no scenario was watched for its functions by then.

    Args:
        latest: The observations of each scenario that count then, by number, the newest last.
        row: Scenario to its row in the graph.
        count: Of all observations.
    """
    timed = np.zeros(count, dtype=np.bool_)
    timed[columns.seen] = True
    to = np.full(count, -1, dtype=np.intp)
    for name, numbers in latest.items():
        of = next((number for number in reversed(numbers) if timed[number]), None)
        if of is not None and name in row:
            to[of] = row[name]
    return Uses(columns, to) if (to >= 0).any() else None
