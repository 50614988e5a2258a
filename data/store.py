"""One SQLite file that holds what changed, what was measured and what was concluded.

Three things make it safe to share. Every record is keyed by a digest of its content, and where two unlike
records claim one key the larger one stays, so that arrival order and repetition do not matter. Every write
is one transaction that takes its lock at once (BEGIN IMMEDIATE), so that writers queue instead of failing
half-way. And the write-ahead log is synced at each commit: what was acknowledged survives `kill -9` and
power loss.

sqlite-utils works on the same connection (`Store.db`), for the tables that people manage (tags, models) and for
migrations. It takes 0.25–0.35 s to import where pandas is installed, which it then loads, against 0.01 s for
sqlite3; and `insert_all` writes about a fifth of the rows a second that `executemany` does. So what `select`
waits for and what comes by the million goes through plain sqlite3.
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote

from tithe.data import codec, migrations, paths
from tithe.data.errors import StoreError
from tithe.data.noise import Noise, SampleColumns, pooled
from tithe.data.records import (
    Change,
    FileEdit,
    Launch,
    LaunchId,
    MetricName,
    Outcome,
    RunId,
    RunRecord,
    ScenarioName,
    Selection,
    Sha,
    Stage,
)

if TYPE_CHECKING:
    from sqlite_utils import Database

BUSY_S = 60.0
"""How long a write waits for another process's write before it gives up."""

_CHUNK = 2000
"""Launches that are read at once: no read stays open while the caller works, or writes."""

_RETRY_S = 0.02


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
    """The store; a context manager. One object belongs to one thread, one file to any number of processes."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        self._connection = connection
        self._database: Database | None = None
        self._depth = 0
        self._words: dict[str, int] = {}

    @classmethod
    def open(cls, path: Path, *, create: bool = True, read_only: bool = False) -> Store:
        """Open the store at `path`; make it, or migrate it to this version, unless it is opened to read.

        Raises:
            StoreError: there is none (and `create` is false or `read_only` is true); it is corrupt, not a
                store, or from a newer version; the place is read-only, full or locked.
        """
        path = Path(path)
        if read_only or not create:
            if not path.is_file():
                raise StoreError("no such store", where=str(path), mend="fill one with `tithe ingest`")
        else:
            _make_parent(path)
        connection = _connect(path, read_only=read_only)
        store = cls(path, connection, read_only=read_only)
        try:
            with store._errors():
                store._prepare()
        except BaseException:
            connection.close()
            raise
        return store

    def _prepare(self) -> None:
        self._connection.execute("PRAGMA trusted_schema = OFF")
        version = migrations.version_of(self._connection)
        migrations.check_known(version)
        if self.read_only:
            if version < migrations.VERSION:
                raise StoreError(
                    f"has schema version {version}, older than version {migrations.VERSION}",
                    mend="open it once for writing (any `tithe ingest`), which migrates it",
                )
            return
        self._use_wal()
        # Migrations may rebuild tables that others refer to, so references are enforced only afterwards; the
        # switch does nothing within a transaction.
        self._connection.execute("PRAGMA synchronous = FULL")
        if version < migrations.VERSION:
            with self.transaction():
                migrations.upgrade(self._connection)
        self._connection.execute("PRAGMA foreign_keys = ON")

    def _use_wal(self) -> None:
        """Switch to the write-ahead log; a file system that cannot share memory keeps the journal it has."""
        deadline = time.monotonic() + BUSY_S
        while True:
            (mode,) = self._connection.execute("PRAGMA journal_mode").fetchone()
            if mode == "wal":
                return
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                # SQLite does not wait by itself here when several processes open a new file at once.
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_S)
            else:
                return

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def db(self) -> Database:
        """sqlite-utils on this store's connection. Write within `transaction()` only."""
        if self._database is None:
            from sqlite_utils import Database

            # Plugins of sqlite-utils belong to whoever installed them for their own files.
            self._database = Database(self._connection, execute_plugins=False, recursive_triggers=False)
        return self._database

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes within are one transaction; nested ones join the outermost.

        Raises:
            StoreError: the store cannot be written; nothing of the transaction remains.
        """
        if self._depth:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
            return
        with self._errors():
            if self.read_only:
                raise StoreError("is opened to be read only", where=str(self.path))
            self._connection.execute("BEGIN IMMEDIATE")
            self._depth = 1
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                self._words.clear()  # some were given by the transaction that is now undone
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise
            finally:
                self._depth = 0

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Let every fault of SQLite out as one `StoreError` that says how to mend it."""
        try:
            yield
        except sqlite3.Error as error:
            raise _explained(error, self.path) from error
        except (OverflowError, UnicodeEncodeError) as error:
            raise StoreError(f"cannot hold a record: {error}", where=str(self.path)) from error
        except StoreError as error:
            if error.where:
                raise
            raise StoreError(error.what, where=str(self.path), mend=error.mend) from error

    # -- what changed ------------------------------------------------------------------------------------------

    def add_changes(self, changes: Iterable[Change]) -> int:
        """Add commits; the number of those that were not known. See table `change` for unlike records of one."""
        new = 0
        with self.transaction():
            for change in changes:
                new += self._add_change(change)
        return new

    def _add_change(self, change: Change) -> int:
        files = [(edit.path, edit.old_path, edit.added, edit.deleted) for edit in change.files]
        when = float(change.time)
        row = (change.author, when, change.subject, change.body, int(change.merge))
        digest = _digest("change", change.sha, change.parent, change.index, *row, files)
        sha = self._word(change.sha)
        known = self._connection.execute(
            "SELECT history_index, time, digest FROM change WHERE sha_id = ?", (sha,)
        ).fetchone()
        if known is not None:
            if known >= (change.index, when, digest):
                return 0
            self._connection.execute("DELETE FROM file_edit WHERE sha_id = ?", (sha,))
            self._connection.execute("DELETE FROM change WHERE sha_id = ?", (sha,))
        self._connection.execute(
            "INSERT INTO change (sha_id, digest, parent_id, history_index, author, time, subject, body, is_merge)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (sha, digest, self._word(change.parent), change.index, *row),
        )
        self._connection.executemany(
            "INSERT INTO file_edit (sha_id, position, path_id, old_path_id, added, deleted) VALUES (?, ?, ?, ?, ?, ?)",
            [
                (sha, position, self._word(path), self._word(old), added, deleted)
                for position, (path, old, added, deleted) in enumerate(files)
            ],
        )
        return int(known is None)

    def changes(self, *, off_history: bool = False) -> list[Change]:
        """The commits of first-parent history, oldest first.

        With `off_history`, also the diffs that were under test and are not on it, each after the commits
        that are not later than it.
        """
        with self._errors():
            edits: dict[int, list[FileEdit]] = {}
            for sha, path, old, added, deleted in self._connection.execute(
                "SELECT e.sha_id, p.text, o.text, e.added, e.deleted FROM file_edit e"
                " JOIN word p ON p.id = e.path_id JOIN word o ON o.id = e.old_path_id ORDER BY e.sha_id, e.position"
            ):
                edits.setdefault(sha, []).append(
                    FileEdit(path=path, added=added, deleted=deleted, old_path=old)
                )
            rows = self._connection.execute(
                f"{_SELECT_CHANGE} WHERE c.history_index >= ? ORDER BY {_HISTORY_ORDER}",
                (-1 if off_history else 0,),
            ).fetchall()
        found = [_change(row[1:], tuple(edits.get(row[0], ()))) for row in rows]
        if off_history:
            found.sort(key=lambda change: change.time)  # stable: history stays in its own order
        return found

    def last_change(self) -> Change | None:
        """The newest commit of first-parent history."""
        with self._errors():
            row = self._connection.execute(
                f"{_SELECT_CHANGE} WHERE c.history_index >= 0"
                " ORDER BY c.history_index DESC, c.time DESC, s.text DESC LIMIT 1"
            ).fetchone()
            if row is None:
                return None
            files = self._connection.execute(
                "SELECT p.text, o.text, e.added, e.deleted FROM file_edit e JOIN word p ON p.id = e.path_id"
                " JOIN word o ON o.id = e.old_path_id WHERE e.sha_id = ? ORDER BY e.position",
                (row[0],),
            ).fetchall()
        edits = tuple(
            FileEdit(path=path, added=added, deleted=deleted, old_path=old)
            for path, old, added, deleted in files
        )
        return _change(row[1:], edits)

    def set_tags(self, tags: Mapping[str, Sha]) -> None:
        """Make the tags of the store these, and no others."""
        with self.transaction():
            rows = [{"name": name, "sha_id": self._word(sha)} for name, sha in sorted(tags.items())]
            self.db["tag"].delete_where()
            self.db["tag"].insert_all(rows)

    def tags(self) -> dict[str, Sha]:
        """Tag name to commit, by name."""
        with self._errors():
            return dict(self._connection.execute("SELECT name, sha FROM tags ORDER BY name").fetchall())

    # -- what was measured -------------------------------------------------------------------------------------

    def add_run(self, run: RunRecord) -> None:
        """Add a run; see table `run` for unlike records of one."""
        with self.transaction():
            self._add_run(run)

    def _add_run(self, run: RunRecord) -> int:
        when = float(run.started_at)
        digest = _digest(
            "run", run.id, run.kind, run.base, run.head, when, run.host, run.picked, run.selection
        )
        key = self._word(run.id)
        known = self._connection.execute("SELECT started_at, digest FROM run WHERE id = ?", (key,)).fetchone()
        if known is not None and known >= (when, digest):
            return 0
        self._connection.execute(
            "INSERT OR REPLACE INTO run (id, digest, kind, base_id, head_id, started_at, host_id, picked, selection)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
            rows = self._connection.execute(
                "SELECT id, kind, base, head, started_at, host, picked, selection FROM runs"
                " WHERE ?1 IS NULL OR kind = ?1 ORDER BY started_at, id",
                (kind,),
            ).fetchall()
        return [RunRecord(*row) for row in rows]

    def add_launches(self, launches: Iterable[Launch]) -> int:
        """Add launches with all their samples; the number that was new."""
        with self.transaction():
            return sum(self._add_launch(launch) for launch in launches)

    def _add_launch(self, launch: Launch) -> int:
        values = sorted((name, float(value)) for name, value in launch.values.items())
        phases = sorted((name, float(value)) for name, value in launch.phases.items())
        for name, value in (*values, *phases):
            if not math.isfinite(value):
                raise StoreError(
                    f"launch {launch.id!r} of {launch.scenario!r} has {name!r} = {value}",
                    where=str(self.path),
                    mend="leave out what could not be measured",
                )
        head = (launch.block, launch.position, launch.place, float(launch.started_at), float(launch.seconds))
        tail = (launch.status, launch.exit_code, launch.note)
        digest = _digest(
            "launch", launch.id, launch.run, launch.scenario, launch.arm, launch.sha, launch.stage, *head, *tail,
            values, phases,
        )  # fmt: skip
        cursor = self._connection.execute(
            "INSERT OR IGNORE INTO launch (digest, name, run_id, scenario_id, arm, sha_id, stage, block, position,"
            " place, started_at, seconds, status, exit_code, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                digest,
                launch.id,
                self._word(launch.run),
                self._word(launch.scenario),
                launch.arm,
                self._word(launch.sha),
                launch.stage,
                *head,
                *tail,
            ),
        )
        if cursor.rowcount == 0:
            self._must_know("launch", digest)
            return 0
        key = cursor.lastrowid
        self._connection.executemany(
            "INSERT INTO sample (launch_id, metric_id, value) VALUES (?, ?, ?)",
            [(key, self._word(name), value) for name, value in values],
        )
        if phases:
            self._connection.executemany(
                "INSERT INTO phase (launch_id, mark_id, seconds) VALUES (?, ?, ?)",
                [(key, self._word(name), value) for name, value in phases],
            )
        return 1

    def launches(
        self, *, run: RunId | None = None, scenario: ScenarioName | None = None, stage: Stage | None = None
    ) -> Iterator[Launch]:
        """Launches, warm-ups included, by start; all, or those of a run, scenario or stage.

        They are read in parts, so that launches which arrive meanwhile may be among them.
        """
        where, given = ["1"], []
        for column, word in (("run_id", run), ("scenario_id", scenario)):
            if word is not None:
                where.append(f"l.{column} = (SELECT id FROM word WHERE text = ?)")
                given.append(str(word))
        if stage is not None:
            where.append("l.stage = ?")
            given.append(stage)
        chosen = " AND ".join(where)
        last: tuple[float, int] = (-math.inf, -(2**63))
        while True:
            with self._errors():
                rows = self._connection.execute(
                    "SELECT l.id, l.digest, l.name, r.text, s.text, l.arm, c.text, l.stage, l.block, l.position, l.place,"  # noqa: S608 - fixed text
                    " l.started_at, l.seconds, l.status, l.exit_code, l.note FROM launch l"
                    " JOIN word r ON r.id = l.run_id JOIN word s ON s.id = l.scenario_id JOIN word c ON c.id = l.sha_id"
                    f" WHERE {chosen} AND (l.started_at, l.digest) > (?, ?)"
                    " ORDER BY l.started_at, l.digest LIMIT ?",
                    (*given, *last, _CHUNK),
                ).fetchall()
                keys = [row[0] for row in rows]
                values = self._by_launch(
                    "SELECT v.launch_id, w.text, v.value FROM sample v JOIN word w ON w.id = v.metric_id",
                    keys,
                )
                phases = self._by_launch(
                    "SELECT v.launch_id, w.text, v.seconds FROM phase v JOIN word w ON w.id = v.mark_id", keys
                )
            for row in rows:
                yield Launch(
                    *row[2:15], values=values.get(row[0], {}), phases=phases.get(row[0], {}), note=row[15]
                )
            if len(rows) < _CHUNK:
                return
            last = (rows[-1][11], rows[-1][1])

    def _by_launch(self, select: str, keys: Sequence[int]) -> dict[int, dict[str, float]]:
        """Name to value of each launch; the keys travel as one JSON list, whatever their number."""
        found: dict[int, dict[str, float]] = {}
        for key, name, value in self._connection.execute(
            f"{select} WHERE v.launch_id IN (SELECT value FROM json_each(?)) ORDER BY v.launch_id, w.text",
            (json.dumps(keys),),
        ):
            found.setdefault(key, {})[name] = value
        return found

    def launch_seconds(self) -> dict[ScenarioName, float]:
        """Mean machine time of a launch, warm-ups left out, by scenario.

        Summed in whole microseconds, so that the mean does not depend on the order of the rows.
        """
        with self._errors():
            rows = self._connection.execute(
                "SELECT w.text, m.total, m.n FROM (SELECT scenario_id, SUM(CAST(ROUND(seconds * 1e6) AS INTEGER)) AS total,"
                " COUNT(*) AS n FROM launch WHERE stage <> 'warmup' GROUP BY scenario_id) m"
                " JOIN word w ON w.id = m.scenario_id ORDER BY w.text"
            ).fetchall()
        return {name: total / 1e6 / n for name, total, n in rows}

    def noise(self, *, host: str | None = None) -> dict[tuple[ScenarioName, MetricName], Noise]:
        """The pooled scatter of the block statistic, per scenario and metric; of one host, or of all.

        See `tithe.data.noise` for which blocks count and for the formula.
        """
        import numpy as np

        with self._errors():
            cursor = self._connection.execute(_SELECT_SAMPLES, (host,))
            rows = np.fromiter(
                cursor,
                dtype=np.dtype(
                    [(name, np.int64) for name in ("scenario", "metric", "run", "block", "head", "sha")]
                    + [("value", np.float64)]
                ),
            )
            names = {int(key): self._text(key) for key in np.union1d(rows["scenario"], rows["metric"])}
        pairs, series = np.unique(rows[["scenario", "metric"]], return_inverse=True)
        found = pooled(
            SampleColumns(
                series=series.reshape(-1).astype(np.int64),
                comparison=rows["run"],
                block=rows["block"],
                is_head=rows["head"] == 1,
                sha=rows["sha"],
                value=rows["value"],
            )
        )
        noises = {
            (
                ScenarioName(names[int(pairs[key]["scenario"])]),
                MetricName(names[int(pairs[key]["metric"])]),
            ): noise
            for key, noise in found.items()
        }
        return dict(sorted(noises.items()))

    # -- what was concluded ------------------------------------------------------------------------------------

    def add_outcomes(self, outcomes: Iterable[Outcome]) -> int:
        """Add outcomes; the number that was new. None is ever replaced, see `outcomes` for what is read."""
        with self.transaction():
            return sum(self._add_outcome(outcome) for outcome in outcomes)

    def _add_outcome(self, outcome: Outcome) -> int:
        about = (outcome.base, outcome.change, outcome.scenario, outcome.metric)
        row = (
            outcome.verdict,
            float(outcome.known_at),
            outcome.source,
            outcome.picked,
            _float(outcome.ratio),
            _float(outcome.low),
            _float(outcome.high),
            float(outcome.confidence),
            float(outcome.weight),
        )
        digest = _digest("outcome", *about, *row, outcome.run)
        cursor = self._connection.execute(
            "INSERT OR IGNORE INTO outcome (digest, base_id, change_id, scenario_id, metric_id, verdict, known_at,"
            " source, picked, ratio, low, high, confidence, weight, run_id)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (digest, *(self._word(text) for text in about), *row, self._word(outcome.run)),
        )
        if cursor.rowcount == 0:
            self._must_know("outcome", digest)
            return 0
        return 1

    def outcomes(self, *, until: float | None = None, superseded: bool = False) -> list[Outcome]:
        """What was known before the moment `until` (or ever), by `known_at` and digest.

        Of several outcomes of one (base, change, scenario, metric) the one with the strongest source speaks
        (human > bisect > ab, sweep > import), then the newest; with `superseded` all are returned.
        """
        hidden = "" if superseded else f" AND NOT EXISTS ({_STRONGER})"
        with self._errors():
            rows = self._connection.execute(
                f"{_SELECT_OUTCOME} WHERE o.known_at < :until{hidden} ORDER BY o.known_at, o.digest",
                {"until": math.inf if until is None else float(until)},
            ).fetchall()
        return [Outcome(*row) for row in rows]

    def add_selection(self, selection: Selection, created_at: float) -> None:
        """Add what `select` answered; of two times the earlier one stays."""
        with self.transaction():
            self._add_selection(selection, float(created_at))

    def _add_selection(self, selection: Selection, created_at: float | None) -> int:
        document = codec.to_json(selection)
        digest = _digest("selection", document)
        known = self._connection.execute(
            "SELECT digest, created_at FROM selection WHERE id = ?", (selection.id,)
        ).fetchone()
        if known is None:
            self._connection.execute(
                "INSERT INTO selection (id, digest, created_at, document) VALUES (?, ?, ?, ?)",
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

    # -- models ------------------------------------------------------------------------------------------------

    def add_model(self, version: str, path: str, created_at: float, info: Mapping[str, object]) -> None:
        """Add a trained model, or say anew where a known version is and what it can."""
        with self.transaction():
            self.db["model"].upsert(
                {
                    "version": version,
                    "path": path,
                    "created_at": float(created_at),
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
            if not self.db["model"].count_where("version = ?", [version]):
                raise StoreError(f"no model {version!r}", where=str(self.path), mend="see `tithe status`")
            self.db["promotion"].insert(
                {"version": version, "promoted_at": time.time() if now is None else float(now)}
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

    # -- the store itself --------------------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """How much of everything there is."""
        with self._errors():
            return {
                name: int(self._connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0])  # noqa: S608 - fixed
                for name, table in _COUNTED.items()
            }

    def check(self) -> list[str]:
        """What is wrong with the file, in SQLite's words; empty when all is well. Reads everything.

        Raises:
            StoreError: the file is too broken even to be checked.
        """
        with self._errors():
            found = [str(row[0]) for row in self._connection.execute("PRAGMA integrity_check")]
            faults = [line for line in found if line != "ok"]
            for table, row, parent, _ in self._connection.execute("PRAGMA foreign_key_check"):
                faults.append(f"row {row} of {table} refers to a row of {parent} that is not there")
        return faults

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
                    at = float(record.started_at)
                    started[record.selection] = min(at, started.get(record.selection, at))
            added = dict.fromkeys(("changes", "runs", "launches", "outcomes", "selections"), 0)
            for record in records:
                if isinstance(record, Change):
                    added["changes"] += self._add_change(record)
                elif isinstance(record, RunRecord):
                    added["runs"] += self._add_run(record)
                elif isinstance(record, Launch):
                    added["launches"] += self._add_launch(record)
                elif isinstance(record, Outcome):
                    added["outcomes"] += self._add_outcome(record)
                else:
                    added["selections"] += self._add_selection(record, started.get(record.id))
            return added

    def _word(self, text: str) -> int:
        """The key of a string; within a transaction."""
        key = self._words.get(text)
        if key is None:
            row = self._connection.execute("SELECT id FROM word WHERE text = ?", (text,)).fetchone()
            if row is None:
                key = cast(
                    "int", self._connection.execute("INSERT INTO word (text) VALUES (?)", (text,)).lastrowid
                )
            else:
                key = int(row[0])
            self._words[text] = key
        return key

    def _text(self, key: int) -> str:
        row = self._connection.execute("SELECT text FROM word WHERE id = ?", (int(key),)).fetchone()
        return str(row[0])

    def _must_know(self, table: str, digest: int) -> None:
        """INSERT OR IGNORE is silent about every broken rule: only a known digest is a reason to pass over."""
        row = self._connection.execute(f"SELECT 1 FROM {table} WHERE digest = ?", (digest,)).fetchone()  # noqa: S608 - fixed
        if row is None:
            raise StoreError(
                f"the {table} breaks a rule of the store: a number that is none, or an unknown word",
                where=str(self.path),
            )


_HISTORY_ORDER = "c.history_index, c.time, s.text"

_SELECT_CHANGE = (
    "SELECT c.sha_id, s.text, p.text, c.history_index, c.author, c.time, c.subject, c.body, c.is_merge"
    " FROM change c JOIN word s ON s.id = c.sha_id JOIN word p ON p.id = c.parent_id"
)

_SELECT_OUTCOME = (
    "SELECT b.text, c.text, s.text, m.text, o.verdict, o.known_at, o.source, o.picked, o.ratio, o.low, o.high,"
    " o.confidence, o.weight, r.text FROM outcome o JOIN word b ON b.id = o.base_id"
    " JOIN word c ON c.id = o.change_id JOIN word s ON s.id = o.scenario_id JOIN word m ON m.id = o.metric_id"
    " JOIN word r ON r.id = o.run_id JOIN source q ON q.name = o.source"
)

_STRONGER = (
    "SELECT 1 FROM outcome x JOIN source y ON y.name = x.source WHERE x.change_id = o.change_id"
    " AND x.scenario_id = o.scenario_id AND x.metric_id = o.metric_id AND x.base_id = o.base_id"
    " AND x.known_at < :until AND (y.strength, x.known_at, x.digest) > (q.strength, o.known_at, o.digest)"
)

# A block with any launch that is not ok is no block of the noise, also where that launch has no sample.
_SELECT_SAMPLES = (
    "WITH spoilt AS (SELECT run_id, scenario_id, stage, block FROM launch WHERE status <> 'ok')"
    " SELECT l.scenario_id, v.metric_id, l.run_id, l.block * 4 + CASE l.stage WHEN 'first' THEN 0"
    " WHEN 'confirm' THEN 1 WHEN 'probe' THEN 2 ELSE 3 END, l.arm = 'head', l.sha_id, v.value"
    " FROM launch l JOIN sample v ON v.launch_id = l.id WHERE l.stage IN ('first', 'confirm', 'probe', 'record')"
    " AND (l.run_id, l.scenario_id, l.stage, l.block) NOT IN spoilt"
    " AND (?1 IS NULL OR l.run_id IN"
    " (SELECT id FROM run WHERE host_id = (SELECT id FROM word WHERE text = ?1)))"
)

_COUNTED = {
    "changes": "change",
    "tags": "tag",
    "runs": "run",
    "launches": "launch",
    "samples": "sample",
    "outcomes": "outcome",
    "selections": "selection",
    "bundles": "bundle",
    "models": "model",
}


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


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)


def _digest(*content: object) -> int:
    """63 bits of SHA-256 over a spelling of the content that no version of Python or library changes."""
    spelled = json.dumps(content, ensure_ascii=True, separators=(",", ":")).encode("ascii")
    return int.from_bytes(hashlib.sha256(spelled).digest()[:8], "big") >> 1


def _make_parent(path: Path) -> None:
    folder = path.parent
    if folder.is_dir():
        return
    if folder.name == paths.HOME:
        paths.home(folder.parent)
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot be made: {error.strerror}", where=str(folder)) from None


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    """A connection in autocommit: this module alone begins and ends transactions."""
    name = quote(str(path.absolute()))
    mode = "ro" if read_only else "rwc"
    try:
        connection = _usable(f"file:{name}?mode={mode}")
    except sqlite3.Error as error:
        log = path.with_name(path.name + "-wal")
        if not read_only or (log.exists() and log.stat().st_size):
            raise _explained(error, path) from error
        # In a folder that cannot be written there is no place for the log's index. With no log there is
        # nothing that it would say either: the file can be read as one that nobody changes.
        try:
            connection = _usable(f"file:{name}?mode=ro&immutable=1")
        except sqlite3.Error as again:
            raise _explained(again, path) from again
    return connection


def _usable(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)
    try:
        connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection


_ADVICE: tuple[tuple[str, str, str], ...] = (
    (
        "locked",
        "is being written by another process, for more than a minute",
        "try again, or end that process",
    ),
    ("disk is full", "the disk is full; nothing was written", "free some space and run the command again"),
    ("readonly", "cannot be written: read-only", "see to the permissions of the file and its folder"),
    ("unable to open", "cannot be opened or made", "see to the permissions of the file and its folder"),
    (
        "disk I/O error",
        "cannot be read or written (disk I/O error)",
        "see to the disk: is it full, or failing?",
    ),
)

_CORRUPT = ("malformed", "not a database", "no such table", "no such column")


def _explained(error: sqlite3.Error, path: Path) -> StoreError:
    """One line for a fault of SQLite; by its message, since Python 3.10 gives no code."""
    message = str(error)
    if any(sign in message for sign in _CORRUPT):
        return StoreError(
            f"is corrupt ({message})",
            where=str(path),
            mend=f"move it aside (mv {path.name} {path.name}.corrupt, with its -wal and -shm) and rebuild it with"
            " `tithe ingest git` and `tithe ingest spool`",
        )
    for sign, what, mend in _ADVICE:
        if sign in message:
            return StoreError(what, where=str(path), mend=mend)
    return StoreError(f"SQLite says: {message}", where=str(path))
