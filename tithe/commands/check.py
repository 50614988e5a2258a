"""`tithe check`: select and run within one budget, the step for CI."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from tithe import options, output
from tithe.commands.run import execute, exit_code, face, report_text
from tithe.commands.select import BUDGET_HELP, MODEL_HELP, choose, selection_text
from tithe.data.records import CheckReport, RunReport, Selection, Sha
from tithe.knowledge import Way
from tithe.wiring import Project


@click.command("check", short_help="Select and run within a budget: the step for CI.")
@click.option("--budget", required=True, help=BUDGET_HELP)
@options.change_options
@options.seed_option
@options.inconclusive_option
@click.option("--model", help=MODEL_HELP)
@options.spool_option
@options.snapshot_options
@options.project_options
@options.report_format_options
def command(
    budget: str,
    base: str | None,
    head: str | None,
    seed: int,
    fail_on_inconclusive: bool,
    model: str | None,
    way: Way,
    repo: Path,
    config_path: Path | None,
    style: str,
    output_path: Path | None,
) -> None:
    """Select the scenarios that are worth it for a change and A/B-test them, within one budget.

    Exits with 1 if something regressed or broke and a second, independent run confirmed it.
    """
    with Project(repo, config_path, way) as project:
        report, code = checked(
            project,
            budget=budget,
            base=base,
            head=head,
            seed=seed,
            model=model,
            fail_on_inconclusive=fail_on_inconclusive,
            tell=show_selection if style == "text" else None,
        )
        output.emit(report, style, output_path, lambda style: face(report, style, result_text(report)))
        raise click.exceptions.Exit(code)


def checked(
    project: Project,
    *,
    budget: str,
    base: str | None,
    head: str | None,
    seed: int,
    model: str | None,
    fail_on_inconclusive: bool,
    tell: Callable[[Selection], None] | None = None,
) -> tuple[CheckReport, int]:
    """The result of a check, and the exit code that it asks for; `tell` hears of the selection beforehand."""
    selection = choose(project, budget=budget, base=base, head=head, seed=seed, model=model)
    if tell is not None:
        tell(selection)
    names = [candidate.scenario for candidate in selection.selected]
    scenarios = project.scenarios(names) if names else []
    result = execute(
        project,
        scenarios,
        Sha(selection.base),
        Sha(selection.head),
        kind="check",
        picked="chosen",
        source="ab",
        seed=seed,
        selection=selection,
        budget_s=sum(selection.budget.values()),
    )
    report = CheckReport(
        result.id,
        result.base,
        result.head,
        result.verdicts,
        result.spent_s,
        selection.warnings + result.warnings,
        selection,
    )
    left = {candidate.picked for candidate in selection.rest}
    code = exit_code(
        result,
        scenarios,
        fail_on_inconclusive=fail_on_inconclusive,
        undelivered=project.undelivered,
        unaffordable=not scenarios and bool(left & {"budget", "resource"}),
    )
    return report, code


def show_selection(selection: Selection) -> None:
    """Says what is going to be run, before minutes of it: a log without a terminal has no progress line."""
    click.echo(output.inert(selection_text(selection, "text")) + "\n")


def result_text(report: CheckReport) -> str:
    """The result as a table, with the warnings that the selection has not given yet."""
    rest = report.warnings[len(report.selection.warnings) :]
    return report_text(RunReport(report.id, report.base, report.head, report.verdicts, report.spent_s, rest))


def check_text(report: CheckReport) -> str:
    """Selection and result as tables; each warning once."""
    return f"{selection_text(report.selection, 'text')}\n\n{result_text(report)}"
