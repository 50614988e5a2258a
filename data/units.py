"""Durations and budgets as people write them: `90s`, `1h30m`, `cpu=2h,gpu=20m`.

A unit is always asked for: a bare `60` has been read as seconds by one person and as minutes by another,
and a budget that is wrong by a factor of sixty is found out a week later.
"""

from __future__ import annotations

import math
import re

from tithe.data.errors import UsageError

DURATION_PATTERN = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h|d))+$"
"""What `parse_duration` reads, after white space is taken out; also stands in the JSON schema."""

DURATION_EXAMPLES = '"90s", "5m" or "1h30m"'
RESOURCE_PATTERN = r"^[A-Za-z][A-Za-z0-9_-]*$"

MAX_SECONDS = 10 * 366 * 86400.0
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def parse_duration(text: str, *, where: str = "") -> float:
    """Seconds in `text`, a sum of parts with units ms, s, m, h or d, such as `1h30m`.

    Raises:
        UsageError: no unit, an unknown unit, a sign, or nothing at all; `where` is put in front.
    """
    packed = "".join(text.split())
    if re.fullmatch(DURATION_PATTERN, packed):
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(packed))
        if seconds <= MAX_SECONDS:
            return seconds
        raise UsageError(
            f"{text[:40]!r} is longer than ten years",
            where=where,
            mend="give a time that a machine can run for",
        )
    shown = text if len(text) <= 40 else text[:40] + "…"
    mend = f"write it like {DURATION_EXAMPLES}"
    if packed.startswith("-"):
        raise UsageError(f"{shown!r} is negative; a duration is not", where=where, mend=mend)
    if _NUMBER.fullmatch(packed):
        raise UsageError(
            f"{shown!r} has no unit", where=where, mend=f'write it like "{packed}s" or "{packed}m"'
        )
    raise UsageError(f"{shown!r} is not a duration", where=where, mend=mend)


_SIZES = {"": 1, "MB": 10**6, "MiB": 1 << 20, "GB": 10**9, "GiB": 1 << 30}


def parse_size(text: str) -> int:
    """Bytes of an amount such as `500MB`, `1.5 GiB` or `0`, which has the form that the configuration asks for."""
    number = text.rstrip("GMiB ")
    return int(float(number) * _SIZES[text[len(number) :].strip()])


def parse_budget(text: str, *, where: str = "budget") -> dict[str, float]:
    """Seconds by resource in `text`: `30m` is for `cpu`, `cpu=2h,gpu=20m` names each.

    A resource may have nothing (`gpu=0s`) as long as another has something.

    Raises:
        UsageError: empty, zero, negative, without unit, a resource named twice or oddly.
    """
    budget: dict[str, float] = {}
    mend = 'write it like "30m" or "cpu=2h,gpu=20m"'
    for part in text.split(","):
        resource, equals, duration = (word.strip() for word in part.partition("="))
        if not equals:
            resource, duration = "cpu", resource
        if not re.fullmatch(RESOURCE_PATTERN, resource):
            raise UsageError(f"{resource!r} is not the name of a resource", where=where, mend=mend)
        if not duration:
            raise UsageError(f"no duration for {resource}", where=where, mend=mend)
        if resource in budget:
            raise UsageError(f"{resource} is given twice", where=where, mend=mend)
        budget[resource] = parse_duration(duration, where=where)
    if not any(budget.values()):
        raise UsageError("nothing can be run with a budget of 0", where=where, mend=mend)
    return budget


def format_duration(seconds: float) -> str:
    """`seconds` for people, with two leading units at most: `85ms`, `2.5s`, `1m30s`, `1h30m`, `2d3h`.

    What it returns for a finite number that is not negative, `parse_duration` reads back.
    """
    if not math.isfinite(seconds):
        return str(seconds)
    if seconds < 0:
        return "-" + format_duration(-seconds)
    if seconds == 0:
        return "0s"
    if seconds < 0.9995:
        milliseconds = seconds * 1000
        return (
            f"{milliseconds:.0f}ms"
            if milliseconds >= 9.95
            else f"{milliseconds:.2f}".rstrip("0").rstrip(".") + "ms"
        )
    if seconds < 59.95:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    for big, small in (("m", "s"), ("h", "m"), ("d", "h")):
        whole, rest = divmod(round(seconds / _SECONDS[small]), round(_SECONDS[big] / _SECONDS[small]))
        if big == "d" or whole < {"m": 60, "h": 24}[big]:
            break
    return f"{whole}{big}{rest}{small}" if rest else f"{whole}{big}"
