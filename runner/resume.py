"""Runs that were broken off go on where they stopped, as long as the same is asked of them.

Nothing of the decision is kept: the engine decides anew from the first block, and the blocks that were recorded are
given to it instead of being launched again. What it then says is what it would have said.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tithe.data.codec import plain_json, to_json
from tithe.data.errors import TitheError
from tithe.data.plain import read_plain
from tithe.data.records import Launch, LaunchId, RunId, Scenario, Sha
from tithe.runner.executor import BlockSpec, Executor
from tithe.runner.locks import FileLock

if TYPE_CHECKING:
    from tithe.data.config import DecisionPolicy

RECORD_BYTES = 1 << 24
FRESH_S = 86400.0
"""A run that was broken off longer ago is begun anew: the host may be another one in all but its name."""


def key_of(kind: str, base: Sha, head: Sha, seed: int, host: str, policy: DecisionPolicy) -> str:
    """What two calls must have in common for one to go on with the other's run."""
    text = to_json([kind, base, head, seed, host, policy])
    return hashlib.sha256(text.encode()).hexdigest()[:24]


class OpenRun:
    """The mark of a run that has not ended; held locked while its process lives.

    `run` is its id: that of a run which was broken off (then `resumed`), or `fresh`.
    """

    def __init__(self, folder: Path, key: str, scenarios: Iterable[Scenario], fresh: RunId) -> None:
        self.run, self.resumed = fresh, False
        self._path = folder / f"{key}.run"
        self._lock = FileLock(folder / f"{key}.lock")
        folder.mkdir(parents=True, exist_ok=True)
        _forget(folder)
        if not self._lock.acquire(wait=False):
            return  # another process is at the very same: this one is a run of its own, and leaves no mark
        defined = {str(s.name): hashlib.sha256(to_json(s).encode()).hexdigest()[:16] for s in scenarios}
        found = self._read()
        if found is not None and all(found[1].get(name, mark) == mark for name, mark in defined.items()):
            self.run, self.resumed = found[0], True
            defined = {**found[1], **defined}
        text = json.dumps({"run": self.run, "scenarios": defined})
        temporary = self._path.with_suffix(f".{os.getpid()}.tmp")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self._path)

    def done(self) -> None:
        """The run has ended and is not gone on with."""
        if self._lock.held:
            self._path.unlink(missing_ok=True)
            self._lock.release(remove=True)

    def close(self) -> None:
        """Lets go of the run, to be gone on with if it is not `done`."""
        self._lock.release()

    def _read(self) -> tuple[RunId, dict[str, str]] | None:
        with contextlib.suppress(OSError, TitheError, TypeError, KeyError, AttributeError):
            if time.time() - self._path.stat().st_mtime > FRESH_S:
                return None
            found = plain_json(read_plain(self._path, RECORD_BYTES))
            scenarios = {str(name): str(mark) for name, mark in found["scenarios"].items()}
            return RunId(str(found["run"])), scenarios
        return None


def _forget(folder: Path) -> None:
    """Removes the marks that are too old to be gone on with."""
    for path in folder.glob("*.run"):
        with contextlib.suppress(OSError):
            if time.time() - path.stat().st_mtime > FRESH_S:
                path.unlink()
                path.with_suffix(".lock").unlink(missing_ok=True)


class ResumingExecutor:
    """An executor that gives recorded blocks where it has them, and launches the others."""

    def __init__(self, inner: Executor, launches: Iterable[Launch]) -> None:
        self._inner = inner
        self._known: Mapping[LaunchId, Launch] = {launch.id: launch for launch in launches}
        self._seconds = 0.0
        self.reused = 0
        """Launches that were not made again."""

    def told(self) -> tuple[str, ...]:
        """What a report says of it."""
        if not self.reused:
            return ()
        return (f"an interrupted run went on: {self.reused} of its launches were not made again",)

    @property
    def host(self) -> str:
        """See `Executor`."""
        return self._inner.host

    def prepare(self, sha: Sha) -> str:
        """See `Executor`."""
        return self._inner.prepare(sha)

    def run_block(self, spec: BlockSpec) -> tuple[Launch, ...]:
        """See `Executor`. A block that was cut off is made again as a whole."""
        found = self._recorded(spec)
        if found is None:
            return self._inner.run_block(spec)
        self.reused += len(found)
        self._seconds += sum(launch.seconds for launch in found)
        return tuple(found)

    def spent(self) -> float:
        """See `Executor`. What was spent before counts, too."""
        return self._inner.spent() + self._seconds

    def close(self) -> None:
        """See `Executor`."""
        self._inner.close()

    def _recorded(self, spec: BlockSpec) -> Sequence[Launch] | None:
        found = []
        for position, arm in enumerate(spec.order()):
            launch = self._known.get(spec.launch_id(position))
            if launch is None or launch.arm != arm:
                return None
            found.append(launch)
        return found
