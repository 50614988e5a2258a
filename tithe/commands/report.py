"""`tithe report`: the faces of a result that `--output` wrote, without running anything."""

from __future__ import annotations

from pathlib import Path

import click

from tithe.data.errors import UsageError
from tithe.data.records import CheckReport, RunReport
from tithe.data.text import safe_line

MAX_BYTES = 64 * 2**20
STYLES = ("text", "json", "markdown", "comment", "junit", "github")


@click.command("report", short_help="Show a result again: summary, comment, annotations, JUnit.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--format",
    "style",
    type=click.Choice(STYLES),
    default="text",
    show_default=True,
    help="markdown is the job summary, comment the body of the one comment on a change, github its annotations.",
)
@click.option("--link", default="", help="Where the comment says that the whole result is.")
def command(file: Path, style: str, link: str) -> None:
    """Show the result in FILE, which `run`, `check` or `sweep` wrote with --output, in another form."""
    from tithe import output

    report = load(file)
    if style == "github":
        from tithe.report.github import commands

        for line in commands(report):
            click.echo(line)
        return
    if style == "comment":
        from tithe.report.summary import comment

        click.echo(comment(report, link), nl=False)
        return
    from tithe.commands.check import check_text
    from tithe.commands.run import face, report_text

    def text(style: str) -> str:
        told = check_text(report) if isinstance(report, CheckReport) else report_text(report)
        return face(report, style, told)

    output.emit(report, style, None, text)


def load(path: Path) -> CheckReport | RunReport:
    """The result in a file.

    Raises:
        UsageError: It cannot be read, or holds no result.
    """
    from tithe.data.codec import CodecError, from_json
    from tithe.data.rules import problem

    where, mend = safe_line(str(path), limit=300), "`tithe check --output FILE` writes one"
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=where, mend=mend) from None
    if len(raw) > MAX_BYTES:
        raise UsageError(f"is larger than {MAX_BYTES // 2**20} MiB", where=where, mend=mend)
    report: CheckReport | RunReport
    try:
        report = from_json(raw, CheckReport) if b'"selection"' in raw else from_json(raw, RunReport)
    except CodecError as error:
        what = f"is no result of check, run or sweep: {safe_line(error.what, limit=200)}"
        raise UsageError(what, where=where, mend=mend) from None
    if fault := problem(report):
        raise UsageError(f"is no result: {fault}", where=where, mend=mend)
    return report
