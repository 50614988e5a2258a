"""`tithe ci check|comment`: the steps of a CI job, which find out from the CI system what they are about."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tithe import options, output
from tithe.ci_job import Job, add_lines, job_of
from tithe.commands.check import checked, result_text, show_selection
from tithe.commands.select import BUDGET_HELP
from tithe.data.errors import (
    EXIT_INCONCLUSIVE,
    EXIT_INFRASTRUCTURE,
    EXIT_OK,
    EXIT_REGRESSED,
    TitheError,
    UsageError,
)
from tithe.knowledge import Way
from tithe.wiring import Project

if TYPE_CHECKING:
    from tithe.data.records import CheckReport

REPORT = ".tithe/report"
FILE = "report.json"


def report_folder(command: options.F) -> options.F:
    """Adds `--report`."""
    return click.option(
        "--report",
        "folder",
        type=click.Path(file_okay=False, path_type=Path),
        help=f"Folder for report.json, summary.md, comment.md and junit.xml. [default: {REPORT} of the repository]",
    )(command)


@click.group("ci", short_help="The steps of a CI job: check a change, comment on it.")
def command() -> None:
    """The steps of a CI job, for GitHub, GitLab, and by hand anywhere else.

    Which change is tested, against what, and whether it comes from a fork is read from the CI system's own
    variables. See docs/ci.md for jobs to start from.
    """


@command.command("check")
@click.option("--budget", required=True, help=BUDGET_HELP)
@click.option(
    "--base",
    help="The revision to compare with. [default: what the CI system says that the change is against]",
)
@click.option("--untrusted", is_flag=True, help="Take the policy from the base, as for a change from a fork.")
@options.seed_option
@options.inconclusive_option
@report_folder
@options.spool_option
@options.snapshot_options
@options.project_options
def check(
    budget: str,
    base: str | None,
    untrusted: bool,
    seed: int,
    fail_on_inconclusive: bool,
    folder: Path | None,
    way: Way,
    repo: Path,
    config_path: Path | None,
) -> None:
    """Check the commit that is checked out: select, run, and write every face of the result.

    A change from a fork brings its scenarios and no policy (--policy-from its base). On GitHub the summary and
    annotations are shown too. Exits as `tithe check` does.
    """
    try:
        report, code, folder = _checked(
            budget, base, untrusted, seed, fail_on_inconclusive, folder, way, repo, config_path
        )
    except TitheError as error:
        from tithe.markdown import inline

        add_lines("GITHUB_STEP_SUMMARY", f"## ⚠️ tithe: nothing can be said\n\n{inline(str(error), 800)}\n")
        _outputs({"exit-code": str(error.exit_code), "alert": "false"})
        raise
    click.echo(output.inert(result_text(report)))
    faults = faces(report, folder)
    if os.environ.get("GITHUB_ACTIONS") == "true":
        from tithe.report.github import commands

        for line in commands(report):
            click.echo(line)
    told = {"exit-code": str(code), "alert": str(code == EXIT_REGRESSED).lower(), "report": str(folder)}
    faults += _outputs(told)
    for fault in faults:
        click.echo(f"tithe: {fault}", err=True)
    if faults and code in (EXIT_OK, EXIT_INCONCLUSIVE):
        code = EXIT_INFRASTRUCTURE
    raise click.exceptions.Exit(code)


def _checked(
    budget: str,
    base: str | None,
    untrusted: bool,
    seed: int,
    fail_on_inconclusive: bool,
    folder: Path | None,
    way: Way,
    repo: Path,
    config_path: Path | None,
) -> tuple[CheckReport, int, Path]:
    with Project(repo, config_path, way) as project:
        job = job_of(os.environ, lambda: project.repo.named_parents("HEAD"))
        base = base or job.base or None
        if base is not None:
            base = _base(project, base)
        if (untrusted or not job.trusted) and not way.policy_from:
            if base is None:
                raise UsageError(
                    "a change that is not trusted needs the revision that its policy comes from",
                    mend="give --base or --policy-from",
                )
            project.way = replace(project.way, policy_from=base)
        report, code = checked(
            project,
            budget=budget,
            base=base,
            head="HEAD",
            seed=seed,
            model=None,
            fail_on_inconclusive=fail_on_inconclusive,
            tell=show_selection,
        )
        return report, code, folder or project.home.parent / REPORT


def _base(project: Project, base: str) -> str:
    try:
        return project.commit(base)
    except UsageError as error:
        if not project.repo.is_shallow():
            raise
        depth = "2" if base in project.repo.named_parents("HEAD") else "0"
        raise UsageError(
            "the commit to compare with is not in this shallow clone",
            where=output.short(base),
            mend=f"check out with fetch-depth: {depth} (GIT_DEPTH at GitLab), or let --deepen fetch it",
        ) from error


def faces(report: CheckReport, folder: Path) -> list[str]:
    """Writes every face of the result into `folder`, and the summary to where GitHub wants it; what failed."""
    from tithe.data.codec import to_json
    from tithe.report.junit import junit
    from tithe.report.summary import comment, summary

    told = summary(report)
    link = _job_link(os.environ)
    files = {
        FILE: to_json(report, indent=2) + "\n",
        "summary.md": told,
        "comment.md": comment(report, link),
        "junit.xml": junit(report),
    }
    faults = []
    try:
        for name, content in files.items():
            output.write_file(folder / name, content)
    except OSError as error:
        faults.append(f"{output.name(str(folder), 300)}: cannot be written: {error.strerror}")
    fault = add_lines("GITHUB_STEP_SUMMARY", told)
    return [*faults, fault] if fault else faults


def _job_link(environment: Mapping[str, str]) -> str:
    return job_of({**environment, "GITHUB_EVENT_PATH": ""}, tuple).link


def _outputs(values: Mapping[str, str]) -> list[str]:
    lines = "".join(f"{key}={output.name(value, 4000)}\n" for key, value in values.items())
    fault = add_lines("GITHUB_OUTPUT", lines)
    return [fault] if fault else []


@command.command("comment")
@report_folder
@click.option(
    "--repo", type=click.Path(file_okay=False, path_type=Path), default=Path(), help=options.REPO_HELP
)
def comment(folder: Path | None, repo: Path) -> None:
    """Show the result as one comment on the pull or merge request: made on an alert, then kept up to date.

    Needs GITHUB_TOKEN, or TITHE_GITLAB_TOKEN, with the right to comment. A fork's job has no such token, and
    nothing is done.
    """
    from tithe.commands.report import load
    from tithe.forge import post
    from tithe.report import words
    from tithe.report.summary import comment as body_of

    with Project(repo) as project:
        folder = folder or project.repo.root / REPORT
        job: Job = job_of(os.environ, lambda: project.repo.named_parents("HEAD"))
    if not job.trusted:
        click.echo("a fork's job may not comment: the summary has the result")
        return
    report = load(folder / FILE)
    alert = bool(words.alerts(report))
    click.echo(post(job, body_of(report, job.link), alert=alert, environment=os.environ))
