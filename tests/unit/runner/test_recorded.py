"""Replaying recorded launches."""

from __future__ import annotations

import pytest

from tithe.data.errors import LaunchError, SetupError
from tithe.data.records import BUILTIN_METRICS, MetricName, RunId, Scenario, ScenarioName, Sha
from tithe.runner.executor import BlockSpec
from tithe.runner.recorded import RecordedExecutor
from tithe.runner.simulate import launches

OLD, NEW, BAD = Sha("a" * 40), Sha("b" * 40), Sha("c" * 40)
SCENARIO = Scenario(ScenarioName("s"), ("true",), (BUILTIN_METRICS["wall"],), (MetricName("wall"),))


def executor(seed: int = 1) -> RecordedExecutor:
    pool = {
        (sha, SCENARIO.name): launches(
            sha, SCENARIO, {MetricName("wall"): [low + i for i in range(20)]}, seconds=3.0
        )
        for sha, low in ((OLD, 1.0), (NEW, 100.0))
    }
    return RecordedExecutor(pool, seed=seed, setup_s=7.0, unrunnable={BAD: "syntax error"})


def spec(head: Sha = NEW, block: int = 0) -> BlockSpec:
    return BlockSpec(RunId("r"), SCENARIO, OLD, head, "first", block, 5)


def test_a_block_has_the_values_of_its_arms_and_the_order_of_its_specification() -> None:
    made = executor().run_block(spec())
    assert tuple(launch.arm for launch in made) == spec().order()
    for launch in made:
        assert (launch.values["wall"] >= 100) == (launch.arm == "head")
        assert launch.sha == spec().sha(launch.arm)
        assert launch.place == spec().place(launch.arm)
    assert len({launch.id for launch in made}) == 4


def test_the_same_seed_gives_the_same_draws_in_any_order() -> None:
    one, two = executor(), executor()
    late, early = one.run_block(spec(block=1)), one.run_block(spec(block=0))
    again = [two.run_block(spec(block=0)), two.run_block(spec(block=1))]
    assert [[launch.values for launch in block] for block in (early, late)] == [
        [launch.values for launch in block] for block in again
    ]
    other = [launch.values for launch in executor(seed=2).run_block(spec())]
    assert other != [launch.values for launch in early]


def test_seconds_and_set_up_are_charged_once_each() -> None:
    run = executor()
    assert run.prepare(OLD) == ""
    assert run.prepare(OLD) == ""
    assert run.spent() == 7.0
    run.run_block(spec())
    assert run.spent() == 7.0 + 7.0 + 4 * 3.0


def test_what_cannot_be_replayed_says_why() -> None:
    run = executor()
    assert run.prepare(BAD) == "syntax error"
    with pytest.raises(SetupError, match="syntax error"):
        run.run_block(spec(head=BAD))
    with pytest.raises(LaunchError, match="no launch is on record"):
        run.run_block(spec(head=Sha("d" * 40)))
