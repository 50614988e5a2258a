"""What changed, what was measured and what was concluded: records in, records out, of one SQLite file.

Every record is keyed by a digest of its content, and where two unlike records claim one key the larger one
stays: so arrival order and repetition do not matter, and writers need not agree on anything. Nothing is
overwritten by later knowledge; which of several outcomes speaks is decided when they are read, as of a
moment.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tithe.data import codec, queries
from tithe.data.database import DatabaseFile
from tithe.data.errors import StoreError
from tithe.data.noise import Noise, SampleColumns, pooled
from tithe.data.points import Point
from tithe.data.records import (
    Change,
    FileEdit,
    Launch,
    MetricName,
    Observation,
    Outcome,
    RunId,
    RunRecord,
    ScenarioName,
    Selection,
    Sha,
    Stage,
)

if TYPE_CHECKING:
    from tithe.data.uses import UseColumns

_CHUNK = 2000
"""Launches that are read at once: no read stays open while the caller works, or writes."""


@dataclass(frozen=True)
class ModelRow:
    """A trained model, as the store knows it."""

    version: str
    path: str
    created_at: float
    info: Mapping[str, object]
    promoted: bool
    """Whether it is the one in force."""


class Store:
    """The store; a context manager. One object belongs to one thread, one file to any number of processes.

    Every method raises `StoreError` when the file cannot be read or written; a write that raises leaves
    nothing.
    """

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._connection = file.connection
        self._word = file.word
        self._errors = file.errors

    @classmethod
    def open(cls, path: Path, *, create: bool = True, read_only: bool = False) -> Store:
        """Open the store at `path`; make it, or migrate it to this version, unless it is opened to be read.

        Raises:
            StoreError: there is none (and `create` is false or `read_only` is true); it is corrupt, not a
                store, or from a newer version; the place is read-only, full or locked.
        """
        return cls(DatabaseFile.open(Path(path), create=create, read_only=read_only))

    @property
    def path(self) -> Path:
        """The store's file."""
        return self._file.path

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._file.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def transaction(self) -> AbstractContextManager[None]:
        """All writes within are one transaction: all of them happen, or none."""
        return self._file.transaction()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """The connection, for modules of this room that read in columns; its errors become `StoreError`."""
        with self._errors():
            yield self._connection

    @contextmanager
    def consistent(self) -> Iterator[None]:
        """All that is read within is as of one moment, whoever writes meanwhile. Nothing may be written."""
        with self._errors():
            self._connection.execute("BEGIN")
            try:
                yield
            finally:
                self._connection.execute("ROLLBACK")

    def check(self) -> list[str]:
        """What is wrong with the file; empty when all is well. Reads everything."""
        return self._file.check()

    def backup(self, target: Path) -> int:
        """Copy the store, whole, to a file that must not be there; its size in bytes."""
        return self._file.backup(target)

    def compact(self) -> tuple[int, int]:
        """Give unused space back; bytes before and after."""
        return self._file.compact()

    def export(self, folder: Path) -> dict[str, int]:
        """Write every view as JSON lines to `folder`; records by view."""
        return self._file.export(folder)

    # What changed.

    def add_changes(self, changes: Iterable[Change]) -> int:
        """Add commits; the number of those that were not known. Table `change` says how unlike ones merge."""
        new = 0
        with self.transaction():
            for change in changes:
                new += self._add_change(change)
        return new

    def _add_change(self, change: Change) -> int:
        files = [
            (edit.path, edit.old_path, edit.added, edit.deleted, " ".join(edit.symbols))
            for edit in change.files
        ]
        when = _real(change.time)
        row = (change.author, when, change.subject, change.body, int(change.merge))
        # Without symbols as it was before there were any: it is the same record.
        spelled = [edit if edit[-1] else edit[:-1] for edit in files]
        digest = _digest("change", change.sha, change.parent, change.index, *row, spelled)
        sha = self._word(change.sha)
        known = self._connection.execute(queries.SELECT_CHANGE_RANK, (sha,)).fetchone()
        if known is not None:
            if known >= (change.index, when, sum(len(edit[-1]) for edit in files), digest):
                return 0
            self._connection.execute("DELETE FROM file_edit WHERE sha_id = ?", (sha,))
            self._connection.execute("DELETE FROM change WHERE sha_id = ?", (sha,))
        self._connection.execute(
            queries.INSERT_CHANGE,
            (sha, digest, self._word(change.parent), change.index, *row),
        )
        self._connection.executemany(
            queries.INSERT_FILE_EDIT,
            [
                (sha, position, self._word(path), self._word(old), added, deleted, symbols)
                for position, (path, old, added, deleted, symbols) in enumerate(files)
            ],
        )
        return int(known is None)

    def changes_named(self, shas: Collection[Sha]) -> list[Change]:
        """Those commits and diffs that are known, on history or not, by id."""
        wanted = json.dumps(sorted(shas))
        with self._errors():
            rows = self._connection.execute(queries.SELECT_CHANGES_NAMED, (wanted,)).fetchall()
            edits: dict[int, list[FileEdit]] = {}
            for sha, path, old, added, deleted, symbols in self._connection.execute(
                queries.SELECT_FILE_EDITS_OF, (json.dumps([row[0] for row in rows]),)
            ):
                edits.setdefault(sha, []).append(FileEdit(path, added, deleted, old, tuple(symbols.split())))
        return [_change(row[1:], tuple(edits.get(row[0], ()))) for row in rows]

    def changes(self, *, off_history: bool = False) -> list[Change]:
        """The commits of first-parent history, oldest first.

        With `off_history`, also the diffs that were under test and are not on it, each after the commits
        that are not later than it.
        """
        with self._errors():
            edits = self._file_edits(None)
            rows = self._connection.execute(queries.SELECT_CHANGES, (-1 if off_history else 0,)).fetchall()
        found = [_change(row[1:], edits.get(row[0], ())) for row in rows]
        if off_history:
            found.sort(key=lambda change: change.time)  # stable: history stays in its own order
        return found

    def rewind(self, kept: Collection[Sha]) -> int:
        """Take off history what is not in `kept`, since its branch was rewritten; how many changes that were.

        They stay as diffs that are on no history, with their outcomes.
        """
        with self.transaction():
            gone = [change for change in self.changes() if change.sha not in kept]
            for change in gone:
                sha = self._word(change.sha)
                self._connection.execute("DELETE FROM file_edit WHERE sha_id = ?", (sha,))
                self._connection.execute("DELETE FROM change WHERE sha_id = ?", (sha,))
                self._add_change(replace(change, index=-1))
        return len(gone)

    def last_change(self) -> Change | None:
        """The newest commit of first-parent history."""
        with self._errors():
            row = self._connection.execute(queries.SELECT_LAST_CHANGE).fetchone()
            if row is None:
                return None
            return _change(row[1:], self._file_edits(row[0]).get(row[0], ()))

    def first_change(self) -> Sha | None:
        """The oldest commit of first-parent history, as far as it was there when it was taken in."""
        with self._errors():
            row = self._connection.execute(queries.SELECT_FIRST_CHANGE).fetchone()
        return Sha(row[0]) if row else None

    def _file_edits(self, sha_id: int | None) -> dict[int, tuple[FileEdit, ...]]:
        edits: dict[int, list[FileEdit]] = {}
        rows = self._connection.execute(queries.SELECT_FILE_EDITS, (sha_id,))
        for sha, path, old, added, deleted, symbols in rows:
            edits.setdefault(sha, []).append(FileEdit(path, added, deleted, old, tuple(symbols.split())))
        return {sha: tuple(files) for sha, files in edits.items()}

    def set_tags(self, tags: Mapping[str, Sha]) -> None:
        """Make the tags of the store these, and no others."""
        with self.transaction():
            rows = [{"name": name, "sha_id": self._word(sha)} for name, sha in sorted(tags.items())]
            self._file.utils["tag"].delete_where()
            self._file.utils["tag"].insert_all(rows)

    def tags(self) -> dict[str, Sha]:
        """Tag name to commit, by name."""
        with self._errors():
            return dict(self._connection.execute("SELECT name, sha FROM tags ORDER BY name").fetchall())

    # What was measured.

    def add_run(self, run: RunRecord) -> None:
        """Add a run; see table `run` for unlike records of one."""
        with self.transaction():
            self._add_run(run)

    def _add_run(self, run: RunRecord) -> int:
        when = _real(run.started_at)
        digest = _digest(
            "run", run.id, run.kind, run.base, run.head, when, run.host, run.picked, run.selection
        )
        key = self._word(run.id)
        known = self._connection.execute("SELECT started_at, digest FROM run WHERE id = ?", (key,)).fetchone()
        if known is not None and known >= (when, digest):
            return 0
        self._connection.execute(
            queries.INSERT_RUN,
            (
                key,
                digest,
                run.kind,
                self._word(run.base),
                self._word(run.head),
                when,
                self._word(run.host),
                run.picked,
                run.selection,
            ),
        )
        return int(known is None)

    def runs(self, *, kind: str | None = None) -> list[RunRecord]:
        """The runs, all or of one kind, by start and id."""
        with self._errors():
            rows = self._connection.execute(queries.SELECT_RUNS, (kind,)).fetchall()
        return [RunRecord(*row) for row in rows]

    def add_launches(self, launches: Iterable[Launch]) -> int:
        """Add launches with all their samples; the number that was new."""
        with self.transaction():
            return sum(self._add_launch(launch) for launch in launches)

    def _add_launch(self, launch: Launch) -> int:
        values = sorted((name, _real(value)) for name, value in launch.values.items())
        phases = sorted((name, _real(value)) for name, value in launch.phases.items())
        for name, value in (*values, *phases):
            if not math.isfinite(value):
                raise StoreError(
                    f"launch {launch.id!r} of {launch.scenario!r} has {name!r} = {value}",
                    where=str(self.path),
                    mend="leave out what could not be measured",
                )
        who = (launch.id, launch.run, launch.scenario, launch.arm, launch.sha)
        row = (
            launch.stage,
            launch.block,
            launch.position,
            launch.place,
            _real(launch.started_at),
            _real(launch.seconds),
            launch.status,
            launch.exit_code,
            launch.note,
        )
        digest = _digest("launch", *who, *row, values, phases)
        run, scenario, sha = (self._word(text) for text in (launch.run, launch.scenario, launch.sha))
        cursor = self._connection.execute(
            queries.INSERT_LAUNCH, (digest, launch.id, run, scenario, launch.arm, sha, *row)
        )
        if cursor.rowcount == 0:
            return 0
        key = cursor.lastrowid
        self._connection.executemany(
            queries.INSERT_SAMPLE,
            [(key, self._word(name), value) for name, value in values],
        )
        if phases:
            self._connection.executemany(
                queries.INSERT_PHASE,
                [(key, self._word(name), value) for name, value in phases],
            )
        return 1

    def launches(
        self, *, run: RunId | None = None, scenario: ScenarioName | None = None, stage: Stage | None = None
    ) -> Iterator[Launch]:
        """Launches, warm-ups included, by start; all, or those of a run, scenario or stage.

        They are read in parts, so that launches which arrive meanwhile may be among them.
        """
        query = queries.select_launches(
            run=run is not None, scenario=scenario is not None, stage=stage is not None
        )
        given: dict[str, object] = {"run": run, "scenario": scenario, "stage": stage, "limit": _CHUNK}
        given.update(time=-math.inf, digest=-1)
        while True:
            with self._errors():
                rows = self._connection.execute(query, given).fetchall()
                keys = json.dumps([row[0] for row in rows])
                values = self._by_launch(queries.SELECT_SAMPLES, keys)
                phases = self._by_launch(queries.SELECT_PHASES, keys)
            for row in rows:
                yield _launch(row[2:], values.get(row[0], {}), phases.get(row[0], {}))
            if len(rows) < _CHUNK:
                return
            given.update(time=rows[-1][11], digest=rows[-1][1])

    def _by_launch(self, query: str, keys: str) -> dict[int, dict[str, float]]:
        found: dict[int, dict[str, float]] = {}
        for key, name, value in self._connection.execute(query, (keys,)):
            found.setdefault(key, {})[name] = value
        return found

    def launch_seconds(self) -> dict[ScenarioName, float]:
        """Mean machine time of a launch, warm-ups left out, by scenario.

        Summed in whole microseconds, so that the mean does not depend on the order of the rows.
        """
        with self._errors():
            rows = self._connection.execute(queries.SELECT_LAUNCH_SECONDS).fetchall()
        return {name: total / 1e6 / n for name, total, n in rows}

    def noise(
        self, *, host: str | None = None, without: RunId | None = None, after: int | None = None
    ) -> dict[tuple[ScenarioName, MetricName], Noise]:
        """The pooled scatter of the block statistic, per scenario and metric; of one host, or of all.

        `without` leaves out a run, which must not be its own history. `after`: of those scenarios alone that were
        launched after the launch of this number, each of all its launches.

        See `tithe.data.noise` for which blocks count and for the formula.
        """
        import numpy as np

        with self._errors():
            cursor = self._connection.execute(queries.SELECT_NOISE_SAMPLES, (host, without, after))
            rows = np.fromiter(
                cursor,
                dtype=np.dtype(
                    [(name, np.int64) for name in ("scenario", "metric", "run", "block", "head", "sha")]
                    + [("value", np.float64)]
                ),
            )
        if not rows.size:
            return {}
        # One integer for scenario and metric: unique() of records would be ten times slower.
        width = int(rows["metric"].max()) + 1
        found = pooled(
            SampleColumns(
                series=rows["scenario"] * width + rows["metric"],
                comparison=rows["run"],
                block=rows["block"],
                is_head=rows["head"] == 1,
                sha=rows["sha"],
                value=rows["value"],
            )
        )
        with self._errors():
            noises = {
                (ScenarioName(self._file.text(key // width)), MetricName(self._file.text(key % width))): noise
                for key, noise in found.items()
            }
        return dict(sorted(noises.items()))

    def add_measurements(self, points: Iterable[tuple[ScenarioName, Point]]) -> int:
        """Add what other tools measured; the number that was new. `commit` of each is a full id."""
        rows = [_measurement(scenario, point) for scenario, point in points]  # before the lock is taken
        with self.transaction():
            before = self._connection.total_changes - self._file.words_made
            word = self._word
            self._connection.executemany(
                queries.INSERT_MEASUREMENT,
                (
                    (digest, word(scenario), word(host), version, word(commit), *row)
                    for digest, (scenario, host, version, commit), row in rows
                ),
            )
            return self._connection.total_changes - self._file.words_made - before

    def measurements(self) -> Iterator[tuple[ScenarioName, list[Point]]]:
        """What other tools measured, series by series (scenario, host and version of the benchmark)."""
        with self._errors():
            keys = self._connection.execute(queries.SELECT_SERIES).fetchall()
        for scenario, host, scenario_id, host_id, version in keys:
            with self._errors():
                rows = self._connection.execute(
                    queries.SELECT_MEASUREMENTS, (scenario_id, host_id, version)
                ).fetchall()
            yield (
                ScenarioName(scenario),
                [
                    Point(scenario, value, unit, direction, sha, host, at, processes, version)
                    for sha, at, value, unit, direction, processes in rows
                ],
            )

    def add_observations(self, observations: Iterable[Observation]) -> int:
        """Add what launches were seen to touch; the number that was new."""
        new = 0
        with self.transaction():
            for seen in observations:
                when = _real(seen.known_at)
                touched = dict.fromkeys(sorted(seen.untouched), 0) | dict.fromkeys(sorted(seen.touched), 1)
                used = {(use.path, use.name): use for use in seen.functions}
                functions = [
                    (*key, used[key].calls, _real(used[key].share), _real(used[key].own))
                    for key in sorted(used)
                ]
                digest = _digest(
                    "observation", seen.scenario, seen.sha, when, sorted(touched.items()), functions
                )
                cursor = self._connection.execute(
                    queries.INSERT_OBSERVATION,
                    (digest, self._word(seen.scenario), self._word(seen.sha), when),
                )
                if cursor.rowcount == 0:
                    continue
                key = cursor.lastrowid
                rows = [(key, self._word(path), flag) for path, flag in touched.items()]
                self._connection.executemany(queries.INSERT_OBSERVED_FILE, rows)
                self._connection.executemany(
                    queries.INSERT_OBSERVED_FUNCTION,
                    [
                        (key, self._word(path), self._word(name), *numbers)
                        for path, name, *numbers in functions
                    ],
                )
                new += 1
        return new

    def observations(
        self, newest: int | None = None, paths: Collection[str] | None = None
    ) -> tuple[list[Observation], UseColumns]:
        """What launches were seen to touch, by `known_at` and digest, and what functions took, by their places.

        Args:
            newest: That many of each scenario; all if not given.
            paths: Files whose functions are read; all if not given.
        """
        from tithe.data.uses import columns

        with self.reading() as connection:
            found = connection.execute(queries.SELECT_OBSERVATIONS, (newest or 2**62,)).fetchall()
            told = []
            for key, scenario, sha, known_at in found:
                files: tuple[list[str], list[str]] = ([], [])
                for path, flag in connection.execute(queries.SELECT_OBSERVED_FILES, (key,)):
                    files[flag].append(path)
                told.append(Observation(scenario, sha, known_at, tuple(files[1]), tuple(files[0])))
            place = {row[0]: at for at, row in enumerate(found)}
            query = queries.SELECT_OBSERVED_FUNCTIONS.format(paths="" if paths is None else queries.OF_PATHS)
            given = {"observations": json.dumps(list(place)), "paths": json.dumps(sorted(paths or ()))}
            rows = connection.execute(query, given) if found else ()
            return told, columns((place[key], *rest) for key, *rest in rows)

    def last_observed(self) -> float:
        """When the newest observation became known; 0 where there is none."""
        with self.reading() as connection:
            return float(connection.execute(queries.LAST_OBSERVED).fetchone()[0])

    # What was concluded.

    def add_outcomes(self, outcomes: Iterable[Outcome]) -> int:
        """Add outcomes; the number that was new. None is ever replaced, see `outcomes` for what is read."""
        with self.transaction():
            before = self._connection.total_changes - self._file.words_made
            self._connection.executemany(queries.INSERT_OUTCOME, map(self._outcome_row, outcomes))
            return self._connection.total_changes - self._file.words_made - before

    def _outcome_row(self, outcome: Outcome) -> tuple[object, ...]:
        about = (outcome.base, outcome.change, outcome.scenario, outcome.metric)
        row = (
            outcome.verdict,
            _real(outcome.known_at),
            outcome.source,
            outcome.picked,
            _maybe(outcome.ratio),
            _maybe(outcome.low),
            _maybe(outcome.high),
            _real(outcome.confidence),
            _real(outcome.weight),
        )
        digest = _digest("outcome", *about, *row, outcome.run)
        return (digest, *(self._word(text) for text in about), *row, self._word(outcome.run))

    def verdict_counts(self) -> dict[str, int]:
        """Outcomes by verdict, most frequent first; of several of one subject the one that speaks counts."""
        with self._errors():
            counts = dict(self._connection.execute(queries.COUNT_VERDICTS).fetchall())
            for verdict, count in self._connection.execute(queries.COUNT_SUPERSEDED).fetchall():
                counts[verdict] -= count
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        return {verdict: count for verdict, count in ranked if count}

    def outcomes(
        self,
        *,
        until: float | None = None,
        since: float | None = None,
        scenarios: Collection[ScenarioName] | None = None,
        superseded: bool = False,
    ) -> list[Outcome]:
        """What was known before the moment `until` (or ever), by `known_at` and digest; of `scenarios`, or of
        all; `since` leaves out what was known earlier.

        Of several outcomes of one (base, change, scenario, metric) the one with the strongest source speaks
        (human > bisect > ab, sweep > import), then the newest; with `superseded` all are returned.
        """
        given = {
            "until": math.inf if until is None else float(until),
            "since": -math.inf if since is None else float(since),
            "scenarios": None if scenarios is None else json.dumps(sorted(scenarios)),
            "superseded": superseded,
        }
        with self._errors():
            rows = self._connection.execute(queries.SELECT_OUTCOMES, given).fetchall()
        return [Outcome(*row) for row in rows]

    def add_selection(self, selection: Selection, created_at: float) -> None:
        """Add what `select` answered; of two times the earlier one stays."""
        with self.transaction():
            self._add_selection(selection, _real(created_at))

    def _add_selection(self, selection: Selection, created_at: float | None) -> int:
        document = codec.to_json(selection)
        digest = _digest("selection", document)
        known = self._connection.execute(
            "SELECT digest, created_at FROM selection WHERE id = ?", (selection.id,)
        ).fetchone()
        if known is None:
            self._connection.execute(
                queries.INSERT_SELECTION,
                (selection.id, digest, created_at, document),
            )
            return 1
        if digest > known[0]:
            self._connection.execute(
                "UPDATE selection SET digest = ?, document = ? WHERE id = ?", (digest, document, selection.id)
            )
        if created_at is not None and (known[1] is None or created_at < known[1]):
            self._connection.execute(
                "UPDATE selection SET created_at = ? WHERE id = ?", (created_at, selection.id)
            )
        return 0

    def selection(self, id: str) -> Selection | None:  # noqa: A002 - the record's own word
        """The selection with this id."""
        with self._errors():
            row = self._connection.execute("SELECT document FROM selection WHERE id = ?", (id,)).fetchone()
        return None if row is None else codec.from_json(row[0], Selection, where=str(self.path))

    # Models.

    def add_model(self, version: str, path: str, created_at: float, info: Mapping[str, object]) -> None:
        """Add a trained model, or say anew where a known version is and what it can."""
        with self.transaction():
            self._file.utils["model"].upsert(
                {
                    "version": version,
                    "path": path,
                    "created_at": _real(created_at),
                    "info": codec.to_json(info),
                },
                pk="version",
            )

    def promote(self, version: str, *, now: float | None = None) -> None:
        """Put a model in force, from `now` (the clock's time, unless given) on.

        Raises:
            StoreError: there is no such model.
        """
        with self.transaction():
            if not self._file.utils["model"].count_where("version = ?", [version]):
                raise StoreError(f"no model {version!r}", where=str(self.path), mend="see `tithe status`")
            self._file.utils["promotion"].insert(
                {"version": version, "promoted_at": time.time() if now is None else _real(now)}
            )

    def promoted(self) -> str | None:
        """The version of the model in force."""
        with self._errors():
            row = self._connection.execute(
                "SELECT version FROM promotion ORDER BY id DESC LIMIT 1"
            ).fetchone()
        return None if row is None else str(row[0])

    def models(self) -> list[ModelRow]:
        """All models, oldest first."""
        promoted = self.promoted()
        with self._errors():
            rows = self._connection.execute(
                "SELECT version, path, created_at, info FROM model ORDER BY created_at, version"
            ).fetchall()
        return [
            ModelRow(version, path, created_at, json.loads(info), version == promoted)
            for version, path, created_at, info in rows
        ]

    # The store itself.

    def counts(self) -> dict[str, int]:
        """How much of everything there is."""
        with self._errors():
            return {
                name: int(self._connection.execute(query).fetchone()[0])
                for name, query in queries.COUNTED.items()
            }

    def has_bundle(self, content_hash: str) -> bool:
        """Whether the bundle of this name was taken in."""
        with self._errors():
            row = self._connection.execute("SELECT 1 FROM bundle WHERE hash = ?", (content_hash,)).fetchone()
        return row is not None

    def add_bundle(
        self, content_hash: str, records: Sequence[RunRecord | Launch | Outcome | Change | Selection]
    ) -> dict[str, int] | None:
        """Take in all records of a bundle in one transaction: how many were new, by kind.

        None when the bundle was taken in before. A selection has no time of its own; it gets the earliest
        start of the runs in the bundle that carried it out.
        """
        with self.transaction():
            cursor = self._connection.execute(
                "INSERT OR IGNORE INTO bundle (hash, records) VALUES (?, ?)", (content_hash, len(records))
            )
            if cursor.rowcount == 0:
                return None
            started: dict[str, float] = {}
            for record in records:
                if isinstance(record, RunRecord) and record.selection:
                    at = _real(record.started_at)
                    started[record.selection] = min(at, started.get(record.selection, at))
            added = dict.fromkeys(("changes", "runs", "launches", "outcomes", "selections"), 0)
            for record in records:
                if isinstance(record, Change):
                    # Which commits are on history, git alone says: a bundle is the word of whoever wrote it.
                    added["changes"] += self._add_change(replace(record, index=-1))
                elif isinstance(record, RunRecord):
                    added["runs"] += self._add_run(record)
                elif isinstance(record, Launch):
                    added["launches"] += self._add_launch(record)
                elif isinstance(record, Outcome):
                    added["outcomes"] += self.add_outcomes((record,))
                else:
                    added["selections"] += self._add_selection(record, started.get(record.id))
            return {kind: count for kind, count in added.items() if count}


def _measurement(
    scenario: ScenarioName, point: Point
) -> tuple[int, tuple[str, str, str, str], tuple[object, ...]]:
    """Digest of a point of a series, what it is of, and its numbers."""
    about = (scenario, point.host, point.version, point.commit)
    when = None if point.at is None else _real(point.at)
    row = (when, _real(point.value), point.unit, point.direction, point.processes)
    return _digest("measurement", *about, *row), about, row


def _change(row: Sequence[Any], files: tuple[FileEdit, ...]) -> Change:
    sha, parent, index, author, time_, subject, body, merge = row
    return Change(
        sha=sha,
        parent=parent,
        index=index,
        author=author,
        time=time_,
        subject=subject,
        files=files,
        body=body,
        merge=bool(merge),
    )


def _launch(row: Sequence[Any], values: dict[str, float], phases: dict[str, float]) -> Launch:
    name, run, scenario, arm, sha, stage, block, position, place, started, seconds, status, code, note = row
    return Launch(
        id=name,
        run=run,
        scenario=scenario,
        arm=arm,
        sha=sha,
        stage=stage,
        block=block,
        position=position,
        place=place,
        started_at=started,
        seconds=seconds,
        status=status,
        exit_code=code,
        values=values,
        phases=phases,
        note=note,
    )


def _real(value: float) -> float:
    """The number as SQLite gives it back: a float, and without the sign of zero."""
    return float(value) + 0.0


def _maybe(value: float | None) -> float | None:
    return None if value is None else _real(value)


def _digest(*content: object) -> int:
    """63 bits of SHA-256 over a spelling of the content that no version of Python or library changes."""
    return int.from_bytes(hashlib.sha256(_spelled(content).encode("ascii")).digest()[:8], "big") >> 1


_spelled = json.JSONEncoder(ensure_ascii=True, separators=(",", ":")).encode
