"""What a launch left in a benchmark tool's own format (pyperf, pytest-benchmark, hyperfine, asv), as numbers by name.

The same readers as `ingest results` has, with another question: not how a commit did, but what this one launch
measured. A launch is the sampling unit, so whatever a tool repeats within one process is one number.
"""

from __future__ import annotations

import json
import math
import re
from typing import Literal, get_args

Format = Literal["pyperf", "pytest-benchmark", "hyperfine", "asv"]
FORMATS: tuple[Format, ...] = get_args(Format)
_NOT_A_NAME = re.compile(r"[^A-Za-z0-9_./-]+")


def read(format: Format, content: bytes) -> dict[str, float]:  # noqa: A002 - what everybody calls it
    """The numbers that a results file holds, times in seconds, by the benchmark's name.

    Names are written as metrics are: what is neither a letter, a digit nor one of `_ . / -` becomes `_`. A file
    with a single benchmark also has it as `value`; one of which part could not be read does not, since another launch
    may have left it whole. Of two benchmarks with one name the last counts.

    Raises:
        ValueError: it is not JSON, or not of that tool.
    """
    from tithe.data.points import MALFORMED, Point
    from tithe.data.results_json import READERS

    try:
        document = json.loads(content)
    except RecursionError:
        raise ValueError("is nested too deeply") from None
    except ValueError:
        raise ValueError("is not JSON") from None
    reader = next(one for one in READERS if one.name == format)
    try:
        found = list(reader.points(document, "", ""))
    except MALFORMED:
        raise ValueError(f"is not what {format} writes") from None
    numbers = {
        metric_name(one.short or one.benchmark): one.value
        for one in found
        if isinstance(one, Point) and math.isfinite(one.value)
    }
    refused = [one for one in found if not isinstance(one, Point)]
    if refused and not numbers:
        raise ValueError(f"is not what {format} writes: it {refused[0].why}")
    if len(numbers) == 1 and not refused:
        numbers["value"] = next(iter(numbers.values()))
    return numbers


def metric_name(name: str) -> str:
    """A benchmark's name as the name of a metric."""
    made = _NOT_A_NAME.sub("_", name).strip("_")
    return made if made[:1].isalpha() else f"_{made}"
