"""Replays pair the launches of one round, so that what hits both arms cancels as it does in real blocks."""

from __future__ import annotations

import math
import statistics

from tithe.data.records import Launch, LaunchId, MetricName, RunId, Scenario, ScenarioName, Sha
from tithe.runner.executor import BlockSpec
from tithe.runner.recorded import RecordedExecutor
from tithe.runner.stats import block_statistic

NAME = ScenarioName("s")
SCENARIO = Scenario(NAME, ("true",))


def launches(sha: str, drift: bool) -> list[Launch]:
    made = []
    for number in range(6):
        for place in ("a", "b"):
            value = math.exp(number if drift else 0.0) * (1.1 if sha == "head" else 1.0)
            made.append(
                Launch(
                    LaunchId(f"{sha}{number}{place}"),
                    RunId("r"),
                    NAME,
                    "base",
                    Sha(sha),
                    "record",
                    number,
                    0,
                    place,
                    0.0,
                    1.0,
                    "ok",
                    0,
                    {"ttfb": value},
                )
            )
    return made


def test_a_drift_between_rounds_cancels_within_a_block() -> None:
    pool = {(Sha(sha), NAME): launches(sha, drift=True) for sha in ("base", "head")}
    executor = RecordedExecutor(pool, seed=1)
    drawn = []
    for block in range(30):
        spec = BlockSpec(RunId("r"), SCENARIO, Sha("base"), Sha("head"), "first", block, 0)
        made = executor.run_block(spec)
        drawn.append(made[0].values["ttfb"])
        statistic = block_statistic(made, MetricName("ttfb"))
        assert statistic is not None
        assert math.isclose(statistic, math.log(1.1), abs_tol=1e-9)
    assert statistics.pstdev(drawn) > 0


def test_arms_without_a_common_round_are_drawn_apart() -> None:
    head = [launch for launch in launches("head", drift=False) if launch.block > 3]
    base = [launch for launch in launches("base", drift=False) if launch.block < 2]
    executor = RecordedExecutor({(Sha("base"), NAME): base, (Sha("head"), NAME): head}, seed=1)
    made = executor.run_block(BlockSpec(RunId("r"), SCENARIO, Sha("base"), Sha("head"), "first", 0, 0))
    assert [launch.arm for launch in made].count("head") == 2
