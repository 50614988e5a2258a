"""Choice under a budget, and what a decision costs."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tithe.data.records import Scenario, ScenarioName
from tithe.selector.cost import decision_cost, launch_estimates, launches
from tithe.selector.schedule import _greedy, schedule, value_of


def plan(chance: list[float], cost: list[float], budget: float, evidence: list[list[float]] | None = None):
    value = value_of(np.array(chance), None if evidence is None else np.array(evidence))
    return schedule(value, np.array(cost), ["cpu"] * len(cost), {"cpu": budget})


def test_value_per_cost_decides() -> None:
    assert plan([0.5, 0.4, 0.3], [10, 2, 5], 7).chosen == (1, 2)


def test_filling_goes_on_after_what_does_not_fit() -> None:
    assert plan([0.9, 0.5, 0.1], [5, 6, 1], 6).chosen == (0, 2)


def test_a_small_item_does_not_keep_a_valuable_one_out() -> None:
    assert plan([0.02, 0.9], [1, 100], 100).chosen == (1,)


def test_ties_go_to_the_first() -> None:
    assert plan([0.5, 0.5, 0.5], [1, 1, 1], 2).chosen == (0, 1)


def test_nothing_fits() -> None:
    assert plan([0.5], [10], 9.99) == plan([], [], 1)


def test_the_second_that_shows_the_same_fault_is_worth_less() -> None:
    same, other = [1.0, 0.0], [0.0, 1.0]
    assert plan([0.5, 0.45, 0.3], [1, 1, 1], 2, [same, same, other]).chosen == (0, 2)
    assert plan([0.5, 0.45, 0.3], [1, 1, 1], 2).chosen == (0, 1)


def test_resources_have_budgets_of_their_own() -> None:
    value = value_of(np.array([0.5, 0.4, 0.9]))
    found = schedule(value, np.array([5.0, 5.0, 5.0]), ["cpu", "gpu", "tpu"], {"cpu": 5.0, "gpu": 4.0})
    assert found.chosen == (0,)


def test_a_policy_with_its_own_order_is_filled_by_it() -> None:
    value = value_of(np.array([0.5, 0.5, 0.5]))
    found = schedule(
        value, np.array([1.0, 3.0, 1.0]), ["cpu"] * 3, {"cpu": 3.0}, order=np.array([1.0, 3.0, 2.0])
    )
    assert found.chosen == (1,)


def test_a_single_chance_is_kept_when_it_is_split_over_causes() -> None:
    rng = np.random.default_rng(0)
    chance, evidence = rng.random(20), rng.random((20, 60)) * (rng.random((20, 60)) < 0.2)
    value = value_of(chance, evidence)
    alone = value.gains(np.ones(len(value.weight)))
    # With more causes than are kept, the least are left out and their part goes to the others.
    np.testing.assert_allclose(alone, chance, rtol=1e-9)
    assert ((value.detect >= 0) & (value.detect <= 1)).all()


def test_close_to_the_exact_optimum() -> None:
    rng = np.random.default_rng(7)
    gaps = []
    for _ in range(60):
        chance, cost = rng.random(9) ** 3, rng.lognormal(0, 0.7, 9)
        value = value_of(chance, rng.random((9, 4)) * (rng.random((9, 4)) < 0.5))
        budget = 0.3 * cost.sum()
        found = schedule(value, cost, ["cpu"] * 9, {"cpu": budget}).value
        exact = max(
            value.of(chosen)
            for size in range(10)
            for chosen in combinations(range(9), size)
            if cost[list(chosen)].sum() <= budget
        )
        gaps.append(1 - found / exact)
    assert max(gaps) < 0.12
    assert np.mean(gaps) < 0.01


SCENARIO = Scenario(ScenarioName("s"), ("true",), timeout_s=20.0)


def test_a_decision_costs_more_where_a_regression_is_likely() -> None:
    assert (
        decision_cost(SCENARIO, 2.0, 0.9) > decision_cost(SCENARIO, 2.0, 0.1) == 2.0 * launches(SCENARIO, 0.1)
    )
    assert 10 < launches(SCENARIO, 0.0) < 16


def test_unknown_costs_are_guessed_from_the_like() -> None:
    gpu = Scenario(ScenarioName("g"), ("true",), resource="gpu", timeout_s=300.0)
    new = Scenario(ScenarioName("n"), ("true",), resource="gpu", timeout_s=300.0)
    short = Scenario(ScenarioName("t"), ("true",), timeout_s=0.5)
    seconds, guessed = launch_estimates([SCENARIO, gpu, new, short], {SCENARIO.name: 1.0, gpu.name: 50.0})
    assert seconds.tolist() == [1.0, 50.0, 50.0, 0.5]
    assert guessed.tolist() == [False, False, True, True]
    assert launch_estimates([SCENARIO], {})[0][0] == pytest.approx(3.0)


def plain_greedy(value, cost: np.ndarray, budget: float) -> list[int]:
    """Looks at everything before every pick."""
    missed, free, left = np.ones(len(value.weight)), np.ones(len(cost), dtype=bool), budget
    picks: list[int] = []
    while (open_ := free & (cost <= left)).any():
        at = int(np.argmax(np.where(open_, value.gains(missed) / cost, -np.inf)))
        picks.append(at)
        free[at] = False
        left -= float(cost[at])
        missed = missed * (1.0 - value.detect[at])
    return picks


@pytest.mark.parametrize("causes", [0, 1, 6])
@pytest.mark.parametrize("seed", range(6))
def test_looking_at_the_front_alone_picks_what_looking_at_all_picks(seed: int, causes: int) -> None:
    rng = np.random.default_rng(seed)
    count = 700
    chance = rng.random(count) ** 4 * (rng.random(count) < 0.8)
    chance[300:400] = chance[200:300]
    cost = rng.choice([0.5, 1.0, 2.5, 7.0], count) if seed % 2 else rng.lognormal(0, 1, count)
    evidence = rng.random((count, causes)) * (rng.random((count, causes)) < 0.4)
    evidence[300:400] = evidence[200:300]
    value = value_of(chance, evidence)
    for share in (0.02, 0.3, 1.1):
        budget = share * cost.sum()
        found, plain = _greedy(value, cost, budget, ()), plain_greedy(value, cost, budget)
        assert cost[found].sum() <= budget * (1 + 1e-12)
        assert len(set(found)) == len(found)
        assert value.of(found) == pytest.approx(value.of(plain), rel=1e-9)
        rates = [len(set(found[:n]) ^ set(plain[:n])) for n in (10, 100)]
        assert max(rates) <= 2  # but for what rounding makes equal


def test_a_large_problem_with_everything_equal_ends(  # ties everywhere are the worst case of the front
) -> None:
    value = value_of(np.full(2000, 0.1), np.ones((2000, 3)))
    assert schedule(value, np.ones(2000), ["cpu"] * 2000, {"cpu": 400.0}).chosen == tuple(range(400))
