"""`tithe run`: A/B tests of a selection or of named scenarios, base against head."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from tithe import options, output
from tithe.data.errors import EXIT_INCONCLUSIVE, EXIT_INFRASTRUCTURE, EXIT_OK, EXIT_REGRESSED, UsageError
from tithe.data.records import (
    Picked,
    RunRecord,
    RunReport,
    Scenario,
    Selection,
    Sha,
    Source,
)
from tithe.knowledge import Way
from tithe.report import words
from tithe.wiring import Project

Kind = Literal["run", "check", "sweep"]


def execute(
    project: Project,
    scenarios: Sequence[Scenario],
    base: Sha,
    head: Sha,
    *,
    kind: Kind,
    picked: Picked,
    source: Source,
    seed: int,
    selection: Selection | None = None,
    budget_s: float | None = None,
) -> RunReport:
    """Runs the scenarios one after another, and records every launch at once and every outcome at the end.

    What is recorded holds all that another machine needs to learn from it: the diff, the selection, the run.
    """
    from tithe.runner import engine
    from tithe.runner.resume import ResumingExecutor

    records, executor = project.records, project.executor
    opened, run, known = project.open_run(kind, base, head, seed, scenarios)
    resuming = ResumingExecutor(executor, known)
    missing = project.unavailable(scenarios)
    runnable = [scenario for scenario in scenarios if scenario.name not in missing]
    began = time.time()
    if selection is not None:
        # Only a selection's base..head is one change: between two releases lies a range of them.
        records.add_changes([project.repo.change(head, base)])
        records.add_selection(selection, began)
    name = selection.id if selection else ""
    records.add_run(RunRecord(run, kind, base, head, began, executor.host, picked, name))
    with output.Progress() as progress:
        report = engine.run(
            runnable,
            base,
            head,
            resuming,
            project.config.decision,
            run=run,
            seed=seed,
            noise=project.known.noise(executor.host, run),
            sink=records.add_launches,
            budget_s=budget_s,
            progress=progress,
        )
    gates = engine.outcomes(
        report, runnable, policy=project.config.decision, source=source, picked=picked, known_at=time.time()
    )
    records.add_outcomes(gates)
    if opened is not None:
        opened.done()
    told = project.deliver()
    told += resuming.told()
    not_run = tuple(f"{name} was not run: {why}" for name, why in missing.items())
    return replace(report, warnings=(*report.warnings, *executor.notes, *not_run, *told))


def exit_code(
    report: RunReport,
    scenarios: Sequence[Scenario],
    *,
    fail_on_inconclusive: bool,
    undelivered: bool = False,
    unaffordable: bool = False,
) -> int:
    """The code that the verdicts on gate metrics ask for.

    What a budget left over, or what cannot run on this machine, is a warning; but where nothing at all could be
    run of what was asked for, nothing can be said. Records that could not be spooled are a failure of the
    infrastructure, but no reason to keep a regression back. `unaffordable`: candidates were there, and the
    budget bought none of them.
    """
    deciding = [v for v in report.verdicts if v.gate]
    verdicts = {v.verdict for v in deciding}
    if any(words.is_alert(v) for v in deciding):
        return EXIT_REGRESSED
    if undelivered or "error" in verdicts or (scenarios and not deciding):
        return EXIT_INFRASTRUCTURE
    if fail_on_inconclusive and (unaffordable or "inconclusive" in verdicts):
        return EXIT_INCONCLUSIVE
    return EXIT_OK


def report_text(report: RunReport) -> str:
    """What moved first, in one table of the metrics that decide; below it the others that moved."""
    shown = words.shown(report)
    rows = [
        (
            output.name(v.scenario),
            output.name(v.metric),
            words.verdict_word(v),
            words.effect(v),
            v.launches,
            output.name(words.note(v), 90),
        )
        for v in shown
    ]
    headers = ("scenario", "metric", "verdict", "head against base (95 % interval)", "launches", "note")
    body = output.table(headers, rows, "text") + "\n\n" if rows else ""
    aside = [f"{output.name(scenario)} {moved}" for scenario, moved in words.aside(report)]
    if aside:
        body += f"also moved, without deciding: {'; '.join(aside)}\n\n"
    return (
        f"{output.short(report.base)} → {output.short(report.head)}: {words.counted(shown)}; "
        f"{words.spent(report)} of machine time\n\n{body}".rstrip()
        + output.warnings_text(report.warnings)
    )


def face(report: words.Report, style: str, text: str, *more: str) -> str:
    """The result in a style of `--format`; `more` is said in text and Markdown alone."""
    if style == "markdown":
        from tithe.report.summary import summary

        fenced = [f"\n```text\n{line.strip()}\n```\n" for line in more]
        return "".join([summary(report), *fenced]).rstrip()
    if style == "junit":
        from tithe.report.junit import junit

        return junit(report).rstrip()
    return "\n".join([text, *more])


def load_selection(path: Path) -> Selection:
    """A selection that `tithe select --output` or `--format json` wrote."""
    from tithe.data.codec import from_json

    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"cannot be read: {error.strerror}",
            where=str(path),
            mend="`tithe select --output FILE` writes one",
        ) from None
    return from_json(raw, Selection, where=str(path))


@click.command("run", short_help="A/B-test a selection, or named scenarios, base against head.")
@click.argument("what", nargs=-1, metavar="[SELECTION.json | SCENARIO...]")
@click.option(
    "--base",
    help="The revision to compare with. [default: the selection's, or where head left the main branch]",
)
@click.option("--head", help="The revision under test. [default: the selection's, or the work tree]")
@click.option("--budget", help="Start no further scenario once this much machine time is spent: 60s, 30m.")
@options.seed_option
@options.inconclusive_option
@options.spool_option
@options.snapshot_options
@options.project_options
@options.report_format_options
def command(
    what: tuple[str, ...],
    base: str | None,
    head: str | None,
    budget: str | None,
    seed: int,
    fail_on_inconclusive: bool,
    way: Way,
    repo: Path,
    config_path: Path | None,
    style: str,
    output_path: Path | None,
) -> None:
    """A/B-test scenarios: base against head, in interleaved launches on this host.

    Name scenarios, or give the file that `tithe select --output` wrote; without either all are run. Every
    launch is a fresh process in a git worktree of its revision; a difference is reported only after a second,
    independent run confirmed it.
    """
    with Project(repo, config_path, way) as project:
        budget_s = one_budget(budget)
        if len(what) == 1 and what[0].endswith(".json"):
            selection = load_selection(Path(what[0]))
            names = [candidate.scenario for candidate in selection.selected]
            try:
                base_sha, head_sha = project.revisions(base or selection.base, head or selection.head)
            except UsageError as error:
                if base or head:
                    raise
                mend = "it was made elsewhere, or of a work tree that has been collected: select again"
                raise UsageError(error.what, where=output.name(what[0], 200), mend=mend) from None
            scenarios = project.scenarios(names) if names else []
            picked: Picked = "chosen"
            carried: Selection | None = selection
        else:
            scenarios = project.scenarios(what)
            base_sha, head_sha = project.revisions(base, head)
            picked, carried = "asked", None
        report = execute(
            project,
            scenarios,
            base_sha,
            head_sha,
            kind="run",
            picked=picked,
            source="ab",
            seed=seed,
            selection=carried,
            budget_s=budget_s,
        )
        report = replace(report, warnings=(*project.known.warnings(), *report.warnings))
        output.emit(report, style, output_path, lambda style: face(report, style, report_text(report)))
        code = exit_code(
            report,
            scenarios,
            fail_on_inconclusive=fail_on_inconclusive,
            undelivered=project.undelivered,
        )
        raise click.exceptions.Exit(code)


def one_budget(budget: str | None) -> float | None:
    from tithe.data.units import parse_budget

    if budget is None:
        return None
    seconds = parse_budget(budget)
    if set(seconds) != {"cpu"}:
        raise UsageError(
            "one machine time is expected here, not one per resource",
            where=f"--budget {budget}",
            mend="write it as 30m",
        )
    return seconds["cpu"]
