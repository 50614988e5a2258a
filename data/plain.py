"""Opens a file that a stranger may have put there: never a wait, never another file than the one of that name.

A change's code can write to the outbox, to a cache, and to a folder of bundles. A pipe there would block whoever
opens it, a link could lead to any file of the user, and no file has to end.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_KINDS = (
    (stat.S_ISLNK, "is a link, which is not followed here"),
    (stat.S_ISDIR, "is a folder, not a file"),
    (stat.S_ISFIFO, "is a pipe, not a file"),
)


def open_plain(path: Path, *, follow: bool = False) -> int:
    """A descriptor of the regular file at `path`, to read from.

    Args:
        follow: Whether `path` itself may be a link, as one that the user named.

    Raises:
        OSError: It cannot be opened, or is something else; `strerror` says what.
    """
    _check(
        (path.stat() if follow else path.lstat()).st_mode, path
    )  # opening some devices has effects already
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    descriptor = os.open(path, flags if follow else flags | os.O_NOFOLLOW)
    try:
        _check(os.fstat(descriptor).st_mode, path)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_plain(path: Path, limit: int, *, follow: bool = False) -> bytes:
    """At most `limit` bytes of the regular file at `path`; see `open_plain`."""
    with os.fdopen(open_plain(path, follow=follow), "rb") as file:
        return file.read(limit)


def _check(mode: int, path: Path) -> None:
    if stat.S_ISREG(mode):
        return
    said = next((words for kind, words in _KINDS if kind(mode)), "is no regular file")
    raise OSError(errno.EINVAL, said, str(path))
