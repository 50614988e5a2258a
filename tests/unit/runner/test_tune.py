"""The ROC of error level and threshold, on simulated recordings whose noise and effects are known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from tithe.data.config import DecisionPolicy
from tithe.data.records import Launch, LaunchId, MetricName, RunId, ScenarioName, Sha, TunePoint
from tithe.runner import tune
from tithe.runner.tune import Recording

POLICY = DecisionPolicy()
ONE, TWO = Sha("1" * 40), Sha("2" * 40)
WALL = MetricName("wall")


def launches(name: str, run: str, head: Sha, logs: np.ndarray, *, start: float = 0.0) -> list[Launch]:
    """Blocks (n, 4), ABBA, of the logs of a metric."""
    return [
        Launch(
            LaunchId(f"{name}/{run}/{block}/{at}"),
            RunId(run),
            ScenarioName(name),
            "head" if at in (1, 2) else "base",
            head if at in (1, 2) else ONE,
            "record",
            block,
            at,
            "a",
            start + 4.0 * block + at,
            1.0,
            "ok",
            0,
            {WALL: math.exp(value)},
        )
        for block, row in enumerate(logs)
        for at, value in enumerate(row)
    ]


def quiet(seed: int, sd: float = 0.01, blocks: int = 40) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, sd, (blocks, 4))


def gates(*names: str) -> dict[ScenarioName, tuple[MetricName, ...]]:
    return {ScenarioName(name): (WALL,) for name in names}


def test_recordings_are_quiet_or_known_and_never_unknown() -> None:
    effect = quiet(5, blocks=6) + np.array([0, 0.1, 0.1, 0])
    made = [
        *launches("a", "r2", ONE, quiet(2), start=1e6),
        *launches("a", "r1", ONE, quiet(1)),
        *launches("b", "r1", ONE, quiet(3, blocks=tune.FEWEST_BLOCKS - 1)),
        *launches("a", "r3", TWO, effect),
        *launches("b", "r3", TWO, effect),
        *launches("elsewhere", "r1", ONE, quiet(4)),
    ]
    found = tune.recordings(made, gates("a", "b"), {(ONE, TWO, ScenarioName("a"), WALL): 1})
    assert [(one.scenario, one.effect, len(one)) for one in found] == [("a", 0, 80), ("a", 1, 6)]
    # In the order in which they were made, whatever order they come in.
    first = quiet(1)[0]
    assert found[0].values["mean"][0] == pytest.approx((first[1] + first[2] - first[0] - first[3]) / 2)
    assert found[1].values["mean"].mean() == pytest.approx(0.1, abs=0.02)


def test_units_do_not_know_their_own_noise() -> None:
    values = np.concatenate([np.full(20, 0.01), np.full(20, 0.05)]) * np.tile([1, -1], 20)
    one = Recording(ScenarioName("a"), WALL, dict.fromkeys(("mean", "lowest", "highest"), values))  # type: ignore[misc]
    first, second = tune.units([one])
    assert first.noise.sd == pytest.approx(0.05, rel=0.1)
    assert np.abs(first.values).max() == pytest.approx(0.01)
    assert second.noise.sd == pytest.approx(0.01, rel=0.1)


def test_drawn_keeps_the_order_and_flips_the_sign() -> None:
    found = tune.drawn(np.arange(1.0, 6.0), 500, 7, np.random.default_rng(1))
    steps = np.diff(np.abs(found), axis=1) % 5
    assert (steps == 1).all()
    assert 0.4 < (found > 0).mean() < 0.6
    assert set(np.abs(found[:, 0])) == {1, 2, 3, 4, 5}


@pytest.fixture(scope="module")
def points() -> tuple[TunePoint, ...]:
    made = [one for n in range(8) for one in launches(f"s{n}", "r", ONE, quiet(n))]
    names = [f"s{n}" for n in range(8)]
    for n in range(8):
        made += launches(f"s{n}", "e", TWO, quiet(100 + n, blocks=8) + np.array([0, 0.06, 0.06, 0]))
    known = {(ONE, TWO, ScenarioName(name), WALL): 1 for name in names}
    return tune.roc(tune.recordings(made, gates(*names), known), POLICY, seed=1, paths=6000)


def test_the_curve_goes_the_right_way(points: tuple[TunePoint, ...]) -> None:
    assert len(points) == len(tune.ALPHAS) * len(tune.FACTORS)
    by = {(p.alpha, p.noise_factor): p for p in points}
    loose, strict = by[0.2, 0.0], by[0.0005, 3.0]
    assert loose.suspected > strict.suspected
    assert loose.alarms_per_week > strict.alarms_per_week
    assert loose.caught_shifted > strict.caught_shifted
    assert all(p.alarms_per_week <= p.alarms_per_week_high for p in points)
    assert by[0.02, 1.0].caught == pytest.approx(1.0, abs=0.02)
    assert all(0 <= p.caught_shifted <= 1 for p in points)


def test_normal_noise_keeps_the_level_that_was_asked_for(points: tuple[TunePoint, ...]) -> None:
    for point in points:
        assert point.suspected <= 1.5 * point.alpha + 0.002
        assert point.alarms_per_week <= 5000 * 1.5 * point.alpha**2


def test_the_best_point_keeps_the_bound_and_catches_most(points: tuple[TunePoint, ...]) -> None:
    chosen = tune.best(points, 1.0)
    assert chosen is not None
    assert chosen.alarms_per_week_high <= 1.0
    rivals = [p for p in points if p.alarms_per_week_high <= 1.0]
    assert chosen.caught_shifted >= max(p.caught_shifted for p in rivals) - 0.02
    assert tune.best(points, 0.0) in (None, *[p for p in points if p.alarms_per_week_high == 0])
    more = tune.best(points, 50.0)
    assert more is not None
    assert more.caught_shifted >= chosen.caught_shifted - 0.01


def test_the_same_record_says_the_same() -> None:
    found = tune.recordings(launches("a", "r", ONE, quiet(1)), gates("a"), {})
    assert tune.roc(found, POLICY, seed=3, paths=400) == tune.roc(found, POLICY, seed=3, paths=400)
    with pytest.raises(ValueError, match="no quiet blocks"):
        tune.roc([], POLICY, seed=1)


def test_a_noisier_record_asks_for_more() -> None:
    def at(sd: float) -> float:
        made = [one for n in range(6) for one in launches(f"s{n}", "r", ONE, quiet(n, sd))]
        found = tune.recordings(made, gates(*[f"s{n}" for n in range(6)]), {})
        (first, *_) = tune.detectable(found, replace(POLICY, alpha=0.01))
        return first.effect

    assert at(0.04) > 1.5 * at(0.01)


@pytest.mark.parametrize(("events", "bound"), [(0, 2.996), (1, 4.744), (5, 10.513)])
def test_poisson_bounds_are_those_of_the_tables(events: int, bound: float) -> None:
    assert tune.poisson_upper(events) == pytest.approx(bound, abs=1e-3)
