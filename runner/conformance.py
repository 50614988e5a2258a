"""What every executor must do, as checks that run against any of them.

Whoever writes an engine for other machines hands a `Ground` to each of `CHECKS`; a check that fails raises
AssertionError with what was expected. The statistics rest on nothing else than this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tithe.data.errors import SetupError
from tithe.data.records import MetricName, RunId, Scenario, Sha, Stage
from tithe.runner.executor import BlockSpec, Executor


@dataclass(frozen=True)
class Ground:
    """What the checks run on: short launches of one scenario on revisions of which these things are true.

    `metric` is what `base` reports as 1 and `head` as 2; on `failing` the command ends with an error; `unrunnable`
    cannot be made runnable at all (empty: the engine has no such thing).
    """

    make: Callable[[], Executor]
    scenario: Scenario
    metric: MetricName
    base: Sha
    head: Sha
    failing: Sha
    unrunnable: Sha | str = ""

    def spec(self, head: Sha, *, block: int = 0, stage: Stage = "first", seed: int = 5) -> BlockSpec:
        return BlockSpec(RunId("conformance"), self.scenario, self.base, head, stage, block, seed)


def expect(condition: bool, what: str) -> None:
    """Raises AssertionError: the expectation, where it is not met."""
    if not condition:
        raise AssertionError(what)


def a_block_is_four_launches_in_the_order_of_its_specification(ground: Ground) -> None:
    executor = ground.make()
    try:
        for block in (0, 1):
            spec = ground.spec(ground.head, block=block)
            made = executor.run_block(spec)
            expect(tuple(one.arm for one in made) == spec.order(), "arms in the order of the specification")
            expect([one.position for one in made] == [0, 1, 2, 3], "positions count from 0")
            for one in made:
                expect(one.id == spec.launch_id(one.position), "ids are those of the specification")
                expect(one.place == spec.place(one.arm), "places are those of the specification")
                expect(one.sha == spec.sha(one.arm), "each arm has its revision")
                asked = (spec.run, spec.scenario.name, spec.stage, spec.block)
                expect((one.run, one.scenario, one.stage, one.block) == asked, "a launch says what it is of")
                expect(one.status == "ok" and not one.note, "these launches end well")
                expect(one.seconds > 0, "a launch costs machine time")
    finally:
        executor.close()


def each_arm_is_measured_on_its_own_revision(ground: Ground) -> None:
    executor = ground.make()
    try:
        made = executor.run_block(ground.spec(ground.head))
        values = {
            arm: {one.values.get(ground.metric) for one in made if one.arm == arm} for arm in ("base", "head")
        }
        expect(values == {"base": {1.0}, "head": {2.0}}, f"base reports 1 and head 2, not {values}")
    finally:
        executor.close()


def a_warm_up_is_one_launch_of_each_arm(ground: Ground) -> None:
    executor = ground.make()
    try:
        made = executor.run_block(ground.spec(ground.head, stage="warmup"))
        expect(sorted(one.arm for one in made) == ["base", "head"], "one launch of each arm")
        expect({one.stage for one in made} == {"warmup"}, "marked as warm-up")
    finally:
        executor.close()


def launches_that_fail_are_results_and_no_errors(ground: Ground) -> None:
    executor = ground.make()
    try:
        expect(executor.prepare(ground.failing) == "", "a revision whose command fails is runnable")
        made = executor.run_block(ground.spec(ground.failing))
        heads = [one for one in made if one.arm == "head"]
        expect({one.status for one in heads} == {"failed"}, "its launches failed")
        expect(all(one.note and one.note.isprintable() for one in heads), "and say why in one line")
        expect({one.status for one in made if one.arm == "base"} == {"ok"}, "the other arm's did not")
    finally:
        executor.close()


def what_cannot_be_made_runnable_is_told_and_not_raised(ground: Ground) -> None:
    if not ground.unrunnable:
        return
    executor = ground.make()
    try:
        sha = Sha(ground.unrunnable)
        why = executor.prepare(sha)
        expect(bool(why) and why.isprintable(), "prepare says why, in one line")
        expect(bool(executor.prepare(sha)), "and says so again")
        try:
            executor.run_block(ground.spec(sha))
        except SetupError:
            pass
        else:
            expect(False, "a block of it raises SetupError")
        expect(len(executor.run_block(ground.spec(ground.head))) == 4, "and the next block runs")
    finally:
        executor.close()


def machine_time_is_counted(ground: Ground) -> None:
    executor = ground.make()
    try:
        before = executor.spent()
        made = executor.run_block(ground.spec(ground.head))
        after = executor.spent()
        expect(after - before >= sum(one.seconds for one in made) - 1e-6, "all launches are paid for")
    finally:
        executor.close()


def the_host_has_one_name(ground: Ground) -> None:
    executor = ground.make()
    try:
        name = executor.host
        executor.run_block(ground.spec(ground.head))
        expect(bool(name) and name.isprintable() and executor.host == name, "a name that stays")
    finally:
        executor.close()


def scenarios_do_not_share_launches(ground: Ground) -> None:
    executor = ground.make()
    try:
        one = executor.run_block(ground.spec(ground.head))
        other = executor.run_block(ground.spec(ground.head, block=1))
        again = executor.run_block(replace(ground.spec(ground.head), run=RunId("another")))
        ids = [launch.id for launch in (*one, *other, *again)]
        expect(len(set(ids)) == len(ids), "no two launches have one id")
    finally:
        executor.close()


def closing_twice_is_harmless(ground: Ground) -> None:
    executor = ground.make()
    executor.run_block(ground.spec(ground.head))
    executor.close()
    executor.close()


CHECKS: tuple[Callable[[Ground], None], ...] = (
    a_block_is_four_launches_in_the_order_of_its_specification,
    each_arm_is_measured_on_its_own_revision,
    a_warm_up_is_one_launch_of_each_arm,
    launches_that_fail_are_results_and_no_errors,
    what_cannot_be_made_runnable_is_told_and_not_raised,
    machine_time_is_counted,
    the_host_has_one_name,
    scenarios_do_not_share_launches,
    closing_twice_is_harmless,
)
