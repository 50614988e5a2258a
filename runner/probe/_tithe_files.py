"""Which files of the user's checkout are loaded or opened, by every Python process of a launch. Never in a timed one.

An audit hook sees every module that is read, every file that is opened by Python code, and what is executed. What
C code opens by itself is not seen. Each file is written down at once: a worker that ends by `os._exit` loses nothing.
What is opened to be written is no dependency. Names are separated by NUL, since a path may hold anything else.
"""

from __future__ import annotations

import atexit
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

MOST = 100_000
"""Files that one process notes."""

_target = ""
_roots: tuple[str, ...] = ()
_seen: set[str] = set()


def start(environ: Mapping[str, str]) -> None:
    """Watch from now on; TITHE_FILES names the file to write, TITHE_FILES_ROOT the user's checkout."""
    global _target, _roots
    _target = environ["TITHE_FILES"]
    root = environ["TITHE_FILES_ROOT"]
    _roots = tuple({os.path.join(os.path.abspath(root), ""), os.path.join(os.path.realpath(root), "")})
    sys.addaudithook(_on_event)
    atexit.register(_note_modules)


def _on_event(event: str, given: tuple[Any, ...]) -> None:
    try:
        if event == "open":
            _on_open(*given)
        elif event == "import":
            _note(given[1])  # of extension modules; others are opened
        elif event in ("cpython.run_file", "ctypes.dlopen", "sqlite3.connect"):
            _note(given[0])
        elif event in ("subprocess.Popen", "os.exec", "os.posix_spawn"):
            _note_words(given[0], given[1], given[2] if event == "subprocess.Popen" else None)
    except Exception:  # it must not disturb the program that it watches
        return


def _on_open(path: Any, _mode: Any, flags: int) -> None:
    if flags & 3 == os.O_WRONLY or flags & os.O_TRUNC:
        return
    _note(path)


def _note_words(program: Any, words: Any, folder: Any) -> None:
    """A program that is started, and the words of its command that are files: scripts of a shell, say."""
    _note(program)
    if isinstance(words, (list, tuple)):
        for word in words[:1000]:
            if isinstance(word, (str, bytes)):
                path = os.path.join(os.fsdecode(folder) if folder else "", os.fsdecode(word))
                if os.path.isfile(path):
                    _note(path)


def _note_modules() -> None:
    for module in list(sys.modules.values()):
        try:
            _note(getattr(module, "__file__", None))
        except Exception:
            continue


def _note(path: Any) -> None:
    if not isinstance(path, (str, bytes)) and not hasattr(path, "__fspath__"):
        return
    name = os.path.abspath(os.fsdecode(path))
    if name in _seen or name == _target or len(_seen) >= MOST:
        return
    _seen.add(name)
    _write(_below({_source(name), _source(os.path.realpath(name))}))


def _source(path: str) -> str:
    """The file that a compiled one was made from; any other as it is."""
    if not path.endswith(".pyc"):
        return path
    folder, name = os.path.split(path)
    prefix = sys.pycache_prefix
    if prefix and path.startswith(os.path.join(prefix, "")):
        folder = folder[len(prefix.rstrip(os.sep)) :]
    elif os.path.basename(folder) == "__pycache__":
        folder = os.path.dirname(folder)
    return os.path.join(folder, name.partition(".")[0] + ".py")


def _below(paths: Iterable[str]) -> list[str]:
    return [path[len(root) :] for path in paths for root in _roots if path.startswith(root)]


def _write(names: list[str]) -> None:
    if not names:
        return
    descriptor = os.open(_target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(descriptor, b"".join(os.fsencode(name) + b"\0" for name in names if len(name) < 4096))
    finally:
        os.close(descriptor)
