"""The selection: a partition with reasons, whatever it is made from."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tithe.data.codec import from_json, to_json
from tithe.data.errors import UsageError
from tithe.data.graph import empty
from tithe.data.records import FileEdit, Selection
from tithe.selector.features import State
from tithe.selector.history import History
from tithe.selector.policies import BASELINES, RANDOM
from tithe.selector.select import content_id, select

LATER = 1e9


def run(world, *, history=None, change=None, config=None, graph=None, budget=None, **more) -> Selection:
    return select(
        world.history(40) if history is None else history,
        config or world.config,
        change or world.changes[60],
        graph or world.graph,
        more.pop("model", None),
        budget=budget or {"cpu": 60.0},
        seed=1,
        now=LATER,
        base="b" * 40,
        head="h" * 40,
        **more,
    )


def test_a_complete_partition_within_the_budget(worlds) -> None:
    world = worlds(1)
    found = run(world)
    names = [candidate.scenario for candidate in (*found.selected, *found.rest)]
    assert sorted(names) == [s.name for s in world.config.scenarios]
    assert [c.rank for c in (*found.selected, *found.rest)] == list(range(1, len(names) + 1))
    assert found.selected
    assert sum(c.cost["cpu"] for c in found.selected) <= 60.0
    assert {c.picked for c in found.selected} == {"chosen"}
    assert {c.picked for c in found.rest} == {"budget"}
    assert all(c.reasons for c in (*found.selected, *found.rest))


def test_the_same_input_gives_the_same_bytes_in_any_order(worlds) -> None:
    world = worlds(1)
    history = world.history(40)
    shuffled = replace(history, outcomes=history.outcomes[::-1])
    config = replace(world.config, scenarios=world.config.scenarios[::-1])
    first = run(world)
    assert to_json(first) == to_json(run(world, history=shuffled, config=config))
    assert first.id == content_id(first)
    assert first.id != run(world, budget={"cpu": 61.0}).id
    assert from_json(to_json(first), Selection) == first


def test_a_state_that_is_kept_gives_the_same(worlds) -> None:
    world = worlds(1)
    assert run(world, state=State(world.history(40), world.config.scenarios)) == run(world)
    with pytest.raises(ValueError, match="other scenarios"):
        run(world, state=State(world.history(40), world.config.scenarios[:3]))


def test_what_cannot_run_is_left_out_with_the_reason(worlds) -> None:
    world = worlds(1)
    first, second, third, *others = world.config.scenarios
    config = replace(
        world.config,
        scenarios=(replace(first, tier="release"), replace(second, resource="gpu"), third, *others),
    )
    found = run(world, config=config, budget={"cpu": 1e6}, unavailable={third.name: "torch is not installed"})
    rest = {c.scenario: c for c in found.rest}
    assert set(rest) == {first.name, second.name, third.name}
    assert [rest[s.name].picked for s in (first, second, third)] == ["tier", "resource", "unavailable"]
    assert "torch is not installed" in rest[third.name].reasons
    assert any("gpu" in reason for reason in rest[second.name].reasons)
    every = run(world, config=config, budget={"cpu": 1e6, "gpu": 1e6}, tier="release")
    assert every.rest == ()


def test_an_empty_store_is_said_and_served_by_the_prior(worlds) -> None:
    found = run(worlds(1), history=History())
    assert found.model == "prior"
    assert any("no outcomes" in warning for warning in found.warnings)
    assert any("the prior ranks it" in reason for reason in found.selected[0].reasons)


def test_the_reasons_name_files_history_and_words(worlds) -> None:
    world = worlds(1)
    at = int(np.flatnonzero(world.fails[:40].any(axis=1))[0])
    broken = world.config.scenarios[int(np.flatnonzero(world.fails[at])[0])]
    config_file = broken.command[3]
    change = replace(
        world.changes[60],
        subject=f"Look at {broken.name}",
        files=(*world.changes[at].files, FileEdit(config_file, 500, 0), FileEdit("requirements.txt", 1, 1)),
    )
    found = run(world, change=change, budget={"cpu": 1e6})
    why = next(c.reasons for c in found.selected if c.scenario == broken.name)
    assert why[0] == f"its own file {config_file} changed"
    assert any(reason.startswith("regressed in") and "that touched" in reason for reason in why)
    assert any("requirements.txt changed" in reason for reason in why)
    assert any("shares the words" in reason for reason in why)


def test_hostile_paths_are_safe_to_show(worlds) -> None:
    world = worlds(1)
    path = "requirements-\x1b[31m.txt"
    change = replace(world.changes[60], files=(FileEdit(path, 3, 0),))
    assert not any("\x1b" in reason for c in run(world, change=change).rest for reason in c.reasons)


@pytest.mark.parametrize(
    "budget", [{"cpu": 0.0}, {"cpu": -1.0}, {"cpu": float("nan")}, {"cpu": float("inf")}]
)
def test_budgets_that_buy_nothing(worlds, budget) -> None:
    with pytest.raises(UsageError, match="budget"):
        run(worlds(1), budget=budget)


def test_a_budget_below_the_cheapest_is_said(worlds) -> None:
    found = run(worlds(1), budget={"cpu": 0.01})
    assert found.selected == ()
    assert any("below the cheapest" in warning for warning in found.warnings)


def test_odd_inputs_still_give_a_partition(worlds) -> None:
    world = worlds(1)
    one = replace(world.config, scenarios=world.config.scenarios[:1])
    none = replace(world.config, scenarios=())
    assert len(run(world, config=one, graph=empty(one.scenarios)).selected) == 1
    assert run(world, config=none, graph=empty(())).selected == ()
    nothing = run(world, change=replace(world.changes[60], files=()))
    assert len(nothing.selected) + len(nothing.rest) == len(world.config.scenarios)


@pytest.mark.parametrize("ranker", BASELINES, ids=lambda ranker: ranker.name)
def test_every_policy_goes_through_the_same_scheduler(worlds, ranker) -> None:
    world = worlds(1)
    found = run(world, ranker=ranker)
    assert found.model == ranker.name
    assert found.selected
    assert sum(c.cost["cpu"] for c in found.selected) <= 60.0
    assert found == run(world, ranker=ranker)


def test_random_draws_anew_for_another_change(worlds) -> None:
    world = worlds(1)
    orders = {
        tuple(c.scenario for c in run(world, change=world.changes[at], ranker=RANDOM).selected)
        for at in range(8)
    }
    assert len(orders) > 1


def test_a_model_changes_the_name_and_keeps_the_contract(worlds, models_dir) -> None:
    from tithe.selector.model import Model
    from tithe.selector.train import train

    world = worlds(1)
    report = train(world.history(60), world.config, lambda _: world.graph, models_dir, now=LATER, seed=3)
    model = Model.load(models_dir / report.version)
    found = run(world, model=model)
    assert found.model == report.version
    assert not any("prior" in reason for c in found.selected for reason in c.reasons)
    assert all(0 <= c.probability <= 1 for c in (*found.selected, *found.rest))


def test_selecting_imports_nothing_heavy() -> None:
    code = (
        "import sys, tithe.selector.select, tithe.selector.model;"
        "heavy = {'lightgbm','pandas','scipy','sklearn','networkx','sqlite_utils'} & set(sys.modules);"
        "sys.exit(f'imported: {sorted(heavy)}' if heavy else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("paths", "run_any"),
    [
        (("README.md", "docs/guide.rst"), False),
        (("tests/test_loader.py",), False),
        (("README.md", "unknown/thing.py"), True),
        (("unknown/config.yaml",), True),
    ],
)
def test_a_change_of_words_alone_costs_nothing_and_an_unknown_file_is_no_word(
    worlds, paths: tuple[str, ...], run_any: bool
) -> None:
    world = worlds(1)
    change = replace(world.changes[60], files=tuple(FileEdit(path, 3, 1) for path in paths))
    found = run(world, change=change)
    assert bool(found.selected) is run_any
    if not run_any:
        assert {candidate.picked for candidate in found.rest} == {"words"}
