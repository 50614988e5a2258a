"""Benchmark results that a team already has, whatever tool wrote them: the seam, and which reader takes a file.

A reader turns one file into points: one number of one benchmark, measured on one commit by one host. Content tells
the format and not the name, since names of such files are anybody's. What a file does not say (which commit, which
unit) is asked for and never guessed. A number is the median of what a tool repeated within a process, and how many
processes stand behind it is kept: a summary is not a sample.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tithe.data.formats import metric_name
from tithe.data.points import MALFORMED, Point, Reader, Refused
from tithe.data.text import safe_line

LIMIT = 256 << 20
"""Bytes of one file that are read."""
SKIPPED = frozenset({"machine.json", "benchmarks.json"})
"""Files of an asv folder that hold no results."""
GZIP = b"\x1f\x8b"
SUFFIXES = (".json", ".xml", ".csv", ".tsv", ".json.gz")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")


def readers() -> tuple[Reader, ...]:
    """All of them, in the order in which they are asked."""
    from tithe.data import results_csv, results_json, results_junit

    return (*results_json.READERS, results_junit.JUnit(), results_csv.Table())


def files(paths: Iterable[Path]) -> Iterator[Path | Refused]:
    """The files to read: those named, and all regular files below the folders named, by name."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        unread: list[OSError] = []
        count = 0
        for folder, folders, names in os.walk(path, onerror=unread.append):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                found = Path(folder, name)
                if name not in SKIPPED and name.endswith(SUFFIXES) and found.is_file():
                    count += 1
                    yield found
        for error in unread:
            yield Refused(
                safe_line(str(error.filename)),
                f"cannot be read: {safe_line(error.strerror or 'no reason told')}",
            )
        if not count and not unread:
            yield Refused(safe_line(str(path)), f"has no file of results ({', '.join(SUFFIXES)})")


def read(
    path: Path, *, tool: str = "", commit: str = "", host: str = "", unit: str = ""
) -> Iterator[Point | Refused]:
    """The points of one file; what it does not say itself is taken from `commit`, `host` and `unit`."""
    where = safe_line(str(path), limit=200)
    content = _content(path)
    if isinstance(content, str):
        yield Refused(where, content)
        return
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        yield Refused(where, "is UTF-16; write it as UTF-8")
        return
    text = content.decode("utf-8-sig", "replace")
    document = _json(text)
    reader = next(
        (one for one in readers() if (one.name == tool if tool else one.recognises(document, text))), None
    )
    if reader is None:
        why = f"is not what {tool} writes" if tool else "is of no format that is known"
        yield Refused(where, why)
        return
    check = _Check(where, commit, host, unit)
    try:
        for found in reader.points(document, text, where):
            yield found if isinstance(found, Refused) else check(found)
    except MALFORMED as error:
        yield Refused(where, f"is not whole, or not what {reader.name} writes ({type(error).__name__})")


def _content(path: Path) -> bytes | str:
    from tithe.data.text import safe_line as line

    try:
        if not path.is_file():
            return "is no file"
        with path.open("rb") as stream:
            content = stream.read(LIMIT + 1)
    except OSError as error:
        return f"cannot be read: {line(error.strerror or '')}"
    if content.startswith(GZIP):
        content = unpacked(content, LIMIT + 1)
        if not content:
            return "is not whole gzip, or empty"
    if len(content) > LIMIT:
        return f"has more than {LIMIT >> 20} MiB"
    return content or "is empty"


def unpacked(content: bytes, limit: int) -> bytes:
    """At most `limit` bytes of what gzip has packed, all its members; nothing where it is not whole."""
    import zlib

    found = bytearray()
    while content and len(found) < limit:
        packed = zlib.decompressobj(wbits=31)
        try:
            found += packed.decompress(content, limit - len(found))
        except zlib.error:
            return b""
        if not packed.eof and len(found) < limit:
            return b""
        content = packed.unused_data
    return bytes(found)


def _json(text: str) -> Any:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


class _Check:
    """Points of one file, with what the file does not say filled in, and judged."""

    def __init__(self, where: str, commit: str, host: str, unit: str) -> None:
        self._where, self._commit, self._host, self._unit = where, commit, host, unit
        self._judged: dict[tuple[str, str], str] = {}

    def __call__(self, point: Point) -> Point | Refused:
        commit, unit = (self._commit or point.commit).lower(), self._unit or point.unit
        host = self._host or point.host or "unknown"
        why = (
            self._unfit(point.benchmark, "name", 200)
            or self._unfit(commit, "commit", 64)
            or self._unfit(host, "host", 1000)
            or self._unfit(unit, "unit", 50)
            or self._unfit(point.version, "version", 100)
            or _unlike(point, commit, unit)
        )
        if why:
            return Refused(f"{self._where}: {safe_line(point.benchmark, limit=200)}", why)
        if (commit, host, unit) == (point.commit, point.host, point.unit):
            return point
        return replace(point, commit=commit, host=host, unit=unit)

    def _unfit(self, text: str, what: str, limit: int) -> str:
        """Why a text may not be shown and stored as it is. Few texts of a file differ: each is looked at once."""
        why = self._judged.get((what, text))
        if why is None:
            why = self._judged[what, text] = (
                f"has a {what} that is not UTF-8"
                if "\ufffd" in text
                else f"has a {what} with control characters, or more than {limit} characters"
                if safe_line(text, limit=limit) != text
                else ""
            )
        return why


def _unlike(point: Point, commit: str, unit: str) -> str:
    """Why a point is none."""
    if not point.benchmark:
        return "has no name"
    if not math.isfinite(point.value):
        return "is no finite number"
    if point.value < 0 and unit in ("s", "bytes"):
        return f"is negative ({point.value:g} {unit})"
    if point.uncommitted:
        return "was measured with uncommitted changes: it is of no commit"
    if not _COMMIT.fullmatch(commit):
        return "does not say which commit it was measured on; give --commit"
    if point.at is not None and not 0 <= point.at < 1e11:
        return f"was measured at {point.at:g}, which is no time"
    return ""


def scenario_name(benchmark: str) -> str:
    """A benchmark's name as a scenario's."""
    return metric_name(benchmark)
