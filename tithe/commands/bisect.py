"""`tithe bisect`: names the change that moved a metric, and writes what it learnt back."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import click

from tithe import options, output
from tithe.commands.run import one_budget
from tithe.data.errors import EXIT_INCONCLUSIVE, EXIT_OK, EXIT_REGRESSED, UsageError
from tithe.data.records import FAILING, BisectReport, MetricName, RunRecord, Sha
from tithe.wiring import Project, new_run_id


def report_text(report: BisectReport, subjects: dict[Sha, str], style: str) -> str:
    """The culprit first, then the evidence."""
    what = f"{output.name(report.scenario)} {output.name(report.metric)}"
    if report.culprit is not None:
        sha = report.culprit
        sure = next((s.probability for s in report.candidates if s.sha == sha), None)
        how = "verified against its parent" if report.verified else "not verified"
        lines = [f"{what}: {output.short(sha)} {subjects.get(sha, '')} ({output.percent(sure)} sure, {how})"]
        if report.verification is not None:
            v = report.verification
            lines.append(f"it against its parent: {v.verdict}, {output.ratio_words(v.ratio, v.low, v.high)}")
    else:
        lines = [f"{what}: no single change can be named: {output.name(report.reason, 300)}"]
    rows = [
        (output.short(s.sha), output.percent(s.probability), subjects.get(s.sha, ""))
        for s in report.candidates[:8]
    ]
    if rows:
        lines += ["", output.table(("candidate", "chance", "subject"), rows, style)]
    if report.steps:
        rows = [
            (
                output.short(step.sha),
                output.percent(step.ratio - 1, signed=True) if step.ratio is not None else "–",
                output.name(step.note, 80),
            )
            for step in report.steps
        ]
        lines += ["", output.table(("measured", "against the good end", "note"), rows, style)]
    if report.other_steps:
        others = ", ".join(f"{output.short(sha)} {subjects.get(sha, '')}" for sha in report.other_steps)
        lines += ["", f"other steps in the range: {others}"]
    lines += ["", f"{report.launches} launches, {output.duration(report.spent_s)} of machine time"]
    return "\n".join(lines) + output.warnings_text(report.warnings)


@click.command("bisect", short_help="Name the change that moved a metric of a scenario.")
@click.argument("scenario")
@click.option("--good", required=True, help="A revision before the step.")
@click.option("--bad", required=True, help="A revision after the step.")
@click.option("--metric", help="The metric that moved. [default: the first one that decides]")
@click.option("--budget", help="Stop after this much machine time, and give the candidates: 10m, 1h.")
@options.seed_option
@options.inconclusive_option
@options.project_options
@options.format_options
def command(
    scenario: str,
    good: str,
    bad: str,
    metric: str | None,
    budget: str | None,
    seed: int,
    fail_on_inconclusive: bool,
    repo: Path,
    config_path: Path | None,
    style: str,
    output_path: Path | None,
) -> None:
    """Name the change between GOOD and BAD that moved a metric of SCENARIO.

    First the step is measured again; if it does not reproduce, nothing is blamed. Each probe runs a change
    against the good end, the next one is the one that tells most, and the culprit is A/B-tested against its
    parent. Changes that cannot be run are skipped, and nobody is blamed for standing beside them. The labels
    go into the store, for the next `tithe train`.
    """
    from tithe.attribution.bisection import bisect
    from tithe.attribution.labels import labels

    with Project(repo, config_path) as project:
        target = project.config.scenario(scenario)
        chosen = MetricName(metric) if metric is not None else target.gate[0]
        metrics = {m.name: m for m in target.metrics}
        if chosen not in metrics:
            raise UsageError(
                f"it does not measure {output.name(chosen)!r}",
                where=f"scenario {output.name(scenario)!r}",
                mend=f"its metrics are {', '.join(metrics)}",
            )
        missing = project.unavailable([target])
        if missing:
            raise UsageError(missing[target.name], where=f"scenario {output.name(scenario)!r}")
        good_sha, bad_sha = project.repo.resolve(good), project.repo.resolve(bad)
        commits = project.repo.range(good_sha, bad_sha)
        store, executor = project.store, project.executor
        run = new_run_id()
        store.add_run(RunRecord(run, "bisect", good_sha, bad_sha, time.time(), executor.host))
        with output.Progress() as progress:
            report = bisect(
                target,
                metrics[chosen],
                good_sha,
                bad_sha,
                commits,
                executor,
                project.config.decision,
                run=run,
                seed=seed,
                noise=store.noise(host=executor.host).get((target.name, chosen)),
                prior=None,
                sink=store.add_launches,
                budget_s=one_budget(budget),
                progress=progress,
            )
        report = replace(report, warnings=(*report.warnings, *executor.notes))
        store.add_outcomes(labels(report, commits, known_at=time.time()))
        subjects = {sha: output.name(project.repo.change(sha).subject) for sha in _mentioned(report)}
        output.emit(report, style, output_path, lambda style: report_text(report, subjects, style))
        raise click.exceptions.Exit(_exit_code(report, fail_on_inconclusive))


def _mentioned(report: BisectReport) -> set[Sha]:
    named = {suspect.sha for suspect in report.candidates[:8]} | set(report.other_steps)
    return named | ({report.culprit} if report.culprit is not None else set())


def _exit_code(report: BisectReport, fail_on_inconclusive: bool) -> int:
    if report.culprit is None:
        return EXIT_INCONCLUSIVE if fail_on_inconclusive else EXIT_OK
    verdict = report.verification.verdict if report.verification is not None else None
    return EXIT_REGRESSED if report.verified and verdict in FAILING else EXIT_OK
