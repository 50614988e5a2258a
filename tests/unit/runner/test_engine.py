"""The engine on simulated launches: each verdict, what is launched for it, and what is kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tithe.data.config import DecisionPolicy
from tithe.data.errors import LaunchError
from tithe.data.noise import Noise
from tithe.data.records import (
    BUILTIN_METRICS,
    Launch,
    Metric,
    MetricName,
    RunId,
    Scenario,
    ScenarioName,
    Sha,
    Verdict,
    VerdictName,
)
from tithe.runner import engine
from tithe.runner.executor import BlockSpec
from tithe.runner.recorded import RecordedExecutor
from tithe.runner.simulate import launches

WALL, RSS, SPEED = MetricName("wall"), MetricName("rss"), MetricName("speed")
OLD, NEW = Sha("0" * 40), Sha("1" * 40)
SD = 0.02
POLICY = DecisionPolicy()
HISTORY = {WALL: Noise(SD, 60.0), RSS: Noise(SD, 60.0), SPEED: Noise(SD, 60.0)}
RUN = RunId("run")


def scenario(
    name: str = "s", metrics: Sequence[MetricName] = (WALL,), gate: Sequence[MetricName] = (WALL,)
) -> Scenario:
    known = {**BUILTIN_METRICS, "speed": Metric(SPEED, "1/s", "larger")}
    return Scenario(ScenarioName(name), ("true",), tuple(known[one] for one in metrics), tuple(gate))


def pool(one: Scenario, sha: Sha, ratio: float = 1.0, *, failed: str = "", **ratios: float) -> list[Launch]:
    """Launches that scatter as SD around `ratio`, the same draws whatever the ratio is."""
    if failed:
        return launches(sha, one, {}, failed=failed)
    rng = np.random.default_rng(4)
    values = {
        metric.name: list(np.exp(rng.normal(0, SD, 400)) * ratios.get(metric.name, ratio))
        for metric in one.metrics
    }
    return launches(sha, one, values)


def replay(one: Scenario, old: list[Launch], new: list[Launch], **more: object) -> RecordedExecutor:
    return RecordedExecutor({(OLD, one.name): old, (NEW, one.name): new}, seed=11, **more)  # type: ignore[arg-type]


def decided(
    one: Scenario, executor: RecordedExecutor, policy: DecisionPolicy = POLICY, seed: int = 3
) -> tuple[Verdict, ...]:
    return engine.compare(
        one, OLD, NEW, executor, policy, run=RUN, seed=seed, noise=HISTORY, sink=lambda _: None
    ).verdicts


@pytest.mark.parametrize(
    ("ratio", "name"),
    [(1.0, "same"), (1.1, "regressed"), (0.9, "improved"), (2.0, "regressed"), (1.005, "same")],
)
def test_verdict_follows_the_effect(ratio: float, name: VerdictName) -> None:
    one = scenario()
    (verdict,) = decided(one, replay(one, pool(one, OLD), pool(one, NEW, ratio)))
    assert verdict.verdict == name
    assert verdict.confirmed == (name in ("regressed", "improved"))
    assert verdict.low is not None
    assert verdict.high is not None
    assert verdict.low < ratio < verdict.high
    assert (verdict.detectable is None) == verdict.confirmed
    assert verdict.threshold == pytest.approx(
        max(POLICY.floor, math.expm1(POLICY.noise_factor * SD)), abs=1e-4
    )


def test_where_more_is_better_a_drop_is_a_regression() -> None:
    one = scenario(metrics=(SPEED,), gate=(SPEED,))
    (verdict,) = decided(one, replay(one, pool(one, OLD), pool(one, NEW, 0.85)))
    assert verdict.verdict == "regressed"


def test_the_numbers_are_of_the_confirmation_alone() -> None:
    one = scenario()
    made: list[Launch] = []
    found = engine.compare(
        one,
        OLD,
        NEW,
        replay(one, pool(one, OLD), pool(one, NEW, 1.1)),
        POLICY,
        run=RUN,
        seed=3,
        noise=HISTORY,
        sink=made.extend,
    )
    (verdict,) = found.verdicts
    logs = {
        arm: [
            math.log(launch.values[WALL])
            for launch in made
            if launch.stage == "confirm" and launch.arm == arm
        ]
        for arm in ("base", "head")
    }
    assert verdict.ratio == pytest.approx(math.exp(float(np.mean(logs["head"]) - np.mean(logs["base"]))))
    assert {launch.stage for launch in made} == {"warmup", "first", "confirm"}
    assert verdict.launches == len(made)
    assert verdict.blocks == len(found.launches) // 4


def test_an_effect_that_fresh_launches_do_not_show_is_inconclusive_or_same() -> None:
    class Turncoat(RecordedExecutor):
        """The effect is there in the first stage only, as a neighbour's load may be."""

        def run_block(self, spec: BlockSpec) -> tuple[Launch, ...]:
            made = super().run_block(spec)
            if spec.stage != "first":
                return made
            return tuple(
                replace(launch, values={WALL: launch.values[WALL] * 1.2}) if launch.arm == "head" else launch
                for launch in made
            )

    one = scenario()
    executor = Turncoat({(OLD, one.name): pool(one, OLD), (NEW, one.name): pool(one, NEW)}, seed=1)
    (verdict,) = decided(one, executor)
    assert verdict.verdict == "same"
    assert not verdict.confirmed
    assert "not confirmed" not in verdict.note
    narrow = replace(POLICY, wanted_effect=0.001)
    (verdict,) = decided(one, executor, narrow)
    assert verdict.verdict == "inconclusive"
    assert "not confirmed" in verdict.note


def test_an_effect_below_the_threshold_is_not_reported() -> None:
    one = scenario()
    policy = replace(POLICY, floor=0.2, wanted_effect=0.25)
    (verdict,) = decided(one, replay(one, pool(one, OLD), pool(one, NEW, 1.1)), policy)
    assert verdict.verdict == "same"
    assert verdict.threshold == pytest.approx(0.2)


def test_too_noisy_to_say_is_inconclusive_and_says_what_would_be_seen() -> None:
    one = scenario()
    policy = replace(POLICY, wanted_effect=0.003, floor=0.001, max_blocks=4)
    (verdict,) = decided(one, replay(one, pool(one, OLD), pool(one, NEW, 1.005)), policy)
    assert verdict.verdict == "inconclusive"
    assert verdict.blocks == 4
    assert verdict.detectable is not None
    assert verdict.detectable > 0.02


def test_metrics_that_do_not_gate_are_reported_and_never_decide() -> None:
    one = scenario(metrics=(WALL, RSS))
    told = []
    for seed in range(10):
        wall, rss = decided(one, replay(one, pool(one, OLD), pool(one, NEW, rss=1.5)), seed=seed)
        assert (wall.verdict, wall.confirmed, rss.confirmed) == ("same", False, False)
        assert wall.blocks < 9
        assert rss.ratio == pytest.approx(1.5, rel=0.05)
        told.append(rss.verdict)
    # It is looked at when the others have decided: now and then that is too early to say.
    assert told.count("regressed") >= 4
    assert set(told) <= {"regressed", "inconclusive"}


def test_each_gate_metric_decides_for_itself() -> None:
    one = scenario(metrics=(WALL, RSS), gate=(WALL, RSS))
    for seed in range(10):
        wall, rss = decided(one, replay(one, pool(one, OLD), pool(one, NEW, rss=1.5)), seed=seed)
        assert (rss.verdict, rss.confirmed) == ("regressed", True)
        # The run stops for the one that regressed, whatever the other still needs.
        assert wall.verdict in ("same", "inconclusive")


def test_head_that_crashes_is_broken_after_two_blocks_and_base_that_crashes_makes_it_fixed() -> None:
    one = scenario(metrics=(WALL, RSS))
    verdicts = decided(one, replay(one, pool(one, OLD), pool(one, NEW, failed="exit 1: boom")))
    assert [(verdict.metric, verdict.verdict, verdict.confirmed) for verdict in verdicts] == [
        (WALL, "broken", True)
    ]
    assert verdicts[0].blocks == 2
    assert "boom" in verdicts[0].note
    (verdict,) = decided(one, replay(one, pool(one, OLD, failed="exit 1"), pool(one, NEW)))
    assert verdict.verdict == "fixed"


def test_a_head_that_fails_every_other_time_is_not_the_same_for_its_good_times() -> None:
    one = scenario()
    failing = launches(NEW, one, {WALL: [1.0] * 400}, failed="exit 1: boom")
    told = []
    for seed in range(10):
        (verdict,) = decided(one, replay(one, pool(one, OLD), pool(one, NEW) + failing), seed=seed)
        told.append(verdict.verdict)
        assert "boom" in verdict.note
    assert told.count("broken") >= 7
    assert "same" not in told


def test_both_crashing_is_an_error_after_one_block() -> None:
    one = scenario()
    (verdict,) = decided(
        one, replay(one, pool(one, OLD, failed="no module x"), pool(one, NEW, failed="no module x"))
    )
    assert (verdict.verdict, verdict.blocks) == ("error", 1)
    assert "no module x" in verdict.note


def test_head_that_stopped_giving_the_metric_is_broken() -> None:
    one = scenario(metrics=(WALL, RSS))
    (verdict,) = decided(one, replay(one, pool(one, OLD), launches(NEW, one, {RSS: [1.0] * 8})))
    assert verdict.verdict == "broken"
    assert "no positive value of wall" in verdict.note


def test_head_that_crashes_half_of_the_time_is_broken_after_fresh_launches_and_one_crash_is_a_note() -> None:
    one = scenario()
    half = [
        launch
        for pair in zip(pool(one, NEW), pool(one, NEW, failed="flaky") * 400, strict=True)
        for launch in pair
    ]
    # Rounds that base has too, each with a launch that is well and one that crashed.
    half = [
        replace(launch, place="a" if index // 2 % 2 else "b", block=half[index // 2 * 2].block)
        for index, launch in enumerate(half)
    ]
    policy = replace(POLICY, wanted_effect=0.001)
    (verdict,) = decided(one, replay(one, pool(one, OLD), half), policy, seed=4)
    assert verdict.verdict == "broken"
    assert verdict.blocks > 4
    rare = pool(one, NEW)[:16] + pool(one, NEW, failed="flaky")
    (verdict,) = decided(one, replay(one, pool(one, OLD), rare), policy)
    assert verdict.verdict == "inconclusive"
    assert "head failed" in verdict.note


def test_revisions_that_cannot_be_made_runnable() -> None:
    one = scenario()
    both = pool(one, OLD), pool(one, NEW)
    (verdict,) = decided(one, replay(one, *both, unrunnable={NEW: "syntax error"}))
    assert (verdict.verdict, verdict.confirmed, verdict.launches) == ("broken", True, 0)
    assert "syntax error" in verdict.note
    (verdict,) = decided(one, replay(one, *both, unrunnable={OLD: "no such tree"}))
    assert verdict.verdict == "error"
    assert "no such tree" in verdict.note


def test_a_scenario_that_fails_does_not_stop_the_next_and_the_order_is_kept() -> None:
    good, dead, last = scenario("good"), scenario("dead"), scenario("last")
    table = {(sha, one.name): pool(one, sha) for sha in (OLD, NEW) for one in (good, last)}
    executor = RecordedExecutor(table, seed=1)
    report = engine.run(
        [last, dead, good], OLD, NEW, executor, POLICY, run=RUN, seed=1, noise={}, sink=lambda _: None
    )
    assert [(verdict.scenario, verdict.verdict) for verdict in report.verdicts] == [
        ("last", "same"),
        ("dead", "error"),
        ("good", "same"),
    ]
    assert any("dead" in warning for warning in report.warnings)
    assert report.spent_s == executor.spent()


def test_nothing_is_started_when_the_budget_is_used_up() -> None:
    every = [scenario(name) for name in ("a", "b", "c")]
    table = {(sha, one.name): pool(one, sha) for sha in (OLD, NEW) for one in every}
    told: list[str] = []
    report = engine.run(
        every,
        OLD,
        NEW,
        RecordedExecutor(table, seed=1),
        POLICY,
        run=RUN,
        seed=1,
        noise={(ScenarioName("a"), WALL): HISTORY[WALL]},
        sink=lambda _: None,
        budget_s=1.0,
        progress=told.append,
    )
    assert {verdict.scenario for verdict in report.verdicts} == {"a"}
    assert "not run: b, c" in report.warnings[0]
    assert [line.split(", ")[1] for line in told] == [
        f"block {n} of at most 12" for n in range(1, len(told) + 1)
    ]
    assert f"{report.verdicts[0].ratio:.3f} times base" in told[-1]


def test_an_interrupt_leaves_every_finished_block_with_the_sink() -> None:
    class Interrupted(RecordedExecutor):
        def run_block(self, spec: BlockSpec) -> tuple[Launch, ...]:
            if spec.block == 2:
                raise KeyboardInterrupt
            return super().run_block(spec)

    one = scenario()
    kept: list[Launch] = []
    executor = Interrupted({(OLD, one.name): pool(one, OLD), (NEW, one.name): pool(one, NEW)}, seed=1)
    with pytest.raises(KeyboardInterrupt):
        engine.compare(
            one,
            OLD,
            NEW,
            executor,
            replace(POLICY, wanted_effect=0.001),
            run=RUN,
            seed=1,
            noise={},
            sink=kept.extend,
        )
    assert [(launch.stage, launch.block) for launch in kept] == [("warmup", 0)] * 2 + [("first", 0)] * 4 + [
        ("first", 1)
    ] * 4


def test_a_host_that_cannot_launch_is_an_error_of_the_scenario() -> None:
    class Deaf(RecordedExecutor):
        def run_block(self, spec: BlockSpec) -> tuple[Launch, ...]:
            raise LaunchError("no more processes", where=spec.scenario.name)

    (verdict,) = decided(scenario(), Deaf({}, seed=1))
    assert verdict.verdict == "error"
    assert "no more processes" in verdict.note


def test_outcomes_are_of_gate_metrics_and_weigh_what_is_not_known() -> None:
    one = scenario(metrics=(WALL, RSS))
    two = scenario("two")
    dead = scenario("dead")
    table = {(sha, s.name): pool(s, sha) for sha in (OLD, NEW) for s in (one, two)}
    table[(NEW, two.name)] = pool(two, NEW, 1.2)
    report = engine.run(
        [one, two, dead],
        OLD,
        NEW,
        RecordedExecutor(table, seed=1),
        POLICY,
        run=RUN,
        seed=1,
        noise={},
        sink=lambda _: None,
    )
    found = engine.outcomes(
        report, [one, two, dead], policy=POLICY, source="ab", picked="chosen", known_at=9.0
    )
    assert [(outcome.scenario, outcome.metric, outcome.verdict) for outcome in found] == [
        ("s", "wall", "same"),
        ("two", "wall", "regressed"),
    ]
    assert found[0].confidence > 0.9
    assert found[1].confidence > 0.98
    assert {(outcome.base, outcome.change, outcome.known_at, outcome.run) for outcome in found} == {
        (OLD, NEW, 9.0, RUN)
    }
    weak = replace(
        report,
        verdicts=(Verdict(one.name, WALL, "inconclusive", ratio=1.06, low=0.99, high=1.13, blocks=12),),
    )
    strong = replace(
        report, verdicts=(Verdict(one.name, WALL, "inconclusive", ratio=1.0, low=0.94, high=1.06, blocks=12),)
    )
    weights = [
        engine.outcomes(some, [one], policy=POLICY, source="ab", picked="chosen", known_at=9.0)[0].weight
        for some in (weak, strong)
    ]
    assert 0.2 < weights[0] < 0.5 < 0.9 < weights[1] < 1.0


def test_the_engine_decides_as_the_simulation_of_its_rule() -> None:
    """Simulates 150 decisions each of A/A and 5 % at 2 % noise through the whole engine, launches and all."""
    one = scenario()
    for ratio, name, share in ((1.0, "same", 0.99), (1.05, "regressed", 0.9)):
        executor = replay(one, pool(one, OLD), pool(one, NEW, ratio))
        found = [
            engine.compare(
                one, OLD, NEW, executor, POLICY, run=RunId(str(i)), seed=i, noise=HISTORY, sink=lambda _: None
            ).verdicts[0]
            for i in range(150)
        ]
        assert np.mean([verdict.verdict == name for verdict in found]) > share
