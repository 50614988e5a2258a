"""The options that commands share, so that one word means one thing everywhere."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from tithe import output
from tithe.knowledge import Way

F = TypeVar("F", bound=Callable[..., Any])

REPO_HELP = "A folder in the repository to work on. [default: the current folder]"
FORMATS = ("text", "json", "markdown")
REPORT_FORMATS = (*FORMATS, "junit")


def format_options(command: F) -> F:
    """Adds `--format` and `--output`."""
    return _format_options(command, FORMATS)


def report_format_options(command: F) -> F:
    """Adds `--format`, with JUnit XML among the formats, and `--output`."""
    return _format_options(command, REPORT_FORMATS)


def _format_options(command: F, formats: tuple[str, ...]) -> F:
    command = click.option(
        "--format",
        "style",
        type=click.Choice(formats),
        default="text",
        show_default=True,
        help="How to print the result.",
    )(command)
    return click.option(
        "--output",
        "output_path",
        type=click.Path(dir_okay=False, path_type=Path),
        callback=output.writable,
        help="Write the result as JSON to this file too, for the next command or another machine.",
    )(command)


def project_options(command: F) -> F:
    """Adds `--repo` and `--config`."""
    command = click.option(
        "--config",
        "config_path",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The configuration to use instead of tithe.toml at the root of the work tree.",
    )(command)
    return click.option(
        "--repo",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path(),
        help=REPO_HELP,
    )(command)


def not_empty(_: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Refuses a value that is given and empty: most often a variable of a script that is not set."""
    if value is not None and not value.strip():
        raise click.BadParameter("is empty; leave the option out, or give a value", param=parameter)
    return value


def change_options(command: F) -> F:
    """Adds `--base`, `--head` and `--patch` of a change under test, the last gathered into `way`."""
    command = click.option(
        "--patch",
        metavar="FILE",
        default="",
        help="A diff, - for standard input, applied to the head (to the last commit, not to the work tree).",
    )(command)
    command = click.option(
        "--head",
        callback=not_empty,
        help="The revision under test. [default: the work tree, uncommitted changes included]",
    )(command)
    return click.option(
        "--base",
        help="The revision to compare with. [default: where head left the main branch; on it, the parent]",
    )(command)


def seed_option(command: F) -> F:
    """Adds `--seed`."""
    return click.option(
        "--seed", type=int, default=0, show_default=True, help="Seed of everything that is drawn."
    )(command)


def inconclusive_option(command: F) -> F:
    """Adds `--fail-on-inconclusive`."""
    return click.option(
        "--fail-on-inconclusive",
        is_flag=True,
        help="Exit with 4 where what was asked for stays inconclusive.",
    )(command)


def snapshot_options(command: F) -> F:
    """Adds `--snapshot`, `--or-prior`, `--policy-from` and `--deepen`, gathered as `way`."""
    command = click.option(
        "--deepen",
        is_flag=True,
        help="In a shallow clone, fetch as much history as the comparison needs.",
    )(command)
    command = click.option(
        "--policy-from",
        metavar="REVISION",
        callback=not_empty,
        help="For a change that is not trusted: take everything in tithe.toml but the scenarios from this revision.",
    )(command)
    command = click.option(
        "--or-prior",
        is_flag=True,
        help="Where the snapshot cannot be used, go on with the prior and say so, instead of failing.",
    )(command)
    return click.option(
        "--snapshot",
        metavar="URL",
        callback=not_empty,
        help="Rank with what `tithe snapshot publish` put at this folder or URL, instead of the store.",
    )(_gathered(command))


def spool_option(command: F) -> F:
    """Adds `--spool`, gathered into `way`."""
    return click.option(
        "--spool",
        metavar="URL",
        callback=not_empty,
        help="Send what was measured as a bundle to this folder or URL, instead of writing it to the store.",
    )(command)


def _gathered(command: F) -> F:
    @functools.wraps(command)
    def gathering(**given: Any) -> Any:
        way = Way(
            snapshot=given.pop("snapshot") or "",
            or_prior=given.pop("or_prior"),
            spool=given.pop("spool", "") or "",
            policy_from=given.pop("policy_from") or "",
            deepen=given.pop("deepen"),
            patch=given.pop("patch", ""),
        )
        return command(**given, way=way)

    return gathering  # type: ignore[return-value]
