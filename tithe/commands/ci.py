"""`tithe ci check|comment`: the steps of a CI job, which find out from the CI system what they are about."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tithe import options, output
from tithe.ci_job import Head, Job, add_lines, job_of, link_of
from tithe.commands.check import checked, result_text, show_selection
from tithe.commands.select import BUDGET_HELP
from tithe.data import paths
from tithe.data.errors import (
    EXIT_INCONCLUSIVE,
    EXIT_INFRASTRUCTURE,
    EXIT_OK,
    EXIT_REGRESSED,
    TitheError,
    UsageError,
)
from tithe.knowledge import Way
from tithe.wiring import OUTBOX, Project

if TYPE_CHECKING:
    from tithe.data.records import CheckReport

REPORT = ".tithe/report"
FILE = "report.json"
FACES = (FILE, "summary.md", "comment.md", "junit.xml")


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
    callback=options.not_empty,
    help="The revision to compare with. [default: what the CI system says that the change is against]",
)
@click.option("--untrusted", is_flag=True, help="Take the policy from the base, as for a change from a fork.")
@click.option(
    "--outbox",
    is_flag=True,
    help=f"Keep what was measured in {paths.HOME}/{OUTBOX} for a later `tithe ci push`, instead of the store.",
)
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
    outbox: bool,
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
    if outbox and way.spool:
        raise UsageError("--outbox and --spool exclude each other", mend="leave one of them out")
    code = EXIT_INFRASTRUCTURE
    told: dict[str, str] = {}
    faults: list[str] = []
    try:
        with Project(repo, config_path, way) as project:
            folder = folder or project.home.parent / REPORT
            faults += _cleared(folder)
            if outbox:
                project.way = replace(way, spool=str(project.home / OUTBOX))
            report, code = _checked(project, budget, base, untrusted, seed, fail_on_inconclusive)
        click.echo(output.inert(result_text(report)))
        faults += faces(report, folder)
        told = {"report": str(folder)}
        if os.environ.get("GITHUB_ACTIONS") == "true":
            from tithe.report.github import commands

            for line in commands(report):
                click.echo(line)
    except TitheError as error:
        from tithe.markdown import inline

        code = error.exit_code
        add_lines("GITHUB_STEP_SUMMARY", f"## ⚠️ tithe: nothing can be said\n\n{inline(str(error), 800)}\n")
        raise
    finally:
        # Also where a fault of ours or a signal ends it: a later step must not take the silence for a success.
        if faults and code in (EXIT_OK, EXIT_INCONCLUSIVE):
            code = EXIT_INFRASTRUCTURE
        fault = _outputs({"exit-code": str(code), "alert": str(code == EXIT_REGRESSED).lower(), **told})
        if fault and code in (EXIT_OK, EXIT_INCONCLUSIVE):
            code = EXIT_INFRASTRUCTURE
        for line in (*faults, fault):
            if line:
                click.echo(f"tithe: {line}", err=True)
    raise click.exceptions.Exit(code)


def _cleared(folder: Path) -> list[str]:
    """Removes the faces of an earlier result, so that nobody takes them for this one's; what failed."""
    try:
        for path in (folder / name for name in FACES):
            if os.path.lexists(path):
                path.unlink()
    except OSError as error:
        return [f"{output.name(str(path), 300)}: an earlier result cannot be removed: {error.strerror}"]
    return []


def _checked(
    project: Project,
    budget: str,
    base: str | None,
    untrusted: bool,
    seed: int,
    fail_on_inconclusive: bool,
) -> tuple[CheckReport, int]:
    job = job_of(os.environ, lambda: _head(project))
    given = base is not None
    if job.absent and not given:
        raise UsageError(
            "the commit that is checked out is not the change that the event is about",
            where=output.short(project.repo.head()),
            mend="use the event pull_request, and check out what it names (its default)",
        )
    base = base or job.base or None
    lost = ""
    if base is not None:
        try:
            base = _base(project, base, moving=job.moving and not given)
        except UsageError:
            if given or not job.forced:
                raise
            # The branch was pushed with force: what it was before may be nowhere any more.
            lost, base = f"{output.short(base)} is gone: compared with the commit before instead", None
    if (untrusted or not job.trusted) and not project.way.policy_from:
        if base is None:
            raise UsageError(
                "a change that is not trusted needs the revision that its policy comes from",
                mend="give --base or --policy-from",
            )
        project.way = replace(project.way, policy_from=base)
    if base is not None and base == project.repo.head():
        raise UsageError(
            "is checked out, and is what the change is to be compared with",
            where=output.short(base),
            mend="check out the change itself",
        )
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
    return (replace(report, warnings=(*report.warnings, lost)) if lost else report), code


def _head(project: Project) -> Head:
    return Head(project.repo.head(), project.repo.named_parents("HEAD"))


def _base(project: Project, base: str, *, moving: bool = False) -> str:
    """The commit that `base` names; where it is the tip of a branch that moves on, where the change left it."""
    try:
        commit = project.commit(base)
        return project.merge_base(commit, project.repo.head()) if moving else commit
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
    link = link_of(os.environ)
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


def _outputs(values: Mapping[str, str]) -> str:
    return add_lines(
        "GITHUB_OUTPUT", "".join(f"{key}={output.name(value, 4000)}\n" for key, value in values.items())
    )


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
        job: Job = job_of(os.environ, lambda: _head(project))
        head = project.repo.head()
    if not job.trusted:
        click.echo("a fork's job may not comment: the summary has the result")
        return
    path = folder / FILE
    if path.is_symlink() or (path.exists() and not path.is_file()):
        shown = output.name(str(path), 300)
        raise UsageError("is no regular file", where=shown, mend="`tithe ci check` writes it")
    report = load(path)
    if report.head != head:
        raise UsageError(
            f"is about {output.short(report.head)}, and {output.short(head)} is checked out",
            where=output.name(str(folder / FILE), 300),
            mend="comment after `tithe ci check` of the same commit",
        )
    alert = bool(words.alerts(report))
    click.echo(post(job, body_of(report, job.link), alert=alert, environment=os.environ))


@command.command("push")
@click.argument("url")
@click.option(
    "--repo", type=click.Path(file_okay=False, path_type=Path), default=Path(), help=options.REPO_HELP
)
@click.pass_context
def push(context: click.Context, url: str, repo: Path) -> None:
    """Send the bundles of this machine to URL, as `tithe spool push` does, but for those of a stranger's job.

    What a fork's job has measured is not to be learned from unseen; it stays where it is.
    """
    from tithe.commands.spool import push as send

    with Project(repo) as project:
        job: Job = job_of(os.environ, lambda: _head(project))
    if not job.trusted:
        click.echo(f"a fork's job sends nothing: what it measured stays in {paths.HOME}/{OUTBOX}")
        return
    context.invoke(send, url=url, source=None, repo=repo, config_path=None, style="text", output_path=None)
