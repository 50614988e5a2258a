"""`tithe sweep`: the broad set between two releases, to find what slipped through."""

from __future__ import annotations

from pathlib import Path

import click

from tithe import options, output
from tithe.commands.run import execute, exit_code, face, one_budget, report_text
from tithe.report import words
from tithe.wiring import Project


@click.command("sweep", short_help="A/B-test every scenario between two releases.")
@click.option("--base", required=True, help="The earlier release.")
@click.option("--head", required=True, help="The later release.")
@click.option("--budget", help="Start no further scenario once this much machine time is spent: 30m, 2h.")
@options.seed_option
@options.inconclusive_option
@options.project_options
@options.report_format_options
def command(
    base: str,
    head: str,
    budget: str | None,
    seed: int,
    fail_on_inconclusive: bool,
    repo: Path,
    config_path: Path | None,
    style: str,
    output_path: Path | None,
) -> None:
    """A/B-test every scenario, of both tiers, between two releases.

    What regressed can be handed to `tithe bisect`, which names the change; the commands are printed.
    """
    with Project(repo, config_path) as project:
        base_sha, head_sha = project.revisions(base, head)
        scenarios = project.scenarios(())
        report = execute(
            project,
            scenarios,
            base_sha,
            head_sha,
            kind="sweep",
            picked="swept",
            source="sweep",
            seed=seed,
            budget_s=one_budget(budget),
        )

        def text(style: str) -> str:
            import shlex

            found = words.alerts(report)
            lines = [
                f"  tithe bisect {shlex.quote(output.name(v.scenario))} --metric {shlex.quote(v.metric)} "
                f"--good {shlex.quote(output.name(base))} --bad {shlex.quote(output.name(head))}"
                for v in found
            ]
            more = ["\nto name the change behind each:\n" + "\n".join(lines)] if found else []
            return face(report, style, report_text(report), *more)

        output.emit(report, style, output_path, text)
        raise click.exceptions.Exit(exit_code(report, scenarios, fail_on_inconclusive=fail_on_inconclusive))
