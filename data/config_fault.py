"""Validation errors in the words of the file: which table and key, what was expected, what was perhaps meant.

msgspec says "Invalid enum value 'fist-step' - at `$.scenario[3].stop`". A person looks for the name that
they gave the scenario and wants to read the allowed values, so the path is walked through the data (for
names) and through the types (for what is allowed) side by side.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect

from tithe.data.config_file import EXPECTED, ConfigFile

_MESSAGE = re.compile(r"^(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?$", re.DOTALL)
_STEP = re.compile(r"\.(?P<name>[A-Za-z_][A-Za-z0-9_-]*)|\[(?P<index>[0-9]+)\]|(?P<any>\[\.\.\.\])")


class Fault(NamedTuple):
    """Where in the file (`scenario "a": stop`), what is wrong, and how to mend it."""

    where: str
    what: str
    mend: str


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean "…"?` for the nearest of `known`, or nothing if none is near."""
    near = difflib.get_close_matches(word, sorted(known), n=1, cutoff=0.6)
    return f'did you mean "{near[0]}"?' if near else ""


def one_of(values: Iterable[str]) -> str:
    """`"a", "b" or "c"`, in the given order; long lists are cut."""
    quoted = [f'"{value}"' for value in values]
    if len(quoted) > 12:
        return ", ".join(quoted[:12]) + f" … ({len(quoted)} in all)"
    return " or ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]])) if quoted else "nothing"


def show(value: object) -> str:
    """`value` as TOML would write it, short enough for a line."""
    if isinstance(value, bool):
        text = str(value).lower()
    elif isinstance(value, dict):
        text = "a table"
    elif isinstance(value, list):
        text = "a list" if value else "an empty list"
    elif isinstance(value, str):
        text = '"' + value.encode("unicode_escape").decode() + '"'
    else:
        text = str(value)
    return text if len(text) <= 60 else text[:59] + "…"


def explain(error: msgspec.ValidationError, data: object) -> Fault:
    """The fault that `error` found in `data`, which was converted to `ConfigFile`."""
    match = _MESSAGE.match(str(error))
    if match is None:
        return Fault("", str(error), "")
    steps = [_step(step) for step in _STEP.finditer(match["path"] or "")]
    value, kind, where = _walk(data, steps)
    what = match["what"]
    if unknown := re.match(r"Object contains unknown field `(.*)`$", what, re.DOTALL):
        fields = [field.encode_name for field in _struct(kind).fields]
        mend = did_you_mean(unknown[1], fields) or f"known here: {', '.join(sorted(fields))}"
        return Fault(where, f"unknown key {show(unknown[1])}", mend)
    if missing := re.match(r"Object missing required field `(.*)`$", what):
        if not steps and missing[1] == "tithe":
            return Fault("", "there is no [tithe] table", 'put [tithe] with main = "main" at its top')
        return Fault(where, f'"{missing[1]}" is missing', "")
    if match["key"]:
        return Fault(where, f"a name in the table is not {_expected(_key_type(kind))}", "")
    expected = _expected(kind)
    mend = ""
    if isinstance(value, dict) and isinstance(_item(kind), inspect.StructType):
        mend = f"write the head of the table as [[{where}]]"
    if isinstance(kind, inspect.LiteralType) and isinstance(value, str):
        mend = did_you_mean(value, [str(allowed) for allowed in kind.values])
    return Fault(where, f"expected {expected}, got {show(value)}", mend)


def _step(match: re.Match[str]) -> str | int | None:
    """A key, an index, or None for a value of a free table, whose key msgspec does not say."""
    if match["name"]:
        return str(match["name"])
    return int(match["index"]) if match["index"] else None


def _walk(data: object, steps: list[str | int | None]) -> tuple[Any, inspect.Type, str]:
    """The value and the type at the end of the path, and the path in words."""
    value: Any = data
    kind: inspect.Type = inspect.type_info(ConfigFile)
    tables: list[str] = []
    keys = ""
    for position, step in enumerate(steps):
        parent = value
        if isinstance(step, str):
            field = next(field for field in _struct(kind).fields if field.encode_name == step)
            kind = _plain(field.type)
            keys += f".{step}" if keys else step
        elif step is None:
            kind = _plain(kind.value_type) if isinstance(kind, inspect.DictType) else kind
        else:
            kind = _item(kind)
        if step is None:
            wrong = (
                [key for key, held in parent.items() if not isinstance(held, str)]
                if isinstance(parent, dict)
                else []
            )
            step = str(wrong[0]) if wrong else ""
            keys += f".{step}"
        try:
            value = parent[step]
        except (KeyError, IndexError, TypeError):
            value = None
        if isinstance(step, int):
            if position == len(steps) - 1 and not isinstance(value, dict):
                keys += f", item {step + 1}"
            elif isinstance(value, dict) and isinstance(value.get("name"), str) and keys.endswith("scenario"):
                tables.append(f"{keys} {show(value['name'])}")
                keys = ""
            else:
                tables.append(f"{keys} {step + 1}")
                keys = ""
    return value, kind, ": ".join([*tables, *([keys] if keys else [])])


def _plain(kind: inspect.Type) -> inspect.Type:
    """Without the metadata around it."""
    while isinstance(kind, inspect.Metadata):
        kind = kind.type
    return kind


def _parts(kind: inspect.Type) -> list[inspect.Type]:
    kind = _plain(kind)
    return [_plain(part) for part in kind.types] if isinstance(kind, inspect.UnionType) else [kind]


def _struct(kind: inspect.Type) -> inspect.StructType:
    return next(part for part in _parts(kind) if isinstance(part, inspect.StructType))


def _item(kind: inspect.Type) -> inspect.Type:
    found = next((part for part in _parts(kind) if isinstance(part, inspect.ListType)), None)
    return _plain(found.item_type) if found else kind


def _key_type(kind: inspect.Type) -> inspect.Type:
    found = next((part for part in _parts(kind) if isinstance(part, inspect.DictType)), None)
    return _plain(found.key_type) if found else kind


def _expected(kind: inspect.Type) -> str:
    return " or ".join(dict.fromkeys(_expected_part(part) for part in _parts(kind)))


def _expected_part(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.LiteralType):
        return one_of(str(value) for value in kind.values)
    if isinstance(kind, inspect.StrType):
        text = EXPECTED.get(kind.pattern or "") or ("text that is not empty" if kind.min_length else "text")
        return text + (f" of {kind.max_length} letters at most" if kind.max_length else "")
    if isinstance(kind, inspect.BoolType):
        return "true or false"
    if isinstance(kind, inspect.IntType):
        return "a whole number" + _bounds(kind)
    if isinstance(kind, inspect.FloatType):
        return "a number" + _bounds(kind)
    if isinstance(kind, inspect.ListType):
        return "a list that is not empty" if kind.min_length else "a list"
    if isinstance(kind, inspect.DictType):
        return "a table of text values"
    return "a table"


def _bounds(kind: inspect.IntType | inspect.FloatType) -> str:
    limits = [("from", kind.ge), ("above", kind.gt), ("up to", kind.le), ("below", kind.lt)]
    said = [f"{word} {limit:g}" for word, limit in limits if limit is not None]
    return " " + " and ".join(said) if said else ""
