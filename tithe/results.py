"""Results of other tools on their way into the store: files to points, points to series, series to outcomes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from tithe.data import results, series
from tithe.data.points import Point, Refused
from tithe.data.records import SCHEMA, Outcome, ScenarioName
from tithe.data.series import Place
from tithe.wiring import Project

NAMED = 20
"""Refused entries that a report names; all are counted."""
STRANGERS = 5
"""Commits off history that a report names."""
TOGETHER = 20_000
"""Outcomes of one transaction."""


@dataclass(frozen=True)
class ResultsReport:
    """What `ingest results` prints."""

    id: str
    files: int
    points: int
    added: int
    """Points that were not known."""
    unknown: int
    """Points of commits that are not on history."""
    first_unknown: tuple[str, ...]
    """Some of these commits."""
    refused: int
    first_refused: tuple[Refused, ...]
    series: int
    steps: int
    outcomes: int
    """Outcomes that were not known."""
    schema: int = SCHEMA


def take_in(
    project: Project,
    paths: Iterable[Path],
    *,
    tool: str,
    commit: str,
    host: str,
    unit: str,
    prefix: str,
    smallest: float,
    progress: Callable[[str], None],
) -> ResultsReport:
    """Reads the files, stores what they hold, and labels every series that the store has.

    A file is one transaction: what is there is whole, and reading it again adds nothing.
    """
    store = project.store
    history = {str(change.sha): Place(change.sha, change.index, change.time) for change in store.changes()}
    finder = _Finder(history)
    asked = project.repo.resolve(commit) if commit else ""
    files = points = added = unknown = refused = 0
    first: list[Refused] = []
    strangers: dict[str, None] = {}
    names = _Names(prefix)

    def refuse(found: Refused) -> None:
        nonlocal refused
        refused += 1
        if len(first) < NAMED:
            first.append(found)

    for path in results.files(paths):
        if isinstance(path, Refused):
            refuse(path)
            continue
        files += 1
        progress(f"file {files}: {path.name}")
        known: list[tuple[ScenarioName, Point]] = []
        for found in results.read(path, tool=tool, commit=asked, host=host, unit=unit):
            if isinstance(found, Refused):
                refuse(found)
                continue
            points += 1
            whole = finder.full(found)
            if whole is not None:
                known.append(names.named(whole))
                continue
            unknown += 1
            if len(strangers) < STRANGERS:
                strangers[found.commit] = None
        added += store.add_measurements(known)
    counts = _label(project, history, smallest, progress)
    return ResultsReport(
        f"results-{int(time.time())}",
        files,
        points,
        added,
        unknown,
        tuple(strangers),
        refused,
        tuple(first),
        *counts,
    )


class _Names:
    """Scenarios' names of benchmarks."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._made: dict[str, tuple[ScenarioName, str]] = {}

    def named(self, point: Point) -> tuple[ScenarioName, Point]:
        """The scenario that a point is of. Benchmarks that differ in what no scenario's name can say share one,
        and stay series of their own: their own names count as versions."""
        known = self._made.get(point.benchmark)
        if known is None:
            whole = self._prefix + point.benchmark
            made = results.scenario_name(whole)
            known = self._made[point.benchmark] = (ScenarioName(made), "" if made == whole else whole)
        name, own = known
        return name, replace(point, version=f"{point.version} {own}".strip()) if own else point


class _Finder:
    """Full ids of commits that results name by their first digits."""

    def __init__(self, history: Mapping[str, Place]) -> None:
        self._whole = set(history)
        self._short: dict[tuple[int, str], str | None] = {}
        self._lengths: set[int] = set()

    def full(self, point: Point) -> Point | None:
        if point.commit in self._whole:
            return point
        length = len(point.commit)
        if length not in self._lengths:
            self._lengths.add(length)
            for sha in self._whole:
                key = (length, sha[:length])
                self._short[key] = None if key in self._short else sha  # two commits begin alike: neither
        whole = self._short.get((length, point.commit))
        return replace(point, commit=whole) if whole else None


def _label(
    project: Project, history: Mapping[str, Place], smallest: float, progress: Callable[[str], None]
) -> tuple[int, int, int]:
    """Series, steps and new outcomes."""
    store, now = project.store, time.time()
    count = steps = new = 0
    waiting: list[Outcome] = []
    for scenario, points in store.measurements():
        count += 1
        progress(f"series {count}: {scenario}")
        for outcome in series.outcomes(scenario, points, history, smallest=smallest, now=now):
            steps += outcome.verdict != "same"
            waiting.append(outcome)
        if len(waiting) >= TOGETHER:
            new += store.add_outcomes(waiting)
            waiting.clear()
    return count, steps, new + store.add_outcomes(waiting)
