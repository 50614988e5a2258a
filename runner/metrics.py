"""Custom metrics of a launch: from what it prints, or from a file that it was given the name of.

Three ways, none of which needs tithe to be installed where the scenario runs. A line that is nothing but a
number is the metric `value`; `name=value` words are metrics by name; and the file named by TITHE_METRICS
takes JSON lines, `{"name": value, …}` or `{"name": "…", "value": …}`. The last word counts, the file before
the output. NaN and infinities are no measurements and are left out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator
from pathlib import Path

from tithe.runner.files import read_regular

LIMIT = 8 << 20
"""Bytes of an output that are read: more than `launch` keeps of one."""
FILE_LIMIT = 1 << 20
"""Bytes of the metrics file: some ten thousand values."""
_NUMBER = r"[-+]?(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_BARE = re.compile(rf"\s*({_NUMBER})\s*")
_PAIR = re.compile(rf"(?<![^\s,;(])([A-Za-z_][\w./-]*)=({_NUMBER})(?=[\s,;)]|$)")


def read(stdout: Path, metrics: Path, wanted: Collection[str]) -> dict[str, float]:
    """The values of the wanted metrics that a launch reported, in the units that it reports in."""
    if not wanted:
        return {}
    found: dict[str, float] = {}
    for name, value in (*_from_output(_text(stdout, LIMIT)), *_from_json_lines(_text(metrics, FILE_LIMIT))):
        if name in wanted and math.isfinite(value):
            found[name] = value  # noqa: PERF403 - the last one counts
    return found


def _text(path: Path, limit: int) -> str:
    return read_regular(path, limit).decode(errors="replace")


def _from_output(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        if match := _BARE.fullmatch(line):
            yield "value", _number(match.group(1))
        elif "=" in line:
            for name, value in _PAIR.findall(line):
                yield name, _number(value)


def _from_json_lines(text: str) -> Iterator[tuple[str, float]]:
    for line in text.splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if not isinstance(record, dict):
            continue
        name = record.get("name")
        if isinstance(name, str):
            record = {name: record.get("value")}
        for key, value in record.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield str(key), _number(value)


def _number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]  # text or a JSON number
    except (ValueError, OverflowError):
        return math.nan
