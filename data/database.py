"""The file beneath the store: opening, transactions, and one line for every fault of SQLite.

Nothing here knows what a launch is. Every write is one transaction that takes its lock at once (BEGIN
IMMEDIATE), so that writers queue instead of failing half-way, and the write-ahead log is synced at each
commit: what was acknowledged survives `kill -9` and power loss.

sqlite-utils works on the same connection (`DatabaseFile.utils`), for the tables that people manage (tags,
models) and for migrations. It takes 0.25–0.35 s to import where pandas is installed, because it loads that
too, against 0.01 s for sqlite3, and its `insert_all` writes half the rows a second that plain inserts do
(50,000 against 97,000 outcomes). So what `select` waits for, and what comes by the million, is plain sqlite3.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, cast
from urllib.parse import quote

from tithe.data import migrations, paths
from tithe.data.errors import StoreError

if TYPE_CHECKING:
    from sqlite_utils import Database

BUSY_S = 60.0
"""How long a write waits for another process's write before it gives up."""

_RETRY_S = 0.02
CACHE_KIB = 128 * 1024
"""Of pages at most; they are taken when they are needed."""


class DatabaseFile:
    """A connection to a store's file, for one thread; any number of processes may have the file open."""

    def __init__(self, path: Path, connection: sqlite3.Connection, *, read_only: bool) -> None:
        self.path = path
        self.read_only = read_only
        self.connection = connection
        self._utils: Database | None = None
        self._depth = 0
        self._words: dict[str, int] = {}
        self.words_made = 0
        """Rows of table `word` that this connection has added."""

    @classmethod
    def open(cls, path: Path, *, create: bool, read_only: bool) -> DatabaseFile:
        """Open the file; make it, or migrate it to this version, unless it is opened to be read.

        Raises:
            StoreError: there is none (and `create` is false or `read_only` is true); it is corrupt, not a
                store, or from a newer version; the place is read-only, full or locked.
        """
        if (read_only or not create) and not path.exists():
            raise StoreError("no such store", where=str(path), mend="fill one with `tithe ingest`")
        if create and not read_only:
            _make_parent(path)
        file = cls(path, _connect(path, read_only=read_only), read_only=read_only)
        try:
            with file.errors():
                file._prepare()
        except BaseException:
            file.close()
            raise
        return file

    def _prepare(self) -> None:
        self.connection.execute("PRAGMA trusted_schema = OFF")
        version = migrations.version_of(self.connection)
        migrations.check_known(version)
        if self.read_only:
            if version < migrations.VERSION:
                raise StoreError(
                    f"has schema version {version}, older than version {migrations.VERSION}"
                    if version
                    else "is empty",
                    mend="open it once for writing (any `tithe ingest`), which brings it up to date",
                )
            return
        self._use_wal()
        self.connection.execute("PRAGMA synchronous = FULL")
        # Digests come in no order: with the 2 MB of the default, a large store waits for its index.
        self.connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        # A migration may rebuild tables that others refer to, so references are enforced only after it;
        # within a transaction the switch would do nothing.
        if version < migrations.VERSION:
            self._refuse_damaged(self.connection, "it was not migrated")
            with self.transaction():
                migrations.upgrade(self.connection)
        self.connection.execute("PRAGMA foreign_keys = ON")

    def _use_wal(self) -> None:
        """Switch to the write-ahead log; a file system that cannot share memory keeps the journal it has."""
        deadline = time.monotonic() + BUSY_S
        while True:
            try:
                (mode,) = self.connection.execute("PRAGMA journal_mode").fetchone()
                if mode != "wal":
                    self.connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:  # noqa: PERF203 - to try again is the point
                # SQLite does not wait by itself here when several processes make one file at once.
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_S)
            else:
                return

    def close(self) -> None:
        """Close the file; a second call does nothing."""
        self.connection.close()

    @property
    def utils(self) -> Database:
        """sqlite-utils on this connection. Write within `transaction()` only."""
        if self._utils is None:
            from sqlite_utils import Database

            # Plugins of sqlite-utils belong to whoever installed them, for files of their own.
            self._utils = Database(self.connection, execute_plugins=False, recursive_triggers=False)
        return self._utils

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All writes within are one transaction; nested ones join the outermost.

        Raises:
            StoreError: the file cannot be written; nothing of the transaction remains.
        """
        if self._depth:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
            return
        with self.errors():
            if self.read_only:
                raise StoreError("is opened to be read only")
            self.connection.execute("BEGIN IMMEDIATE")
            self._depth = 1
            try:
                yield
                self.connection.execute("COMMIT")
            except BaseException:
                self._words.clear()  # some were given by the transaction that is now undone
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise
            finally:
                self._depth = 0

    def errors(self) -> AbstractContextManager[None]:
        """See `errors`, of this file."""
        return errors(self.path)

    def word(self, text: str) -> int:
        """The key of a string in table `word`; within a transaction."""
        key = self._words.get(text)
        if key is None:
            row = self.connection.execute("SELECT id FROM word WHERE text = ?", (text,)).fetchone()
            if row is None:
                cursor = self.connection.execute("INSERT INTO word (text) VALUES (?)", (text,))
                key = cast("int", cursor.lastrowid)
                self.words_made += 1
            else:
                key = int(row[0])
            self._words[text] = key
        return key

    def text(self, key: int) -> str:
        """The string of a key in table `word`."""
        row = self.connection.execute("SELECT text FROM word WHERE id = ?", (int(key),)).fetchone()
        return str(row[0])

    def backup(self, target: Path) -> int:
        """Copy all to `target`, whole, while others may write; bytes.

        Raises:
            StoreError: `target` is there already, or cannot be written; nothing is left of it then.
        """
        if os.path.lexists(target):
            raise StoreError("is there already", where=str(target), mend="name a new file, or move it away")
        part = target.with_name(f"{target.name}.{os.getpid()}.part")
        try:
            copy = sqlite3.connect(part)
            try:
                with self.errors():
                    self.connection.backup(copy)
                self._refuse_damaged(copy, "nothing was copied")
            finally:
                copy.close()
            os.link(part, target)  # unlike a rename this does not replace what came meanwhile
            return target.stat().st_size
        except (OSError, sqlite3.Error) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise StoreError(f"cannot be written: {why}", where=str(target)) from None
        finally:
            with suppress(OSError):
                part.unlink()

    def compact(self) -> tuple[int, int]:
        """Give unused space back to the disk; bytes before and after."""
        before = self._size()
        self._refuse_damaged(self.connection, "nothing was changed")
        with self.errors():
            self.connection.execute("VACUUM")
            self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return before, self._size()

    def _refuse_damaged(self, connection: sqlite3.Connection, result: str) -> None:
        """Raises StoreError where SQLite finds a fault: a copy of a damaged store passes for a good one later."""
        with self.errors():
            (first,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if first != "ok":
            raise StoreError(
                f"is damaged ({' '.join(str(first).split())}); {result}",
                where=str(self.path),
                mend="see `tithe db check`",
            )

    def _size(self) -> int:
        files = (self.path, self.path.with_name(self.path.name + "-wal"))
        return sum(path.stat().st_size for path in files if path.exists())

    def export(self, folder: Path) -> dict[str, int]:
        """Write every view to `folder` as JSON lines, sorted, as of one moment; records by view.

        Raises:
            StoreError: the folder cannot be written.
        """
        counts: dict[str, int] = {}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with self.errors():
                self.connection.execute("BEGIN")
                try:
                    for view in sorted(name for kind, name in migrations.objects() if kind == "view"):
                        counts[view] = self._export(view, folder / f"{view}.jsonl")
                finally:
                    self.connection.execute("ROLLBACK")
        except OSError as error:
            raise StoreError(f"cannot be written: {error.strerror}", where=str(folder)) from None
        return counts

    def _export(self, view: str, path: Path) -> int:
        rows = self.connection.execute(f"SELECT * FROM {view} ORDER BY 1, 2")  # noqa: S608 - a view of ours
        names = [column[0] for column in rows.description]
        part = path.with_name(f"{path.name}.part")
        count = 0
        with part.open("w", encoding="utf-8") as stream:
            for row in rows:
                record = dict(zip(names, row, strict=True))
                stream.write(json.dumps(record, ensure_ascii=False, sort_keys=True) + "\n")
                count += 1
        part.replace(path)
        return count

    def check(self) -> list[str]:
        """What is wrong with the file, in SQLite's words; empty when all is well. Reads everything.

        Raises:
            StoreError: the file is too broken even to be checked.
        """
        with self.errors():
            found = [str(row[0]) for row in self.connection.execute("PRAGMA integrity_check")]
            faults = [line for line in found if line != "ok"]
            faults += [
                f"row {row} of {table} refers to a row of {parent} that is not there"
                for table, row, parent, _ in self.connection.execute("PRAGMA foreign_key_check")
            ]
            there = {
                (kind, name)
                for kind, name in self.connection.execute("SELECT type, name FROM sqlite_master")
                if not name.startswith("sqlite_")
            }
            ours = migrations.objects()
            faults += [f"{kind} {name} is none of tithe's" for kind, name in sorted(there - ours)]
            faults += [f"{kind} {name} is not there" for kind, name in sorted(ours - there)]
        return faults


@contextmanager
def errors(path: Path) -> Iterator[None]:
    """Let every fault of SQLite out as one `StoreError` that says where, and how to mend it."""
    try:
        yield
    except sqlite3.Error as error:
        raise explained(error, path) from error
    except (OverflowError, UnicodeEncodeError) as error:
        raise StoreError(f"cannot hold a record: {error}", where=str(path)) from error
    except StoreError as error:
        if error.where:
            raise
        raise StoreError(error.what, where=str(path), mend=error.mend) from error


def version(path: Path) -> int:
    """The schema version of the file at `path`, which is left as it is; 0 where there is none.

    Raises:
        StoreError: it is no store, or cannot be read.
    """
    if not path.exists():
        return 0
    connection = _connect(path, read_only=True)
    try:
        with errors(path):
            return migrations.version_of(connection)
    finally:
        connection.close()


def explained(error: sqlite3.Error, path: Path) -> StoreError:
    """One line for a fault of SQLite; told by its message, since Python 3.10 gives no code."""
    message = str(error)
    if any(sign in message for sign in _CORRUPT):
        return StoreError(
            f"is corrupt ({message})",
            where=str(path),
            mend=f"move it aside (mv {path.name} {path.name}.corrupt; its -wal and -shm too) and rebuild it"
            " with `tithe ingest git` and `tithe ingest spool`",
        )
    for sign, what, mend in _ADVICE:
        if sign in message:
            return StoreError(what, where=str(path), mend=mend)
    return StoreError(f"SQLite says: {message}", where=str(path))


_CORRUPT = ("malformed", "not a database", "no such table", "no such column")

_ADVICE: tuple[tuple[str, str, str], ...] = (
    ("locked", f"is being written by another process, for {BUSY_S:g} s", "try again, or end that process"),
    ("disk is full", "the disk is full; nothing was written", "free some space and run the command again"),
    ("readonly", "cannot be written: read-only", "see to the permissions of the file and its folder"),
    ("unable to open", "cannot be opened or made", "see to the permissions of the file and its folder"),
    (
        "disk I/O error",
        "cannot be read or written (disk I/O error)",
        "see to the disk: is it full, or failing?",
    ),
    ("constraint failed", "a record breaks a rule of the store, so nothing was written", "please report it"),
)


def _make_parent(path: Path) -> None:
    folder = path.parent
    if folder.name == paths.HOME:
        paths.home(folder.parent)
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot be made: {error.strerror}", where=str(folder)) from None


def _connect(path: Path, *, read_only: bool) -> sqlite3.Connection:
    uri = f"file:{quote(os.fsencode(path.absolute()))}?mode={'ro' if read_only else 'rwc'}"
    try:
        return _usable(uri)
    except sqlite3.Error as error:
        log = path.with_name(path.name + "-wal")
        if not read_only or (log.exists() and log.stat().st_size):
            raise explained(error, path) from error
        # In a folder that cannot be written there is no place for the log's index. With no log there is
        # nothing that it would say either: the file can be read as one that nobody changes.
        try:
            return _usable(f"{uri}&immutable=1")
        except sqlite3.Error as again:
            raise explained(again, path) from again


def _usable(uri: str) -> sqlite3.Connection:
    """A connection in autocommit, so that this module alone begins and ends transactions."""
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)
    try:
        connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except BaseException:
        connection.close()
        raise
    return connection
