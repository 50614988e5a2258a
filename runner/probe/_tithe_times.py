"""How much time each function of the user's checkout takes, and how often it is called. Never in a timed launch.

`sys.monitoring` where there is one (3.12), else `sys.setprofile`, in all threads. Only functions of files below the
checkout are followed, so that the time of a library that one of them calls is that function's own. What the hooks
themselves take is kept out by a clock of each thread that stands still in them. Sums are written down every half
second and at the end, `os._exit` included, as lines of JSON: `[file, name, calls, ns, own ns]`; a line without a file
has the process's own time.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType, FrameType
    from typing import Any

_clock = time.perf_counter_ns
_target = ""
_root = ""
_begun = 0
_written = 0
_TOOL = 4  # neither debugger, coverage, profiler nor optimizer
_EVERY = 500_000_000

_codes: dict[int, tuple[CodeType, int]] = {}
"""By id: the code, so that its id stays its own, and its place in the lists below; -1 for what is not followed."""
_names: list[tuple[str, str]] = []
_calls: list[int] = []
_whole: list[int] = []
_own: list[int] = []
_told: list[tuple[int, int, int]] = []
_threads: dict[int, _Thread] = {}


class _Thread:
    """The followed functions that run in one thread."""

    __slots__ = ("active", "lost", "stack")

    def __init__(self) -> None:
        self.stack: list[list[int]] = []
        """Place, moment of the start, time in followed functions that it called."""
        self.active: dict[int, int] = {}
        self.lost = 0
        """Time that the hooks took, on this thread's clock."""


def start(environ: Mapping[str, str]) -> None:
    """Watch from now on; TITHE_TIMES names the file to write, TITHE_FILES_ROOT the user's checkout."""
    global _target, _root, _begun, _written
    _target = environ["TITHE_TIMES"]
    _root = os.path.join(os.path.realpath(environ["TITHE_FILES_ROOT"]), "")
    _begun = _written = _clock()
    atexit.register(_finish)
    os.register_at_fork(after_in_child=_forget)
    leave = os._exit

    def leave_told(status: int) -> None:
        try:
            _finish()
        finally:
            leave(status)

    os._exit = leave_told  # type: ignore[assignment]
    if hasattr(sys, "monitoring"):
        _monitor(sys.monitoring)
    else:
        threading.setprofile(_on_event)
        sys.setprofile(_on_event)


def _monitor(monitoring: Any) -> None:
    events = monitoring.events

    def enter(code: CodeType, _offset: int, *_: Any) -> Any:
        at = _clock()
        place = _place(code)
        if place < 0:
            return monitoring.DISABLE
        _enter(place, at)
        return None

    def leave(code: CodeType, _offset: int, *_: Any) -> Any:
        at = _clock()
        place = _place(code)
        if place < 0:
            return monitoring.DISABLE
        _leave(place, at)
        return None

    def thrown(code: CodeType, _offset: int, *_: Any) -> None:
        at = _clock()
        if (place := _place(code)) >= 0:
            _enter(place, at)

    def unwound(code: CodeType, _offset: int, *_: Any) -> None:
        at = _clock()
        if (place := _place(code)) >= 0:
            _leave(place, at)

    monitoring.use_tool_id(_TOOL, "tithe")
    pairs = [
        (events.PY_START, enter),
        (events.PY_RESUME, enter),
        (events.PY_THROW, thrown),
        (events.PY_RETURN, leave),
        (events.PY_YIELD, leave),
        (events.PY_UNWIND, unwound),
    ]
    chosen = 0
    for event, hook in pairs:
        monitoring.register_callback(_TOOL, event, hook)
        chosen |= event
    monitoring.set_events(_TOOL, chosen)


def _on_event(frame: FrameType, event: str, _argument: Any) -> None:
    if event == "call":
        at = _clock()
        place = _place(frame.f_code)
        if place >= 0:
            _enter(place, at)
    elif event == "return":
        at = _clock()
        place = _place(frame.f_code)
        if place >= 0:
            _leave(place, at)


def _place(code: CodeType) -> int:
    known = _codes.get(id(code))
    if known is not None:
        return known[1]
    place = -1
    try:
        if not code.co_filename.startswith("<"):
            file = os.path.realpath(code.co_filename)
            if file.startswith(_root):
                place = len(_names)
                _names.append((file[len(_root) :], getattr(code, "co_qualname", code.co_name)))
                _calls.append(0)
                _whole.append(0)
                _own.append(0)
                _told.append((0, 0, 0))
    except Exception:  # it must not disturb the program that it watches
        place = -1
    _codes[id(code)] = (code, place)
    return place


def _thread() -> _Thread:
    key = threading.get_ident()
    found = _threads.get(key)
    if found is None:
        found = _threads[key] = _Thread()
    return found


def _enter(place: int, at: int) -> None:
    thread = _thread()
    now = at - thread.lost
    _calls[place] += 1
    thread.active[place] = thread.active.get(place, 0) + 1
    thread.stack.append([place, now, 0])
    thread.lost += _clock() - at


def _leave(place: int, at: int) -> None:
    thread = _thread()
    now = at - thread.lost
    stack = thread.stack
    # What was running before the watch began is not on it.
    if thread.active.get(place):
        while stack:
            frame = stack.pop()
            _close(thread, frame, now)
            if frame[0] == place:
                break
    if at - _written > _EVERY:
        _write()
    thread.lost += _clock() - at


def _close(thread: _Thread, frame: list[int], now: int) -> None:
    place, begun, inner = frame
    took = now - begun
    _own[place] += took - inner
    left = thread.active[place] - 1
    thread.active[place] = left
    if not left:
        _whole[place] += took
    if thread.stack:
        thread.stack[-1][2] += took


def _finish() -> None:
    """What still runs counts up to now."""
    try:
        at = _clock()
        for thread in list(_threads.values()):
            while thread.stack:
                _close(thread, thread.stack.pop(), at - thread.lost)
        own = _threads.get(threading.main_thread().ident or 0)
        _write(at - _begun - (own.lost if own else 0))
    except Exception:
        return


def _forget() -> None:
    """A child has its parent's sums and must not tell them again."""
    global _begun, _written
    _begun = _written = _clock()
    _threads.clear()
    for place in range(len(_names)):
        _calls[place] = _whole[place] = _own[place] = 0
        _told[place] = (0, 0, 0)


def _write(total: int = 0) -> None:
    global _written
    _written = _clock()
    try:
        lines = []
        for place, (file, name) in enumerate(_names):
            sums = (_calls[place], _whole[place], _own[place])
            if sums != _told[place]:
                new = [now - before for now, before in zip(sums, _told[place])]  # noqa: B905 - 3.9 has no strict
                _told[place] = sums
                lines.append(json.dumps([file[:4096], name[:400], *new]))
        if total:
            lines.append(json.dumps(["", "", 1, total, 0]))
        if lines:
            descriptor = os.open(_target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, ("\n".join(lines) + "\n").encode())
            finally:
                os.close(descriptor)
    except Exception:
        return
