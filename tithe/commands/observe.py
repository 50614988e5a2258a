"""`tithe observe`: which files each scenario really loads and opens, so that the graph knows."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tithe import options, output
from tithe.data.errors import EXIT_INFRASTRUCTURE, EXIT_OK
from tithe.data.records import FunctionUse, Observation, Scenario
from tithe.wiring import Project

if TYPE_CHECKING:
    from tithe.data.graph import ScenarioGraph
    from tithe.runner.local import FilesSeen


@click.command("observe", short_help="Watch which files and functions the scenarios use, for the graph.")
@click.argument("names", nargs=-1, metavar="[SCENARIO...]")
@click.option("--head", help="The revision to run. [default: the work tree, uncommitted changes included]")
@click.option(
    "--launches",
    type=click.IntRange(1, 20),
    default=1,
    show_default=True,
    help="Launches of each scenario; what none of several touches fades.",
)
@options.project_options
@options.format_options
def command(
    names: tuple[str, ...],
    head: str | None,
    launches: int,
    repo: Path,
    config_path: Path | None,
    style: str,
    output_path: Path | None,
) -> None:
    """Launch each scenario once more, watched and not timed, and keep which files and functions it used.

    From then on a file that was touched is near to the scenario, whatever its text says, and one that the text
    leads to and that no launch touches fades; of a function that a change touches it is known how much of the
    scenario's time it takes. Seen is what Python loads, opens or executes, in all processes; not what C code opens
    by itself. The weekly job does well to call it.
    """
    from tithe.data import paths
    from tithe.data.graph import GraphBuilder

    with Project(repo, config_path) as project:
        scenarios = project.scenarios(names)
        missing = project.unavailable(scenarios)
        sha = project.tip(head)
        builder = GraphBuilder(project.repo, project.config, paths.cache_dir(project.repo.root))
        found, graph = builder.dependencies(sha), builder.build(sha)
        executor = project.executor
        warnings = [f"{name} was not run: {why}" for name, why in missing.items()]
        rows: list[dict[str, object]] = []
        entries = dict(zip(found.scenarios, found.entries, strict=True))
        with output.Progress() as progress:
            for scenario in scenarios:
                if scenario.name in missing:
                    continue
                kept: list[Observation] = []
                for at in range(launches):
                    progress(f"{scenario.name}: launch {at + 1} of {launches}")
                    seen = executor.observe(scenario, sha)
                    if fault := _fault(seen):
                        warnings.append(f"{scenario.name}: {fault}; what it touched is not kept")
                        break
                    tracked = seen.paths.intersection(found.files)
                    reached = _reached(graph, scenario) - set(entries[scenario.name])
                    observation = Observation(
                        scenario.name,
                        sha,
                        time.time(),
                        tuple(sorted(tracked)),
                        tuple(sorted(reached - tracked)),
                        _functions(seen, tracked),
                    )
                    project.store.add_observations([observation])
                    kept.append(observation)
                if kept:
                    rows.append(_row(kept, _reached(graph, scenario)))
        document = {
            "schema": 1,
            "id": "observe",
            "head": sha,
            "observed": rows,
            "spent_s": executor.spent(),
            "warnings": [output.plain(line) for line in (*warnings, *executor.notes)],
        }

        def text(style: str) -> str:
            headers = (
                "scenario",
                "launches",
                "files touched",
                "text leads to",
                "of them touched",
                "unforeseen",
            )
            cells = [(output.name(str(row["scenario"])), *(str(row[key]) for key in KEYS)) for row in rows]
            shown = output.table(headers, cells, style) if rows else "nothing was observed"
            return shown + output.warnings_text(document["warnings"])  # type: ignore[arg-type]

        output.emit(document, style, output_path, text)
        raise click.exceptions.Exit(EXIT_OK if rows or not scenarios else EXIT_INFRASTRUCTURE)


MOST_FUNCTIONS = 2000
"""Of one launch: what is below takes next to nothing of it."""
KEYS = ("launches", "touched", "reached", "reached_touched", "unforeseen_count")


def _fault(seen: FilesSeen) -> str:
    """Why a launch says nothing about the scenario; empty if it does."""
    if seen.status not in ("ok", "unmarked"):
        return seen.note
    return "" if seen.python else "no Python process was seen, and others cannot be watched"


def _functions(seen: FilesSeen, tracked: frozenset[str]) -> tuple[FunctionUse, ...]:
    """Those that take most of the launch, by path and name; what each takes is never more than all of it."""
    if seen.seconds <= 0:
        return ()
    uses = [
        FunctionUse(
            path,
            name,
            min(times.calls, 2**53),
            round(min(times.seconds / seen.seconds, 1.0), 6),
            round(min(times.own_s / seen.seconds, 1.0), 6),
        )
        for (path, name), times in seen.functions.items()
        if path in tracked
    ]
    uses.sort(key=lambda use: (-use.share, -use.calls, use.path, use.name))
    return tuple(sorted(uses[:MOST_FUNCTIONS], key=lambda use: (use.path, use.name)))


def _reached(graph: ScenarioGraph, scenario: Scenario) -> set[str]:
    row = graph.proximity[graph.row[scenario.name]]
    return {path for path, at in graph.column.items() if row[at] > 0}


def _row(kept: list[Observation], reached: set[str]) -> dict[str, object]:
    touched = {path for seen in kept for path in seen.touched}
    unforeseen = sorted(touched - reached)
    return {
        "scenario": kept[0].scenario,
        "launches": len(kept),
        "touched": len(touched),
        "reached": len(reached),
        "reached_touched": len(touched & reached),
        "unforeseen_count": len(unforeseen),
        "unforeseen": unforeseen,
    }
