"""What a record must obey beyond its types, asked at every door through which records come from outside.

Behind the door the rest of the house relies on it: a commit id can be handed to git because it is hex digits,
a name can be shown because it holds no control characters, a number can be summed because it is one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from tithe.data.records import (
    Change,
    CheckReport,
    Launch,
    Outcome,
    RunRecord,
    RunReport,
    Selection,
    Verdict,
)
from tithe.data.text import safe_line

MAX_NAME = 500
MAX_SECONDS = 1e7
"""Machine time of one launch: some months. A million of them still add up to a number that the store holds."""
MAX_TIME = 1e11
"""Of a clock, seconds since the epoch: beyond the year 5000."""
MAX_BLOCK = 2**31 - 1
MAX_COUNT = 10**12
"""Of lines, files, changes: more than there are, and a million of them still add up to a number that is stored."""
MAX_WEIGHT = 1000.0
"""Of an outcome in training: more than any source gives, and nothing that outweighs a whole history."""
_MAX_INTEGER = 2**63 - 1
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
# C0 and C1 controls, line separators, and the marks that turn the direction of text.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


Checked = RunRecord | Launch | Outcome | Change | Selection | Verdict | RunReport | CheckReport


def problem(record: Checked) -> str:
    """The first rule that the record breaks, in words that are safe to print; empty when it breaks none."""
    return next(_problems(record), "")


def _problems(record: Checked) -> Iterator[str]:
    if isinstance(record, Launch):
        yield from _name("id", record.id)
        yield from _name("run", record.run)
        yield from _name("scenario", record.scenario)
        yield from _sha("sha", record.sha)
        yield from _number("started_at", record.started_at, at_least=0, at_most=MAX_TIME)
        yield from _number("seconds", record.seconds, at_least=0, at_most=MAX_SECONDS)
        yield from _integers(exit_code=record.exit_code or 0)
        for key, count in (("block", record.block), ("position", record.position)):
            yield from _number(key, count, at_least=0, at_most=MAX_BLOCK)
        yield from _numbers("values", record.values)
        yield from _numbers("phases", record.phases)
        yield from _text("note", record.note)
    elif isinstance(record, Outcome):
        yield from _sha("base", record.base)
        yield from _sha("change", record.change)
        yield from _name("scenario", record.scenario)
        yield from _name("metric", record.metric)
        yield from _number("known_at", record.known_at, at_least=0, at_most=MAX_TIME)
        for key in ("ratio", "low", "high"):
            value = getattr(record, key)
            if value is not None:
                yield from _number(key, value, at_least=0)
        yield from _number("confidence", record.confidence, at_least=0, at_most=1)
        yield from _number("weight", record.weight, at_least=0, at_most=MAX_WEIGHT)
        yield from _text("run", record.run)
    elif isinstance(record, RunRecord):
        yield from _name("id", record.id)
        yield from _sha("base", record.base)
        yield from _sha("head", record.head)
        yield from _number("started_at", record.started_at, at_least=0, at_most=MAX_TIME)
        yield from _text("host", record.host)
        yield from _text("selection", record.selection)
    elif isinstance(record, Change):
        yield from _sha("sha", record.sha)
        if record.parent:
            yield from _sha("parent", record.parent)
        yield from _number("time", record.time, at_least=-MAX_TIME, at_most=MAX_TIME)
        yield from _number("index", record.index, at_least=-1, at_most=MAX_COUNT)
        for edit in record.files:
            for key, count in (("added", edit.added), ("deleted", edit.deleted)):
                yield from _number(key, count, at_least=-1, at_most=MAX_COUNT)
        for key, text in (("author", record.author), ("subject", record.subject), ("body", record.body)):
            yield from _unicode(key, text)
        for edit in record.files:
            yield from _unicode("files", edit.path + edit.old_path)
    elif isinstance(record, Verdict):
        yield from _name("scenario", record.scenario)
        yield from _name("metric", record.metric)
        for key in ("ratio", "low", "high", "threshold", "detectable"):
            if (value := getattr(record, key)) is not None:
                yield from _number(key, value, at_least=0)
        if record.p is not None:
            yield from _number("p", record.p, at_least=0, at_most=1)
        for key in ("blocks", "launches"):
            yield from _number(key, getattr(record, key), at_least=0, at_most=MAX_BLOCK)
    elif isinstance(record, (RunReport, CheckReport)):
        for key in ("id", "base", "head"):
            yield from _name(key, getattr(record, key))
        yield from _number("spent_s", record.spent_s, at_least=0, at_most=1000 * MAX_SECONDS)
        for verdict in record.verdicts:
            yield from _problems(verdict)
        if isinstance(record, CheckReport):
            yield from _problems(record.selection)
    else:
        yield from _name("id", record.id)
        for key, text in (("base", record.base), ("head", record.head), ("model", record.model)):
            yield from _text(key, text)
        yield from _integers(seed=record.seed)
        for key, count in (("files", record.diff.files), ("added", record.diff.added)):
            yield from _number(key, count, at_least=0, at_most=MAX_COUNT)
        yield from _number("deleted", record.diff.deleted, at_least=0, at_most=MAX_COUNT)
        yield from _numbers("budget", record.budget, at_least=0)
        for text in (*record.diff.paths, *record.warnings):
            yield from _unicode("text", text)
        for candidate in (*record.selected, *record.rest):
            yield from _name("scenario", candidate.scenario)
            yield from _number("probability", candidate.probability, at_least=0, at_most=1)
            yield from _number("rank", candidate.rank, at_least=0, at_most=MAX_COUNT)
            yield from _numbers("cost", candidate.cost, at_least=0)
            for text in candidate.reasons:
                yield from _unicode("reasons", text)


def _sha(key: str, sha: str) -> Iterator[str]:
    if not _SHA.fullmatch(sha):
        yield f"{key} is {safe_line(sha, limit=60)!r}, not a full commit id"


def _name(key: str, name: str) -> Iterator[str]:
    if not name:
        yield f"{key} is empty"
    yield from _text(key, name)


def _text(key: str, text: str) -> Iterator[str]:
    if len(text) > MAX_NAME:
        yield f"{key} is longer than {MAX_NAME} characters"
    if _UNSAFE.search(text):
        yield f"{key} holds control characters: {safe_line(text, limit=60)!r}"
    yield from _unicode(key, text)


def _unicode(key: str, text: str) -> Iterator[str]:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        yield f"{key} is not valid Unicode: {safe_line(text, limit=60)}"


def _integers(**values: int) -> Iterator[str]:
    for key, value in values.items():
        if abs(value) > _MAX_INTEGER:
            yield f"{key} is too large a number"


def _number(
    key: str, value: float, *, at_least: float = -math.inf, at_most: float = math.inf
) -> Iterator[str]:
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{key} is {value}, not a number that can be reckoned with"
    elif value < at_least:
        yield f"{key} is {_short(value)}, less than {at_least:g}"
    elif value > at_most:
        yield f"{key} is {_short(value)}, more than {at_most:g}"


def _short(value: float) -> str:
    try:
        return f"{value:g}"
    except OverflowError:  # an integer beyond all floats
        return "beyond all bounds"


def count_problem(**counts: int) -> str:
    """What is wrong with these counts of things; empty when nothing is."""
    return next(
        (
            wrong
            for key, count in counts.items()
            for wrong in _number(key, count, at_least=0, at_most=MAX_COUNT)
        ),
        "",
    )


def time_problem(key: str, seconds: float) -> str:
    """What is wrong with this moment, in seconds since the epoch; empty when nothing is."""
    return next(_number(key, seconds, at_least=0, at_most=MAX_TIME), "")


def _numbers(key: str, values: Mapping[str, float], *, at_least: float = -math.inf) -> Iterator[str]:
    for name, value in values.items():
        yield from _name(f"a name in {key}", name)
        yield from _number(f"{key}[{safe_line(name, limit=60)!r}]", value, at_least=at_least)
