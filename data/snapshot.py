"""A snapshot: one file with all that a machine without a store needs; and how it is published and fetched.

The file is a zip of named parts and a manifest that has the hash of each. It is published under the hash of its
content and then pointed to, so that a reader sees the old one or the new one, whoever dies in between. Fetched
ones are kept by their hash, and stand in where the location cannot be reached.
"""

from __future__ import annotations

import fcntl
import hashlib
import io
import math
import os
import re
import time
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from tithe._version import VERSION
from tithe.data.codec import CodecError, from_json, to_json
from tithe.data.errors import LocationError, MissingError, SnapshotError, TitheError
from tithe.data.locations import Folder, Location, identity, location, named_file
from tithe.data.rules import count_problem, time_problem
from tithe.data.text import safe_line

FORMAT = 1
SUFFIX = ".tithe-snapshot"
POINTER = "latest.json"
MANIFEST = "manifest.json"
MAX_BYTES = 2**30
"""Of the file, and of all its parts together when unpacked."""
KEPT = 10
"""Published snapshots that stay for readers that saw an older pointer, and for going back."""
CACHED = 3
STALE_S = 21 * 86400.0
"""Older than three missed weekly jobs."""
MEND = "publish a new one with `tithe snapshot publish`"

ORPHAN_S = 3600.0
"""Nobody takes longer from writing a snapshot to pointing to it."""
ORPHANS = 200
"""That a pointer remembers: it must stay small."""

_NAME = re.compile(r"[0-9a-f]{32}\.tithe-snapshot")
_TIP = re.compile(r"[0-9a-f]{0,64}")
_UNFINISHED = re.compile(
    r"(\.([0-9a-f]{32}\.tithe-snapshot|latest\.json)\.[0-9]+\.[0-9a-f]{8}"
    r"|([0-9a-f]{32}\.tithe-snapshot|latest\.json)\.[0-9a-f]{12})\.tmp"
)
"""As a folder and a URL name what they have not finished writing."""
_POINTER_BYTES = 1 << 16
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class Manifest:
    """What a snapshot says about itself."""

    created_at: float
    tip: str
    """The last change of the history that it knows; empty if none."""
    changes: int
    outcomes: int
    scenarios: int
    """That it was published for."""
    model: str = "prior"
    """Version of the model in it."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """Name of a part to the SHA-256 of its content."""
    tithe: str = VERSION
    format: int = FORMAT


@dataclass(frozen=True)
class Pointer:
    """The small file that says which snapshot is the one in force."""

    snapshot: str
    sha256: str
    bytes: int
    created_at: float
    previous: tuple[str, ...] = ()
    """Names of earlier ones that are kept, newest first."""
    tithe: str = VERSION
    format: int = FORMAT
    schema: int = 1
    orphans: Mapping[str, float] = field(default_factory=dict)
    """Names that no pointer leads to, with the Unix time that they were first seen at: of a publisher that
    was killed, or of one that is about to point to them."""


@dataclass(frozen=True)
class Published:
    """What a publication did."""

    pointer: Pointer
    warnings: tuple[str, ...] = ()
    """Why old ones could not be removed."""

    @property
    def snapshot(self) -> str:
        """Its name."""
        return self.pointer.snapshot


@dataclass(frozen=True)
class SnapshotFile:
    """An opened snapshot: its manifest and its parts, checked."""

    manifest: Manifest
    parts: Mapping[str, bytes]
    size: int
    """Bytes of the file."""
    where: str
    warnings: tuple[str, ...] = ()
    cached: bool = False
    """Whether it was here already."""

    def part(self, name: str) -> bytes:
        """The content of a part.

        Raises:
            SnapshotError: There is none.
        """
        try:
            return self.parts[name]
        except KeyError:
            raise SnapshotError(f"has no part {name}", where=self.where, mend=MEND) from None


@dataclass(frozen=True)
class _Form:
    format: int
    tithe: str = ""


def pack(manifest: Manifest, parts: Mapping[str, bytes]) -> bytes:
    """The file. The same parts and manifest give the same bytes with one version of zlib."""
    hashes = {name: hashlib.sha256(content).hexdigest() for name, content in sorted(parts.items())}
    told = replace(manifest, parts=hashes)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, content in ((MANIFEST, to_json(told, indent=2).encode()), *sorted(parts.items())):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), content, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def unpack(content: bytes, where: str) -> SnapshotFile:
    """The snapshot in `content`, every part checked against its hash.

    Raises:
        SnapshotError: It is no snapshot, damaged, or of a format that is not read here.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if sum(entry.file_size for entry in entries) > MAX_BYTES:
                raise SnapshotError(f"unpacks to more than {MAX_BYTES} bytes", where=where, mend=MEND)
            found = {entry.filename: archive.read(entry) for entry in entries}
    except SnapshotError:
        raise
    except Exception as error:  # zipfile raises what it likes on damaged files
        told = safe_line(str(error)) or type(error).__name__
        mend = "name the folder or URL that `tithe snapshot publish` wrote to, or one file of it"
        raise SnapshotError(f"is not a snapshot, or a damaged one ({told})", where=where, mend=mend) from None
    if MANIFEST not in found:
        raise SnapshotError(f"is not a snapshot: it has no {MANIFEST}", where=where, mend=MEND)
    manifest = _manifest(found.pop(MANIFEST), where)
    if missing := sorted(set(manifest.parts) ^ set(found)):
        raise SnapshotError(
            f"is damaged: {safe_line(missing[0])} is missing or not listed", where=where, mend=MEND
        )
    for name, digest in manifest.parts.items():
        if hashlib.sha256(found[name]).hexdigest() != digest:
            raise SnapshotError(
                f"is damaged: {safe_line(name)} does not fit its hash", where=where, mend=MEND
            )
    return SnapshotFile(manifest, found, len(content), where)


def publish(place: Location, content: bytes, created_at: float, *, keep: int = KEPT) -> Published:
    """Puts a snapshot under the name of its content, and then points to it.

    Older ones beyond the newest `keep` are removed, and so is what publishers that were killed have left.
    Where the place cannot remove, that is a warning: it has been published. One that was published already
    changes nothing but the pointer.

    Raises:
        LocationError: It cannot be written; the pointer still leads to the one before.
    """
    sha256 = hashlib.sha256(content).hexdigest()
    name = sha256[:32] + SUFFIX
    with _alone(place):
        try:
            before = _pointer(place)
        except (MissingError, SnapshotError):
            before = None  # there is none, or one that nobody can use
        earlier = (before.snapshot, *before.previous) if before else ()
        place.write(name, content)
        kept = tuple(dict.fromkeys(old for old in earlier if old != name and _NAME.fullmatch(old)))
        kept, gone = kept[: keep - 1], kept[keep - 1 :]
        orphans = _orphans(place, {name, *kept, *gone}, before.orphans if before else {}, created_at)
        old = [orphan for orphan, seen in orphans.items() if seen < created_at - ORPHAN_S]
        young = {orphan: seen for orphan, seen in orphans.items() if orphan not in old}
        pointer = Pointer(name, sha256, len(content), created_at, kept, orphans=young)
        place.write(POINTER, (to_json(pointer, indent=2) + "\n").encode())
        return Published(pointer, _removed(place, (*gone, *old)))


@contextmanager
def _alone(place: Location) -> Iterator[None]:
    """Two that publish to one folder at once would each forget the other's; elsewhere nothing can hold them."""
    descriptor = -1
    try:
        if isinstance(place, Folder):
            with suppress(OSError):  # a file system without locks, or a folder that `write` will complain of
                place.path.mkdir(parents=True, exist_ok=True)
                descriptor = os.open(place.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _orphans(place: Location, known: Set[str], seen: Mapping[str, float], now: float) -> dict[str, float]:
    """What lies here and belongs to no pointer, and since when that is known. No clock of the place is asked."""
    try:
        found = place.names("")
    except LocationError:
        return {}  # a place that cannot be listed
    ours = [name for name in found if _NAME.fullmatch(name) or _UNFINISHED.fullmatch(name)]
    fresh = [name for name in ours if name not in known][:ORPHANS]
    return {name: min(at, now) if math.isfinite(at := seen.get(name, now)) else now for name in fresh}


def _removed(place: Location, names: Iterable[str]) -> tuple[str, ...]:
    faults = [fault for name in names if (fault := _fault_of_removing(place, name))]
    if not faults:
        return ()
    return (f"published, but {len(faults)} old snapshots could not be removed ({faults[0]})",)


def _fault_of_removing(place: Location, name: str) -> str:
    try:
        place.remove(name)
    except LocationError as error:
        return str(error)
    return ""


def fetch(source: str, cache: Path | None = None, *, now: float | None = None) -> SnapshotFile:
    """The snapshot in force at a folder or URL, or the one that `source` names itself.

    Args:
        cache: Folder for fetched snapshots, by hash; None keeps nothing. Where the location cannot be reached
            the last one that was fetched from it serves, with a warning.
        now: Unix time that its age is told from; the clock's if not given.

    Raises:
        SnapshotError: It is damaged, no snapshot, or of a newer version.
        LocationError: It cannot be had, and none was fetched before.
    """
    if source.endswith(SUFFIX):
        place, name = named_file(source)
        found = unpack(place.read(name, limit=MAX_BYTES), f"{place.shown}/{safe_line(name)}")
        return _aged(found, now)
    place = location(source)
    kept = Folder(cache) if cache else None
    last = f"{hashlib.sha256(identity(source).encode()).hexdigest()[:32]}.pointer.json"
    try:
        pointer = _pointer(place)
    except MissingError:
        raise MissingError(
            "no snapshot was published here", where=place.shown, mend="`tithe snapshot publish` publishes one"
        ) from None
    except (LocationError, SnapshotError) as error:
        return _aged(_last_resort(kept, last, error), now)
    stored = _cached(kept, pointer)
    if stored is None:
        try:
            pointer, content = _read(place, pointer)
            stored = unpack(content, f"{place.shown}/{pointer.snapshot}")
        except (LocationError, SnapshotError) as error:
            return _aged(_last_resort(kept, last, error), now)
        if kept is not None:
            _keep(kept, pointer, content)
    if kept is not None:
        _remember(kept, last, pointer)
    return _aged(stored, now)


def _read(place: Location, pointer: Pointer) -> tuple[Pointer, bytes]:
    try:
        content = place.read(pointer.snapshot, limit=MAX_BYTES)
    except MissingError:
        # The pointer moved on, and what it led to was removed, between two reads.
        before, pointer = pointer, _pointer(place)
        if pointer.snapshot == before.snapshot:
            raise SnapshotError(
                f"points to {pointer.snapshot}, which is not there", where=place.shown, mend=MEND
            ) from None
        content = place.read(pointer.snapshot, limit=MAX_BYTES)
    if hashlib.sha256(content).hexdigest() != pointer.sha256:
        cut = f"{len(content)} of {pointer.bytes} bytes" if len(content) != pointer.bytes else "other content"
        raise SnapshotError(
            f"does not fit its hash ({cut}): truncated or damaged",
            where=f"{place.shown}/{pointer.snapshot}",
            mend=MEND,
        )
    return pointer, content


def _pointer(place: Location) -> Pointer:
    where = f"{place.shown.rstrip('/')}/{POINTER}"
    raw = place.read(POINTER, limit=_POINTER_BYTES)
    try:
        form = from_json(raw, _Form)
        _check_format(form, where)
        pointer = from_json(raw, Pointer)
    except CodecError as error:
        raise SnapshotError(f"does not point to a snapshot: {error.what}", where=where, mend=MEND) from None
    if not _NAME.fullmatch(pointer.snapshot) or not pointer.sha256.startswith(pointer.snapshot[:32]):
        raise SnapshotError("does not point to a snapshot", where=where, mend=MEND)
    wrong = count_problem(bytes=pointer.bytes) or time_problem("created_at", pointer.created_at)
    if wrong:
        raise SnapshotError(f"does not point to a snapshot: {wrong}", where=where, mend=MEND)
    return pointer


def _manifest(raw: bytes, where: str) -> Manifest:
    try:
        _check_format(from_json(raw, _Form), where)
        manifest = from_json(raw, Manifest)
    except CodecError as error:
        raise SnapshotError(f"is damaged: {MANIFEST}: {error.what}", where=where, mend=MEND) from None
    counts = {"changes": manifest.changes, "outcomes": manifest.outcomes, "scenarios": manifest.scenarios}
    wrong = time_problem("created_at", manifest.created_at) or count_problem(**counts)
    if not wrong and not _TIP.fullmatch(manifest.tip):
        wrong = f"tip is {safe_line(manifest.tip, limit=60)!r}, not a commit id"
    if wrong:
        raise SnapshotError(f"is damaged: {MANIFEST}: {wrong}", where=where, mend=MEND)
    return manifest


def _check_format(form: _Form, where: str) -> None:
    if form.format > FORMAT:
        raise SnapshotError(
            f"is of format {form.format}, written by tithe {safe_line(form.tithe, limit=40)}",
            where=where,
            mend=f"this tithe reads format {FORMAT}: upgrade it (pip install --upgrade tithe)",
        )
    if form.format != FORMAT:
        raise SnapshotError(f"is of format {form.format}, which is not read any more", where=where, mend=MEND)


def _aged(found: SnapshotFile, now: float | None) -> SnapshotFile:
    age = (time.time() if now is None else now) - found.manifest.created_at
    told = list(found.warnings)
    if age > STALE_S:
        told.append(f"the snapshot is {age / 86400:.0f} days old: see whether the weekly job still publishes")
    return replace(found, warnings=tuple(told))


def _cached(kept: Folder | None, pointer: Pointer) -> SnapshotFile | None:
    if kept is None:
        return None
    try:
        content = kept.read(pointer.snapshot, limit=MAX_BYTES)
        if hashlib.sha256(content).hexdigest() != pointer.sha256:
            return None  # damaged here: fetched again
        found = unpack(content, f"{kept.shown}/{pointer.snapshot}")
    except (LocationError, SnapshotError):
        return None
    return replace(found, cached=True)


def _last_resort(kept: Folder | None, last: str, error: TitheError) -> SnapshotFile:
    """The one that was fetched last, where the one in force cannot be had; raises `error` where there is none."""
    stored = None
    if kept is not None:
        with suppress(LocationError, CodecError):
            pointer = from_json(kept.read(last, limit=_POINTER_BYTES), Pointer)
            stored = _cached(kept, pointer) if _NAME.fullmatch(pointer.snapshot) else None
    if stored is None:
        raise error
    warning = f"{safe_line(str(error), limit=300)}: the snapshot that was fetched last serves"
    return replace(stored, warnings=(warning,))


def _keep(kept: Folder, pointer: Pointer, content: bytes) -> None:
    """A cache that cannot be written is no reason to fail."""
    try:
        kept.tidy()
        kept.write(pointer.snapshot, content)
        found = sorted(
            kept.path.glob(f"*{SUFFIX}"),
            key=lambda path: (path.name == pointer.snapshot, path.lstat().st_mtime),
        )
        for old in found[:-CACHED]:
            old.unlink(missing_ok=True)
    except (LocationError, OSError):
        return


def _remember(kept: Folder, last: str, pointer: Pointer) -> None:
    raw = (to_json(pointer) + "\n").encode()
    try:
        if kept.read(last, limit=_POINTER_BYTES) == raw:
            return
    except LocationError:
        pass
    try:
        kept.write(last, raw)
    except LocationError:
        return
