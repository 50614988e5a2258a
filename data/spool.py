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
import os
import re
import secrets
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from tithe._version import VERSION
from tithe.data.errors import SpoolError, UsageError
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
_READ = 1 << 20
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


def write_bundle(folder: Path, records: Iterable[Record]) -> Path:
    """Write the records as one bundle into `folder` (made when it is not there); the bundle's path.

    Raises:
        SpoolError: a record breaks a rule, so that it could not be read back; the records are too many for
            one bundle; the folder cannot be written. Nothing is left behind then.
    """
    lines = [msgspec.json.encode(_Header(BUNDLE_VERSION, VERSION))]
    for number, record in enumerate(records, start=1):
        lines.append(_encoded(record, number))
    text = b"\n".join(lines) + b"\n"
    if len(text) > MAX_BYTES:
        raise SpoolError(
            f"{len(text)} bytes are too many for one bundle ({MAX_BYTES})",
            where=str(folder),
            mend="write several",
        )
    path = folder / (hashlib.sha256(text).hexdigest()[:32] + SUFFIX)
    unfinished = folder / f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with unfinished.open("xb") as file:
                file.write(gzip.compress(text, compresslevel=6, mtime=0))
                file.flush()
                os.fsync(file.fileno())
            unfinished.replace(path)
        except BaseException:
            with suppress(OSError):
                unfinished.unlink()
            raise
        _sync_folder(folder)
    except OSError as error:
        raise SpoolError(
            f"cannot be written: {error.strerror}",
            where=str(path),
            mend="see to the folder's space and permissions",
        ) from None
    return path


def read_bundle(path: Path) -> list[Record]:
    """All records of a bundle, checked.

    Raises:
        SpoolError: the name is no hash or not the content's; truncated, too large when decompressed, or not
            gzip; a line is malformed (its number is named); written by a newer version.
    """
    where = safe_line(str(path), limit=1000)
    expected = path.name[: -len(SUFFIX)] if path.name.endswith(SUFFIX) else ""
    if not _NAME.fullmatch(expected):
        raise SpoolError(
            "is not named as a bundle is", where=where, mend=f"<32 hex digits>{SUFFIX} was expected"
        )
    try:
        with path.open("rb") as file:
            text = _decompressed(file, where)
    except OSError as error:
        raise SpoolError(f"cannot be read: {error.strerror}", where=where) from None
    if hashlib.sha256(text).hexdigest()[:32] != expected:
        raise SpoolError(
            "its content does not fit its name", where=where, mend="it was damaged: fetch it again"
        )
    lines = text.split(b"\n")
    if lines.pop() != b"":
        raise SpoolError("the last line is cut off", where=where, mend="it was damaged: fetch it again")
    _check_header(lines[0] if lines else b"", where)
    return [_decoded(line, number, where) for number, line in enumerate(lines[1:], start=2)]


def ingest(store: Store, source: Path) -> IngestReport:
    """Take in a bundle, or all bundles in a folder and the folders in it; each in one transaction.

    Bundles in any order, and repeated, leave the same store. A bundle that cannot be read is skipped, named
    in the report, and can be taken in later.

    Raises:
        UsageError: there is no such file or folder.
        StoreError: the store cannot be written; bundles before that moment are in it.
    """
    bundles = already = 0
    added: dict[str, int] = {}
    skipped: list[tuple[str, str]] = []
    for path in _bundles(source):
        try:
            name = path.name[: -len(SUFFIX)]
            if store.has_bundle(name):
                already += 1
                continue
            new = store.add_bundle(name, read_bundle(path))
        except SpoolError as error:
            skipped.append(
                (
                    safe_line(str(path), limit=1000),
                    f"{error.what}; {error.mend}" if error.mend else error.what,
                )
            )
            continue
        if new is None:
            already += 1
            continue
        bundles += 1
        for kind, count in new.items():
            added[kind] = added.get(kind, 0) + count
    return IngestReport(bundles, already, added, tuple(skipped))


def _bundles(source: Path) -> Iterator[Path]:
    if source.is_dir():
        try:
            yield from sorted(path for path in source.rglob(f"*{SUFFIX}") if path.is_file())
        except OSError as error:
            raise SpoolError(f"cannot be listed: {error.strerror}", where=str(source)) from None
    elif source.exists():
        yield source
    else:
        raise UsageError(
            "no such file or folder", where=safe_line(str(source)), mend="name a bundle or a spool folder"
        )


def _encoded(record: Record, number: int) -> bytes:
    kind = _KIND_OF.get(type(record))
    if kind is None:
        raise SpoolError(f"record {number} is a {type(record).__name__}, which no bundle holds")
    wrong = problem(record)
    if wrong:
        raise SpoolError(f"record {number} (a {kind}) cannot be spooled: {wrong}")
    try:
        return msgspec.json.encode({"kind": kind, "record": record})
    except TypeError as error:
        raise SpoolError(f"record {number} (a {kind}) cannot be spooled: {error}") from None


def _decompressed(file: BinaryIO, where: str) -> bytes:
    """The text of one gzip member, never more than `MAX_BYTES` of it in memory."""
    inflate = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    size = 0
    try:
        while not inflate.eof:
            given = inflate.unconsumed_tail or file.read(_READ)
            if not given:
                raise SpoolError("ends too early", where=where, mend="it was cut off: fetch it again")
            part = inflate.decompress(given, _READ)
            size += len(part)
            if size > MAX_BYTES:
                raise SpoolError(
                    f"holds more than {MAX_BYTES} bytes of text", where=where, mend="no bundle does that"
                )
            parts.append(part)
    except zlib.error as error:
        raise SpoolError(
            f"cannot be decompressed ({error})", where=where, mend="it was damaged: fetch it again"
        ) from None
    if inflate.unused_data or file.read(1):
        raise SpoolError("something follows its end", where=where, mend="it was damaged: fetch it again")
    return b"".join(parts)


def _check_header(line: bytes, where: str) -> None:
    try:
        header = msgspec.json.decode(line, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise SpoolError(f"line 1: no bundle header ({safe_line(str(error))})", where=where) from None
    if header.bundle > BUNDLE_VERSION:
        raise SpoolError(
            f"is of bundle version {header.bundle}, written by tithe {safe_line(header.tithe, limit=40)}",
            where=where,
            mend=f"this tithe reads version {BUNDLE_VERSION}: upgrade it (pip install --upgrade tithe)",
        )
    if header.bundle != BUNDLE_VERSION:
        raise SpoolError(f"line 1: there is no bundle version {header.bundle}", where=where)


def _decoded(line: bytes, number: int, where: str) -> Record:
    try:
        outer = msgspec.json.decode(line, type=_Line)
        kind = _KINDS.get(outer.kind)
        if kind is None:
            raise SpoolError(f"line {number}: unknown kind {safe_line(outer.kind, limit=40)!r}", where=where)
        record: Record = msgspec.json.decode(outer.record, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SpoolError(f"line {number}: {safe_line(str(error))}", where=where) from None
    wrong = problem(record)
    if wrong:
        raise SpoolError(f"line {number}: {wrong}", where=where)
    return record


def _sync_folder(folder: Path) -> None:
    """Make the new name itself survive a power cut; some file systems cannot, and need not."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            os.fsync(handle)
    finally:
        os.close(handle)
