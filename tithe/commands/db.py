"""`tithe db check|migrate|backup|compact|export`: the store itself, apart from what is in it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tithe import options, output
from tithe.data import paths
from tithe.data.errors import EXIT_INFRASTRUCTURE, EXIT_OK, StoreError
from tithe.wiring import Project

if TYPE_CHECKING:
    from tithe.data.store import Store


@click.group("db", short_help="Check, back up, compact or export the store.")
def command() -> None:
    """Look after the store: the one SQLite file with all that is known."""


@command.command("check")
@options.project_options
@options.format_options
def check(repo: Path, config_path: Path | None, style: str, output_path: Path | None) -> None:
    """Read the whole store and say what is wrong with it. Exits with 3 if anything is."""
    with Project(repo, config_path) as project:
        with _opened(project, read_only=True) as store:
            faults = store.check()
            document = {"schema": 1, "id": _id("check"), "faults": faults, "counts": store.counts()}

        def text(_: str) -> str:
            if not faults:
                return "nothing is wrong with the store"
            lines = [f"fault: {output.name(fault, 200)}" for fault in faults[:20]]
            lines += [f"and {len(faults) - 20} more"] if len(faults) > 20 else []
            lines.append(
                "what can be read can be saved by `tithe db export`; git history and bundles can be ingested again"
            )
            return "\n".join(lines)

        output.emit(document, style, output_path, text)
        raise click.exceptions.Exit(EXIT_INFRASTRUCTURE if faults else EXIT_OK)


@command.command("migrate")
@options.project_options
@options.format_options
def migrate(repo: Path, config_path: Path | None, style: str, output_path: Path | None) -> None:
    """Bring a store that an older tithe wrote to the schema of this one.

    Every command that writes does so by itself; this one is for doing it at a time of your own, after a backup.
    """
    from tithe.data import database, migrations

    with Project(repo, config_path) as project:
        path = paths.store_path(project.repo.root)
        before = database.version(path)
        with _opened(project) as store:
            if faults := store.check():
                raise StoreError(
                    f"is damaged: {faults[0]}",
                    where=output.path_text(store.path),
                    mend="see `tithe db check`",
                )
            document = {
                "schema": 1,
                "id": _id("migrate"),
                "store": output.path_text(store.path),
                "before": before,
                "after": migrations.VERSION,
            }
        text = (
            f"the store was at version {before} and is at version {migrations.VERSION} now"
            if before != migrations.VERSION
            else f"the store is at version {before}, as this tithe writes it"
        )
        output.emit(document, style, output_path, lambda _: text)


@command.command("backup")
@click.argument("target", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@options.project_options
@options.format_options
def backup(target: Path, repo: Path, config_path: Path | None, style: str, output_path: Path | None) -> None:
    """Copy the store to FILE, whole, also while others write to it. An existing FILE is refused."""
    with Project(repo, config_path) as project:
        with _opened(project) as store:
            size = store.backup(target)
        document = {"schema": 1, "id": _id("backup"), "file": output.path_text(target), "bytes": size}
        output.emit(
            document,
            style,
            output_path,
            lambda _: f"wrote {output.name(output.path_text(target), 200)}, {size / 2**20:.1f} MiB",
        )


@command.command("compact")
@options.project_options
@options.format_options
def compact(repo: Path, config_path: Path | None, style: str, output_path: Path | None) -> None:
    """Give unused space of the store back to the disk. Nothing that is known goes."""
    with Project(repo, config_path) as project:
        with _opened(project) as store:
            before, after = store.compact()
        document = {"schema": 1, "id": _id("compact"), "before": before, "after": after}
        output.emit(
            document,
            style,
            output_path,
            lambda _: f"{before / 2**20:.1f} MiB before, {after / 2**20:.1f} MiB after",
        )


@command.command("export")
@click.argument("folder", metavar="FOLDER", type=click.Path(file_okay=False, path_type=Path))
@options.project_options
@options.format_options
def export(folder: Path, repo: Path, config_path: Path | None, style: str, output_path: Path | None) -> None:
    """Write everything in the store to FOLDER, one file of JSON lines for each kind of record.

    The records are those of the views in docs/schema.md, which do not change with the order of arrival.
    """
    with Project(repo, config_path) as project:
        with _opened(project) as store:
            counts = store.export(folder)
        document = {"schema": 1, "id": _id("export"), "folder": output.path_text(folder), "records": counts}
        output.emit(
            document,
            style,
            output_path,
            lambda style: output.table(
                ("file", "records"), [(f"{k}.jsonl", n) for k, n in counts.items()], style
            ),
        )


def _opened(project: Project, *, read_only: bool = False) -> Store:
    """The store that is there; none is made, since there would be nothing in it to look after."""
    from tithe.data.store import Store

    return Store.open(paths.store_path(project.repo.root), create=False, read_only=read_only)


def _id(what: str) -> str:
    return f"{what}-{int(time.time())}"
