"""One number that another tool measured on one commit, and what every reader of such numbers shares."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Protocol

from tithe.data.records import Direction

UTC = timezone.utc


@dataclass(frozen=True)
class Point:
    """One number of a benchmark on a commit. `commit` may be short, `host` is machine and environment."""

    benchmark: str
    value: float
    unit: str = "s"
    direction: Direction = "smaller"
    commit: str = ""
    host: str = ""
    at: float | None = None
    """When it was measured; None where the file does not say."""
    processes: int = 0
    """How many process launches it is the median of; 0 for a summary that does not say."""
    version: str = ""
    """Of the benchmark itself: numbers of two versions are not one series."""


@dataclass(frozen=True)
class Refused:
    """What could not be read, and why: a whole file, or one entry of it."""

    where: str
    why: str


class Reader(Protocol):
    """One tool's files."""

    name: str

    def recognises(self, document: Any, text: str) -> bool:
        """Whether the content is of this tool; `document` is its JSON, None where it is none."""
        ...

    def points(self, document: Any, text: str, where: str) -> Iterator[Point | Refused]:
        """What the file holds. May raise ValueError, KeyError, TypeError for a file that is not whole."""
        ...


SECONDS = {
    **dict.fromkeys(("s", "second", "seconds"), 1.0),
    **dict.fromkeys(("ms", "milliseconds"), 1e-3),
    **dict.fromkeys(("us", "µs", "microseconds"), 1e-6),
    **dict.fromkeys(("ns", "nanoseconds"), 1e-9),
}


def in_seconds(value: float, unit: str) -> tuple[float, str]:
    """A time in seconds; other units as they are."""
    factor = SECONDS.get(unit)
    return (value * factor, "s") if factor is not None else (value, unit)


def moment(text: Any) -> float | None:
    """Seconds since the epoch of a date as these tools write it; without a zone it is taken for UTC."""
    if not isinstance(text, str) or not text:
        return None
    try:
        found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
