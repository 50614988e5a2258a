"""What came from outside is one bounded line that no terminal obeys."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tithe.data.text import safe_line


def test_control_and_format_characters_become_spaces() -> None:
    assert safe_line("a\x1b[31mb\n::set-output\u202ec\u2028d\x9b") == "a [31mb ::set-output c d"


def test_a_long_line_keeps_its_beginning_and_its_end() -> None:
    line = safe_line("cannot open " + "x" * 10_000_000 + "/nowhere.py", limit=60)
    assert line.startswith("cannot open xxx")
    assert line.endswith("xxx/nowhere.py")
    assert len(line) == 60


@given(st.text(max_size=400), st.integers(10, 50))
def test_one_printable_line_within_the_limit(text: str, limit: int) -> None:
    line = safe_line(text, limit=limit)
    assert len(line) <= limit
    assert len(line.splitlines()) <= 1
    assert line == line.strip()
    assert safe_line(line, limit=limit) == line
