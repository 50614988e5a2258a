"""Readers of results that are JSON: asv (versions 1 and 2), pyperf, pytest-benchmark, hyperfine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from statistics import median
from typing import Any

from tithe.data.points import Point, Reader, Refused, in_seconds, middle, moment, number, one_by_one


def _newer(version: Any, known: int) -> str:
    """Why a file of this version is not read: a newer one may mean something else by the same words."""
    try:
        found = int(version)
    except (TypeError, ValueError):
        return f"is of version {str(version)[:20]!r}, which is none"
    return f"is of version {found}; this tithe reads up to {known}: upgrade it" if found > known else ""


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
        host = f"{parameters.get('machine', '')} {document.get('env_name', '')}".strip()
        commit, date = str(document.get("commit_hash") or ""), document.get("date")
        columns = document.get("result_columns")

        def entry(item: tuple[str, Any], spot: str) -> Iterator[Point | Refused]:  # noqa: ARG001
            name, row = item
            return _asv_benchmark(f"{where}: {name}", name, _cells(row, columns), commit, host, date)

        yield from one_by_one(document["results"].items(), entry, where, "result")


def _cells(row: Any, columns: Any) -> dict[str, Any]:
    """A benchmark's columns by name. Version 1 has a number or a table of its own; version 2 a list in the order of
    the columns, which ends where all that follows is empty."""
    if isinstance(row, dict):
        return row
    if isinstance(row, list) and columns is not None:
        return dict(zip(columns, row, strict=False))
    return {"result": row}


def _asv_benchmark(
    spot: str, name: str, cells: dict[str, Any], commit: str, host: str, date: Any
) -> Iterator[Point | Refused]:
    values = cells.get("result")
    if values is None:
        return  # it failed there, or was skipped
    values = values if isinstance(values, list) else [values]
    chosen = list(product(*(cells.get("params") or [])))
    if len(values) != len(chosen):
        yield Refused(spot, f"has {len(values)} values for {len(chosen)} combinations of parameters")
        return
    unit = "bytes" if ".mem_" in f".{name}" or ".peakmem_" in f".{name}" else "s"
    if name.rpartition(".")[2].startswith("track_"):
        unit = ""
    started = cells.get("started_at") or date
    at = None if started is None else number(started) / 1000
    version = str(cells.get("version") or "")[:16]
    for value, combination in zip(values, chosen, strict=True):
        if value is None or (isinstance(value, float) and math.isnan(value)):
            continue
        words = "/".join(str(one).strip("'\"") for one in combination)
        try:
            found = number(value)
        except (TypeError, OverflowError):
            yield Refused(f"{spot}/{words}" if words else spot, "is no number")
            continue
        yield Point(
            f"{name}/{words}" if words else name,
            found,
            unit,
            commit=commit,
            host=host,
            at=at,
            version=version,
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

        def entry(benchmark: Any, spot: str) -> Iterator[Point | Refused]:
            about = {**shared, **(benchmark.get("metadata") or {})}
            name = str(about.get("name") or "value")
            runs = [run for run in benchmark["runs"] if run.get("values")]
            if not runs:
                yield Refused(f"{spot} ({name})", "has no values")
                return
            when = (runs[-1].get("metadata") or {}).get("date") or about.get("date")
            unit = str(about.get("unit", "second"))
            yield Point(
                name,
                median([middle(run["values"]) for run in runs]),
                {"second": "s", "byte": "bytes"}.get(unit, unit),
                commit=str(about.get("commit_id") or ""),
                host=str(about.get("hostname") or ""),
                at=moment(when),
                processes=len(runs),
            )

        yield from one_by_one(document["benchmarks"], entry, where, "benchmark")


class PytestBenchmark:
    """What `pytest --benchmark-json` writes: all repetitions of one process."""

    name = "pytest-benchmark"

    def recognises(self, document: Any, text: str) -> bool:  # noqa: ARG002
        first = document.get("benchmarks") if isinstance(document, dict) else None
        return isinstance(first, list) and "machine_info" in document and "commit_info" in document

    def points(self, document: Any, text: str, where: str) -> Iterator[Point | Refused]:  # noqa: ARG002
        commit = document.get("commit_info") or {}
        machine = document.get("machine_info") or {}
        host = " ".join(str(machine.get(key) or "") for key in ("node", "machine", "python_version")).strip()
        sha, dirty, at = (
            str(commit.get("id") or ""),
            bool(commit.get("dirty")),
            moment(document.get("datetime")),
        )

        def entry(benchmark: Any, spot: str) -> Iterator[Point | Refused]:  # noqa: ARG001
            yield Point(
                str(benchmark.get("fullname") or benchmark["name"]),
                number(benchmark["stats"]["median"]),
                commit=sha,
                host=host,
                at=at,
                processes=1,
                short=str(benchmark.get("name") or ""),
                uncommitted=dirty,
            )

        yield from one_by_one(document["benchmarks"], entry, where, "benchmark")


class Hyperfine:
    """What `hyperfine --export-json` writes: every time is of one process."""

    name = "hyperfine"

    def recognises(self, document: Any, text: str) -> bool:  # noqa: ARG002
        first = document.get("results") if isinstance(document, dict) else None
        return (
            isinstance(first, list) and bool(first) and isinstance(first[0], dict) and "command" in first[0]
        )

    def points(self, document: Any, text: str, where: str) -> Iterator[Point | Refused]:  # noqa: ARG002
        def entry(result: Any, spot: str) -> Iterator[Point | Refused]:
            times, codes = result.get("times") or [], result.get("exit_codes") or []
            # With --ignore-failure the time of a command that failed is written down like any other's.
            if codes and len(codes) == len(times):
                times = [value for value, code in zip(times, codes, strict=True) if code == 0]
            if not times and any(codes):
                yield Refused(spot, "failed every time: what it took says nothing")
                return
            value, unit = in_seconds(middle(times) if times else number(result["median"]), "s")
            parameters = result.get("parameters") or {}
            yield Point(
                str(result["command"]),
                value,
                unit,
                commit=str(parameters.get("commit") or ""),
                processes=len(times),
            )

        yield from one_by_one(document["results"], entry, where, "result")


READERS: tuple[Reader, ...] = (Asv(), Pyperf(), PytestBenchmark(), Hyperfine())
