"""The watch over the detector: what weeks of decisions say of the measurement."""

from __future__ import annotations

import random

import pytest

from tithe.data.noise import Noise
from tithe.data.records import MetricName, Outcome, ScenarioName, Sha
from tithe.runner import watch

NOW = 1_800_000_000.0
KEY = (ScenarioName("lm"), MetricName("wall"))


def outcome(number: int, ratio: float, *, days: float = 1.0, source: str = "ab") -> Outcome:
    return Outcome(
        Sha("0" * 40),
        Sha(f"{number:040d}"),
        *KEY,
        "same",
        NOW - days * 86400,
        source,
        "chosen",
        ratio=ratio,  # type: ignore[arg-type]
    )


def test_a_detector_that_finds_every_head_slower_is_named() -> None:
    (found,) = watch.one_sided([outcome(n, 1.01) for n in range(20)], NOW)
    assert found.startswith("lm wall: 20 of the last 20 decisions found head larger")
    (found,) = watch.one_sided([outcome(n, 0.99 if n else 1.01) for n in range(25)], NOW)
    assert "24 of the last 25 decisions found head smaller" in found


def test_chance_is_seldom_named() -> None:
    dice = random.Random(4)
    named = sum(
        bool(watch.one_sided([outcome(n, dice.lognormvariate(0, 0.01)) for n in range(40)], NOW))
        for _ in range(1000)
    )
    assert named <= 5


@pytest.mark.parametrize(
    "made",
    [
        [outcome(n, 1.01) for n in range(9)],
        [outcome(0, 1.01)] * 50,
        [outcome(n, 1.01, days=100) for n in range(50)],
        [outcome(n, 1.01, days=-1) for n in range(50)],
        [outcome(n, 1.01, source="bisect") for n in range(50)],
        [outcome(n, 1.0) for n in range(50)],
    ],
    ids=["few", "one change", "long ago", "to come", "bisections", "exactly alike"],
)
def test_what_does_not_count(made: list[Outcome]) -> None:
    assert watch.one_sided(made, NOW) == []


def test_the_sign_test_is_exact() -> None:
    assert watch.sign_test(5, 5) == pytest.approx(2 / 32)
    assert watch.sign_test(0, 5) == pytest.approx(2 / 32)
    assert watch.sign_test(3, 6) == 1.0


def test_hosts_that_scatter_unlike_are_named_once_and_only_by_evidence() -> None:
    quiet, loud = {KEY: Noise(0.01, 40.0)}, {KEY: Noise(0.035, 40.0)}
    assert watch.unlike_hosts({"a": quiet, "b": loud}) == ["lm wall: scatters 3.5 times as much on b as on a"]
    assert len(watch.unlike_hosts({"a": quiet, "b": loud, "c": quiet})) == 1
    assert watch.unlike_hosts({"a": quiet, "b": {KEY: Noise(0.035, 3.0)}}) == []
    assert watch.unlike_hosts({"a": {KEY: Noise(0.01, 5.0)}, "b": {KEY: Noise(0.025, 5.0)}}) == []
    assert watch.unlike_hosts({"a": quiet}) == []
