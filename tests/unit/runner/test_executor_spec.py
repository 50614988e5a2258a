"""Order, places and hash seed of a block: pure functions of its specification, balanced over blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tithe.data.records import RunId, Scenario, ScenarioName, Sha
from tithe.runner.executor import BlockSpec

SPEC = BlockSpec(
    run=RunId("r"),
    scenario=Scenario(ScenarioName("s"), ("true",)),
    base=Sha("a" * 40),
    head=Sha("b" * 40),
    stage="first",
    block=0,
    seed=1,
)


def test_a_block_is_abba_or_baab_and_both_come_up() -> None:
    orders = {replace(SPEC, block=block).order() for block in range(40)}
    assert orders == {("base", "head", "head", "base"), ("head", "base", "base", "head")}


def test_a_warm_up_is_one_launch_of_each_arm() -> None:
    assert sorted(replace(SPEC, stage="warmup").order()) == ["base", "head"]


@pytest.mark.parametrize("block", range(4))
def test_arms_stand_in_different_places_and_swap_from_block_to_block(block: int) -> None:
    spec, following = replace(SPEC, block=block), replace(SPEC, block=block + 1)
    assert {spec.place("base"), spec.place("head")} == {"a", "b"}
    assert spec.place("base") == following.place("head")


def test_the_hash_seed_changes_with_the_block_and_fits_python() -> None:
    seeds = [replace(SPEC, block=block).hash_seed() for block in range(200)]
    assert len(set(seeds)) == 200
    assert all(0 < seed < 2**32 for seed in seeds)


def test_the_same_specification_draws_the_same() -> None:
    assert SPEC.order() == replace(SPEC).order()
    assert SPEC.launch_id(2) == replace(SPEC).launch_id(2)


def test_confirmation_does_not_repeat_the_draws_of_the_first_stage() -> None:
    first = [replace(SPEC, block=block).hash_seed() for block in range(10)]
    assert first != [replace(SPEC, block=block, stage="confirm").hash_seed() for block in range(10)]


def test_launch_ids_differ_by_everything_that_tells_launches_apart() -> None:
    specs = [SPEC, replace(SPEC, block=1), replace(SPEC, stage="confirm"), replace(SPEC, run=RunId("q"))]
    specs.append(replace(SPEC, head=Sha("c" * 40)))
    ids = {spec.launch_id(position) for spec in specs for position in range(4)}
    assert len(ids) == 20
