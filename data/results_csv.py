"""A table of results, for whatever has no reader of its own.

The first line names the columns: `benchmark`, `value` and `commit` have to be there; `unit`, `direction` (smaller or
larger), `host`, `at` (seconds since the epoch, or a date) and `version` may be. Commas or tabs.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from tithe.data.points import Point, Refused, in_seconds, moment

NEEDED = frozenset({"benchmark", "value"})


class Table:
    """The documented CSV."""

    name = "csv"

    def recognises(self, document: Any, text: str) -> bool:
        if document is not None:
            return False
        head = text.partition("\n")[0]
        return {word.strip().lower() for word in head.replace("\t", ",").split(",")} >= NEEDED

    def points(self, document: Any, text: str, where: str) -> Iterator[Point | Refused]:  # noqa: ARG002
        head = text.partition("\n")[0]
        rows = csv.DictReader(io.StringIO(text), delimiter="\t" if "\t" in head else ",")
        names = [str(name).strip().lower() for name in rows.fieldnames or ()]
        if missing := sorted(NEEDED - set(names)):
            yield Refused(where, f"has no column {', '.join(missing)}")
            return
        rows.fieldnames = names
        for number, row in enumerate(rows, 2):
            spot = f"{where}:{number}"
            try:
                value = float(row["value"] or "")
            except ValueError:
                yield Refused(spot, "its value is no number")
                continue
            direction = (row.get("direction") or "smaller").strip()
            if direction not in ("smaller", "larger"):
                yield Refused(spot, "its direction is neither smaller nor larger")
                continue
            value, unit = in_seconds(value, (row.get("unit") or "s").strip())
            yield Point(
                (row["benchmark"] or "").strip(),
                value,
                unit,
                "larger" if direction == "larger" else "smaller",
                commit=(row.get("commit") or "").strip().lower(),
                host=(row.get("host") or "").strip(),
                at=_moment((row.get("at") or "").strip()),
                version=(row.get("version") or "").strip(),
            )


def _moment(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return moment(text)
