"""Whatever is not the record that it should be is one kind of error."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from tithe.data.codec import CodecError, from_json, plain_json


@dataclass(frozen=True)
class Some:
    number: float = 0.0
    text: str = ""


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"[",
        b'{"z":' + b"[" * 100_000,
        b'{"z":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"number":NaN}',
        b'{"number":1e999}',
        b'{"number":' + b"1" * 5000 + b"}",
        b'{"text":"\\ud800"}',
        b'{"text":"\\ud800 and more"}',
        b"\xff",
        '{"text":"\ud800"}',
    ],
)
def test_what_is_no_record_is_one_line(raw: bytes | str) -> None:
    with pytest.raises(CodecError) as caught:
        from_json(raw, Some, where="x")
    assert str(caught.value).isprintable()


def test_a_kind_without_a_name_is_told_too() -> None:
    with pytest.raises(CodecError):
        from_json(b"{", dict[str, float])


@pytest.mark.parametrize("raw", [b"", b"\xff", b"[" * 100_000, "1" * 5000, b'{"a":'])
def test_what_is_no_json_is_one_line(raw: bytes | str) -> None:
    with pytest.raises(CodecError) as caught:
        plain_json(raw)
    assert str(caught.value).isprintable()


def test_what_is_json_is_read() -> None:
    assert plain_json(b'{"a":[1,null]}') == {"a": [1, None]}
    assert math.isnan(plain_json("NaN"))
