"""Locks between processes of one host, held by the kernel: none survives the process that held it.

`flock` on a file of its own. A lock's file may be removed by whoever holds it exclusively; who was waiting
for it then holds a lock on a file without a name, notices, and tries again.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tithe.data.errors import LaunchError


class FileLock:
    """A lock on a path, shared or exclusive."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1

    @property
    def held(self) -> bool:
        return self._descriptor >= 0

    def acquire(self, *, shared: bool = False, wait: bool = True) -> bool:
        """Take it; False if `wait` is off and another process has it.

        Raises:
            LaunchError: the lock's file cannot be made.
        """
        how = (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        while True:
            try:
                descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise LaunchError(f"cannot lock: {error.strerror}", where=str(self.path)) from None
            try:
                fcntl.flock(descriptor, how)
                if _same_file(descriptor, self.path):
                    self._descriptor = descriptor
                    return True
            except BlockingIOError:
                os.close(descriptor)
                return False
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def share(self) -> None:
        """From exclusive to shared. Not atomic: another process may hold it exclusively in between."""
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)

    def release(self, *, remove: bool = False) -> None:
        """Give it up; `remove` deletes its file, which only an exclusive holder may do."""
        if self._descriptor < 0:
            return
        if remove:
            self.path.unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = -1


def _same_file(descriptor: int, path: Path) -> bool:
    try:
        named = path.stat()
    except FileNotFoundError:
        return False
    opened = os.fstat(descriptor)
    return (named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)


def slot_path() -> Path:
    """The file of the slot that all of a user's tithe processes on a host share.

    Raises:
        LaunchError: its folder belongs to somebody else.
    """
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if runtime and Path(runtime).is_dir() and os.access(runtime, os.W_OK):
        return Path(runtime) / "tithe-slot.lock"
    folder = Path(tempfile.gettempdir()) / f"tithe-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise LaunchError("the lock's folder belongs to somebody else", where=str(folder), mend="set TMPDIR")
    return folder / "slot.lock"


@contextlib.contextmanager
def host_slot() -> Iterator[None]:
    """Be the only one on this host that measures: processes of tithe take turns."""
    lock = FileLock(slot_path())
    lock.acquire()
    try:
        yield
    finally:
        lock.release()
