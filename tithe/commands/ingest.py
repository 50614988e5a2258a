"""`tithe ingest git|spool|results`: what happened, into the store."""

from __future__ import annotations

from pathlib import Path

import click

from tithe import options, output
from tithe.wiring import Project


@click.group("ingest", short_help="Take in git history, bundles, or results of other tools.")
def command() -> None:
    """Take in what happened: git history, bundles of outcomes from other machines, results of other tools."""


@command.command("git")
@options.project_options
@options.format_options
def git(repo: Path, config_path: Path | None, style: str, output_path: Path | None) -> None:
    """Take in the first-parent history of the main branch, and the tags.

    Only what is new since the last call is read.
    """
    with Project(repo, config_path) as project:
        store = project.store
        tip = project.main_branch()
        known = store.last_change()
        rewritten = 0
        if known is not None and known.sha != tip and known.sha not in (kept := project.repo.on_history(tip)):
            rewritten = store.rewind(kept)
            known = store.last_change()
        first = store.first_change()
        if first is not None and known is not None and project.repo.has_parent(first):
            known = None  # the clone was shallow and is deeper now: every place on history is another one
        added = store.add_changes(project.repo.first_parent(tip, after=known.sha if known else None))
        store.set_tags(project.repo.tags())
        total = store.counts()["changes"]
        warnings = []
        if rewritten:
            warnings.append(
                f"{project.config.main} was rewritten: {rewritten} changes are on its history no more; "
                "what was measured of them is kept"
            )
        if project.repo.is_shallow():
            warnings.append(
                "this is a shallow clone: older history is missing; `git fetch --unshallow` brings it"
            )
        document = {
            "schema": 1,
            "id": f"git-{tip}",
            "added": added,
            "changes": total,
            "tip": tip,
            "warnings": warnings,
        }
        output.emit(
            document,
            style,
            output_path,
            lambda _: (
                f"{added} new changes, {total} in all, up to {output.short(tip)}"
                + output.warnings_text(warnings)
            ),
        )


@command.command("spool")
@click.argument("source", metavar="SOURCE")
@options.project_options
@options.format_options
def spool(source: str, repo: Path, config_path: Path | None, style: str, output_path: Path | None) -> None:
    """Take in the bundles in SOURCE: a folder, a URL, or one file.

    A bundle that is there already is not taken twice, and the order does not matter.
    """
    from tithe.data.spool import ingest

    with Project(repo, config_path) as project:
        report = ingest(project.store, source)
        project.known.keep()

        def text(_: str) -> str:
            added = (
                ", ".join(f"{count} {kind}" for kind, count in sorted(report.added.items())) or "nothing new"
            )
            lines = [f"{report.bundles} bundles read, {report.already} known already: {added}"]
            lines += [
                f"skipped {output.name(path, 200)}: {output.name(why, 300)}" for path, why in report.skipped
            ]
            return "\n".join(lines)

        output.emit(report, style, output_path, text)
        if report.skipped:
            from tithe.data.errors import EXIT_INFRASTRUCTURE

            raise click.exceptions.Exit(EXIT_INFRASTRUCTURE)


@command.command("results")
@click.argument(
    "paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(exists=True, path_type=Path)
)
@click.option(
    "--from",
    "tool",
    type=click.Choice(["asv", "pyperf", "pytest-benchmark", "hyperfine", "junit", "csv"]),
    default=None,
    help="The tool that wrote them. [default: the content tells]",
)
@click.option("--commit", default="", help="The revision that they were measured on, where they do not say.")
@click.option("--host", default="", metavar="NAME", help="The machine, where they do not say.")
@click.option("--unit", default="", help="The unit of the values, where they do not say or say wrongly.")
@click.option("--prefix", default="", metavar="TEXT", help="Put before the names of the benchmarks.")
@click.option(
    "--smallest",
    type=click.FloatRange(0.001, 10),
    default=0.05,
    show_default=True,
    help="Relative effect from which on a step is one.",
)
@options.project_options
@options.format_options
def results(
    paths: tuple[Path, ...],
    tool: str | None,
    commit: str,
    host: str,
    unit: str,
    prefix: str,
    smallest: float,
    repo: Path,
    config_path: Path | None,
    style: str,
    output_path: Path | None,
) -> None:
    """Take in what other tools measured, and find where each benchmark stepped.

    PATH is a file or a folder, such as the results of asv. Each benchmark becomes a scenario's history: a step is an
    outcome of the commit that it lies at, and is known from its fifth witness on; where nothing stepped is an outcome
    too. Run `tithe ingest git` first: a commit that is not on its history has no place in a series.
    """
    from tithe.data.errors import EXIT_INFRASTRUCTURE
    from tithe.results import take_in

    with Project(repo, config_path) as project:
        with output.Progress() as progress:
            report = take_in(
                project,
                paths,
                tool=tool or "",
                commit=commit,
                host=host,
                unit=unit,
                prefix=prefix,
                smallest=smallest,
                progress=progress,
            )
            project.known.keep()

        def text(style: str) -> str:
            lines = [
                f"{report.files} files, {report.points} points, {report.added} of them new; "
                f"{report.series} series, {report.steps} steps, {report.outcomes} new outcomes"
            ]
            if report.unknown:
                named = ", ".join(output.short(commit) for commit in report.first_unknown)
                lines.append(
                    f"left out: {report.unknown} points of commits that are not on {project.config.main}, "
                    f"such as {named}"
                )
            if report.refused:
                rows = [
                    (output.name(one.where, 80), output.name(one.why, 100)) for one in report.first_refused
                ]
                more = report.refused - len(rows)
                lines += ["", output.table(("refused", "because it"), rows, style)]
                lines += [f"and {more} more"] if more else []
            return "\n".join(lines)

        output.emit(report, style, output_path, text)
        if report.refused and not report.points:
            raise click.exceptions.Exit(EXIT_INFRASTRUCTURE)
