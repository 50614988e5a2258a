"""The page of the docs that describes the store, made from the comments of `schema.sql`.

The schema file is the one place where tables are described: SQLite runs it, this module reads it, and a
test compares the page with what is made here, so that none of the three can drift.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tithe.data import migrations

_TABLE = re.compile(r"CREATE TABLE (\w+) \(")
_VIEW = re.compile(r"CREATE VIEW (\w+) AS")
_INDEX = re.compile(r"CREATE INDEX (\w+) ON (\w+) \((.+)\);")
_COLUMN = re.compile(r"    (\w+) ([A-Z]+)\b(.*?),?\s*-- (.+)")


@dataclass(frozen=True)
class Column:
    """One column: `rule` is what SQL says about it beyond the type."""

    name: str
    type: str
    rule: str
    meaning: str


@dataclass(frozen=True)
class Part:
    """A table or a view with what the comment above it says, as paragraphs of one line each."""

    name: str
    is_view: bool
    about: tuple[str, ...]
    columns: tuple[Column, ...]
    indices: tuple[str, ...]


def parse(sql: str) -> tuple[tuple[str, ...], tuple[Part, ...]]:
    """The file's own introduction, and its tables and views in order.

    Raises:
        ValueError: a table, view or column has no comment.
    """
    intro: tuple[str, ...] = ()
    parts: dict[str, Part] = {}
    comment: list[str] = []
    lines = iter(sql.splitlines())
    for line in lines:
        if line.startswith("--"):
            comment.append(line.removeprefix("--").strip())
            continue
        if not line.strip():
            if comment and not parts and not intro:
                intro = _paragraphs(comment)
                comment = []
            continue
        if found := _TABLE.match(line) or _VIEW.match(line):
            name, is_view = found.group(1), bool(_VIEW.match(line))
            if not comment:
                raise ValueError(f"{name} has no comment")
            columns = () if is_view else tuple(_columns(name, lines))
            parts[name] = Part(name, is_view, _paragraphs(comment), columns, ())
        elif found := _INDEX.match(line):
            table = parts[found.group(2)]
            parts[table.name] = Part(
                table.name, table.is_view, table.about, table.columns, (*table.indices, found.group(3))
            )
        comment = []
    return intro, tuple(parts.values())


def render(sql: str | None = None) -> str:
    """The page, as Markdown."""
    intro, parts = parse(migrations.schema_text() if sql is None else sql)
    page = [
        "# The store",
        "",
        "<!-- Made from data/schema.sql by tithe.data.schema_doc; do not edit. -->",
        "",
        f"Schema version {migrations.VERSION}.",
        "",
    ]
    for paragraph in intro:
        page += [paragraph, ""]
    for part in parts:
        page += [f"## {part.name}" + (" (view)" if part.is_view else ""), ""]
        for paragraph in part.about:
            page += [paragraph, ""]
        if part.columns:
            page += ["| column | type | meaning |", "| --- | --- | --- |"]
            page += [
                f"| `{column.name}` | {column.type}{_reference(column.rule)} | {column.meaning} |"
                for column in part.columns
            ]
            page.append("")
        if part.indices:
            page += ["Indices: " + "; ".join(f"`({columns})`" for columns in part.indices) + ".", ""]
    return "\n".join(page)


def _columns(table: str, lines: Iterator[str]) -> list[Column]:
    found: list[Column] = []
    for line in lines:
        if line.startswith(")"):
            break
        if line.startswith("    PRIMARY KEY"):
            continue
        match = _COLUMN.fullmatch(line)
        if match is None:
            raise ValueError(f"a column of {table} has no comment: {line.strip()}")
        found.append(Column(*(group.strip() for group in match.groups())))
    return found


def _paragraphs(comment: list[str]) -> tuple[str, ...]:
    text = "\n".join(comment).strip()
    return tuple(" ".join(part.split()) for part in re.split(r"\n\s*\n", text))


def _reference(rule: str) -> str:
    found = re.search(r"REFERENCES (\w+)\(", rule)
    return f" → {found.group(1)}" if found else ""
