"""`tithe shrink`: the same code for less."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import click

from tithe import options, output
from tithe.data.records import ShrinkReport
from tithe.wiring import Project, new_run_id


def report_text(report: ShrinkReport, style: str) -> str:
    """What it costs now, what is lost, and the block for tithe.toml."""
    factor = report.cost_before_s / report.cost_after_s if report.cost_after_s else 1.0
    lines = [
        f"{output.name(report.scenario)}: {report.cost_before_s:.2f} s → {report.cost_after_s:.2f} s a launch "
        f"({factor:.1f} times cheaper)",
        f"command: {output.name(shlex.join(report.command), 400)}",
        f"stop: {report.stop}",
        "kept: " + ", ".join(f"{output.percent(share)} of {what}" for what, share in report.fidelity.items()),
    ]
    if report.signal:
        lines.append("signal: " + ", ".join(f"{what} {value:.3g}" for what, value in report.signal.items()))
    if report.lost:
        rows = [(output.name(name, 100),) for name in report.lost[:20]]
        lines += ["", output.table((f"lost ({len(report.lost)} in all)",), rows, style)]
    return "\n".join(lines) + output.warnings_text(report.warnings)


@click.command("shrink", short_help="Find a cheaper way to run a scenario that executes the same code.")
@click.argument("scenario")
@click.option("--head", help="The revision to shrink on. [default: the work tree]")
@options.project_options
@options.format_options
def command(
    scenario: str,
    head: str | None,
    repo: Path,
    config_path: Path | None,
    style: str,
    output_path: Path | None,
) -> None:
    """Find a cheaper way to run SCENARIO that still executes the same functions of this repository.

    For time to first batch the job is ended after its first optimizer step, which keeps everything before it
    by construction; for other metrics the number of steps is cut. Each candidate is run under a function
    counter and kept only if it loses nothing; times come from launches without the counter.
    """
    from tithe.shrinker.shrink import shrink

    with Project(repo, config_path) as project:
        target = project.config.scenario(scenario)
        sha = project.tip(head)
        with output.Progress() as progress:
            report = shrink(
                target,
                sha,
                project.executor,
                run=new_run_id(),
                sink=project.store.add_launches,
                progress=progress,
            )
        report = replace(report, warnings=(*report.warnings, *project.executor.notes))
        output.emit(report, style, output_path, lambda style: report_text(report, style))
