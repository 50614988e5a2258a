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
    from tithe.data.locations import location
    from tithe.data.outbox import push as send

    with Project(repo, config_path) as project:
        place = location(url)
        report = send(source or paths.home(project.repo.root) / OUTBOX, place)

        def text(_: str) -> str:
            what = f"sent {len(report.sent)} bundles with {report.launches} launches to {place.shown}"
            left = f"; {report.waiting} wait here for the next call" if report.waiting else ""
            return what + left + output.warnings_text(report.faults)

        output.emit(
            {"schema": 1, "id": f"push-{len(report.sent)}", **_plain(report)}, style, output_path, text
        )
        raise click.exceptions.Exit(EXIT_INFRASTRUCTURE if report.faults else 0)


def _plain(report: object) -> dict[str, object]:
    from tithe.data.codec import to_plain

    plain: dict[str, object] = to_plain(report)
    return plain
