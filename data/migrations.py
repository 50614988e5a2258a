"""Bring a store to the schema that this tithe knows, or refuse it.

A new store is made from `schema.sql`; an older one is walked through the steps below, all in the one
transaction that the caller holds, so that a store is never seen between two versions. A step may use
sqlite-utils on the same connection (`transform` is what SQLite lacks). Nothing here guesses: a file of a
newer version is refused, because what it holds may mean something else.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tithe._version import VERSION as TITHE_VERSION
from tithe.data.errors import StoreError

APPLICATION_ID = 0x74697468
"""In the header of every store ("tith"), so that another program's SQLite file is not taken for one."""

STRICT_SINCE = (3, 37, 0)


@dataclass(frozen=True)
class Migration:
    """The step from version `to` − 1 to version `to`. `apply` neither commits nor opens a transaction."""

    to: int
    what: str
    apply: Callable[[sqlite3.Connection], None]


def _parts(*names: str) -> Callable[[sqlite3.Connection], None]:
    """A step that makes tables, views and indexes as the schema of today has them; for those that have never
    changed since."""

    def apply(connection: sqlite3.Connection) -> None:
        for statement in statements(for_sqlite(schema_text())):
            made = re.search(r"^CREATE (?:TABLE|VIEW|INDEX) (\w+)", statement, re.MULTILINE)
            if made is not None and made[1] in names:
                connection.execute(statement)

    return apply


def _symbols(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE file_edit ADD COLUMN symbols TEXT NOT NULL DEFAULT ''")
    connection.execute("DROP VIEW file_edits")
    _parts("file_edits")(connection)


MIGRATIONS: tuple[Migration, ...] = (
    Migration(2, "what other tools measured", _parts("measurement", "measurement_by_series", "measurements")),
    Migration(3, "functions and classes that a change touched", _symbols),
    Migration(
        4,
        "which files and functions a launch uses",
        _parts(
            "observation",
            "observed_file",
            "observed_function",
            "observations",
            "observed_files",
            "observed_functions",
        ),
    ),
)
"""All steps, in order. The schema file always shows the result of the last one."""

VERSION = 1 + len(MIGRATIONS)
"""The version that this tithe reads and writes."""


@cache
def schema_text() -> str:
    """The commented schema file."""
    return (Path(__file__).parent / "schema.sql").read_text(encoding="utf-8")


def statements(sql: str) -> Iterator[str]:
    """The statements of a script, one by one: `executescript` would commit the caller's transaction."""
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if re.sub(r"--.*", "", statement).strip():
        raise ValueError(f"not a whole statement: {statement.strip()[:80]}")


def for_sqlite(sql: str, version: tuple[int, ...] = sqlite3.sqlite_version_info) -> str:
    """The script without STRICT where SQLite is too old for it: types are then checked by Python alone."""
    if version >= STRICT_SINCE:
        return sql
    return re.sub(r"^\)( WITHOUT ROWID)?,? STRICT;", r")\1;", sql, flags=re.MULTILINE)


def objects() -> frozenset[tuple[str, str]]:
    """Kind and name of every table, view and index of the schema."""
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in statements(for_sqlite(schema_text())):
            connection.execute(statement)
        rows = connection.execute("SELECT type, name FROM sqlite_master").fetchall()
    return frozenset((kind, name) for kind, name in rows if not name.startswith("sqlite_"))


def version_of(connection: sqlite3.Connection) -> int:
    """The version of the file behind the connection; 0 for an empty one.

    Raises:
        sqlite3.Error: it cannot be read.
        StoreError: it is a SQLite file, but not of tithe.
    """
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return 0
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application != APPLICATION_ID or "schema_version" not in tables:
        raise StoreError(
            "is a SQLite file, but not a store of tithe", mend="name another file, or move it away"
        )
    (version,) = connection.execute("SELECT max(version) FROM schema_version").fetchone()
    return int(version or 0)


def check_known(version: int, newest: int | None = None) -> None:
    """Refuse a file from the future: newer than `newest`, or than this tithe when that is not given.

    Raises:
        StoreError: `version` is larger.
    """
    newest = VERSION if newest is None else newest
    if version > newest:
        raise StoreError(
            f"has schema version {version}, newer than the version {newest} that tithe {TITHE_VERSION} knows",
            mend="upgrade tithe (pip install --upgrade tithe)",
        )


def upgrade(
    connection: sqlite3.Connection,
    *,
    migrations: Sequence[Migration] = MIGRATIONS,
    schema: str | None = None,
    now: Callable[[], float] = time.time,
) -> int:
    """Create the schema in an empty file or migrate an older one; the version that it was before.

    The caller holds a write transaction, with foreign keys not enforced (a step may rebuild a table that
    others refer to); they are checked here after the last step. `schema` describes the version after the
    last of `migrations`.

    Raises:
        StoreError: the file is newer than the last step, or a step left references to nothing.
        sqlite3.Error: a step failed; the caller rolls back.
    """
    newest = 1 + len(migrations)
    before = version_of(connection)
    check_known(before, newest)
    if before == newest:
        return before
    if before == 0:
        for statement in statements(for_sqlite(schema_text() if schema is None else schema)):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        _record(connection, newest, now())
        return before
    for step in migrations[before - 1 :]:
        step.apply(connection)
        _record(connection, step.to, now())
    dangling = connection.execute("PRAGMA foreign_key_check").fetchone()
    if dangling is not None:
        raise StoreError(
            f"migration from version {before} to {newest} left {dangling[0]} without what it refers to",
            mend="nothing was changed; please report it",
        )
    return before


def _record(connection: sqlite3.Connection, version: int, now: float) -> None:
    connection.execute(
        "INSERT INTO schema_version (version, applied_at, tithe) VALUES (?, ?, ?)",
        (version, now, TITHE_VERSION),
    )
