"""What launches were seen to touch, laid over the graph of the text, as of any moment."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tithe.data.graph import ScenarioGraph
from tithe.data.observed import LAUNCHES, LEAST, LEFT_ALONE, NEAR, Observed
from tithe.data.records import FunctionUse, Observation, ScenarioName, Sha
from tithe.data.store import Store

SCENARIOS = tuple(ScenarioName(f"s{at}") for at in range(8))
FILES = ("config.yaml", "hub.py", "own.py")
HEAD = Sha("a" * 40)


def graph() -> ScenarioGraph:
    distance = np.full((len(SCENARIOS), len(FILES)), 2.0, dtype=np.float32)
    proximity = np.full((len(SCENARIOS), len(FILES)), 0.4, dtype=np.float32)
    return ScenarioGraph(SCENARIOS, FILES, distance, proximity)


def seen(
    at: float, *touched: str, untouched: tuple[str, ...] = (), scenario: ScenarioName = SCENARIOS[0]
) -> Observation:
    return Observation(scenario, HEAD, at, touched, untouched)


def near(found: ScenarioGraph, path: str, scenario: ScenarioName = SCENARIOS[0]) -> float:
    return float(found.proximity[found.row[scenario], found.column[path]])


def test_a_file_that_was_touched_is_near_whatever_text_says() -> None:
    others = [seen(1.0, scenario=name) for name in SCENARIOS[1:]]
    found = Observed([seen(1.0, "own.py", "plugin.py"), *others]).overlay(graph(), 2.0)
    assert found.files == (*FILES, "plugin.py")
    assert near(found, "plugin.py") == pytest.approx(NEAR)  # nobody else touches it
    assert near(found, "own.py") > 0.4
    assert found.distance[0, found.column["plugin.py"]] == 1
    assert near(found, "plugin.py", SCENARIOS[1]) == 0
    assert np.isinf(found.distance[1, found.column["plugin.py"]])
    np.testing.assert_array_equal(found.proximity[1:, : len(FILES)], graph().proximity[1:])


def test_few_watched_scenarios_stand_for_all() -> None:
    alone = Observed([seen(1.0, "plugin.py")]).overlay(graph(), 2.0)
    assert 0.5 * NEAR < near(alone, "plugin.py") < NEAR  # half of the others may touch it as well


def test_what_everything_touches_stays_a_hub() -> None:
    every = [seen(1.0, "base.py", f"only{name}.py", scenario=name) for name in SCENARIOS]
    found = Observed(every).overlay(graph(), 2.0)
    assert near(found, "base.py") < 0.7 * near(found, "onlys0.py")


def test_what_no_launch_touches_fades_and_never_goes() -> None:
    values = []
    for count in (1, 2, 3, LAUNCHES):
        launches = [seen(float(at), "hub.py", untouched=("own.py",)) for at in range(count)]
        values.append(near(Observed(launches).overlay(graph(), 99.0), "own.py"))
    assert values == sorted(values, reverse=True)
    assert values[0] == pytest.approx(0.4 * LEFT_ALONE)
    assert values[-1] >= 0.4 * LEAST - 1e-6


def test_what_c_code_may_have_read_fades_less() -> None:
    found = Observed([seen(1.0, untouched=("config.yaml", "own.py"))]).overlay(graph(), 2.0)
    assert near(found, "own.py") < near(found, "config.yaml") < 0.4


def test_one_launch_that_touches_a_file_speaks_for_all() -> None:
    found = Observed([seen(1.0, "own.py"), seen(2.0, untouched=("own.py",))]).overlay(graph(), 3.0)
    assert near(found, "own.py") == pytest.approx(
        near(Observed([seen(1.0, "own.py")]).overlay(graph(), 3.0), "own.py")
    )


def test_only_what_was_known_before_the_moment_counts() -> None:
    observed = Observed([seen(1.0, "own.py"), seen(5.0, "late.py")])
    assert observed.overlay(graph(), 1.0).files == FILES
    np.testing.assert_array_equal(observed.overlay(graph(), 1.0).proximity, graph().proximity)
    assert observed.overlay(graph(), 5.0).files == FILES
    assert "late.py" in observed.overlay(graph(), 5.1).files
    assert observed.overlay(graph(), 5.0).files == FILES  # asked in any order
    assert observed.newest == 5.0


def test_only_the_newest_launches_count() -> None:
    launches = [seen(float(at), f"file{at}.py") for at in range(LAUNCHES + 2)]
    assert set(Observed(launches).overlay(graph(), 99.0).files) - set(FILES) == {
        f"file{at}.py" for at in range(2, LAUNCHES + 2)
    }


def test_scenarios_that_are_gone_do_not_count() -> None:
    found = Observed([seen(1.0, "x.py", scenario=ScenarioName("gone"))]).overlay(graph(), 2.0)
    assert found.files == FILES


def test_the_store_keeps_each_once_and_gives_the_newest(tmp_path: Path) -> None:
    first, second = seen(1.0, "a.py", "b.py", untouched=("c.py",)), seen(2.0, "b.py")
    uses = (FunctionUse("b.py", "A.f", 3, 0.5, 0.25), FunctionUse("b.py", "g", 1, 0.1, 0.0))
    first = replace(first, functions=uses)
    other = seen(1.5, scenario=SCENARIOS[1])
    with Store.open(tmp_path / "store.db") as store:
        assert store.observations()[0] == []
        assert store.add_observations([second, other, first]) == 3
        assert store.add_observations([first, second]) == 0
        launches, found = store.observations()
        assert launches == [replace(first, functions=()), other, second]
        rows = zip(found.seen, found.path, found.name, found.calls, found.share, found.own, strict=True)
        assert [
            (int(seen), FunctionUse(found.texts[path], found.texts[name], int(calls), share, own))
            for seen, path, name, calls, share, own in rows
        ] == [(0, use) for use in uses]
        assert len(store.observations(paths=["a.py"])[1].seen) == 0
        assert len(store.observations(paths=["b.py"])[1].seen) == 2
        launches, found = store.observations(newest=1)
        assert launches == [other, second]
        assert len(found.seen) == 0
        assert store.last_observed() == 2.0
