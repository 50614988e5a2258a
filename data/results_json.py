"""Readers of results that are JSON: asv (versions 1 and 2), pyperf, pytest-benchmark, hyperfine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from statistics import median
from typing import Any

from tithe.data.points import Point, Reader, Refused, in_seconds, moment


def _newer(version: Any, known: int) -> str:
    """Why a file of this version is not read: a newer one may mean something else by the same words."""
    try:
        number = int(version)
    except (TypeError, ValueError):
        return f"is of version {str(version)[:20]!r}, which is none"
    return f"is of version {number}; this tithe reads up to {known}: upgrade it" if number > known else ""


class Asv:
    """A file of an asv results folder: one commit in one environment on one machine."""

    name = "asv"

    def recognises(self, document: Any, text: str) -> bool:  # noqa: ARG002
        return isinstance(document, dict) and "commit_hash" in document and "results" in document

    def points(self, document: Any, text: str, where: str) -> Iterator[Point | Refused]:  # noqa: ARG002
        if newer := _newer(document.get("version", 1), 2):
            yield Refused(where, newer)
            return
        parameters = document.get("params") or {}
        machine, environment = parameters.get("machine", ""), document.get("env_name", "")
        commit = str(document["commit_hash"])
        columns = document.get("result_columns") or ["result", "params"]
        for name, row in document["results"].items():
            # Version 1 has a number or a table of its own; version 2 a list by columns, cut where all that
            # follows is empty.
            if isinstance(row, dict):
                cells = row
            elif isinstance(row, list) and "result_columns" in document:
                cells = dict(zip(columns, row, strict=False))
            else:
                cells = {"result": row}
            values = cells.get("result")
            if values is None:
                continue
            values = values if isinstance(values, list) else [values]
            started = cells.get("started_at") or document.get("date")
            unit = "bytes" if ".mem_" in f".{name}" or ".peakmem_" in f".{name}" else "s"
            if name.rpartition(".")[2].startswith("track_"):
                unit = ""
            for value, chosen in zip(values, product(*(cells.get("params") or [])), strict=False):
                if value is None or (isinstance(value, float) and math.isnan(value)):
                    continue  # it failed there, or was skipped
                if isinstance(value, bool) or not isinstance(value, int | float):
                    yield Refused(f"{where}: {name}", "is no number")
                    continue
                words = "/".join(str(one).strip("'\"") for one in chosen)
                yield Point(
                    f"{name}/{words}" if words else name,
                    float(value),
                    unit,
                    commit=commit,
                    host=f"{machine} {environment}".strip(),
                    at=None if started is None else float(started) / 1000,
                    version=str(cells.get("version") or "")[:16],
                )


class Pyperf:
    """A suite or a single benchmark; each run is a process."""

    name = "pyperf"

    def recognises(self, document: Any, text: str) -> bool:  # noqa: ARG002
        first = document.get("benchmarks") if isinstance(document, dict) else None
        return isinstance(first, list) and bool(first) and isinstance(first[0], dict) and "runs" in first[0]

    def points(self, document: Any, text: str, where: str) -> Iterator[Point | Refused]:  # noqa: ARG002
        if newer := _newer(str(document.get("version", "1")).partition(".")[0], 1):
            yield Refused(where, newer)
            return
        shared = document.get("metadata") or {}
        for number, benchmark in enumerate(document["benchmarks"]):
            about = {**shared, **(benchmark.get("metadata") or {})}
            name = str(about.get("name") or f"benchmark {number}")
            runs = [run for run in benchmark["runs"] if run.get("values")]
            if not runs:
                yield Refused(f"{where}: {name}", "has no values")
                continue
            when = (runs[-1].get("metadata") or {}).get("date") or about.get("date")
            unit = {"second": "s", "byte": "bytes"}.get(
                str(about.get("unit", "second")), str(about.get("unit"))
            )
            yield Point(
                name,
                median(median(map(float, run["values"])) for run in runs),
                unit,
                commit=str(about.get("commit_id") or ""),
                host=str(about.get("hostname") or ""),
                at=moment(when),
                processes=len(runs),
            )


class PytestBenchmark:
    """What `pytest --benchmark-json` writes: all repetitions of one process."""

    name = "pytest-benchmark"

    def recognises(self, document: Any, text: str) -> bool:  # noqa: ARG002
        first = document.get("benchmarks") if isinstance(document, dict) else None
        return isinstance(first, list) and "machine_info" in document and "commit_info" in document

    def points(self, document: Any, text: str, where: str) -> Iterator[Point | Refused]:  # noqa: ARG002
        commit = document["commit_info"] or {}
        machine = document["machine_info"] or {}
        dirty = commit.get("dirty")
        for benchmark in document["benchmarks"]:
            name = str(benchmark.get("fullname") or benchmark["name"])
            if dirty:
                yield Refused(f"{where}: {name}", "was measured with uncommitted changes: it is of no commit")
                continue
            yield Point(
                name,
                float(benchmark["stats"]["median"]),
                commit=str(commit.get("id") or ""),
                host=" ".join(
                    str(machine.get(key) or "") for key in ("node", "machine", "python_version")
                ).strip(),
                at=moment(document.get("datetime")),
                processes=1,
            )


class Hyperfine:
    """What `hyperfine --export-json` writes: every time is of one process."""

    name = "hyperfine"

    def recognises(self, document: Any, text: str) -> bool:  # noqa: ARG002
        first = document.get("results") if isinstance(document, dict) else None
        return (
            isinstance(first, list) and bool(first) and isinstance(first[0], dict) and "command" in first[0]
        )

    def points(self, document: Any, text: str, where: str) -> Iterator[Point | Refused]:  # noqa: ARG002
        for result in document["results"]:
            times = [float(value) for value in result.get("times") or ()]
            value, unit = in_seconds(median(times) if times else float(result["median"]), "s")
            parameters = result.get("parameters") or {}
            yield Point(
                str(result["command"]),
                value,
                unit,
                commit=str(parameters.get("commit") or ""),
                processes=len(times),
            )


READERS: tuple[Reader, ...] = (Asv(), Pyperf(), PytestBenchmark(), Hyperfine())
