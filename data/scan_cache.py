"""What was read in files, kept by the blob's id: one line of JSON each, in a file that only grows.

Many processes append to it at once; a line that a crash has torn is read as none and made again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tithe.data.codec import CodecError, from_json, to_json
from tithe.data.imports import Scan
from tithe.data.plain import read_plain

VERSION = 4
"""Of the way scans and graphs are made; a new one leaves older cache entries unused."""

MAX_BYTES = 2**30


@dataclass(frozen=True)
class _Line:
    key: str
    scan: Scan


Way = Literal["py", "text", "requirements"]
"""How a file is read."""


def scan_key(way: Way, blob: str) -> str:
    """Under what the scan of a file is kept: its content and the way that it is read."""
    return f"{blob}:{way}"


def load(cache: Path | None) -> dict[str, Scan]:
    """The scans of a cache folder, by key; none where it cannot be read."""
    if cache is None:
        return {}
    try:
        return parse(read_plain(_path(cache), MAX_BYTES))
    except OSError:
        return {}


def parse(raw: bytes) -> dict[str, Scan]:
    """The scans in the lines of `raw`, by key."""
    scans = {}
    for text in raw.splitlines():
        try:
            line = from_json(text, _Line)
        except CodecError:
            continue  # torn by a crash: scanned again
        scans[line.key] = line.scan
    return scans


def dump(scans: Mapping[str, Scan]) -> bytes:
    """The lines that `parse` reads, in order of their keys."""
    return "".join(to_json(_Line(key, scans[key])) + "\n" for key in sorted(scans)).encode()


def append(cache: Path | None, fresh: Mapping[str, Scan]) -> None:
    """Adds scans to a cache folder; one that cannot be written is no reason to fail."""
    if cache is None or not fresh:
        return
    # The first newline ends a line that a crash may have torn.
    content = b"\n" + dump(fresh)
    try:
        cache.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
        handle = os.open(_path(cache), flags, 0o644)
        try:
            os.write(handle, content)
        finally:
            os.close(handle)
    except OSError:
        return


def _path(cache: Path) -> Path:
    # What parses depends on the interpreter's grammar.
    return cache / f"scans-{VERSION}-{sys.version_info[0]}.{sys.version_info[1]}.jsonl"
