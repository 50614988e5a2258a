"""`tithe snapshot publish|fetch|show`: the one file that a machine without a store needs."""

from __future__ import annotations

import time
from pathlib import Path

import click

from tithe import options, output
from tithe.data import paths
from tithe.wiring import Project

SHOW_HELP = "A folder or URL that `tithe snapshot publish` wrote to, or one .tithe-snapshot file."


@click.group("snapshot", short_help="Publish what machines without a store need, or look at it.")
def command() -> None:
    """Publish what machines without a store need, fetch it, or look at it.

    A snapshot is one file with the model, what was learned, costs, noise and the scanned files: with it and
    a checkout `tithe check --snapshot URL` needs nothing else.
    """


@command.command("publish")
@click.argument("url")
@click.option(
    "--keep",
    type=click.IntRange(min=2, max=500),
    default=10,
    show_default=True,
    help="Published snapshots that stay there, this one included.",
)
@options.project_options
@options.format_options
def publish(
    url: str, keep: int, repo: Path, config_path: Path | None, style: str, output_path: Path | None
) -> None:
    """Publish a snapshot of the store at URL, a folder or any URL that fsspec knows.

    It is written under a name of its own and then pointed to: readers see the old one or the new one.
    """
    from tithe.data import snapshot as files
    from tithe.data.graph import GraphBuilder
    from tithe.data.locations import destination
    from tithe.selector import snapshot

    with Project(repo, config_path) as project:
        place = destination(url)
        promoted = project.store.promoted()
        models = paths.models_dir(project.repo.root)
        counts, last = project.store.counts(), project.store.last_change()
        standing = project.known.standing
        standing.state.advance(project.known.latest + 1.0)
        files_of = GraphBuilder(project.repo, project.config, paths.cache_dir(project.repo.root))
        tip = project.main_branch()
        content = snapshot.build(
            standing.state,
            standing.launch_seconds,
            standing.noise,
            models / promoted if promoted else None,
            files_of.scans(tip),
            created_at=time.time(),
            counts=snapshot.Counts(counts["changes"], counts["outcomes"], last.sha if last else ""),
            observed=project.known.observed(),
            words=files_of.build(tip).words,
        )
        done = files.publish(place, content, time.time(), keep=keep)
        pointer, warnings = done.pointer, list(done.warnings)
        manifest = files.unpack(content, pointer.snapshot).manifest
        if not manifest.changes:
            warnings.append("the store knows no history: `tithe ingest git` reads it")
        document = {
            "schema": 1,
            "id": pointer.snapshot,
            "url": place.shown,
            "bytes": pointer.bytes,
            "manifest": manifest,
            "warnings": warnings,
        }
        output.emit(
            document,
            style,
            output_path,
            lambda _: (
                f"published {pointer.snapshot} ({_size(pointer.bytes)}) at {place.shown}\n{_told(manifest)}"
                + output.warnings_text(warnings)
            ),
        )


@command.command("fetch")
@click.argument("url")
@click.option(
    "--or-none",
    is_flag=True,
    help="Say so and exit with 0 where nothing has been published yet; any other fault stays one.",
)
@options.project_options
@options.format_options
def fetch(
    url: str, or_none: bool, repo: Path, config_path: Path | None, style: str, output_path: Path | None
) -> None:
    """Fetch the snapshot at URL, so that a later step without network or credentials has it.

    That step names the same URL: where it cannot be reached the fetched one serves.
    """
    from tithe.data.errors import MissingError
    from tithe.data.locations import shown

    try:
        _show(url, repo, config_path, style, output_path, keep=True)
    except MissingError:
        if not or_none:
            raise
        document = {"schema": 1, "id": "", "url": shown(url), "published": False, "warnings": []}
        output.emit(document, style, output_path, lambda _: f"nothing has been published at {shown(url)} yet")


@command.command("show")
@click.argument("url")
@options.project_options
@options.format_options
def show(url: str, repo: Path, config_path: Path | None, style: str, output_path: Path | None) -> None:
    """Show what is in the snapshot at URL: its age, history, model and size."""
    _show(url, repo, config_path, style, output_path, keep=False)


def _show(
    url: str, repo: Path, config_path: Path | None, style: str, output_path: Path | None, *, keep: bool
) -> None:
    from tithe.data.snapshot import fetch as fetched

    with Project(repo, config_path) as project:
        found = fetched(url, paths.cache_dir(project.repo.root) / "snapshots" if keep else None)
        document = {
            "schema": 1,
            "id": found.where.rpartition("/")[2],
            "bytes": found.size,
            "cached": found.cached,
            "manifest": found.manifest,
            "warnings": list(found.warnings),
        }
        output.emit(
            document,
            style,
            output_path,
            lambda _: (
                f"{found.where} ({_size(found.size)}{', was here already' if found.cached else ''})\n"
                f"{_told(found.manifest)}" + output.warnings_text(found.warnings)
            ),
        )


def _told(manifest: object) -> str:
    from tithe.data.snapshot import Manifest

    assert isinstance(manifest, Manifest)  # noqa: S101 - the annotation would import it for every command
    when = time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(manifest.created_at))
    ranked = "the prior" if manifest.model == "prior" else f"model {output.name(manifest.model)}"
    return (
        f"made {when} by tithe {output.name(manifest.tithe)}: {manifest.changes} changes up to "
        f"{output.short(manifest.tip) or 'none'}, {manifest.outcomes} outcomes, "
        f"{manifest.scenarios} scenarios; ranks by {ranked}"
    )


def _size(count: int) -> str:
    return f"{count / 1024:.1f} KiB" if count < 2**20 else f"{count / 2**20:.1f} MiB"
