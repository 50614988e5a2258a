"""`tithe demo`: a real repository with real faults to try everything on."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("demo", short_help="Write a demo repository with a history of real faults.")
@click.argument("target", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    help="Moves which commits carry which fault.",
)
@click.option("--force", is_flag=True, help="Replace DIR if it is a demo repository already.")
def command(target: Path, seed: int, force: bool) -> None:
    """Write a demo repository to DIR: a small training package with its git history.

    Several of its commits make training start slower, as code and not as sleeps. It comes with scenarios
    (DIR/tithe.toml) and with a recorded history of its older releases (spool bundles), measured by real
    launches. The same seed gives the same repository, bit for bit.
    """
    from tithe.demo.write import write

    summary = write(target, seed=seed, force=force)
    click.echo(
        f"wrote {summary.path}: {summary.commits} commits by {summary.authors} authors, "
        f"{summary.scenarios} scenarios, releases {', '.join(summary.tags)}"
    )
    click.echo(f"recorded history: {summary.spool}")
