"""What a machine without a store has measured, on its way out: journals of runs, then bundles, then a location.

A run writes each record to a journal of its own the moment that it has it, so that a killed job loses at most
the line in flight. The journal is locked while its run lives: whoever finds one unlocked may seal it into a
bundle and send it. Sealing gives the same bundle however often it is done, and a bundle that is sent twice is
taken in once, so that no step here needs to know what another one got to do.
"""

from __future__ import annotations

import fcntl
import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from tithe.data import spool
from tithe.data.errors import LocationError, SpoolError, TitheError
from tithe.data.locations import Folder, Location
from tithe.data.records import Change, Launch, Outcome, RunRecord, Selection
from tithe.data.spool import MAX_BYTES, SUFFIX, Record
from tithe.data.text import safe_line

JOURNAL = ".journal"
PART_BYTES = 64 * 2**20
"""Of text in one bundle: a run with more is sent as several."""


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
    """Why; one line each."""
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
            lines = _lines(journal) if journal else []
        except LocationError as error:
            return PushReport(waiting=1, faults=(safe_line(str(error), limit=600),))
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
    if not folder.is_dir():
        return report
    try:
        for journal in sorted(folder.glob(f"*{JOURNAL}")):
            report = _joined(report, _seal(journal, folder))
        if isinstance(place, Folder) and place.path.resolve() == folder.resolve():
            return report
        for path in sorted(folder.glob(f"*{SUFFIX}")):
            report = _joined(report, _send(path, place))
    except OSError as error:
        return _joined(
            report, PushReport(faults=(f"{safe_line(str(folder))}: cannot be read: {error.strerror}",))
        )
    return report


def _seal(journal: Path, folder: Path) -> PushReport:
    try:
        descriptor = os.open(journal, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return PushReport()  # another push has sealed it
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return PushReport()  # its run lives
        if not journal.exists():
            return PushReport()
        bundles = _bundles(_records(_lines(journal), safe_line(journal.name)))
        for name, content, _ in bundles:
            Folder(folder).write(name, content)
        journal.unlink(missing_ok=True)
    except TitheError as error:
        return PushReport(waiting=1, faults=(safe_line(str(error), limit=600),))
    finally:
        os.close(descriptor)
    return PushReport()


def _send(path: Path, place: Location) -> PushReport:
    try:
        content = Folder(path.parent).read(path.name, limit=MAX_BYTES)
        records = spool.decode(path.name, content, safe_line(str(path), limit=300))
        place.write(path.name, content)
    except (LocationError, SpoolError) as error:
        return PushReport(waiting=1, faults=(safe_line(str(error), limit=600),))
    with suppress(OSError):
        path.unlink(missing_ok=True)
    return PushReport((path.name,), _launches(records))


def _send_lines(lines: Sequence[bytes], place: Location) -> PushReport:
    """Sends what no bundle could be written of here."""
    sent: list[str] = []
    launches = 0
    try:
        for name, content, count in _bundles(_records(lines, "what is not yet in a journal")):
            place.write(name, content)
            sent.append(name)
            launches += count
    except TitheError as error:
        return PushReport(tuple(sent), launches, 1, (safe_line(str(error), limit=600),))
    return PushReport(tuple(sent), launches)


def _bundles(records: Sequence[Record]) -> list[tuple[str, bytes, int]]:
    """File name, content and number of launches of each bundle that these records make."""
    made, part, size = [], list[Record](), 0
    for record in records:
        part.append(record)
        size += len(spool.encode_record(record))
        if size > PART_BYTES:
            made.append((*spool.encode(part), _launches(part)))
            part, size = [], 0
    if part:
        made.append((*spool.encode(part), _launches(part)))
    return made


def _lines(journal: Path) -> list[bytes]:
    raw = Folder(journal.parent).read(journal.name, limit=MAX_BYTES)
    lines = raw.split(b"\n")
    lines.pop()  # what a kill cut off, or nothing
    return lines


def _records(lines: Iterable[bytes], where: str) -> list[Record]:
    return [spool.decode_record(line, number, where) for number, line in enumerate(lines, 1)]


def _launches(records: Iterable[Record]) -> int:
    return sum(isinstance(record, Launch) for record in records)


def _joined(one: PushReport, other: PushReport) -> PushReport:
    return PushReport(
        one.sent + other.sent,
        one.launches + other.launches,
        one.waiting + other.waiting,
        one.faults + other.faults,
        one.lost + other.lost,
    )
