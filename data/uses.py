"""What functions take of the scenarios that run them, as of any moment, by file.

Held in columns, so that years of weekly observations fit; the newest watched launch of each scenario speaks. A
function that it did not call takes nothing, however much it took before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tithe.data.records import Observation, ScenarioName

MODULE = "<module>"
"""Name of what the import of a file runs."""


@dataclass(frozen=True, eq=False)
class FileUse:
    """What the functions of one file take, (n,) each.

    Attributes:
        row: The scenario, as a row of the graph.
        name: Of the function, as a number in `names`.
        calls, share, own: As in `tithe.data.records.FunctionUse`.
    """

    names: Sequence[str]
    row: NDArray[np.intp]
    name: NDArray[np.int32]
    calls: NDArray[np.float64]
    share: NDArray[np.float64]
    own: NDArray[np.float64]

    def named(self, symbols: Iterable[str]) -> NDArray[np.bool_]:
        """(n,), those that one of `symbols` names: a function, a method by its last name, a class with all of its."""
        wanted = frozenset(symbols)
        hit = np.array([not wanted.isdisjoint(name.split(".")) for name in self.names], dtype=np.bool_)
        found: NDArray[np.bool_] = hit[self.name] if len(self.names) else np.zeros(0, dtype=np.bool_)
        return found

    @property
    def module(self) -> NDArray[np.bool_]:
        """(n,), what importing the file runs."""
        return self.named([MODULE])


@dataclass(frozen=True, eq=False)
class _File:
    names: tuple[str, ...]
    seen: NDArray[np.int32]
    name: NDArray[np.int32]
    calls: NDArray[np.float64]
    share: NDArray[np.float64]
    own: NDArray[np.float64]


class Uses:
    """All that was seen of functions, by file."""

    def __init__(self, observations: Iterable[Observation]) -> None:
        self._all = tuple(observations)
        self._numbers = {id(seen): at for at, seen in enumerate(self._all)}
        rows: dict[str, list[tuple[int, str, int, float, float]]] = {}
        for at, seen in enumerate(self._all):
            for use in seen.functions:
                rows.setdefault(use.path, []).append((at, use.name, use.calls, use.share, use.own))
        self._files = {path: _in_columns(found) for path, found in rows.items()}

    def at(self, speaking: Iterable[Observation], row: Mapping[ScenarioName, int]) -> View:
        """The uses as of a moment.

        Args:
            speaking: Of those given before, the launch that speaks for each scenario then; others were not watched.
            row: Scenario to its row in the graph.
        """
        to = np.full(len(self._all), -1, dtype=np.intp)
        for seen in speaking:
            to[self._numbers[id(seen)]] = row[seen.scenario]
        return View(self._files, to)


class View:
    """The uses as of one moment. `watched`: rows of the scenarios of which a watched launch speaks."""

    def __init__(self, files: Mapping[str, _File], to: NDArray[np.intp]) -> None:
        self._files, self._to = files, to
        self.watched = np.sort(to[to >= 0])

    def of(self, path: str) -> FileUse | None:
        """What the functions of a file take; None if none was seen."""
        file = self._files.get(path)
        if file is None:
            return None
        row = self._to[file.seen]
        speaks = np.flatnonzero(row >= 0)
        return FileUse(
            file.names,
            row[speaks],
            file.name[speaks],
            file.calls[speaks],
            file.share[speaks],
            file.own[speaks],
        )


def _in_columns(rows: Sequence[tuple[int, str, int, float, float]]) -> _File:
    names: dict[str, int] = {}
    name = np.array([names.setdefault(row[1], len(names)) for row in rows], dtype=np.int32)
    return _File(
        tuple(names),
        np.array([row[0] for row in rows], dtype=np.int32),
        name,
        np.array([row[2] for row in rows], dtype=np.float64),
        np.array([row[3] for row in rows]),
        np.array([row[4] for row in rows]),
    )
