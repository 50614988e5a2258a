"""Records to JSON and back, checked on the way in.

Records leave and enter a machine through this one door, so that a malformed file is refused with the path
of the field that is wrong, and nothing behind it needs to check again.
"""

from __future__ import annotations

import json
from typing import Any, TypeVar

import msgspec

from tithe.data.errors import UsageError
from tithe.data.records import SCHEMA
from tithe.data.text import safe_line

T = TypeVar("T")

UNREADABLE = (msgspec.MsgspecError, ValueError, OverflowError, RecursionError)
"""All that reading JSON raises: malformed, no Unicode, a number beyond all bounds, nested without end."""


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
    except UNREADABLE as error:
        said = "is nested too deeply" if isinstance(error, RecursionError) else str(error)
        mend = f"a {getattr(kind, '__name__', kind)} record was expected"
        raise CodecError(safe_line(said, limit=500), where=where, mend=mend) from None
    schema = getattr(found, "schema", SCHEMA)
    if schema != SCHEMA:
        mend = f"this tithe reads schema {SCHEMA}: use the version that wrote it"
        raise CodecError(f"is of schema {schema}", where=where, mend=mend)
    return found


def plain_json(raw: bytes | str, *, where: str = "") -> Any:
    """Any JSON document as dicts, lists, strings, numbers and None, NaN and infinities included.

    Raises:
        CodecError: `raw` is not JSON, or nothing that can be reckoned with.
    """
    try:
        return json.loads(raw)
    except RecursionError:
        raise CodecError("is nested too deeply", where=where) from None
    except (ValueError, OverflowError) as error:
        raise CodecError(f"is not JSON: {safe_line(str(error))}", where=where) from None
