"""Bundles: how records leave a machine that has no store and shares no disk.

A bundle is one immutable file whose name is the hash of its content, so that copying it twice, in any
order, from any machine, cannot matter. The hash is that of the text and not of the compressed bytes:
versions of zlib compress differently, the same records are the same bundle everywhere. What comes in may have
been written by strangers (a fork's CI job): size is bounded while decompressing, every record is checked
for its types and for the rules below, and a bundle with one bad line is refused whole.
"""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import msgspec

from tithe._version import VERSION
from tithe.data.codec import UNREADABLE
from tithe.data.errors import LocationError, SpoolError, UsageError
from tithe.data.locations import Folder, Location, location, named_file
from tithe.data.records import Change, Launch, Outcome, RunRecord, Selection
from tithe.data.rules import problem
from tithe.data.store import Store
from tithe.data.text import safe_line

Record = RunRecord | Launch | Outcome | Change | Selection

SUFFIX = ".tithe.jsonl.gz"
BUNDLE_VERSION = 1
MAX_BYTES = 512 * 2**20
"""The text of one bundle; about a million launches."""

_NAME = re.compile(r"[0-9a-f]{32}")
_KINDS: dict[str, type[Any]] = {
    "run": RunRecord,
    "launch": Launch,
    "outcome": Outcome,
    "change": Change,
    "selection": Selection,
}
_KIND_OF = {kind: name for name, kind in _KINDS.items()}


class _Header(msgspec.Struct, frozen=True):
    bundle: int
    tithe: str


class _Line(msgspec.Struct, frozen=True):
    kind: str
    record: msgspec.Raw


@dataclass(frozen=True)
class IngestReport:
    """What an ingest did. Counts are of bundles and of records that were new, by kind."""

    bundles: int
    """Bundles that were taken in."""
    already: int
    """Bundles that had been taken in before."""
    added: dict[str, int]
    skipped: tuple[tuple[str, str], ...]
    """File and reason, one for each file that was refused."""


def encode(records: Iterable[Record]) -> tuple[str, bytes]:
    """The file name and the content of the bundle of these records.

    Raises:
        SpoolError: a record breaks a rule, so that it could not be read back; the records are too many for
            one bundle.
    """
    lines = [msgspec.json.encode(_Header(BUNDLE_VERSION, VERSION))]
    for number, record in enumerate(records, start=1):
        lines.append(encode_record(record, number))
    text = b"\n".join(lines) + b"\n"
    if len(text) > MAX_BYTES:
        raise SpoolError(f"{len(text)} bytes are too many for one bundle ({MAX_BYTES})", mend="write several")
    return hashlib.sha256(text).hexdigest()[:32] + SUFFIX, gzip.compress(text, compresslevel=6, mtime=0)


def write_bundle(folder: Path, records: Iterable[Record]) -> Path:
    """Write the records as one bundle into `folder` (made when it is not there); the bundle's path.

    Raises:
        SpoolError: as for `encode`.
        LocationError: the folder cannot be written. Nothing is left behind then.
    """
    name, content = encode(records)
    Folder(folder).write(name, content)
    return folder / name


def read_bundle(path: Path) -> list[Record]:
    """All records of a bundle, checked.

    Raises:
        SpoolError: as for `decode`.
        LocationError: it cannot be read.
    """
    content = Folder(path.parent, follow=True).read(path.name, limit=MAX_BYTES)
    return decode(path.name, content, safe_line(str(path), limit=1000))


def decode(name: str, content: bytes, where: str) -> list[Record]:
    """All records of the bundle with this file name and content, checked.

    Raises:
        SpoolError: the name is no hash or not the content's; truncated, too large when decompressed, or not
            gzip; a line is malformed (its number is named); written by a newer version.
    """
    expected = name[: -len(SUFFIX)] if name.endswith(SUFFIX) else ""
    if not _NAME.fullmatch(expected):
        raise SpoolError(
            "is not named as a bundle is", where=where, mend=f"<32 hex digits>{SUFFIX} was expected"
        )
    text = _decompressed(content, where)
    if hashlib.sha256(text).hexdigest()[:32] != expected:
        raise SpoolError(
            "its content does not fit its name", where=where, mend="it was damaged: fetch it again"
        )
    lines = text.split(b"\n")
    if lines.pop() != b"":
        raise SpoolError("the last line is cut off", where=where, mend="it was damaged: fetch it again")
    _check_header(lines[0] if lines else b"", where)
    return [decode_record(line, number, where) for number, line in enumerate(lines[1:], start=2)]


def ingest(store: Store, source: str | Path) -> IngestReport:
    """Take in a bundle, or all bundles in a folder and the folders in it; each in one transaction.

    `source` is a path or a URL. Bundles in any order, and repeated, leave the same store. A bundle that
    cannot be read is skipped, named in the report, and can be taken in later.

    Raises:
        UsageError: there is no such file or folder.
        LocationError: the folder cannot be listed.
        StoreError: the store cannot be written; bundles before that moment are in it.
    """
    place, names = _bundles(str(source))
    bundles = already = 0
    added: dict[str, int] = {}
    skipped: list[tuple[str, str]] = []
    for name in names:
        where = f"{place.shown}/{safe_line(name)}"
        try:
            file = PurePosixPath(name).name
            content_hash = file[: -len(SUFFIX)]
            if store.has_bundle(content_hash):
                already += 1
                continue
            new = store.add_bundle(content_hash, decode(file, place.read(name, limit=MAX_BYTES), where))
        except (SpoolError, LocationError) as error:
            skipped.append((where, f"{error.what}; {error.mend}" if error.mend else error.what))
            continue
        if new is None:
            already += 1
            continue
        bundles += 1
        for kind, count in new.items():
            added[kind] = added.get(kind, 0) + count
    return IngestReport(bundles, already, added, tuple(skipped))


def _bundles(source: str) -> tuple[Location, list[str]]:
    found = location(source)
    if not isinstance(found, Folder):
        if source.endswith(SUFFIX):
            place, name = named_file(source)
            return place, [name]
        return found, found.names(SUFFIX)
    if found.path.is_dir():
        return found, found.names(SUFFIX)
    if found.path.exists():
        return Folder(found.path.parent, follow=True), [found.path.name]
    raise UsageError("no such file or folder", where=found.shown, mend="name a bundle or a spool folder")


def encode_record(record: Record, number: int = 1) -> bytes:
    """The record as one line of a bundle, without its end; `number` is what a message calls it.

    Raises:
        SpoolError: it breaks a rule, so that it could not be read back.
    """
    kind = _KIND_OF.get(type(record))
    if kind is None:
        raise SpoolError(f"record {number} is a {type(record).__name__}, which no bundle holds")
    wrong = problem(record)
    if wrong:
        raise SpoolError(f"record {number} (a {kind}) cannot be spooled: {wrong}")
    try:
        return msgspec.json.encode({"kind": kind, "record": record})
    except (TypeError, ValueError, OverflowError) as error:
        raise SpoolError(f"record {number} (a {kind}) cannot be spooled: {error}") from None


def _decompressed(content: bytes, where: str) -> bytes:
    """The text of one gzip member, never more than `MAX_BYTES` of it in memory."""
    inflate = zlib.decompressobj(wbits=31)
    try:
        text = inflate.decompress(content, MAX_BYTES + 1)
        if len(text) > MAX_BYTES:
            raise SpoolError(
                f"holds more than {MAX_BYTES} bytes of text", where=where, mend="no bundle does that"
            )
        if not inflate.eof:
            raise SpoolError("ends too early", where=where, mend="it was cut off: fetch it again")
    except zlib.error as error:
        raise SpoolError(
            f"cannot be decompressed ({error})", where=where, mend="it was damaged: fetch it again"
        ) from None
    if inflate.unused_data:
        raise SpoolError("something follows its end", where=where, mend="it was damaged: fetch it again")
    return text


def _check_header(line: bytes, where: str) -> None:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except UNREADABLE as error:
        raise SpoolError(f"line 1: no bundle header ({safe_line(str(error))})", where=where) from None
    if header.bundle > BUNDLE_VERSION:
        raise SpoolError(
            f"is of bundle version {header.bundle}, written by tithe {safe_line(header.tithe, limit=40)}",
            where=where,
            mend=f"this tithe reads version {BUNDLE_VERSION}: upgrade it (pip install --upgrade tithe)",
        )
    if header.bundle != BUNDLE_VERSION:
        raise SpoolError(f"line 1: there is no bundle version {header.bundle}", where=where)


def decode_record(line: bytes, number: int, where: str) -> Record:
    """The record in a line of a bundle, checked.

    Raises:
        SpoolError: it is malformed; the line's number is named.
    """
    try:
        outer = msgspec.json.decode(line, type=_Line)
        kind = _KINDS.get(outer.kind)
        if kind is None:
            raise SpoolError(f"line {number}: unknown kind {safe_line(outer.kind, limit=40)!r}", where=where)
        record: Record = msgspec.json.decode(outer.record, type=kind)
    except UNREADABLE as error:
        raise SpoolError(f"line {number}: {safe_line(str(error))}", where=where) from None
    wrong = problem(record)
    if wrong:
        raise SpoolError(f"line {number}: {wrong}", where=where)
    return record
