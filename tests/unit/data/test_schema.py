"""The schema file, its page in the docs, and the walk from version to version."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tithe.data import database, migrations, schema_doc
from tithe.data.errors import StoreError
from tithe.data.migrations import Migration
from tithe.data.store import Store

ROOT = Path(__file__).parents[3]

V1 = """
-- Words.
CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at REAL, tithe TEXT) STRICT;
CREATE TABLE thing (id INTEGER PRIMARY KEY, name TEXT NOT NULL) STRICT;
CREATE TABLE part (thing_id INTEGER NOT NULL REFERENCES thing(id), note TEXT) STRICT;
"""
V3 = """
CREATE TABLE schema_version (version INTEGER PRIMARY KEY, applied_at REAL, tithe TEXT) STRICT;
CREATE TABLE thing (id INTEGER PRIMARY KEY, name TEXT NOT NULL, size INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE part (thing_id INTEGER NOT NULL REFERENCES thing(id), remark TEXT) STRICT;
"""


def add_size(connection: sqlite3.Connection) -> None:
    connection.execute("ALTER TABLE thing ADD COLUMN size INTEGER NOT NULL DEFAULT 0")


def rename_note(connection: sqlite3.Connection) -> None:
    from sqlite_utils import Database

    Database(connection, execute_plugins=False)["part"].transform(rename={"note": "remark"})


STEPS = (Migration(2, "things have a size", add_size), Migration(3, "a note is a remark", rename_note))


def walk(connection: sqlite3.Connection, steps: tuple[Migration, ...], schema: str) -> int:
    connection.execute("BEGIN IMMEDIATE")
    try:
        before = migrations.upgrade(connection, migrations=steps, schema=schema, now=lambda: 1.0)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    return before


def shape(connection: sqlite3.Connection) -> dict[str, list[tuple[object, ...]]]:
    """Columns and references of every table, whatever words made them."""
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {
        name: sorted(
            (
                *connection.execute(f"PRAGMA table_info({name})"),
                *connection.execute(f"PRAGMA foreign_key_list({name})"),
            ),
            key=repr,
        )
        for name in names
    }


def old_store() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    assert walk(connection, (), V1) == 0
    connection.execute("INSERT INTO thing VALUES (1, 'one')")
    connection.execute("INSERT INTO part VALUES (1, 'a note')")
    return connection


def test_the_page_of_the_docs_is_what_the_schema_says() -> None:
    made = schema_doc.render()
    written = (ROOT / "docs" / "schema.md").read_text(encoding="utf-8")
    assert written == made, "write tithe.data.schema_doc.render() to docs/schema.md"


def test_the_page_names_every_table_view_and_column(tmp_path: Path) -> None:
    _, parts = schema_doc.parse(migrations.schema_text())
    with Store.open(tmp_path / "s.db"):
        pass
    connection = sqlite3.connect(tmp_path / "s.db")
    real = {
        name: [row[1] for row in connection.execute(f"PRAGMA table_info({name})")]
        for name, kind in connection.execute(
            "SELECT name, type FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'"
        )
        if kind == "table"
    }
    views = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'view'")}
    connection.close()
    assert {part.name: [column.name for column in part.columns] for part in parts if not part.is_view} == real
    assert {part.name for part in parts if part.is_view} == views


@pytest.mark.parametrize(
    "sql", ["CREATE TABLE x (\n    a TEXT -- it\n);", "-- It.\nCREATE TABLE x (\n    a TEXT\n);"]
)
def test_a_part_without_a_comment_is_an_error(sql: str) -> None:
    with pytest.raises(ValueError, match="has no comment"):
        schema_doc.parse(sql)


def test_a_store_of_every_earlier_version_is_brought_to_this_one(tmp_path: Path) -> None:
    """With what real stores of that version hold in each of their tables."""
    for version in range(1, migrations.VERSION):
        text = (Path(__file__).parent / "schemas" / f"v{version}.sql").read_text(encoding="utf-8")
        path = tmp_path / f"v{version}.db"
        connection = sqlite3.connect(path, isolation_level=None)
        for statement in migrations.statements(migrations.for_sqlite(text)):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {migrations.APPLICATION_ID}")
        connection.execute("INSERT INTO schema_version VALUES (?, 1.0, '0')", (version,))
        connection.execute("INSERT INTO word VALUES (1, 'x')")
        connection.execute("INSERT INTO word VALUES (2, '')")
        connection.execute("INSERT INTO change VALUES (1, 5, 2, 0, 'Ada', 1.0, 's', '', 0)")
        connection.execute(
            "INSERT INTO file_edit (sha_id, position, path_id, old_path_id, added, deleted)"
            " VALUES (1, 0, 1, 2, 3, 4)"
        )
        later = ()
        if version >= 2:
            later = ("measurement",)
            connection.execute(
                "INSERT INTO measurement VALUES (1, 5, 1, 1, 'v', 1, 1.0, 2.5, 's', 'smaller', 1)"
            )
        connection.execute("INSERT INTO run VALUES (1, 5, 'run', 1, 1, 1.0, 1, 'asked', '')")
        connection.execute(
            "INSERT INTO launch VALUES (1, 5, 'l', 1, 1, 'base', 1, 'first', 0, 0, 'a', 1.0, 1.0, 'ok', 0, '')"
        )
        connection.execute("INSERT INTO sample VALUES (1, 1, 2.5)")
        connection.execute(
            "INSERT INTO outcome VALUES (1, 5, 1, 1, 1, 1, 'same', 1.0, 'ab', 'asked', 1, 1, 1, 1.0, 1.0, 2)"
        )
        before = {
            name: connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall()  # noqa: S608 - ours
            for name in ("word", "change", "file_edit", "run", "launch", "sample", "outcome", *later)
        }
        connection.close()
        with Store.open(path) as store:
            assert store.check() == []
            assert len(store.outcomes()) == 1
            assert next(store.launches()).values == {"x": 2.5}
        connection = sqlite3.connect(path)
        assert migrations.version_of(connection) == migrations.VERSION
        with Store.open(tmp_path / "new.db"):
            pass
        assert shape(connection) == shape(sqlite3.connect(tmp_path / "new.db"))
        for name, rows in before.items():
            found = connection.execute(f"SELECT * FROM {name} ORDER BY 1").fetchall()  # noqa: S608 - ours
            assert [
                row[: len(old)] for row, old in zip(found, rows, strict=True)
            ] == rows  # more columns, at the end


def test_the_schema_works_where_sqlite_has_no_strict_tables() -> None:
    plain = migrations.for_sqlite(migrations.schema_text(), (3, 31, 1))
    code = re.sub(r"--.*", "", plain)
    assert "STRICT" not in code
    assert code.count("WITHOUT ROWID;") == 5
    connection = sqlite3.connect(":memory:")
    for statement in migrations.statements(plain):
        connection.execute(statement)
    connection.close()


def test_half_a_statement_is_not_left_out_in_silence() -> None:
    with pytest.raises(ValueError, match="not a whole statement"):
        list(migrations.statements("CREATE TABLE a (b);\nCREATE TABLE c"))


def test_every_earlier_version_walks_to_the_shape_of_a_new_store_and_keeps_its_rows() -> None:
    fresh = sqlite3.connect(":memory:", isolation_level=None)
    walk(fresh, STEPS, V3)
    for already in range(len(STEPS)):
        connection = old_store()
        if already:
            walk(connection, STEPS[:already], "")
        assert walk(connection, STEPS, "") == 1 + already
        assert shape(connection) == shape(fresh)
        assert connection.execute("SELECT * FROM thing").fetchall() == [(1, "one", 0)]
        assert connection.execute("SELECT * FROM part").fetchall() == [(1, "a note")]
        versions = [
            row[0] for row in connection.execute("SELECT version FROM schema_version ORDER BY version")
        ]
        assert versions == [1, 2, 3]
        assert walk(connection, STEPS, "") == 3  # nothing is done twice
        connection.close()
    fresh.close()


def break_reference(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM thing")


def fail(connection: sqlite3.Connection) -> None:
    connection.execute("DROP TABLE part")
    connection.execute("SELECT nonsense")


@pytest.mark.parametrize(("step", "error"), [(break_reference, StoreError), (fail, sqlite3.Error)])
def test_a_step_that_goes_wrong_leaves_the_store_as_it_was(
    step: Callable[[sqlite3.Connection], None], error: type[Exception]
) -> None:
    connection = old_store()
    before = list(connection.iterdump())
    with pytest.raises(error):
        walk(connection, (STEPS[0], Migration(3, "wrong", step)), "")
    assert list(connection.iterdump()) == before
    connection.close()


def test_a_newer_version_is_refused_by_name() -> None:
    connection = old_store()
    walk(connection, STEPS, "")
    with pytest.raises(StoreError, match=r"version 3, newer than the version 1.*upgrade tithe"):
        walk(connection, (), "")
    connection.close()


def test_a_store_migrates_when_it_is_opened_for_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "store.db"
    Store.open(path).close()
    old, new = migrations.VERSION, migrations.VERSION + 1
    more = Migration(
        new, "a table more", lambda connection: connection.execute("CREATE TABLE more (a)") and None
    )
    steps = (*migrations.MIGRATIONS, more)
    monkeypatch.setattr(migrations, "VERSION", new)
    upgrade = migrations.upgrade
    monkeypatch.setattr(migrations, "upgrade", lambda connection: upgrade(connection, migrations=steps))
    with pytest.raises(StoreError, match=f"has schema version {old}, older than version {new}"):
        Store.open(path, read_only=True)
    Store.open(path).close()
    file = database.DatabaseFile.open(path, create=False, read_only=True)
    assert migrations.version_of(file.connection) == new
    assert file.connection.execute("SELECT * FROM more").fetchall() == []
    file.close()


def test_a_damaged_store_of_an_earlier_version_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    text = (Path(__file__).parent / "schemas" / "v3.sql").read_text(encoding="utf-8")
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in migrations.statements(migrations.for_sqlite(text)):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {migrations.APPLICATION_ID}")
    connection.execute("INSERT INTO schema_version VALUES (3, 1.0, '0')")
    (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'word'").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    raw = bytearray(path.read_bytes())
    raw[(page - 1) * size : page * size] = bytes(size)
    path.write_bytes(raw)
    with pytest.raises(StoreError, match="it was not migrated"):
        Store.open(path)
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT max(version) FROM schema_version").fetchall() == [(3,)]
    connection.close()
