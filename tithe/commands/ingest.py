"""`tithe ingest git|spool`: what happened, into the store."""

from __future__ import annotations

from pathlib import Path

import click

from tithe import options, output
from tithe.wiring import Project


@click.group("ingest", short_help="Take in git history, or bundles of outcomes from other machines.")
def command() -> None:
    """Take in what happened: git history, or bundles of outcomes from other machines."""


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
