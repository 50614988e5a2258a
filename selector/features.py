"""One builder of features, for training and for `select` alike, from the state as of a moment.

`State` walks forward through the outcomes and never looks at one that was not yet known. Time is counted in
measured changes rather than in days: a project that rests for a month has forgotten nothing. Every rate is
shrunk towards the rate of all, so that one event in two trials is not a chance of one half.

Rows are made for all scenarios of one change at once; nothing here loops over scenarios.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tithe.data.graph import ScenarioGraph
from tithe.data.records import Change, FileEdit, Scenario, Sha
from tithe.data.uses import MODULE
from tithe.data.words import Words, tokens
from tithe.selector.cost import block_estimates, launch_estimates
from tithe.selector.fold import Cells, Columns, Comparison, Ledger, Step
from tithe.selector.history import HALF_LIVES, History
from tithe.selector.learned import Learned, Together, gather
from tithe.selector.paths import kind_of
from tithe.selector.text import TextIndex, code_words_of, index_of, words_of

CHANGE_FEATURES: tuple[str, ...] = (
    "lines",
    "files",
    "folders",
    "code_share",
    "config_edit",
    "dependency_edit",
    "author_lift",
    "speed_words",
    "file_lift",
    "base_rate",
)
"""The same for all scenarios of a change."""

FEATURES: tuple[str, ...] = (
    *CHANGE_FEATURES,
    # of the scenario
    "rate_5",
    "rate_20",
    "rate_80",
    "since_failure",
    "measured",
    # of the pair
    "distance",
    "proximity",
    "proximity_sum",
    "proximity_share",
    "closure_share",
    "entry_share",
    "rarity",
    "co_file",
    "co_folder",
    "text",
    "text_share",
    "source",
    "source_share",
    "watched",
    "run_share",
    "run_own",
    "run_calls",
    "file_own",
    "import_own",
)
"""Columns of a row, in order."""

RUN_FEATURES = ("run_share", "run_own", "run_calls", "file_own", "import_own")
"""NaN where a scenario was not watched."""

MONOTONE: dict[str, int] = {
    "rate_5": 1,
    "rate_20": 1,
    "rate_80": 1,
    "distance": -1,
    "proximity": 1,
    "proximity_sum": 1,
    "proximity_share": 1,
    "entry_share": 1,
    "rarity": 1,
    "co_file": 1,
    "co_folder": 1,
    "file_lift": 1,
    "author_lift": 1,
    "text": 1,
    "text_share": 1,
    "source": 1,
    "source_share": 1,
    "dependency_edit": 1,
    "run_share": 1,
    "run_own": 1,
    "run_calls": 1,
    "file_own": 1,
    "import_own": 1,
}
"""Directions that are known to be true; the model may not learn their reverse from a handful of events."""

CO_HALF_LIFE = 60.0
"""Of what touched files and folders did, in measured changes."""
BASE_RATE = 0.03
"""Chance that a change makes a scenario fail before anything is known."""
BASE_STRENGTH = 30.0
RATE_STRENGTH = 4.0
CO_STRENGTH = 1.5
AUTHOR_STRENGTH = 6.0
MAX_TOUCHED = 200
"""A change that touches more says nothing about any one of its files."""
FAR = 20.0
"""Stands for "not reached" among distances."""
BESIDE = 0.5
"""What a file that is not in the graph (new, deleted) has of the mean proximity of its folder."""

_SPEED_WORDS = frozenset(
    tokens(
        "perf performance speed fast faster slow latency cache caching lazy async parallel optimise optimize "
        "memo optimisation optimization vectorise vectorize memoise memoize batch prefetch thread worker"
    )
)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Touched:
    """The touched files of a change as the graph of its head sees them.

    Attributes:
        paths: (n,) files, renamed ones under both names.
        weight: (n,) in (0, 1], by the size of the edit.
        proximity: (scenarios, n); distance: (scenarios, n), inf where not reached.
    """

    paths: tuple[str, ...]
    weight: Floats
    proximity: Floats
    distance: Floats


def touched(change: Change, graph: ScenarioGraph, scenarios: Sequence[Scenario]) -> Touched:
    """Columns of `graph` for the files of `change`, rows in the order of `scenarios`."""
    edits = _largest(change.files)
    sizes: dict[str, float] = {}
    for edit in edits:
        size = max(edit.added, 0) + max(edit.deleted, 0)
        for path in (edit.path, edit.old_path):
            if path:
                sizes[path] = max(sizes.get(path, 0.0), float(size))
    paths = tuple(sorted(sizes))
    size_of = np.log1p(np.array([sizes[path] for path in paths]))
    # An edit of one line counts at least half of the largest: slow code is often short.
    weight = 0.5 + 0.5 * size_of / size_of.max() if paths and size_of.max() > 0 else np.ones(len(paths))
    rows = np.array([graph.row.get(s.name, -1) for s in scenarios], dtype=np.intp)
    proximity = np.zeros((len(scenarios), len(paths)))
    distance = np.full((len(scenarios), len(paths)), np.inf)
    known = rows >= 0
    for at, path in enumerate(paths):
        column = graph.column.get(path)
        if column is not None:
            proximity[known, at] = graph.proximity[rows[known], column]
            distance[known, at] = graph.distance[rows[known], column]
            continue
        beside = graph.folders.get(posixpath.dirname(path))
        if beside is not None and kind_of(path) in {"code", "config"}:
            proximity[known, at] = BESIDE * graph.proximity[np.ix_(rows[known], beside)].mean(axis=1)
    return Touched(paths, weight, proximity, distance)


def _largest(edits: Sequence[FileEdit]) -> list[FileEdit]:
    if len(edits) <= MAX_TOUCHED:
        return list(edits)
    return sorted(edits, key=lambda e: (-(max(e.added, 0) + max(e.deleted, 0)), e.path))[:MAX_TOUCHED]


class State:
    """All that features need, as of the latest moment asked for. Moves forward only.

    It learns from a history, or goes on from what another one had `learned` with the `later` outcomes of the
    comparisons that `earlier` holds the other ones of; the history then says what is known of their changes.
    """

    def __init__(
        self,
        history: History,
        scenarios: Sequence[Scenario],
        learned: Learned | None = None,
        *,
        later: Columns | None = None,
        earlier: Columns | None = None,
    ) -> None:
        told = bool(history.outcomes) or history.columns is not None
        if told and (learned is not None or later is not None):
            raise ValueError("what was learned already holds the outcomes of its history")
        self.scenarios = tuple(scenarios)
        self._changes = {change.sha: change for change in history.changes}
        self._cells = Cells(self.scenarios)
        self._columns = history.in_columns(self._cells) if later is None else later
        self._next = 0
        self.now = -np.inf
        self.tick = 0
        self.text = index_of(self.scenarios)
        self._source: tuple[Words | None, TextIndex | None] = (None, None)
        count = len(self.scenarios)
        self._failing = np.zeros((len(HALF_LIVES), count))
        self._measured = np.zeros((len(HALF_LIVES), count))
        self._decay = 0.5 ** (1.0 / np.array(HALF_LIVES))[:, None]
        self._last_failure = np.full(count, -np.inf)
        self.failures = np.zeros(count, dtype=np.int32)
        """(scenarios,), changes that made it fail so far, for people."""
        self.measured = np.zeros(count, dtype=np.int32)
        """(scenarios,), changes that it was measured on so far."""
        self._ledgers: dict[Comparison, Ledger] = {}
        self._co: dict[str, Together] = {}
        self._authors: dict[str, list[float]] = {}
        self._counted: set[Sha] = set()
        """Changes that their authors have been counted for."""
        self.launch_seconds, self.guessed = launch_estimates(self.scenarios, history.launch_seconds)
        self.blocks = block_estimates(self.scenarios, history.blocks)
        self._learned = learned
        self._places = np.zeros(0, dtype=np.intp)
        if learned is not None:
            self._restore(learned)
        if earlier is not None:
            self._remember(earlier)

    def _restore(self, learned: Learned) -> None:
        self._places = learned.places([scenario.name for scenario in self.scenarios])
        known = self._places >= 0
        to = self._places[known]
        self.tick, self.now = int(learned.moment[0]), float(learned.moment[1])
        self._failing[:, to] = learned.failing[:, known]
        self._measured[:, to] = learned.measured[:, known]
        self._last_failure[to] = learned.last_failure[known]
        self.failures[to], self.measured[to] = learned.counts[:, known]
        self._authors = {
            name: list(counts)
            for name, counts in zip(learned.names.authors, learned.authors.tolist(), strict=True)
        }

    def _remember(self, earlier: Columns) -> None:
        """What was said of these comparisons before; it was learned then."""
        for start, stop in _runs(earlier.comparison, 0):
            comparison = earlier.comparisons[earlier.comparison[start]]
            ledger = self._ledgers.setdefault(comparison, Ledger())
            for _ in ledger.fold(earlier, slice(start, stop), self._cells):
                pass
            if (change := self._own(comparison)) is not None:
                self._counted.add(change.sha)

    def _own(self, comparison: Comparison) -> Change | None:
        """The change, if it was compared with its own parent."""
        base, sha = comparison
        change = self._changes.get(sha)
        return change if change is not None and change.parent == base else None

    def learned(self) -> Learned:
        """All of it, as of the moment reached, to be gone on from elsewhere."""
        names, arrays = gather(
            [scenario.name for scenario in self.scenarios],
            self._co,
            self._authors,
            self._learned,
            self._places,
        )
        return Learned(
            names=names,
            moment=np.array([self.tick, self.now]),
            failing=self._failing,
            measured=self._measured,
            last_failure=self._last_failure,
            counts=np.stack([self.failures, self.measured]),
            **arrays,  # type: ignore[arg-type]
        )

    def advance(self, t: float) -> None:
        """Learns every outcome with `known_at` < `t`.

        Raises:
            ValueError: `t` lies before a moment already reached.
        """
        if t < self.now:
            raise ValueError(f"the state is already at {self.now}, past {t}")
        self.now = t
        columns = self._columns
        end = int(np.searchsorted(columns.known_at, t, side="left"))
        for start, stop in _runs(columns.comparison[self._next : end], self._next):
            self._learn(columns.comparisons[columns.comparison[start]], slice(start, stop))
        self._next = max(end, self._next)

    def _learn(self, comparison: Comparison, rows: slice) -> None:
        """Learns outcomes of one comparison that stand together."""
        ledger = self._ledgers.get(comparison)
        if ledger is None:
            ledger = self._ledgers[comparison] = Ledger()
            self.tick += 1
            self._failing *= self._decay
            self._measured *= self._decay
        own = self._own(comparison)
        for step in ledger.fold(self._columns, rows, self._cells):
            at = step.scenario
            self._failing[:, at] += step.failing
            self._measured[:, at] += step.measured
            self.failures[at] += step.flipped
            self.measured[at] += step.first
            self._last_failure[at[step.fails]] = self.tick
            if own is not None:
                self._learn_files(own, ledger, step)

    def _learn_files(self, change: Change, ledger: Ledger, step: Step) -> None:
        author = self._authors.setdefault(change.author, [0.0, 0.0])
        before = ledger.fails - int(step.flipped.sum())
        author[0] += (ledger.fails > 0) - (before > 0)
        author[1] += change.sha not in self._counted
        self._counted.add(change.sha)
        if len(change.files) > MAX_TOUCHED:
            return
        keys = touched_keys(change)
        share = max(sum(1 for key in keys if not key.endswith("/")), 1) ** -0.5
        at, failing, measured = step.scenario, step.failing * share, step.measured * share
        for key in keys:
            co = self._together(key)
            if co is None:
                count = len(self.scenarios)
                co = Together(
                    self.tick, np.zeros(count), np.zeros(count), *np.zeros((2, count), dtype=np.int32)
                )
                self._co[key] = co
            elif co.tick < self.tick:
                fade = 0.5 ** ((self.tick - co.tick) / CO_HALF_LIFE)
                co.failing *= fade
                co.measured *= fade
                co.tick = self.tick
            co.failing[at] += failing
            co.measured[at] += measured
            co.failures[at] += step.flipped
            co.changes[at] += step.first

    @property
    def faulty(self) -> int:
        """Changes that made any scenario fail, measured against their own parents."""
        return round(sum(faulty for faulty, _ in self._authors.values()))

    def base_rate(self) -> float:
        """Chance that a change makes a scenario fail, over all of both, shrunk towards `BASE_RATE`."""
        failing, measured = self._failing[-1].sum(), self._measured[-1].sum()
        return float(max(failing, 0.0) + BASE_RATE * BASE_STRENGTH) / float(
            max(measured, 0.0) + BASE_STRENGTH
        )

    def rates(self) -> Floats:
        """(half-lives, scenarios), each scenario's rate shrunk towards the rate of all."""
        base = self.base_rate()
        failing = np.maximum(self._failing, 0.0)
        return (failing + RATE_STRENGTH * base) / (np.maximum(self._measured, 0.0) + RATE_STRENGTH)

    def knows(self, key: str) -> bool:
        """Whether anything was measured when `key` was touched."""
        return self._together(key) is not None

    def counts(self, key: str, scenario: int) -> tuple[int, int]:
        """(changes that touched `key` and made it fail, changes that touched it and were measured)."""
        co = self._together(key)
        return (int(co.failures[scenario]), int(co.changes[scenario])) if co else (0, 0)

    def _together(self, key: str) -> Together | None:
        co = self._co.get(key)
        if co is None and self._learned is not None:
            co = self._learned.together(key, self._places, len(self.scenarios))
            if co is not None:
                self._co[key] = co
        return co

    def lifts(self, key: str, rate: Floats) -> Floats:
        """(scenarios,), log of how much likelier than `rate` each failed when `key` was touched."""
        co = self._together(key)
        if co is None:
            return np.zeros(len(self.scenarios))
        failing = np.maximum(co.failing, 0.0) + CO_STRENGTH * rate
        lift: Floats = np.log(failing / (np.maximum(co.measured, 0.0) + CO_STRENGTH) / rate)
        return lift

    def rows(self, change: Change, graph: ScenarioGraph, t: float) -> NDArray[np.float32]:
        """Features of every scenario for `change` as of `t`, (scenarios, len(FEATURES)) float32.

        NaN stands for what is not known; the columns are `FEATURES`.
        """
        self.advance(t)
        return self.rows_of(change, touched(change, graph, self.scenarios), graph)

    def rows_of(self, change: Change, near: Touched, graph: ScenarioGraph) -> NDArray[np.float32]:
        """As `rows`, at the moment already reached, with the touched files already looked up."""
        count = len(self.scenarios)
        found: dict[str, Floats | float] = {}
        kinds = [kind_of(path) for path in near.paths]
        lines = sum(max(e.added, 0) + max(e.deleted, 0) for e in change.files)
        found["lines"] = float(np.log1p(lines))
        found["files"] = float(np.log1p(len(change.files)))
        found["folders"] = float(np.log1p(len({posixpath.dirname(path) for path in near.paths})))
        found["code_share"] = sum(k == "code" for k in kinds) / max(len(kinds), 1)
        found["config_edit"] = float("config" in kinds)
        found["dependency_edit"] = float("dependencies" in kinds)
        found["author_lift"] = self._author_lift(change.author)
        found["speed_words"] = float(
            bool(_SPEED_WORDS & {*change.subject.lower().split(), *tokens(change.subject)})
        )

        found["base_rate"] = self.base_rate()
        rates = self.rates()
        found["rate_5"], found["rate_20"], found["rate_80"] = rates
        found["since_failure"] = np.where(
            np.isfinite(self._last_failure), np.log1p(self.tick - self._last_failure), np.nan
        )
        found["measured"] = np.log1p(self._measured[-1].clip(0.0))

        found.update(self._graph_features(near, graph))
        found.update(self._co_features(change, rates[-1]))
        found.update(run_features(change, graph, self._rows_in(graph)))
        text = self.text.score(words_of(change))
        found["text"] = text
        found["text_share"] = text / text.max() if count and text.max() > 0 else text
        source = self._source_text(change, graph)
        found["source"] = source
        found["source_share"] = source / source.max() if count and source.max() > 0 else source
        rows = np.empty((count, len(FEATURES)), dtype=np.float32)
        for column, name in enumerate(FEATURES):
            rows[:, column] = found[name]
        return rows

    def _source_text(self, change: Change, graph: ScenarioGraph) -> Floats:
        """(scenarios,), how much the change speaks of the source that each runs."""
        if graph.words is None:
            return np.zeros(len(self.scenarios))
        if self._source[0] is not graph.words:
            self._source = (graph.words, TextIndex(graph.words))
        score = self._source[1].score(code_words_of(change)) if self._source[1] else np.zeros(0)
        rows = self._rows_in(graph)
        return np.where(rows >= 0, score[rows], 0.0) if len(score) else np.zeros(len(rows))

    def _author_lift(self, author: str) -> float:
        faulty = sum(f for f, _ in self._authors.values())
        total = sum(n for _, n in self._authors.values())
        rate = (faulty + 1.0) / (total + 5.0)
        own_faulty, own_total = self._authors.get(author, (0.0, 0.0))
        return float(np.log((own_faulty + AUTHOR_STRENGTH * rate) / (own_total + AUTHOR_STRENGTH) / rate))

    def _graph_features(self, near: Touched, graph: ScenarioGraph) -> dict[str, Floats | float]:
        count = len(self.scenarios)
        zero = np.zeros(count)
        if not near.paths or not count:
            return {
                "distance": np.full(count, FAR),
                "proximity": zero,
                "proximity_sum": zero,
                "proximity_share": zero,
                "closure_share": zero,
                "entry_share": zero,
                "rarity": zero,
            }
        weighted = near.proximity * near.weight
        best = weighted.max(axis=1)
        total = weighted.sum(axis=1)
        rows = self._rows_in(graph)
        mass = np.where(rows >= 0, graph.proximity.sum(axis=1)[rows], 0.0) if len(graph.row) else zero
        reach = (near.proximity > 0).mean(axis=0)
        # A file that one scenario in sixteen reaches says who is hit; one that all reach says nothing.
        rarity = (weighted * np.log(1.0 / np.maximum(reach, 1.0 / count))).sum(axis=1)
        return {
            "distance": np.minimum(near.distance.min(axis=1), FAR),
            "proximity": best,
            "proximity_sum": total,
            "proximity_share": best / best.max() if best.max() > 0 else zero,
            "closure_share": np.divide(near.proximity.sum(axis=1), mass, out=zero.copy(), where=mass > 0),
            "entry_share": (near.distance == 0).mean(axis=1),
            "rarity": rarity,
        }

    def _rows_in(self, graph: ScenarioGraph) -> NDArray[np.intp]:
        """(scenarios,), the row of each in `graph`; -1 where it has none."""
        return np.array([graph.row.get(s.name, -1) for s in self.scenarios], dtype=np.intp)

    def _co_features(self, change: Change, rate: Floats) -> dict[str, Floats | float]:
        count = len(self.scenarios)
        keys = touched_keys(change) if len(change.files) <= MAX_TOUCHED else ()
        known = [key for key in keys if self._together(key) is not None]
        files = [self.lifts(key, rate) for key in known if not key.endswith("/")]
        folders = [self.lifts(key, rate) for key in known if key.endswith("/")]
        co_file = np.max(files, axis=0) if files else np.zeros(count)
        return {
            "co_file": co_file,
            "co_folder": np.max(folders, axis=0) if folders else np.zeros(count),
            "file_lift": float(co_file.mean()) if count else 0.0,
        }


def run_features(change: Change, graph: ScenarioGraph, rows: NDArray[np.intp]) -> dict[str, Floats | float]:
    """What the functions that a change touched take of each scenario, as watched launches say.

    `run_*` are of the functions that the diff names; `file_own` is of all functions of the touched files, for edits
    that no function is named for; `import_own` is what their import runs. NaN where a scenario was not watched.

    Args:
        rows: (scenarios,), the row of each in `graph`; -1 where it has none.
    """
    count, uses = len(rows), graph.uses
    names = RUN_FEATURES
    if uses is None:
        return {"watched": 0.0, **{name: np.full(count, np.nan) for name in names}}
    sums = dict(zip(names, np.zeros((len(names), len(graph.scenarios))), strict=True))
    for edit in _largest(change.files):
        for path in dict.fromkeys(path for path in (edit.path, edit.old_path) if path):
            of = uses.of(path)
            if not len(of.row):
                continue
            hit, module = of.named(edit.symbols), of.named([MODULE])
            np.maximum.at(sums["run_share"], of.row[hit], of.share[hit])
            np.add.at(sums["run_own"], of.row[hit], of.own[hit])
            np.add.at(sums["run_calls"], of.row[hit], of.calls[hit])
            np.add.at(sums["file_own"], of.row[~module], of.own[~module])
            np.add.at(sums["import_own"], of.row[module], of.own[module])
    sums["run_calls"] = np.log1p(sums["run_calls"])
    watched = np.zeros(len(graph.scenarios), dtype=np.bool_)
    watched[uses.watched] = True
    there = (rows >= 0) & watched[rows]
    return {
        "watched": there.astype(np.float64),
        **{name: np.where(there, sums[name][rows], np.nan) for name in names},
    }


def _runs(numbers: NDArray[np.int32], offset: int) -> Iterator[tuple[int, int]]:
    """Begin and end of what stands together under one number."""
    if not len(numbers):
        return
    cuts = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    yield from pairwise((offset, *(cuts + offset).tolist(), offset + len(numbers)))


def touched_keys(change: Change) -> tuple[str, ...]:
    """The files that a change touched, and their folders with a slash at the end."""
    paths = {edit.path for edit in change.files} | {edit.old_path for edit in change.files if edit.old_path}
    folders = {posixpath.dirname(path) + "/" for path in paths if kind_of(path) in {"code", "config"}}
    return (*sorted(paths), *sorted(folders))
