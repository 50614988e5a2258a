"""What the probe and the training code wrote down, read back without trusting it.

A line is `name monotonic_ns pid`, or `@origin monotonic_ns pid {"package": file}`. Many processes append to
one file (workers, ranks, helpers), and any of them may write nonsense: what does not parse is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tithe.data.codec import CodecError, plain_json
from tithe.data.git_process import decode_path
from tithe.runner.files import read_regular

LIMIT = 1 << 20
"""Bytes of a marks file that are read."""
FUNCTIONS_LIMIT = 256 << 20
"""Bytes of the list of functions of a counted launch: some millions of lines."""
FILES_LIMIT = 64 << 20
"""Bytes of the list of files of an observed launch: a million names, perhaps."""
PATH_LIMIT = 4096
_LINE = re.compile(r"([A-Za-z0-9_.@-]{1,64}) (\d{1,19}) (\d{1,10})(?: (.*))?")


@dataclass(frozen=True)
class Mark:
    """A named moment, in seconds since the launch, and the process that set it."""

    name: str
    seconds: float
    pid: int
    note: str = ""


@dataclass(frozen=True)
class Origin:
    """Where a package was imported from; `file` is empty for a namespace package."""

    package: str
    file: str


def read_marks(path: Path, start_ns: int) -> tuple[tuple[Mark, ...], tuple[Origin, ...]]:
    """The marks in the order of their times, and the origins of packages, each once."""
    text = read_regular(path, LIMIT).decode(errors="replace")
    marks: list[Mark] = []
    origins: dict[Origin, None] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if not match:
            continue
        name, clock, pid, rest = match.groups()
        if name == "@origin":
            origins.update(dict.fromkeys(_origins(rest or "")))
        else:
            marks.append(Mark(name, (int(clock) - start_ns) / 1e9, int(pid), rest or ""))
    marks.sort(key=lambda mark: mark.seconds)
    return tuple(marks), tuple(origins)


def read_functions(path: Path, start_ns: int) -> dict[str, float]:
    """What a counted launch ran: `file:qualified.name` to seconds until any process first ran it."""
    found: dict[str, float] = {}
    text = read_regular(path, FUNCTIONS_LIMIT).decode(errors="replace")
    for line in text.splitlines():
        clock, _, rest = line.partition(" ")
        name = rest.partition(" ")[2]
        if clock.isdigit() and name:
            seconds = (int(clock) - start_ns) / 1e9
            found[name] = min(found.get(name, seconds), seconds)
    return found


def read_files(path: Path) -> frozenset[str]:
    """What an observed launch loaded or opened: paths as the launch says them, which need not be of this repository."""
    raw = read_regular(path, FILES_LIMIT)
    whole = raw[: raw.rfind(b"\0") + 1]  # what the limit cut through is left out
    return frozenset(decode_path(name) for name in whole.split(b"\0") if 0 < len(name) <= PATH_LIMIT)


@dataclass(frozen=True)
class Times:
    """What one function took of a watched launch, in all processes: calls, and seconds with and without others."""

    calls: int
    seconds: float
    own_s: float


def read_times(path: Path) -> tuple[dict[tuple[str, str], Times], float]:
    """What functions took, by file and qualified name as the launch says them, and seconds of its longest process."""
    found: dict[tuple[str, str], Times] = {}
    longest = 0.0
    for line in read_regular(path, FUNCTIONS_LIMIT).splitlines():
        try:
            told = plain_json(line.decode(errors="replace"))
        except CodecError:
            continue
        if not isinstance(told, list) or len(told) != 5:
            continue
        file, name, *numbers = told
        words = isinstance(file, str) and isinstance(name, str)
        if not words or not all(type(number) is int and 0 <= number < 2**62 for number in numbers):
            continue
        calls, whole, own = numbers
        if not file:
            longest = max(longest, whole / 1e9)
            continue
        key = file, name.replace(".<locals>", "")
        before = found.get(key, Times(0, 0.0, 0.0))
        found[key] = Times(before.calls + calls, before.seconds + whole / 1e9, before.own_s + own / 1e9)
    return found, longest


def _origins(text: str) -> Iterator[Origin]:
    try:
        found = plain_json(text)
    except CodecError:
        return
    if isinstance(found, dict):
        for package, file in found.items():
            yield Origin(str(package), str(file or ""))


def first(marks: Iterable[Mark]) -> dict[str, float]:
    """Each name's first moment, in the order of the moments."""
    found: dict[str, float] = {}
    for mark in marks:
        found.setdefault(mark.name, mark.seconds)
    return found


FIRST_BATCH_RULES = ("first-batch", "train-batch", "grad-batch", "first-forward")
"""Which mark is the first batch, the strongest first.

`first-batch` is set by the program itself (`tithe.first_batch()`). `train-batch` is the forward, or else the
batch out of a DataLoader, that the first backward or optimizer step followed: what comes before (evaluation,
sanity checks, rollouts, dummy inputs) is not trained on. `grad-batch` is the same for gradients that are
asked for without `backward`. `first-forward` serves programs that never train.
"""


def first_batch(phases: dict[str, float]) -> float | None:
    """Seconds from the launch to the first batch, None if no mark says it."""
    for name in FIRST_BATCH_RULES:
        if name in phases:
            return phases[name]
    return None
