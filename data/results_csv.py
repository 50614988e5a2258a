"""A table of results, for whatever has no reader of its own.

The first line names the columns: `benchmark` and `value` have to be there; `commit` (or `--commit`), `unit`,
`direction` (smaller or larger), `host`, `at` (seconds since the epoch, or a date) and `version` may be. Commas or tabs.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any

from tithe.data.points import Point, Refused, in_seconds, moment, spelled_number

NEEDED = frozenset({"benchmark", "value"})
KNOWN = ("benchmark", "value", "unit", "direction", "commit", "host", "at", "version")


class Table:
    """The documented CSV."""

    name = "csv"

    def recognises(self, document: Any, text: str) -> bool:
        if document is not None:
            return False
        head = text.partition("\n")[0]
        return {word.strip().strip('"').lower() for word in head.replace("\t", ",").split(",")} >= NEEDED

    def points(self, document: Any, text: str, where: str) -> Iterator[Point | Refused]:  # noqa: ARG002
        head = text.partition("\n")[0]
        rows = csv.reader(_lines(text), delimiter="\t" if "\t" in head else ",")
        names = [name.strip().lower() for name in next(rows, [])]
        if missing := sorted(NEEDED - set(names)):
            yield Refused(where, f"has no column {', '.join(missing)}")
            return
        if twice := sorted({name for name in names if name in KNOWN and names.count(name) > 1}):
            yield Refused(where, f"has two columns {', '.join(twice)}")
            return
        width = len(names)
        # One column more than there are holds what a table without that column says: nothing.
        benchmark, value, unit, direction, commit, host, at, version = (
            names.index(name) if name in names else width for name in KNOWN
        )
        before = rows.line_num
        while True:
            spot = f"{where}:{before + 1}"
            try:
                row = next(rows)
            except StopIteration:
                return
            except csv.Error as error:
                before = rows.line_num
                yield Refused(spot, f"is no line of a table ({error})")
                continue
            lines, before = rows.line_num - before, rows.line_num
            if not row:
                continue
            if lines > 1:
                yield Refused(spot, f"has a quote that ends {lines - 1} lines below")
                continue
            if len(row) != width:
                yield Refused(spot, f"has {len(row)} columns and not {width}")
                continue
            row.append("")
            try:
                number = spelled_number(row[value])
            except ValueError:
                yield Refused(spot, "its value is no number")
                continue
            better = row[direction].strip() or "smaller"
            if better not in ("smaller", "larger"):
                yield Refused(spot, "its direction is neither smaller nor larger")
                continue
            when, told = None, row[at].strip()
            if told and (when := _moment(told)) is None:
                yield Refused(spot, "its time is neither a date nor seconds since 1970")
                continue
            number, kind = in_seconds(number, row[unit].strip() or "s")
            yield Point(
                row[benchmark].strip(),
                number,
                kind,
                "larger" if better == "larger" else "smaller",
                row[commit].strip().lower(),
                row[host].strip(),
                when,
                version=row[version].strip(),
            )


def _lines(text: str) -> Iterator[str]:
    """Line by line: `StringIO` would hold four bytes of every character beside the text."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end


def _moment(text: str) -> float | None:
    try:
        return spelled_number(text)
    except ValueError:
        return moment(text)
