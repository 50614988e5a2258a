"""How results are shown: a short table for people, JSON and Markdown for machines.

Whatever came from outside (names, subjects, notes) passes through `safe_line` here, and nowhere else.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from tithe.data.text import inert_json, safe_line
from tithe.data.units import format_duration

_WORKFLOW_COMMAND = re.compile(r"(?m)^(\s*)::")


def emit(record: object, style: str, output: Path | None, text: Callable[[str], str]) -> None:
    """Prints `record`: JSON as it is, or what `text(style)` makes of it; and writes `output` if asked."""
    from tithe.data.codec import to_json

    if output is not None:
        write_file(output, to_json(record, indent=2) + "\n")
    click.echo(inert_json(to_json(record, indent=2)) if style == "json" else inert(text(style)))


def inert(text: str) -> str:
    """No line begins as a command to the CI system that may read it."""
    return _WORKFLOW_COMMAND.sub(r"\1: :", text)


def write_file(path: Path, content: str) -> None:
    """Writes `content` under a new name and swaps it in, so that nobody ever reads half of it."""
    from tithe.data.locations import write_whole

    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content.encode("utf-8", "surrogatepass"))


def table(headers: Sequence[str], rows: Sequence[Sequence[object]], style: str) -> str:
    """A table of already safe cells; numbers come as text, formatted."""
    if style == "markdown":
        from tithe import markdown

        return markdown.table(headers, [[markdown.inline(str(cell)) for cell in row] for row in rows])
    from tabulate import tabulate

    return tabulate(rows, headers, tablefmt="simple", disable_numparse=True)


def percent(share: float | None, *, signed: bool = False, digits: int = 1) -> str:
    """A share as per cent; a dash where there is none."""
    if share is None:
        return "–"
    return f"{share * 100:+.{digits}f} %" if signed else f"{share * 100:.{digits}f} %"


def ratio_words(ratio: float | None, low: float | None, high: float | None) -> str:
    """`+12.3 % (+9.8 … +14.9)` from a ratio head over base and its interval; `× 12.5 (12.1 … 12.9)` from 2 on."""
    if ratio is None:
        return "–"
    if ratio >= 2:
        return f"× {ratio:.1f}" if low is None or high is None else f"× {ratio:.1f} ({low:.1f} … {high:.1f})"
    middle = percent(ratio - 1, signed=True)
    if low is None or high is None:
        return middle
    return f"{middle} ({(low - 1) * 100:+.1f} … {(high - 1) * 100:+.1f})"


def name(text: str, limit: int = 60) -> str:
    """A name or subject from outside, safe to show."""
    return safe_line(text, limit=limit)


def short(revision: str) -> str:
    """The first ten characters of an object id; other names as they are."""
    return revision[:10] if len(revision) == 40 else name(revision)


def duration(seconds: float) -> str:
    """`1m20s`, as in the configuration."""
    return format_duration(seconds)


def warnings_text(warnings: Sequence[str]) -> str:
    """Each warning on a line of its own, or nothing."""
    return "".join(f"\nwarning: {safe_line(warning, limit=400)}" for warning in warnings)


class Progress:
    """Says on a terminal's standard error what is going on, and clears it at the end; silent everywhere else."""

    def __init__(self) -> None:
        self._live = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self._show("")

    def __call__(self, line: str) -> None:
        if self._live:
            self._show(safe_line(line, limit=max(20, _terminal_width() - 1)))

    def _show(self, line: str) -> None:
        if self._live:
            sys.stderr.write("\r\x1b[K" + line)
            sys.stderr.flush()


def _terminal_width() -> int:
    import shutil

    return shutil.get_terminal_size().columns
