"""The command line: finds the command, and turns whatever goes wrong into one line and an exit code.

Commands are imported when they are called, so that `tithe select` pays for nothing that it does not use.
This is the only module that ends the process.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any, NoReturn

import click

from tithe._version import VERSION
from tithe.data.credentials import hidden
from tithe.data.errors import EXIT_INFRASTRUCTURE, EXIT_INTERRUPTED, EXIT_MEANINGS, EXIT_USAGE, TitheError
from tithe.data.text import safe_line

# name -> (module under tithe.commands, one line for `tithe --help`): the line stands here so that help
# does not import every command.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "Write a demo repository with a history of real faults."),
    "init": ("init", "Write a commented tithe.toml that fits this repository."),
    "scenarios": ("scenarios", "List the scenarios, what they cost and when they last regressed."),
    "ingest": ("ingest", "Take in git history, bundles, or results of other tools."),
    "train": ("train", "Train the model, backtest it, and promote it if it is better."),
    "select": ("select", "Choose the scenarios that are worth running for a change."),
    "run": ("run", "A/B-test a selection, or named scenarios, base against head."),
    "check": ("check", "Select and run within a budget: the step for CI."),
    "compare": ("compare", "A/B-test a proposal: interpreter, package, variable."),
    "noise": ("noise", "Say how small an effect this host and these scenarios can show."),
    "tune": ("tune", "Choose error level and threshold on the ROC of what is recorded."),
    "sweep": ("sweep", "A/B-test every scenario between two releases."),
    "bisect": ("bisect", "Name the change that moved a metric of a scenario."),
    "shrink": ("shrink", "Find a cheaper way to run a scenario that executes the same code."),
    "snapshot": ("snapshot", "Publish what machines without a store need, or look at it."),
    "spool": ("spool", "Send what was measured here to where the weekly job takes it in."),
    "report": ("report", "Show a result again: summary, comment, annotations, JUnit."),
    "ci": ("ci", "The steps of a CI job: check a change, comment on it."),
    "observe": ("observe", "Watch which files the scenarios load and open, for the graph."),
    "graph": ("graph", "Show the dependency graph, and why a file is near a scenario."),
    "status": ("status", "Show what the store knows and what is missing."),
    "db": ("db", "Check, back up, compact or export the store."),
}

EPILOG = "Exit codes: " + "; ".join(f"{code} {meaning}" for code, meaning in EXIT_MEANINGS.items()) + "."


class LazyGroup(click.Group):
    """A group whose commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"tithe.commands.{COMMANDS[cmd_name][0]}")
        command = module.command
        return command if isinstance(command, click.Command) else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands, in the order of the main job"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            if near:
                raise click.UsageError(f"{error.message} Did you mean '{near[0]}'?", ctx) from None
            raise


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EPILOG,
)
@click.version_option(VERSION, prog_name="tithe")
def cli() -> None:
    """Catch performance regressions of machine-learning jobs with a tenth of the machine time."""


def main(argv: list[str] | None = None) -> NoReturn:
    """Runs one command and exits with its code."""
    if os.name == "nt":
        _fail(
            "tithe needs Linux or macOS: it measures process trees, which Windows does not show; use WSL 2",
            EXIT_USAGE,
        )
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _terminated)
    try:
        code: Any = cli.main(args=argv, prog_name="tithe", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except TitheError as error:
        _fail(str(error), error.exit_code)
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        _fail_usage(error)
    except (KeyboardInterrupt, click.Abort) as stop:
        told = stop.__cause__ if isinstance(stop, click.Abort) else stop
        _fail(
            str(told or "")
            or "stopped; what was finished is recorded, and the same command goes on from there",
            EXIT_INTERRUPTED,
        )
    except BrokenPipeError:
        # The reader went away (`tithe … | head`): nothing is wrong, and nothing can be told to anybody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        _fail(
            f"{where}{error.strerror or error}; check that the disk has room and the path can be written",
            EXIT_INFRASTRUCTURE,
        )
    except MemoryError:
        _fail("out of memory; use a smaller --budget or fewer scenarios", EXIT_INFRASTRUCTURE)
    except Exception as error:
        if os.environ.get("TITHE_TRACEBACK"):
            raise
        _fail(
            f"a fault of tithe's own: {type(error).__name__}: {hidden(str(error))}; "
            "set TITHE_TRACEBACK=1 to see where, and report it",
            EXIT_INFRASTRUCTURE,
        )
    sys.exit(code if isinstance(code, int) else 0)


def _terminated(number: int, _: object) -> NoReturn:
    """A CI system that cancels a job gives it some seconds: as with Ctrl-C, what is finished is kept."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _fail_usage(error: click.ClickException) -> NoReturn:
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        _complain(error.format_message())
        sys.exit(EXIT_USAGE)
    context = getattr(error, "ctx", None)
    message = error.format_message()
    if context is not None and not message.rstrip().endswith("?"):
        message = f"{message.rstrip('.')}; see `{context.command_path} --help`"
    _fail(message, EXIT_USAGE)


def _fail(message: str, code: int) -> NoReturn:
    _complain(f"tithe: {safe_line(message, limit=2000)}")
    sys.exit(code)


def _complain(text: str) -> None:
    """To standard error; where that is full or closed, the exit code has to do."""
    try:
        click.echo(text, err=True)
    except (OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
