"""How results are shown: a short table for people, JSON and Markdown for machines.

Whatever came from outside (names, subjects, notes) passes through `safe_line` here, and nowhere else.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import click

from tithe.data import paths
from tithe.data.text import inert_json, safe_line
from tithe.data.units import format_duration

_WORKFLOW_COMMAND = re.compile(r"(?m)^(\s*)::")


def emit(record: object, style: str, output: Path | None, text: Callable[[str], str]) -> None:
    """Prints `record`: JSON as it is, or what `text(style)` makes of it; and writes `output` if asked."""
    from tithe.data.codec import to_json

    # Printed first: whatever happens to the file, what was measured has been said.
    shown = inert_json(to_json(record, indent=2)) if style == "json" else inert(text(style))
    click.echo(shown.encode("utf-8", "backslashreplace").decode())
    if output is not None:
        write_file(output, to_json(record, indent=2) + "\n")
        paths.note_output(output.resolve())


def inert(text: str) -> str:
    """No line begins as a command to the CI system that may read it."""
    return _WORKFLOW_COMMAND.sub(r"\1: :", text)


def write_file(path: Path, content: str) -> None:
    """Writes `content` under a new name and swaps it in, so that nobody ever reads half of it.

    A link is followed, and what is no file (a pipe, a terminal, /dev/stdout) is written to as it is.
    """
    from tithe.data.locations import write_whole

    raw = content.encode("utf-8", "surrogatepass")
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_bytes(raw)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, raw)


def _is_ours(path: Path) -> bool:
    """Whether a result written there would destroy what no command can bring back."""
    from tithe.data.config import FILE_NAME

    if path.name == FILE_NAME and path.exists():
        return True
    if path.parent.name == paths.HOME and path.name.startswith((paths.STORE, paths.IGNORE)):
        return True
    if not path.is_file():
        return False  # a pipe would be waited for
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\0"
    except OSError:
        return False


def writable(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Refuses a file that cannot be written before anything is measured for it."""
    if path is None:
        return None
    import os

    target = path.resolve()
    if _is_ours(target):
        raise click.BadParameter(f"{safe_line(str(path))} is a file that tithe works with; name another one")
    there = next(folder for folder in (target, *target.parents) if folder.exists())
    if not os.access(there, os.W_OK) or (there != target and not there.is_dir()):
        raise click.BadParameter(f"{safe_line(str(path))} cannot be written here")
    return path


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


def plain(text: str) -> str:
    """A message with something from outside in it, safe to show."""
    return safe_line(text, limit=600)


def path_text(path: Path) -> str:
    """A path of this machine as text, also one that is not UTF-8."""
    return str(path).encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


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
