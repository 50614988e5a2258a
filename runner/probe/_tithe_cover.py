"""Which functions of the user's own files run, and when each ran first. Never in a timed launch.

`sys.monitoring` where there is one (3.12): a function costs one callback and is then switched off. Elsewhere
`sys.setprofile`, in all threads. Each function is written down at once, with its process and its moment: a
worker that ends by `os._exit` loses nothing, and what ran before a mark can be told from what ran after it.
"""

from __future__ import annotations

import os
import sys
import threading
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType, FrameType
    from typing import Any

_target = ""
_root = ""
_seen: dict[int, CodeType] = {}
_TOOL = 4  # neither debugger, coverage, profiler nor optimizer


def start(environ: Mapping[str, str]) -> None:
    """Watch from now on; TITHE_COVER names the file to write, TITHE_COVER_ROOT the user's folder."""
    global _target, _root
    _target = environ["TITHE_COVER"]
    _root = os.path.join(os.path.realpath(environ["TITHE_COVER_ROOT"]), "")
    if hasattr(sys, "monitoring"):
        monitoring: Any = sys.monitoring
        monitoring.use_tool_id(_TOOL, "tithe")
        monitoring.register_callback(_TOOL, monitoring.events.PY_START, _on_start)
        monitoring.set_events(_TOOL, monitoring.events.PY_START)
    else:
        threading.setprofile(_on_call)
        sys.setprofile(_on_call)


def _on_start(code: CodeType, _offset: int) -> Any:
    _note(code)
    return sys.monitoring.DISABLE  # type: ignore[attr-defined, unused-ignore]  # 3.12 and later


def _on_call(frame: FrameType, event: str, _argument: Any) -> None:
    if event == "call" and id(frame.f_code) not in _seen:
        _note(frame.f_code)


def _note(code: CodeType) -> None:
    # The code is kept, so that its id stays its own.
    _seen[id(code)] = code
    try:
        if code.co_filename.startswith("<"):  # frozen or generated: no file, but realpath would make it one
            return
        file = os.path.realpath(code.co_filename)
        if not file.startswith(_root):
            return
        name = getattr(code, "co_qualname", "") or f"{code.co_name}@{code.co_firstlineno}"
        line = f"{time.monotonic_ns()} {os.getpid()} {file[len(_root) :]}:{name}\n"
        descriptor = os.open(_target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line.encode(errors="replace"))
        finally:
            os.close(descriptor)
    except Exception:  # it must not disturb the program that it watches
        return
