"""Marks that training code sets itself: `tithe.first_batch()` and `tithe.mark(name)`.

Safe to leave in production: where tithe is not measuring (TITHE_MARKS is unset) each is a lookup, and nothing
in here ever raises. A mark is one appended line, written at once and to a file that is opened for it alone:
it outlives `os._exit`, and code that closes every descriptor. It imports nothing that the interpreter has not
loaded already.
"""

from __future__ import annotations

import os
import sys
import time

_seen: set[str] = set()


def first_batch() -> None:
    """Say that the first batch has reached the model. Only the first call counts."""
    mark("first-batch")


def mark(name: str) -> None:
    """Say that a phase of the start has been reached. Only the first call for a name counts.

    The launch ends here, with exit code 0, if tithe was asked to stop at this mark: at `first-batch` or
    `first-step`; a program without torch has no other first step than its first batch.
    """
    try:
        if name in _seen:
            return
        if len(_seen) < 1000:
            _seen.add(name)
        target = os.environ.get("TITHE_MARKS")
        if not target:
            return
        now = time.monotonic_ns()
        safe = (
            "".join(c if c.isascii() and (c.isalnum() or c in "_.-") else "_" for c in str(name)[:64]) or "_"
        )
        _append(target, f"{safe} {now} {os.getpid()}\n")
        stop = os.environ.get("TITHE_STOP", "none")
        if stop == safe or (stop == "first-step" and safe == "first-batch" and "torch" not in sys.modules):
            _append(target, f"stopped {time.monotonic_ns()} {os.getpid()}\n")
            _end()
    except Exception:  # a mark never disturbs the program that sets it
        return


def _append(target: str, line: str) -> None:
    descriptor = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    try:
        os.write(descriptor, line.encode())
    finally:
        os.close(descriptor)


def _end() -> None:
    # Exit handlers are left out: those of a job that has hardly begun may save, upload or wait.
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)
