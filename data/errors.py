"""Every error that a user can meet, and the exit code that it ends in.

One base class, three facts in each message: what is wrong, where, and how to mend it. Only the command
line turns an error into a message and a code; every other module raises and lets it pass.
"""

from __future__ import annotations

from tithe.data.credentials import hidden

EXIT_OK = 0
EXIT_REGRESSED = 1
EXIT_USAGE = 2
EXIT_INFRASTRUCTURE = 3
EXIT_INCONCLUSIVE = 4
EXIT_INTERRUPTED = 130

EXIT_MEANINGS: dict[int, str] = {
    EXIT_OK: "no regression and no break was confirmed in what was run",
    EXIT_REGRESSED: "something regressed or broke, and a second, independent run confirmed it",
    EXIT_USAGE: "wrong usage or configuration; nothing was run",
    EXIT_INFRASTRUCTURE: "the infrastructure failed, so that something asked for cannot be said",
    EXIT_INCONCLUSIVE: "inconclusive, where the caller asked to fail on it (--fail-on-inconclusive)",
    EXIT_INTERRUPTED: "interrupted (Ctrl-C, SIGTERM); what was finished is recorded",
}


class TitheError(Exception):
    """What is wrong, where, and how to mend it, in one line.

    `what` names the fault, `where` the file, key, revision or command that it was found in, and `mend`
    the shortest thing that a user can do about it.
    """

    exit_code: int = EXIT_INFRASTRUCTURE

    def __init__(self, what: str, *, where: str = "", mend: str = "") -> None:
        self.what = what
        self.where = where
        self.mend = mend
        head = f"{where}: {what}" if where else what
        super().__init__(f"{head}; {mend}" if mend else head)


class UsageError(TitheError):
    """The caller asked for something that cannot be: a wrong option, revision, scenario or budget."""

    exit_code = EXIT_USAGE


class ConfigError(UsageError):
    """`tithe.toml` (or another file that the user writes) does not say what it must."""


class GitError(TitheError):
    """git is missing, failed, or the repository lacks what was asked for."""


class StoreError(TitheError):
    """The store cannot be read or written: corrupt, locked, full, read-only or from a newer version."""


class SpoolError(TitheError):
    """A bundle cannot be written or read."""


class LocationError(TitheError):
    """A folder or URL cannot be reached, read or written. Whoever raises it, no credentials are in it."""

    def __init__(self, what: str, *, where: str = "", mend: str = "") -> None:
        super().__init__(hidden(what), where=hidden(where), mend=hidden(mend))


class MissingError(LocationError):
    """There is no such file at a location that can be reached."""


class SnapshotError(TitheError):
    """A snapshot is damaged, foreign, or of a version that is not read here."""


class ModelError(TitheError):
    """A model folder is corrupt or belongs to another version or feature set."""


class LaunchError(TitheError):
    """A process could not be started or measured at all, for a reason that is not the scenario's own."""


class SetupError(TitheError):
    """An arm could not be made runnable: checkout, environment or set-up command failed."""
