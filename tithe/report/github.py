"""Annotations of a GitHub job: workflow commands, every value escaped as the runner asks for.

The runner shows ten a step and drops the rest, so that the last one says how many there are.
"""

from __future__ import annotations

from tithe import output
from tithe.data.records import Verdict
from tithe.data.text import safe_line
from tithe.report import words
from tithe.report.words import Report

SHOWN = 10


def commands(report: Report) -> list[str]:
    """One line for each: errors for what regressed or broke, warnings for what could not be said."""
    found = [("error", verdict) for verdict in words.alerts(report)]
    found += [
        ("warning", verdict)
        for verdict in words.shown(report)
        if verdict.verdict in ("error", "inconclusive")
    ]
    if len(found) <= SHOWN:
        return [_line(level, verdict, report) for level, verdict in found]
    rest = found[SHOWN - 1 :]
    level = rest[0][0]
    more = command(level, f"and {len(rest)} more: see the job summary", title="tithe")
    return [*(_line(level, verdict, report) for level, verdict in found[: SHOWN - 1]), more]


def _line(level: str, verdict: Verdict, report: Report) -> str:
    said = words.note(verdict)
    text = f"{verdict.metric} {words.effect(verdict)} against {output.short(report.base)}" + (
        f"; {said}" if said else ""
    )
    return command(
        level, text, title=f"tithe: {output.name(verdict.scenario, 80)} {words.verdict_word(verdict)}"
    )


def command(name: str, message: str, **properties: str) -> str:
    """A workflow command on one line; nothing in its values ends it or begins another."""
    given = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{name} {given}::{_data(message)}"


def _data(value: str) -> str:
    return safe_line(value, limit=1000).replace("%", "%25")


def _property(value: str) -> str:
    return _data(value).replace(":", "%3A").replace(",", "%2C")
