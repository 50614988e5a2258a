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
from tithe.data.points import Point, Reader, Refused
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


def files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files to read: those named, and all regular files below the folders named, by name."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        for folder, folders, names in os.walk(path):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                found = Path(folder, name)
                if name not in SKIPPED and name.endswith(SUFFIXES) and found.is_file():
                    yield found


def read(
    path: Path, *, tool: str = "", commit: str = "", host: str = "", unit: str = ""
) -> Iterator[Point | Refused]:
    """The points of one file; what it does not say itself is taken from `commit`, `host` and `unit`."""
    where = safe_line(str(path), limit=200)
    content = _content(path)
    if isinstance(content, str):
        yield Refused(where, content)
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
    try:
        for found in reader.points(document, text, where):
            if isinstance(found, Refused):
                yield found
                continue
            yield _checked(_filled(found, commit, host, unit), where)
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        IndexError,
        OverflowError,
        RecursionError,
    ) as error:
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
    """At most `limit` bytes of what gzip has packed; nothing where it is not whole."""
    import zlib

    packed = zlib.decompressobj(wbits=31)
    try:
        found = packed.decompress(content, limit)
    except zlib.error:
        return b""
    return found if packed.eof or len(found) >= limit else b""


def _json(text: str) -> Any:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _filled(point: Point, commit: str, host: str, unit: str) -> Point:
    return replace(
        point,
        commit=commit or point.commit,
        host=host or point.host,
        unit=unit or point.unit,
        benchmark=point.benchmark,
    )


def _checked(point: Point, where: str) -> Point | Refused:
    name = safe_line(point.benchmark, limit=200)
    spot = f"{where}: {name}"
    if not point.benchmark or name != point.benchmark:
        return Refused(spot, "has a name that cannot be a scenario's")
    if not math.isfinite(point.value):
        return Refused(spot, "is no finite number")
    if point.value < 0 and point.unit in ("s", "bytes"):
        return Refused(spot, f"is negative ({point.value:g} {point.unit})")
    if not _COMMIT.fullmatch(point.commit):
        return Refused(spot, "does not say which commit it was measured on; give --commit")
    if point.at is not None and not 0 <= point.at < 1e11:
        return Refused(spot, f"was measured at {point.at:g}, which is no time")
    return replace(point, host=safe_line(point.host, limit=200) or "unknown")


def scenario_name(benchmark: str) -> str:
    """A benchmark's name as a scenario's."""
    return metric_name(benchmark)
