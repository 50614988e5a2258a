"""What benchmark tools write, as numbers by name: pyperf, pytest-benchmark, hyperfine, asv.

A launch is the sampling unit, so whatever a tool repeats within one process becomes one number here, the median of
what it repeated: repetitions in a process do not make that process a better witness.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any, Literal, get_args

Format = Literal["pyperf", "pytest-benchmark", "hyperfine", "asv"]
FORMATS: tuple[Format, ...] = get_args(Format)
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_./-]+")


def read(format: Format, content: bytes) -> dict[str, float]:  # noqa: A002 - what everybody calls it
    """The numbers that a results file holds, in the tool's own unit (seconds, for times), by the benchmark's name.

    Names are written as metrics are: what is neither a letter, a digit nor one of `_ . / -` becomes `_`. A file
    with a single benchmark also has it as `value`. Of two benchmarks with one name the last counts.

    Raises:
        ValueError: it is not JSON, or not of that tool.
    """
    try:
        document = json.loads(content)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError:
        raise ValueError("is not JSON") from None
    try:
        pairs = list(_READERS[format](document))
    except (AttributeError, IndexError, KeyError, TypeError, OverflowError):
        raise ValueError(f"is not what {format} writes") from None
    found = {metric_name(name): value for name, value in pairs if math.isfinite(value)}
    if len(found) == 1:
        found["value"] = next(iter(found.values()))
    return found


def metric_name(name: str) -> str:
    """A benchmark's name as the name of a metric."""
    made = _NOT_A_NAME.sub("_", name).strip("_")
    return made if made[:1].isalpha() else f"_{made}"


def _pyperf(document: Any) -> Iterator[tuple[str, float]]:
    shared = document.get("metadata", {})
    for benchmark in document["benchmarks"]:
        values = [float(value) for run in benchmark["runs"] for value in run.get("values", [])]
        name = {**shared, **benchmark.get("metadata", {})}.get("name", "value")
        if values:
            yield str(name), median(values)


def _pytest_benchmark(document: Any) -> Iterator[tuple[str, float]]:
    for benchmark in document["benchmarks"]:
        yield str(benchmark["name"]), float(benchmark["stats"]["median"])


def _hyperfine(document: Any) -> Iterator[tuple[str, float]]:
    for result in document["results"]:
        times = [float(value) for value in result.get("times") or ()]
        yield str(result["command"]), median(times) if times else float(result["median"])


def _asv(document: Any) -> Iterator[tuple[str, float]]:
    columns: list[str] = document.get("result_columns", ["result", "params"])
    for name, row in document["results"].items():
        cells: Mapping[str, Any] = (
            dict(zip(columns, row, strict=False)) if isinstance(row, list) else {"result": row}
        )
        values = cells.get("result")
        if not isinstance(values, list):
            values = [values]
        combinations = _combinations(cells.get("params") or [])
        for value, parameters in zip(values, combinations, strict=False):
            if isinstance(value, int | float) and not isinstance(value, bool):
                yield name + (f"/{'/'.join(parameters)}" if parameters else ""), float(value)


def _combinations(params: list[list[str]]) -> Iterator[tuple[str, ...]]:
    from itertools import product

    # asv keeps parameters as their repr.
    yield from product(*([str(value).strip("'\"") for value in some] for some in params))


_READERS: Mapping[str, Callable[[Any], Iterator[tuple[str, float]]]] = {
    "pyperf": _pyperf,
    "pytest-benchmark": _pytest_benchmark,
    "hyperfine": _hyperfine,
    "asv": _asv,
}
