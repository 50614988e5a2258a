"""What is written for people is read back as the same time, within what was rounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tithe.data.errors import UsageError
from tithe.data.units import format_duration, parse_budget, parse_duration


@given(st.floats(min_value=1e-3, max_value=1e8))
def test_format_is_read_back(seconds: float) -> None:
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=0.05)


@given(st.text(max_size=30))
def test_no_text_gets_past_as_something_else(text: str) -> None:
    try:
        budget = parse_budget(text)
    except UsageError:
        return
    assert budget
    assert all(seconds >= 0 for seconds in budget.values())
    assert any(seconds > 0 for seconds in budget.values())
