"""`tithe noise`: what this host and these scenarios can be trusted with, from runs of one revision against itself."""

from __future__ import annotations

import os
import time
from pathlib import Path

import click

from tithe import options, output
from tithe.data.errors import EXIT_INFRASTRUCTURE, EXIT_OK
from tithe.data.records import Launch, NoiseReading, NoiseReport, RunRecord, Stage
from tithe.wiring import Project


@click.command("noise", short_help="Say how small an effect this host and these scenarios can show.")
@click.argument("names", nargs=-1, metavar="[SCENARIO...]")
@click.option("--head", help="The revision to run. [default: the work tree, uncommitted changes included]")
@click.option(
    "--blocks",
    type=click.IntRange(4, 100),
    default=8,
    show_default=True,
    help="Blocks of four launches for each scenario.",
)
@options.seed_option
@options.project_options
@options.format_options
def command(
    names: tuple[str, ...],
    head: str | None,
    blocks: int,
    seed: int,
    repo: Path,
    config_path: Path | None,
    style: str,
    output_path: Path | None,
) -> None:
    """Run one revision against itself, and say what can be seen through what scatters all the same.

    The blocks stay in the store: from then on, runs on this host decide with their help. Named are the smallest
    effect that a decision shows, how many blocks the wanted one takes, and hosts and scenarios whose averages
    mean little: drifting ones, launches of two kinds, places that differ.
    """
    from tithe.runner.aa import assess
    from tithe.runner.executor import BlockSpec
    from tithe.runner.resume import ResumingExecutor

    with Project(repo, config_path) as project:
        scenarios = project.scenarios(names)
        missing = project.unavailable(scenarios)
        sha = project.tip(head)
        executor, store = project.executor, project.store
        opened, run, known = project.open_run(f"noise {blocks}", sha, sha, seed, scenarios)
        resuming = ResumingExecutor(executor, known)
        store.add_run(RunRecord(run, "record", sha, sha, time.time(), executor.host))
        readings: list[NoiseReading] = []
        warnings = [f"{name} was not run: {why}" for name, why in missing.items()]
        stolen = _stolen()
        with output.Progress() as progress:
            for scenario in scenarios:
                if scenario.name in missing:
                    continue
                made: list[Launch] = []
                for at in range(-min(scenario.warmup, 1), blocks):
                    stage: Stage = "warmup" if at < 0 else "record"
                    spec = BlockSpec(run, scenario, sha, sha, stage, max(at, 0), seed)
                    found = resuming.run_block(spec)
                    store.add_launches(found)
                    if at >= 0:
                        made += found
                    progress(f"{scenario.name}: block {at + 1} of {blocks}")
                failed = [launch for launch in made if launch.status != "ok"]
                if failed:
                    warnings.append(
                        f"{scenario.name}: {len(failed)} of {len(made)} launches: {failed[0].note}"
                    )
                readings += [
                    assess(scenario, metric.name, made, project.config.decision)
                    for metric in scenario.metrics
                ]
        warnings += (*executor.notes, *resuming.told())
        if opened is not None:
            opened.done()
        warnings += _neighbours(stolen)
        report = NoiseReport(
            run, sha, executor.host, tuple(readings), executor.spent(), tuple(map(output.plain, warnings))
        )
        output.emit(report, style, output_path, lambda style: _text(report, style))
        told = any(reading.word != "unknown" for reading in readings)
        raise click.exceptions.Exit(EXIT_OK if told or not scenarios else EXIT_INFRASTRUCTURE)


def _text(report: NoiseReport, style: str) -> str:
    rows = [
        (
            output.name(r.scenario),
            output.name(r.metric),
            r.word,
            output.percent(r.launch_sd),
            f"{output.percent(r.block_sd)} ({_bare(r.block_sd_low)} … {_bare(r.block_sd_high)})",
            output.percent(r.detectable),
            "–" if r.needed is None else str(r.needed),
            "; ".join(output.name(finding, 100) for finding in r.findings) or _advice(r),
        )
        for r in report.readings
    ]
    headers = (
        "scenario",
        "metric",
        "is",
        "a launch scatters",
        "a block scatters",
        "shows",
        "blocks for it",
        "note",
    )
    return (
        f"{output.short(report.head)} against itself, {output.duration(report.spent_s)} of machine time\n\n"
        f"{output.table(headers, rows, style)}\n\n"
        "shows: the smallest effect that a decision sees with 80 % power; blocks for it: for the wanted effect"
        + output.warnings_text(report.warnings)
    )


def _advice(reading: NoiseReading) -> str:
    if reading.word == "unknown":
        return "too few launches gave a value"
    return f"decided by the {reading.statistic} launches" if reading.statistic != "mean" else ""


def _bare(share: float | None) -> str:
    return "–" if share is None else f"{share * 100:.1f}"


def _stolen() -> tuple[float, float]:
    """Clock ticks that other guests took from this one, and all ticks, so far (Linux)."""
    try:
        fields = [
            float(word)
            for word in Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
        ]
        return fields[7], sum(fields[:8])
    except (OSError, ValueError, IndexError):
        return 0.0, 0.0


def _neighbours(before: tuple[float, float]) -> list[str]:
    found = []
    stolen, total = (now - then for now, then in zip(_stolen(), before, strict=True))
    if total > 0 and stolen / total > 0.01:
        found.append(f"other guests of this machine took {stolen / total:.0%} of its time: expect noisy days")
    try:
        busy = os.getloadavg()[0]
    except OSError:
        return found
    cores = os.cpu_count() or 1
    if busy > cores:
        found.append(f"{busy:.1f} processes wanted the {cores} cores: measure on a host that is not shared")
    return found
