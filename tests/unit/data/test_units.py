"""Durations and budgets as people write them."""

from __future__ import annotations

import pytest

from tithe.data.errors import UsageError
from tithe.data.units import format_duration, parse_budget, parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("5m", 300),
        ("1h30m", 5400),
        ("1.5h", 5400),
        ("250ms", 0.25),
        ("2d", 172800),
        ("1h 30m", 5400),
        ("0s", 0),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("60", "has no unit"),
        ("-5m", "is negative"),
        ("", "is not a duration"),
        ("5 parsecs", "is not a duration"),
        ("m5", "is not a duration"),
        ("nan", "is not a duration"),
        ("1e9s", "is not a duration"),
        ("5m\x1b[31m", "is not a duration"),
        ("9" * 400 + "h", "is longer than ten years"),
        ("87841h", "is longer than ten years"),
    ],
)
def test_durations_that_are_none(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        parse_duration(text, where="--timeout")
    assert str(caught.value).startswith("--timeout: ")
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


def test_a_bare_number_is_answered_with_what_it_could_mean() -> None:
    with pytest.raises(UsageError, match='write it like "60s" or "60m"'):
        parse_duration("60")


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("60s", {"cpu": 60.0}),
        ("cpu=2h,gpu=20m", {"cpu": 7200.0, "gpu": 1200.0}),
        ("gpu=0s, cpu=1m", {"gpu": 0.0, "cpu": 60.0}),
        ("10s,gpu=1s", {"cpu": 10.0, "gpu": 1.0}),
    ],
)
def test_budgets(text: str, budget: dict[str, float]) -> None:
    assert parse_budget(text) == budget


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("0s", "budget of 0"),
        ("cpu=0s,gpu=0m", "budget of 0"),
        ("-60s", "is negative"),
        ("60", "has no unit"),
        ("", "no duration for cpu"),
        ("cpu=", "no duration for cpu"),
        ("cpu=1m,", "no duration for cpu"),
        ("cpu=1m,cpu=2m", "given twice"),
        ("=1m", "not the name of a resource"),
        ("c pu=1m", "not the name of a resource"),
    ],
)
def test_budgets_that_are_none(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        parse_budget(text)
    assert str(caught.value).startswith("budget: ")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.00123, "1.23ms"),
        (0.085, "85ms"),
        (0.9999, "1s"),
        (2.5, "2.5s"),
        (59.96, "1m"),
        (90, "1m30s"),
        (3599.9, "1h"),
        (5400, "1h30m"),
        (86400 * 2 + 3600 * 3, "2d3h"),
        (86399, "1d"),
        (-90, "-1m30s"),
        (float("inf"), "inf"),
    ],
)
def test_durations_for_people(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
