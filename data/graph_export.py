"""The dependency graph of a revision as networkx and other tools have it, and why a scenario reaches a file.

The fast form of the graph is two arrays (`tithe.data.graph.ScenarioGraph`); this one is for people and for
programs that do something else with it. What is written here, `tithe.data.graph_files` reads back as the same
edges. networkx is imported when it is needed, which `tithe select` never does.
"""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from tithe.data.environment_files import is_dependencies
from tithe.data.errors import UsageError
from tithe.data.graph import Dependencies
from tithe.data.graph_files import ENTRY
from tithe.data.names import SCANNED_SUFFIXES
from tithe.data.reach import reachable, weights
from tithe.data.records import ScenarioName
from tithe.data.text import safe_line

if TYPE_CHECKING:
    import networkx

    Graph = networkx.DiGraph[str]

Format = Literal["graphml", "dot", "csv"]
SCENARIO = "scenario:"
"""Before the name of a scenario that is a node; its edges, of kind `entry`, are left out when they are read back."""

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Step:
    """One edge of a path: `source` is empty for the entry that it begins with, whose kind is `entry`."""

    source: str
    target: str
    kind: str
    passed: float
    """What it passes on of the proximity, in (0, 1]."""


@dataclass(frozen=True)
class Hub:
    """A file with many edges into it, and how many scenarios reach it."""

    path: str
    fan_in: int
    scenarios: int


def kind_of(path: str) -> str:
    """What kind of node a file is: `module`, `environment`, `config` or `data`."""
    if is_dependencies(path):
        return "environment"
    if path.endswith(".py"):
        return "module"
    return "config" if path.endswith(SCANNED_SUFFIXES) else "data"


def edge_weights(found: Dependencies) -> dict[tuple[str, str], float]:
    """What each edge passes on of the proximity; only of those that some scenario gets to."""
    triples = reachable(found.entries, found.edges)
    if not triples:
        return {}
    number = {path: at for at, path in enumerate(sorted({p for s, t, _ in triples for p in (s, t)}))}
    source = np.array([number[s] for s, _, _ in triples], dtype=np.intp)
    target = np.array([number[t] for _, t, _ in triples], dtype=np.intp)
    passed = weights(source, target, [kind for _, _, kind in triples])
    return {(s, t): float(w) for (s, t, _), w in zip(triples, passed, strict=True)}


def to_networkx(found: Dependencies, scenarios: Collection[str] | None = None) -> Graph:
    """The graph with files and scenarios as nodes.

    Nodes have `kind` (see `kind_of`; `scenario`). Edges have `kind` and `weight`, what they pass on of the
    proximity: 0 where no scenario gets to them. Edges of kind `entry` lead from a scenario to where it starts.

    Args:
        scenarios: Only what these reach; None for the whole revision.
    """
    import networkx

    graph: Graph = networkx.DiGraph()
    chosen = [at for at, name in enumerate(found.scenarios) if scenarios is None or name in scenarios]
    starts = [found.entries[at] for at in chosen]
    passed = edge_weights(found)
    edges = found.edges if scenarios is None else reachable(starts, found.edges)
    for path in sorted({p for s, t, _ in edges for p in (s, t)} | {p for start in starts for p in start}):
        graph.add_node(path, kind=kind_of(path))
    for source, target, kind in edges:
        graph.add_edge(source, target, kind=kind, weight=passed.get((source, target), 0.0))
    for at, start in zip(chosen, starts, strict=True):
        node = SCENARIO + found.scenarios[at]
        graph.add_node(node, kind="scenario")
        for path, (_, near) in sorted(start.items()):
            graph.add_edge(node, path, kind=ENTRY, weight=near)
    return graph


def kinds(graph: Graph) -> dict[str, int]:
    """Edges by kind, most frequent first."""
    counted = Counter(str(graph.edges[edge]["kind"]) for edge in graph.edges)
    return dict(sorted(counted.items(), key=lambda item: (-item[1], item[0])))


def hubs(found: Dependencies, most: int) -> list[Hub]:
    """The files with most edges into them, and how many scenarios reach each."""
    fan_in = Counter(target for _, target, _ in found.edges)
    top = sorted(fan_in, key=lambda path: (-fan_in[path], path))[:most]
    back: dict[str, list[str]] = {}
    for source, target, _ in found.edges:
        back.setdefault(target, []).append(source)
    told = []
    for path in top:
        seen, stack = {path}, [path]
        while stack:
            for source in back.get(stack.pop(), ()):
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
        told.append(Hub(path, fan_in[path], sum(not seen.isdisjoint(entry) for entry in found.entries)))
    return told


def best_path(found: Dependencies, scenario: str, target: str) -> tuple[Step, ...]:
    """The path that makes `target` as near to a scenario as it is; empty if there is none.

    The product of what its steps pass on is the proximity.
    """
    import networkx

    at = found.scenarios.index(ScenarioName(scenario))
    kind = {(s, t): k for s, t, k in found.edges}
    graph: Graph = networkx.DiGraph()
    for (source, end), passed in edge_weights(found).items():
        graph.add_edge(source, end, cost=-math.log(passed))
    for path, (_, near) in found.entries[at].items():
        graph.add_edge("", path, cost=-math.log(near))
    try:
        nodes = networkx.dijkstra_path(graph, "", target, weight="cost")
    except (networkx.NetworkXNoPath, networkx.NodeNotFound):
        return ()
    return tuple(
        Step(source, end, kind.get((source, end), ENTRY), math.exp(-graph.edges[source, end]["cost"]))
        for source, end in itertools.pairwise(nodes)
    )


def render(graph: Graph, form: Format) -> str:
    """The graph in a format that other tools read; its edges are what `graph_files.read` gives back.

    Raises:
        UsageError: a path cannot be written in XML.
    """
    if form == "csv":
        return "".join(_csv(graph))
    if form == "dot":
        return "".join(_dot(graph))
    if odd := next((node for node in graph if _NO_XML.search(node)), None):
        raise UsageError(
            "cannot be written in XML: its name has a control character",
            where=safe_line(odd),
            mend="choose --format csv or dot",
        )
    import networkx

    return "\n".join(networkx.generate_graphml(graph)) + "\n"


def _csv(graph: Graph) -> Iterator[str]:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(("source", "target", "kind", "weight"))
    for source, target, told in sorted(graph.edges(data=True)):
        ends = ("./" + end if end.startswith("#") else end for end in (source, target))
        writer.writerow((*ends, told["kind"], f"{told['weight']:.6g}"))
    yield buffer.getvalue()


def _dot(graph: Graph) -> Iterator[str]:
    yield "digraph dependencies {\n"
    for node in sorted(graph):
        yield f"  {_quoted(node)} [kind={_quoted(graph.nodes[node]['kind'])}];\n"
    for source, target, told in sorted(graph.edges(data=True)):
        given = f"kind={_quoted(told['kind'])}, weight={_quoted(format(told['weight'], '.6g'))}"
        yield f"  {_quoted(source)} -> {_quoted(target)} [{given}];\n"
    yield "}\n"


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def steps_text(steps: Sequence[Step]) -> str:
    """The path on a few lines, one step each."""
    lines = [safe_line(steps[0].target, limit=120)] if steps else []
    for depth, step in enumerate(steps[1:]):
        lines.append(
            f"{'  ' * depth}└ {step.kind} → {safe_line(step.target, limit=120)}  × {step.passed:.2f}"
        )
    return "\n".join(lines)
