"""`tithe init`: a commented configuration that fits the repository it stands in."""

from __future__ import annotations

from pathlib import Path

import click

from tithe.data.errors import UsageError


@click.command("init", short_help="Write a commented tithe.toml that fits this repository.")
@click.option(
    "--repo",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(),
    help="A folder in the repository. [default: the current folder]",
)
@click.option("--force", is_flag=True, help="Overwrite an existing tithe.toml.")
@click.option("--stdout", is_flag=True, help="Print it instead of writing it.")
@click.option(
    "--schema", is_flag=True, help="Print the JSON schema of tithe.toml, for editors, and write nothing."
)
def command(repo: Path, force: bool, stdout: bool, schema: bool) -> None:
    """Write a commented tithe.toml to the root of the repository.

    It names the packages and candidate scenarios that were found there; read it, keep what fits.
    """
    if schema:
        import json

        from tithe.data.config import json_schema

        click.echo(json.dumps(json_schema(), indent=2))
        return
    from tithe.data.git import GitRepo
    from tithe.data.initial import describe
    from tithe.output import write_file

    root = GitRepo.open(repo).root
    text = describe(root)
    if stdout:
        click.echo(text, nl=False)
        return
    path = root / "tithe.toml"
    if path.exists() and not force:
        raise UsageError(
            "it exists already", where=str(path), mend="edit it, or pass --force to overwrite it"
        )
    write_file(path, text)
    click.echo(f"wrote {path}; next: `tithe scenarios`, then `tithe ingest git`")
