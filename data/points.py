"""One number that another tool measured on one commit, and what every reader of such numbers shares."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from statistics import median
from typing import Any, Protocol

from tithe.data.records import Direction

UTC = timezone.utc
MALFORMED = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)
"""What reading raises where a file, or an entry of it, is not what its tool writes."""
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*", re.ASCII)


@dataclass(frozen=True, slots=True)
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
    short: str = ""
    """The name within its file, where `benchmark` says more."""
    uncommitted: bool = False
    """Whether the checkout had changes that the commit has not."""


@dataclass(frozen=True, slots=True)
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
        """What the file holds. May raise any of `MALFORMED` for a file that is not whole."""
        ...


def one_by_one(
    entries: Any, read: Callable[[Any, str], Iterator[Point | Refused]], where: str, what: str
) -> Iterator[Point | Refused]:
    """What `read` finds in each (entry, its place in words): one that is damaged costs no other."""
    for number, entry in enumerate(entries, 1):
        spot = f"{where}: {what} {number}"
        try:
            yield from read(entry, spot)
        except MALFORMED:
            yield Refused(spot, "is damaged, or not what this tool writes")


def number(value: Any) -> float:
    """A number of JSON.

    Raises:
        TypeError: it is a text, true, false or null.
        OverflowError: no float is as large.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{type(value).__name__} is no number")
    return float(value)


def middle(values: Sequence[Any]) -> float:
    """The median of numbers of JSON; raises as `number` does."""
    return median([number(value) for value in values])


def spelled_number(text: str) -> float:
    """A number in a text file, as every language writes it: no `1_000`, no `nan`.

    Raises:
        ValueError: it is none.
    """
    if not _NUMBER.fullmatch(text):
        raise ValueError("is no number")
    return float(text)


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
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
