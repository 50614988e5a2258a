"""`tithe graph`: which file leads to which, what is near a scenario, and why."""

from __future__ import annotations

from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tithe import options, output
from tithe.data.errors import UsageError
from tithe.data.records import ScenarioName
from tithe.data.text import safe_line
from tithe.wiring import Project

if TYPE_CHECKING:
    from tithe.data.graph import Dependencies, ScenarioGraph
    from tithe.data.graph_export import Step

EXPORTS = ("graphml", "dot", "csv")
HUBS = 10
NEAREST = 20


@click.command("graph", short_help="Show the dependency graph, and why a file is near a scenario.")
@click.argument("revision", required=False, metavar="[REVISION]")
@click.option("--scenario", "scenario_name", metavar="NAME", help="Show what is near this scenario.")
@click.option("--to", "target", metavar="PATH", help="Show the path of edges that makes this file near.")
@options.project_options
@click.option(
    "--format",
    "style",
    type=click.Choice([*options.FORMATS, *EXPORTS]),
    default="text",
    show_default=True,
    help="How to print the result; graphml, dot and csv are the graph itself, for other tools.",
)
@click.option(
    "--output",
    "output_path",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=output.writable,
    help="Write the result to this file too: the graph in its format where --format names one, else JSON.",
)
def command(
    revision: str | None,
    scenario_name: str | None,
    target: str | None,
    repo: Path,
    config_path: Path | None,
    style: str,
    output_path: Path | None,
) -> None:
    """Show the dependency graph of a revision (of the work tree, if none is named).

    Without options: its size, its hubs, and what could not be read. With --scenario: the files that are near
    to it; with --to as well: the best path of edges to a file, and what each step passes on. A file that
    --format graphml, dot or csv wrote can be read back by `edges` under `[graph]` in tithe.toml.
    """
    from tithe.data import graph_export, paths
    from tithe.data.graph import GraphBuilder

    with Project(repo, config_path) as project:
        chosen = project.config.scenario(scenario_name) if scenario_name else None
        sha = project.tip(revision)
        builder = GraphBuilder(project.repo, project.config, paths.cache_dir(project.repo.root))
        found, near = builder.dependencies(sha), project.known.observed(()).overlay(builder.build(sha), inf)
        if target is not None and target not in near.column and target not in found.files:
            raise UsageError(
                "this revision has no such file", where=safe_line(target), mend="give a path from the top"
            )
        graph = graph_export.to_networkx(found, {chosen.name} if chosen else None)
        if style in EXPORTS:
            text = graph_export.render(graph, style)  # type: ignore[arg-type]
            click.echo(text.encode(), nl=False)
            if output_path is not None:
                output.write_file(output_path, text)
            return
        names = [chosen.name] if chosen else _nearest_scenarios(near, target) if target else []
        steps = {name: graph_export.best_path(found, name, target) for name in names} if target else {}
        document = {
            "schema": 1,
            "id": "graph",
            "revision": sha,
            "files": len(found.files),
            "nodes": [{"path": node, "kind": graph.nodes[node]["kind"]} for node in sorted(graph)],
            "edges": [
                {"source": source, "target": end, "kind": told["kind"], "weight": told["weight"]}
                for source, end, told in sorted(graph.edges(data=True))
            ],
            "edges_by_kind": graph_export.kinds(graph),
            "hubs": graph_export.hubs(found, HUBS),
            "nearest": _nearest(near, chosen.name) if chosen else [],
            "paths": {name: list(path) for name, path in steps.items()},
            "warnings": list(found.warnings),
        }
        output.emit(
            document, style, output_path, lambda style: _text(document, found, near, steps, target, style)
        )


def _nearest(near: ScenarioGraph, name: str) -> list[dict[str, object]]:
    """The files that a scenario reaches, the nearest first."""
    row = near.row[ScenarioName(name)]
    reached = [at for at in range(len(near.files)) if near.proximity[row, at] > 0]
    reached.sort(key=lambda at: (-near.proximity[row, at], near.distance[row, at], near.files[at]))
    return [
        {
            "path": near.files[at],
            "hops": float(near.distance[row, at]),
            "proximity": round(float(near.proximity[row, at]), 4),
        }
        for at in reached
    ]


def _nearest_scenarios(near: ScenarioGraph, path: str) -> list[str]:
    """The scenarios that reach a file, the nearest first."""
    column = near.column.get(path)
    if column is None:
        return []
    close = near.proximity[:, column]
    reached = [at for at in range(len(near.scenarios)) if close[at] > 0]
    return [near.scenarios[at] for at in sorted(reached, key=lambda at: (-close[at], near.scenarios[at]))[:5]]


def _text(
    document: dict[str, object],
    found: Dependencies,
    near: ScenarioGraph,
    steps: dict[str, tuple[Step, ...]],
    target: str | None,
    style: str,
) -> str:
    from tithe.data.graph_export import steps_text

    counts = ", ".join(f"{count} {kind}" for kind, count in document["edges_by_kind"].items())  # type: ignore[attr-defined]
    nodes, edges = len(document["nodes"]), len(document["edges"])  # type: ignore[arg-type]
    parts = [
        f"{output.short(str(document['revision']))}: {document['files']} files; {nodes} nodes, {edges} edges"
        + (f": {counts}" if counts else "")
    ]
    nearest = document["nearest"]
    assert isinstance(nearest, list)  # noqa: S101 - made above
    if target is not None:
        for name, path in steps.items():
            told = 1.0 if path else 0.0
            for step in path:
                told *= step.passed
            reached = f"proximity {told:.3f}" if path else "no edges lead there"
            known = (
                float(near.proximity[near.row[ScenarioName(name)], near.column[target]])
                if target in near.column
                else told
            )
            if abs(known - told) > 1e-3:
                seen = "was seen to touch it" if known > told else "was seen to leave it alone"
                reached += f", {known:.3f} since a launch {seen}"
            parts.append(f"{output.name(name)} to {output.name(target, 120)}: {reached}")
            if path:
                parts.append(steps_text(path))
        if not steps:
            parts.append(f"no scenario reaches {output.name(target, 120)}")
    elif nearest:
        rows = [
            (output.name(str(row["path"]), 100), f"{row['hops']:g}", f"{row['proximity']:.3f}")
            for row in nearest[:NEAREST]
        ]
        parts.append(output.table(("nearest file", "hops", "proximity"), rows, style))
        if len(nearest) > NEAREST:
            parts.append(f"and {len(nearest) - NEAREST} more")
    else:
        hubs = document["hubs"]
        assert isinstance(hubs, list)  # noqa: S101 - made above
        rows = [(output.name(hub.path, 100), str(hub.fan_in), str(hub.scenarios)) for hub in hubs]
        if rows:
            headers = ("hub", "edges into it", f"of {len(found.scenarios)} scenarios reach it")
            parts.append(output.table(headers, rows, style))
    return "\n\n".join(parts) + output.warnings_text(found.warnings)
