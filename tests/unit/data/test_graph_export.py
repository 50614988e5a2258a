"""The graph as networkx has it, the best path to a file, and what other tools read of it."""

from __future__ import annotations

import math

import pytest

from tests.unit.data.test_graph import PACKAGE, Repo, config_of, scenario
from tithe.data import graph_export
from tithe.data.errors import UsageError
from tithe.data.graph import Dependencies, GraphBuilder
from tithe.data.records import ScenarioName, Sha

SCENARIOS = (
    scenario("python train.py", "train"),
    scenario("python -m pkg.unused", "unused"),
    scenario("python helper.py --config configs/lm.yaml", "config"),
)


def builder(files: dict[str, str]) -> GraphBuilder:
    return GraphBuilder(Repo({"r": files}), config_of(*SCENARIOS))


def test_nodes_and_edges_say_what_they_are() -> None:
    graph = graph_export.to_networkx(builder(PACKAGE | {"uv.lock": ""}).dependencies(Sha("r")))
    assert graph.nodes["train.py"] == {"kind": "module"}
    assert graph.nodes["configs/lm.yaml"] == {"kind": "config"}
    assert graph.nodes["uv.lock"] == {"kind": "environment"}
    assert graph.nodes["scenario:train"] == {"kind": "scenario"}
    assert graph.edges["scenario:train", "train.py"] == {"kind": "entry", "weight": 1.0}
    assert graph.edges["src/pkg/loader.py", "src/pkg/logging.py"]["kind"] == "lazy"
    assert 0 < graph.edges["train.py", "helper.py"]["weight"] < 1
    assert graph_export.kinds(graph)["import"] == 6
    assert sum(graph_export.kinds(graph).values()) == graph.number_of_edges()


def test_one_scenario_has_what_it_reaches() -> None:
    found = builder(PACKAGE).dependencies(Sha("r"))
    graph = graph_export.to_networkx(found, {"train"})
    assert "src/pkg/unused.py" not in graph
    assert "src/pkg/logging.py" in graph


@pytest.mark.parametrize("name", [s.name for s in SCENARIOS])
def test_the_best_path_explains_the_proximity(name: ScenarioName) -> None:
    made = builder(PACKAGE)
    found, near = made.dependencies(Sha("r")), made.build(Sha("r"))
    for path in near.files:
        steps = graph_export.best_path(found, name, path)
        told = math.prod(step.passed for step in steps) if steps else 0.0
        assert told == pytest.approx(float(near.proximity[near.row[name], near.column[path]]), rel=1e-5)
        if steps:
            assert steps[0].kind == "entry"
            assert steps[-1].target == path
            assert path in graph_export.steps_text(steps)
    assert graph_export.best_path(found, name, "absent.py") == ()


def test_hubs_are_counted_with_the_scenarios_that_reach_them() -> None:
    top = graph_export.hubs(builder(PACKAGE).dependencies(Sha("r")), 1)
    assert top == [graph_export.Hub("src/pkg/__init__.py", 5, 3)]


def test_a_name_that_xml_cannot_have_is_told() -> None:
    found = Dependencies((), (), (("a\x01.py", "b.py", "import"),), ("a\x01.py", "b.py"))
    graph = graph_export.to_networkx(found)
    with pytest.raises(UsageError, match="control character"):
        graph_export.render(graph, "graphml")
    assert "a\x01.py" in graph_export.render(graph, "dot")
