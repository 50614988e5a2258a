"""What A/A blocks are said to be: simulated launches with one thing wrong, and with nothing wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tithe.data.config import DecisionPolicy
from tithe.data.records import (
    BUILTIN_METRICS,
    ArmName,
    Launch,
    LaunchId,
    MetricName,
    NoiseReading,
    RunId,
    Scenario,
    ScenarioName,
    Sha,
)
from tithe.runner.aa import assess
from tithe.runner.executor import BlockSpec

WALL = MetricName("wall")
SCENARIO = Scenario(ScenarioName("s"), ("x",), (BUILTIN_METRICS["wall"],), (WALL,))
A = Sha("a" * 40)
POLICY = DecisionPolicy()


def blocks(logs: np.ndarray, *, place: float = 0.0) -> list[Launch]:
    """Launches of one revision against itself with these log values, in order; place a is slower by `place`."""
    made = []
    for number, row in enumerate(logs.reshape(-1, 4)):
        spec = BlockSpec(RunId("r"), SCENARIO, A, A, "record", number, 0)
        for position, arm in enumerate(spec.order()):
            made.append(launch(spec, position, arm, float(row[position]) + place * (spec.place(arm) == "a")))
    return made


def launch(spec: BlockSpec, position: int, arm: ArmName, log: float) -> Launch:
    return Launch(
        LaunchId(f"{spec.block}-{position}"), spec.run, SCENARIO.name, arm, A, "record", spec.block, position,
        spec.place(arm), 0.0, 1.0, "ok", 0, {WALL: float(np.exp(log))},
    )  # fmt: skip


def read(logs: np.ndarray, **more: float) -> NoiseReading:
    return assess(SCENARIO, WALL, blocks(logs, **more), POLICY)


def normal(seed: int, count: int = 12, sd: float = 0.02) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.0, sd, 4 * count)


def test_a_quiet_one_shows_what_is_wanted() -> None:
    found = read(normal(1, sd=0.01))
    assert found.word == "quiet"
    assert found.block_sd == pytest.approx(0.01, rel=0.5)
    assert found.block_sd_low is not None
    assert found.block_sd_high is not None
    assert found.block_sd_low < found.block_sd < found.block_sd_high
    assert found.detectable is not None
    assert 0.005 < found.detectable < 0.05
    assert found.needed is not None


def test_a_noisy_one_says_that_it_cannot() -> None:
    found = read(normal(2, sd=0.3))
    assert found.word == "noisy"
    assert found.needed is None
    assert found.detectable is not None
    assert found.detectable > POLICY.wanted_effect


def test_more_noise_never_shows_more() -> None:
    shown = [read(normal(3) * scale).detectable for scale in (0.5, 1, 2, 4, 8)]
    assert shown == sorted(shown)  # type: ignore[type-var]


def test_a_drift_is_named() -> None:
    found = read(normal(4) + np.linspace(0.0, 0.2, 48))
    assert found.word == "odd"
    assert any("drifts" in finding for finding in found.findings)


def test_two_kinds_of_launches_are_named() -> None:
    logs = normal(5) + 0.3 * (np.random.default_rng(6).random(48) < 0.4)
    assert any("two kinds, 3" in finding for finding in read(logs).findings)


def test_places_that_differ_are_named() -> None:
    found = read(normal(7), place=0.05)
    assert any("places of one revision differ by" in finding for finding in found.findings)


def test_outliers_are_no_kind() -> None:
    logs = normal(8)
    logs[20] += 1.0
    assert not any("kinds" in finding for finding in read(logs).findings)


def test_nothing_is_named_where_nothing_is() -> None:
    """Simulation: three looks at one in a thousand each, 400 times."""
    odd = sum(bool(read(normal(seed)).findings) for seed in range(400))
    assert odd <= 6


def test_the_interval_covers_the_truth() -> None:
    """Simulation: nine times in ten, within what 300 draws leave open."""
    found = [read(normal(seed)) for seed in range(300)]
    covered = sum(r.block_sd_low <= 0.02 <= r.block_sd_high for r in found)  # type: ignore[operator]
    assert 250 <= covered <= 290


def test_too_few_say_so() -> None:
    assert assess(SCENARIO, WALL, [], POLICY).word == "unknown"
    assert assess(SCENARIO, WALL, blocks(normal(1, count=1)), POLICY).word == "unknown"
