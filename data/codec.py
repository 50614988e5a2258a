"""Records to JSON and back, checked on the way in.

Records leave and enter a machine through this one door, so that a malformed file is refused with the path
of the field that is wrong, and nothing behind it needs to check again.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from tithe.data.errors import UsageError
from tithe.data.records import SCHEMA

T = TypeVar("T")


class CodecError(UsageError):
    """A file or line does not hold the record that it should."""


def to_json(record: object, *, indent: int = 0) -> str:
    """One JSON document with keys in the record's order; NaN and infinities become null."""
    raw = msgspec.json.encode(record)
    return (msgspec.json.format(raw, indent=indent) if indent else raw).decode()


def to_plain(record: object) -> Any:
    """The record as dicts, lists, strings, numbers and None."""
    return msgspec.to_builtins(record)


def from_json(raw: bytes | str, kind: type[T], *, where: str = "") -> T:
    """The record of type `kind` in `raw`.

    Raises:
        CodecError: `raw` is not JSON, or a field is missing or of the wrong type; the message names the
            field by its path.
    """
    try:
        found = msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CodecError(str(error), where=where, mend=f"a {kind.__name__} record was expected") from None
    schema = getattr(found, "schema", SCHEMA)
    if schema != SCHEMA:
        mend = f"this tithe reads schema {SCHEMA}: use the version that wrote it"
        raise CodecError(f"is of schema {schema}", where=where, mend=mend)
    return found
