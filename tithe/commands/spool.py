"""`tithe spool push`: bundles of this machine to where the weekly job takes them in."""

from __future__ import annotations

from pathlib import Path

import click

from tithe import options, output
from tithe.data import paths
from tithe.wiring import OUTBOX, Project


@click.group("spool", short_help="Send what was measured here to where the weekly job takes it in.")
def command() -> None:
    """Send what was measured here to where the weekly job takes it in (`tithe ingest spool`)."""


@command.command("push")
@click.argument("url")
@click.option(
    "--from",
    "source",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"The folder to send from. [default: {paths.HOME}/{OUTBOX} of the repository]",
)
@options.project_options
@options.format_options
def push(
    url: str,
    source: Path | None,
    repo: Path,
    config_path: Path | None,
    style: str,
    output_path: Path | None,
) -> None:
    """Send the bundles of this machine to URL, also those of runs that were killed.

    A run with `--spool` sends its own. This is for what it could not send, and for CI jobs in which the step
    that runs a change's code must not have the credentials for the spool.
    """
    from tithe.data.errors import EXIT_INFRASTRUCTURE
    from tithe.data.locations import destination
    from tithe.data.outbox import push as send

    with Project(repo, config_path) as project:
        place = destination(url)
        report = send(_folder(project, source), place)

        def text(_: str) -> str:
            what = f"sent {len(report.sent)} bundles with {report.launches} launches to {place.shown}"
            left = f"; {report.waiting} wait here for the next call" if report.waiting else ""
            return what + left + output.warnings_text((*report.faults, *report.damaged))

        output.emit(
            {"schema": 1, "id": f"push-{len(report.sent)}", **_plain(report)}, style, output_path, text
        )
        raise click.exceptions.Exit(EXIT_INFRASTRUCTURE if report.faults or report.damaged else 0)


def _folder(project: Project, source: Path | None) -> Path:
    """The folder to send from. Where none was named and none is there, nothing has been measured: no fault."""
    from tithe.data.errors import UsageError
    from tithe.data.text import safe_line

    folder = source or paths.home(project.repo.root) / OUTBOX
    where = safe_line(str(folder), limit=1000)
    if folder.is_dir():
        return folder
    if folder.exists() or folder.is_symlink():
        raise UsageError("is not a folder", where=where, mend="remove it, or name the outbox with --from")
    if source is not None:
        mend = "name the outbox of a run with --spool, or leave out --from"
        raise UsageError("there is no such folder", where=where, mend=mend)
    return folder


def _plain(report: object) -> dict[str, object]:
    from tithe.data.codec import to_plain

    plain: dict[str, object] = to_plain(report)
    return plain
