"""`tithe scenarios`: what can be run, what it costs, when it last moved."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from tithe import options, output
from tithe.data.records import FAILING, Outcome, ScenarioName
from tithe.wiring import Project


@click.command("scenarios", short_help="List the scenarios, what they cost and when they last regressed.")
@options.project_options
@options.format_options
def command(repo: Path, config_path: Path | None, style: str, output_path: Path | None) -> None:
    """List the scenarios of tithe.toml with the seconds of a launch and their last regression.

    A scenario that this machine cannot run is listed with the reason.
    """
    with Project(repo, config_path) as project:
        seconds = project.store.launch_seconds()
        missing = project.unavailable(project.config.scenarios)
        last: dict[ScenarioName, Outcome] = {}
        for outcome in project.store.outcomes():
            if outcome.verdict in FAILING:
                last[outcome.scenario] = outcome
        document = {
            "schema": 1,
            "id": "scenarios",
            "scenarios": [
                {
                    "scenario": s.name,
                    "command": shlex.join(s.command),
                    "gate": list(s.gate),
                    "stop": s.stop,
                    "tier": s.tier,
                    "resource": s.resource,
                    "owner": s.owner,
                    "launch_s": seconds.get(s.name),
                    "last_regressed": last[s.name].change if s.name in last else None,
                    "unavailable": missing.get(s.name, ""),
                }
                for s in project.config.scenarios
            ],
        }

        def text(style: str) -> str:
            rows = [
                (
                    output.name(s.name),
                    s.tier,
                    s.resource,
                    ", ".join(s.gate),
                    f"{seconds[s.name]:.2f}" if s.name in seconds else "–",
                    output.short(last[s.name].change) if s.name in last else "–",
                    output.name(missing.get(s.name, "") or shlex.join(s.command), 70),
                )
                for s in project.config.scenarios
            ]
            headers = (
                "scenario",
                "tier",
                "resource",
                "gate",
                "launch s",
                "last regressed in",
                "command, or why not",
            )
            return (
                output.table(headers, rows, style)
                if rows
                else "no scenario is defined; add a [[scenario]] table"
            )

        output.emit(document, style, output_path, text)
