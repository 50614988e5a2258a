"""What a machine without a store has measured, on its way out: journals of runs, then bundles, then a location.

A run writes each record to a journal of its own the moment that it has it, so that a killed job loses at most
the line in flight. The journal is locked while its run lives: whoever finds one unlocked may seal it into a
bundle and send it. Sealing gives the same bundle however often it is done, and a bundle that is sent twice is
taken in once, so that no step here needs to know what another one got to do.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tithe.data import spool
from tithe.data.errors import LocationError, MissingError, SpoolError, TitheError
from tithe.data.locations import Folder, Location
from tithe.data.plain import open_plain
from tithe.data.records import Change, Launch, Outcome, RunRecord, Selection
from tithe.data.spool import MAX_BYTES, SUFFIX, Record
from tithe.data.text import safe_line

JOURNAL = ".journal"
PART_BYTES = 64 * 2**20
"""Of text in one bundle: a run with more is sent as several."""
JOURNAL_BYTES = 8 * 2**30
LINE_BYTES = 64 * 2**20
"""A longer line is no record; nothing that is written here is even near."""
NAMED = 5
"""Faults that are named one by one; the others are counted."""


@dataclass(frozen=True)
class PushReport:
    """What became of the bundles in an outbox."""

    sent: tuple[str, ...] = ()
    """Names of the bundles that are at the location now."""
    launches: int = 0
    """Launches in them."""
    waiting: int = 0
    """Bundles and journals of ended runs that are still here."""
    faults: tuple[str, ...] = ()
    """Why; one line each for the first, and one that counts the others."""
    damaged: tuple[str, ...] = ()
    """Journals of which lines were left out because nobody can read them; said once, as they are gone then."""
    lost: int = 0
    """Records that could neither be sent nor kept."""


class Outbox:
    """The records of one run. Where the disk is full they wait in memory and go out all the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.fault = ""
        """Why the journal could not be written, if it could not."""
        self._descriptor = -1
        self._path: Path | None = None
        self._waiting: list[bytes] = []
        """Lines that are in no journal yet."""
        self._size = 0

    def add_run(self, run: RunRecord) -> None:
        """Journals a run's beginning."""
        self._add((run,))

    def add_launches(self, launches: Iterable[Launch]) -> None:
        """Journals launches with all their samples."""
        self._add(launches)

    def add_outcomes(self, outcomes: Iterable[Outcome]) -> None:
        """Journals what was concluded."""
        self._add(outcomes)

    def add_changes(self, changes: Iterable[Change]) -> None:
        """Journals the diff under test, which is on no history that the store knows."""
        self._add(changes)

    def add_selection(self, selection: Selection, created_at: float) -> None:  # noqa: ARG002 - as the store has it
        """Journals what was selected."""
        self._add((selection,))

    def deliver(self, place: Location) -> PushReport:
        """Ends the journal and sends it, and whatever earlier runs have left here. Never raises `TitheError`."""
        self._write()
        unsaved, journal = self._waiting, self._path
        self._release()
        if not unsaved:
            return push(self.folder, place)
        # The disk is full: what is in no journal goes out from memory, with what is in one.
        try:
            lines = _read(journal) if journal else []
        except OSError as error:
            return PushReport(waiting=1, faults=(_unread(journal or self.folder, error),))
        report = _send_lines([*lines, *unsaved], place)
        if report.faults:
            return replace(report, lost=len(unsaved))
        self._waiting = []
        if journal:
            with suppress(OSError):
                journal.unlink(missing_ok=True)
        return _joined(report, push(self.folder, place))

    def close(self) -> None:
        """Ends the journal where it is, for a later `push`."""
        self._write()
        self._release()

    def _add(self, records: Iterable[Record]) -> None:
        self._waiting += [spool.encode_record(record) + b"\n" for record in records]
        self._write()

    def _write(self) -> None:
        if not self._waiting:
            return
        try:
            if self._descriptor < 0:
                self._begin()
            data = b"".join(self._waiting)
            try:
                written = os.write(self._descriptor, data)
                if written < len(data):
                    raise OSError(28, os.strerror(28))
            except OSError:
                # What is torn would be read as garbage before the next line.
                with suppress(OSError):
                    os.ftruncate(self._descriptor, self._size)
                raise
        except OSError as error:
            self.fault = f"{safe_line(str(self.folder), limit=300)}: cannot be written: {error.strerror}"
            return
        self._size += len(data)
        self._waiting = []
        self.fault = ""

    def _begin(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        name = secrets.token_hex(8)
        path, made = self.folder / f"{name}{JOURNAL}", self.folder / f".{name}.new"
        descriptor = os.open(made, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # before it has the name that others look for
            made.rename(path)
        except BaseException:
            os.close(descriptor)
            with suppress(OSError):
                made.unlink()
            raise
        self._descriptor, self._path, self._size = descriptor, path, 0

    def _release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
            self._path = None


def push(folder: Path, place: Location) -> PushReport:
    """Seals what ended runs have left in `folder`, and sends every bundle there. Never raises `TitheError`.

    What was sent is removed here; what could not be stays, and the next call tries again. Where `place` is
    the outbox itself the bundles stay for a later call, such as one that has the credentials to send them.
    """
    report = PushReport()
    try:
        if not folder.is_dir():
            return report
        Folder(folder).tidy()
        for journal in _named(folder, JOURNAL):
            report = _joined(report, _seal(journal, folder))
        if not (isinstance(place, Folder) and place.path.resolve() == folder.resolve()):
            for path in _named(folder, SUFFIX):
                report = _joined(report, _send(path, place))
            if report.sent and isinstance(place, Folder):
                place.tidy()
    except OSError as error:
        report = _joined(report, PushReport(faults=(_unread(folder, error),)))
    return replace(report, faults=_first(report.faults), damaged=_first(report.damaged))


def _named(folder: Path, suffix: str) -> list[Path]:
    return [folder / name for name in sorted(os.listdir(folder)) if name.endswith(suffix)]  # noqa: PTH208 - `glob` hides faults


def _seal(journal: Path, folder: Path) -> PushReport:
    try:
        descriptor = open_plain(journal)
    except FileNotFoundError:
        return PushReport()  # another push has sealed it
    except OSError as error:
        return PushReport(waiting=1, faults=(_unread(journal, error),))
    damage = _Damage()
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return PushReport()  # its run lives
        if not journal.exists():
            return PushReport()
        records = _records(_lines(descriptor), safe_line(journal.name), damage)
        for name, content, _ in _bundles(records):
            Folder(folder).write(name, content)
        journal.unlink(missing_ok=True)
    except OSError as error:
        return PushReport(waiting=1, faults=(_unread(journal, error),))
    except TitheError as error:
        return PushReport(waiting=1, faults=(safe_line(str(error), limit=600),))
    finally:
        os.close(descriptor)
    return PushReport(damaged=damage.told(journal))


def _send(path: Path, place: Location) -> PushReport:
    try:
        content = Folder(path.parent).read(path.name, limit=MAX_BYTES)
    except MissingError:
        return PushReport()  # another push has sent it
    except LocationError as error:
        return PushReport(waiting=1, faults=(safe_line(str(error), limit=600),))
    try:
        records = spool.decode(path.name, content, safe_line(str(path), limit=300))
        place.write(path.name, content)
    except (LocationError, SpoolError) as error:
        return PushReport(waiting=1, faults=(safe_line(str(error), limit=600),))
    with suppress(OSError):
        path.unlink(missing_ok=True)
    return PushReport((path.name,), _launches(records))


def _send_lines(lines: Iterable[bytes], place: Location) -> PushReport:
    """Sends what no bundle could be written of here."""
    sent: list[str] = []
    launches = 0
    damage = _Damage()
    where = "what is not yet in a journal"
    try:
        for name, content, count in _bundles(_records(lines, where, damage)):
            place.write(name, content)
            sent.append(name)
            launches += count
    except TitheError as error:
        return PushReport(tuple(sent), launches, 1, (safe_line(str(error), limit=600),))
    return PushReport(tuple(sent), launches, damaged=damage.told(Path(where)))


def _bundles(records: Iterable[Record]) -> Iterator[tuple[str, bytes, int]]:
    """File name, content and number of launches of each bundle that these records make."""
    part, size = list[Record](), 0
    for record in records:
        part.append(record)
        size += len(spool.encode_record(record))
        if size > PART_BYTES:
            yield (*spool.encode(part), _launches(part))
            part, size = [], 0
    if part:
        yield (*spool.encode(part), _launches(part))


def _read(journal: Path) -> list[bytes]:
    descriptor = open_plain(journal)
    try:
        return list(_lines(descriptor))
    finally:
        os.close(descriptor)


def _lines(descriptor: int) -> Iterator[bytes]:
    """The whole lines of a journal; what a kill cut off at its end is none. A line too long to be one is cut."""
    left = JOURNAL_BYTES
    with os.fdopen(os.dup(descriptor), "rb") as file:
        while left > 0 and (line := file.readline(LINE_BYTES)):
            left -= len(line)
            whole = line.endswith(b"\n")
            while left > 0 and not line.endswith(b"\n") and (line := file.readline(LINE_BYTES)):
                left -= len(line)
            if whole:
                yield line[:-1]
            elif line.endswith(b"\n"):
                yield b"too long"
    if left <= 0:
        raise OSError(errno.EFBIG, f"has more than {JOURNAL_BYTES >> 30} GiB")


@dataclass
class _Damage:
    lines: int = 0
    left_out: int = 0
    first: str = ""

    def told(self, journal: Path) -> tuple[str, ...]:
        if not self.left_out:
            return ()
        said = f"{self.left_out} of {self.lines} lines are damaged and left out"
        return (f"{safe_line(journal.name)}: {said} ({self.first})",)


def _records(lines: Iterable[bytes], where: str, damage: _Damage) -> Iterator[Record]:
    """The records that can be read: one line that cannot be does not keep the others here for ever."""
    for number, line in enumerate(lines, 1):
        damage.lines = number
        try:
            yield spool.decode_record(line, number, where)
        except SpoolError as error:
            damage.left_out += 1
            damage.first = damage.first or safe_line(error.what)


def _unread(path: Path, error: OSError) -> str:
    return f"{safe_line(str(path), limit=300)}: cannot be read: {error.strerror}"


def _first(lines: Sequence[str]) -> tuple[str, ...]:
    more = len(lines) - NAMED
    return (*lines[:NAMED], f"and {more} more") if more > 1 else tuple(lines)


def _launches(records: Iterable[Record]) -> int:
    return sum(isinstance(record, Launch) for record in records)


def _joined(one: PushReport, other: PushReport) -> PushReport:
    return PushReport(
        one.sent + other.sent,
        one.launches + other.launches,
        one.waiting + other.waiting,
        one.faults + other.faults,
        one.damaged + other.damaged,
        one.lost + other.lost,
    )
