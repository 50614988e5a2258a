"""`tithe select`: the scenarios that are worth running for a change."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Literal

import click

from tithe import options, output
from tithe.data.records import Candidate, Selection
from tithe.data.units import parse_budget
from tithe.knowledge import Way
from tithe.wiring import Project

SHOWN_REASONS = 2
"""Of each scenario in the table; the JSON has them all."""


def choose(
    project: Project,
    *,
    budget: str,
    base: str | None,
    head: str | None,
    seed: int,
    tier: Literal["change", "release"] = "change",
    model: str | None = None,
) -> Selection:
    """The selection for base..head; recorded in the store, where there is one."""
    from tithe.selector.history import History
    from tithe.selector.select import renamed, select

    seconds = parse_budget(budget)
    project.require_scenarios()
    base_sha, head_sha = project.revisions(base, head)
    change = project.repo.change(head_sha, base_sha)
    missing = project.unavailable(project.config.scenarios)
    selection = select(
        History(),  # `state` has learned it
        project.config,
        change,
        project.known.graph(change),
        project.known.model(model),
        budget=seconds,
        seed=seed,
        now=project.known.known_at(change),
        base=base_sha,
        head=head_sha,
        tier=tier,
        unavailable=missing,
        state=project.known.state(),
    )
    selection = renamed(selection, warnings=(*project.known.warnings(), *selection.warnings))
    if not project.way.snapshot:
        project.store.add_selection(selection, time.time())
    return selection


def selection_text(selection: Selection, style: str) -> str:
    """The selection as a table with its reasons, and what was left out."""
    diff = selection.diff
    files = f"{diff.files} file{'' if diff.files == 1 else 's'}"
    spent = sum(sum(candidate.cost.values()) for candidate in selection.selected)
    total = spent + sum(sum(candidate.cost.values()) for candidate in selection.rest)
    lines = [
        f"{output.short(selection.base)}..{output.short(selection.head)}: {files}, "
        f"+{diff.added} −{diff.deleted}; ranked by {_ranked_by(selection.model)}",
    ]
    if selection.selected:
        rows = [_row(candidate) for candidate in selection.selected]
        lines += ["", output.table(("rank", "scenario", "chance", "cost", "why"), rows, style), ""]
    lines.append(
        f"selected {len(selection.selected)} of {len(selection.selected) + len(selection.rest)} scenarios: "
        f"about {output.duration(spent)} of {output.duration(total)} that all of them would take"
    )
    if selection.rest:
        lines.append(
            "left out: "
            + ", ".join(
                f"{output.name(c.scenario)} ({output.percent(c.probability)}, {c.picked})"
                for c in selection.rest
            )
        )
    return "\n".join(lines) + output.warnings_text(selection.warnings)


def _ranked_by(model: str) -> str:
    return "the prior" if model == "prior" else f"model {output.name(model)}"


def _row(candidate: Candidate) -> tuple[object, ...]:
    cost = "+".join(
        output.duration(seconds)
        if resource == "cpu"
        else f"{output.duration(seconds)} {output.name(resource)}"
        for resource, seconds in candidate.cost.items()
    )
    reasons = "; ".join(output.name(reason, 80) for reason in candidate.reasons[:SHOWN_REASONS])
    return (
        candidate.rank,
        output.name(candidate.scenario),
        output.percent(candidate.probability),
        cost,
        reasons,
    )


MODEL_HELP = "Version of the model to rank with, or `prior`. [default: the promoted one]"
BUDGET_HELP = "Machine time for the whole decision, both arms: 60s, 30m, 1h30m, or cpu=2h,gpu=20m."


@click.command("select", short_help="Choose the scenarios that are worth running for a change.")
@click.option("--budget", required=True, help=BUDGET_HELP)
@options.change_options
@options.seed_option
@click.option(
    "--tier",
    type=click.Choice(["change", "release"]),
    default="change",
    show_default=True,
    help="release takes the scenarios of both tiers.",
)
@click.option("--model", help=MODEL_HELP)
@options.snapshot_options
@options.project_options
@options.format_options
def command(
    budget: str,
    base: str | None,
    head: str | None,
    seed: int,
    tier: Literal["change", "release"],
    model: str | None,
    way: Way,
    repo: Path,
    config_path: Path | None,
    style: str,
    output_path: Path | None,
) -> None:
    """Choose the scenarios that are worth running for a change, within a budget of machine time.

    Each is ranked by the chance that the change makes it slower or breaks it, against what finding out
    costs. With an empty store the documented prior serves: distance in the import graph and cost.
    """
    with Project(repo, config_path, way) as project:
        selection = choose(project, budget=budget, base=base, head=head, seed=seed, tier=tier, model=model)
        output.emit(selection, style, output_path, lambda style: selection_text(selection, style))
