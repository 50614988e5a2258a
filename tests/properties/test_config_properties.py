"""Whatever a configuration file holds, it is read or refused in one printable line that names it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tithe.data.config import _UNQUOTED, load
from tithe.data.errors import ConfigError

KEYS = st.sampled_from(
    [
        "name",
        "command",
        "metrics",
        "gate",
        "stop",
        "timeout",
        "env",
        "unit",
        "files",
        "scenarios",
        "rule",
        "floor",
        "x y",
    ]
)
LEAVES = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.sampled_from(["", "wall", "ttfb", "5m", "python x", "a b", "\x1b[31m", "none", "é\x00"]),
    st.text(st.characters(codec="utf-8"), max_size=8),
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3)
)
RIGHT: dict[str, Any] = {
    "tithe": {"main": "main", "setup": "make", "setup_timeout": "5m", "pythonpath": ["."], "env": ["A"]},
    "graph": {"packages": ["p"], "rule": [{"files": ["a"], "scenarios": ["a"]}]},
    "decision": {"floor": 0.1, "max_blocks": 3, "false_alarms_per_week": 1.0},
    "scenario": [
        {
            "name": "a",
            "command": ["x"],
            "metrics": ["wall", {"name": "v", "unit": "s"}],
            "gate": ["v"],
            "env": {"A": "b"},
        },
        {"name": "b", "command": "x y", "stop": "none", "timeout": "5m", "warmup": 1, "requires": ["torch"]},
    ],
}


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The path of everything that can be put in another's place."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, part in parts for place in places(part, (*path, key))]


def changed(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    """A copy of `value` with `new` at `path`."""
    if not path:
        return new
    if isinstance(value, dict):
        return {key: changed(part, path[1:], new) if key == path[0] else part for key, part in value.items()}
    return [changed(part, path[1:], new) if key == path[0] else part for key, part in enumerate(value)]


def toml(value: Any) -> str:
    """`value` as a TOML value on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)


def write(path: Path, data: dict[str, Any]) -> None:
    path.write_text(
        "".join(f"{key} = {toml(value)}\n" for key, value in data.items()), encoding="utf-8", newline=""
    )


def test_the_right_one_is_right(tmp_path: Path) -> None:
    write(tmp_path / "tithe.toml", RIGHT)
    assert len(load(tmp_path).scenarios) == 2


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.sampled_from(places(RIGHT)), VALUES)
def test_anything_anywhere(tmp_path: Path, place: tuple[str | int, ...], value: Any) -> None:
    write(tmp_path / "tithe.toml", changed(RIGHT, place, value))
    said = ""
    try:
        load(tmp_path)
    except ConfigError as error:
        said = str(error)
    assert said.isprintable()
    assert len(said) < 700
    assert not said or said.startswith("tithe.toml: ")


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_text(tmp_path: Path, text: str) -> None:
    (tmp_path / "tithe.toml").write_text(text, encoding="utf-8", newline="")
    said = ""
    try:
        load(tmp_path)  # `[tithe]` alone is a file that says nothing, and is right
    except ConfigError as error:
        said = str(error)
    assert not said or said.startswith("tithe.toml")
    assert said.isprintable()


@given(st.text(st.characters(codec="utf-8"), max_size=12) | st.text("ab -'\"\\\t$#*=", max_size=12))
def test_the_fast_way_to_split_a_command_is_the_same(text: str) -> None:
    if _UNQUOTED.fullmatch(text):
        assert text.split(" ") == shlex.split(text)
