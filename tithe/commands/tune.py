"""`tithe tune`: the error level and the threshold that catch most within the bound on false alarms."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tithe import options, output
from tithe.data.codec import CodecError, plain_json, to_json
from tithe.data.config import DecisionPolicy
from tithe.data.errors import EXIT_INFRASTRUCTURE, EXIT_OK, UsageError
from tithe.data.records import (
    FreshDecisions,
    MetricName,
    RunRecord,
    Scenario,
    ScenarioName,
    Sha,
    TunePoint,
    TuneReport,
)
from tithe.wiring import Project, new_run_id

if TYPE_CHECKING:
    from tithe.runner.tune import Known

PLANTED = "planted.jsonl"
"""Below `.tithe/`: slow-downs that were planted here, which are known effects from then on."""
_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*/\s*week")


@click.command("tune", short_help="Choose error level and threshold on the ROC of what is recorded.")
@click.argument("names", nargs=-1, metavar="[SCENARIO...]")
@click.option(
    "--max-false-alarms",
    metavar="N/week",
    default="",
    help="How many can be borne. [default: as in tithe.toml]",
)
@click.option(
    "--inject",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="Plant that many slow-downs in the scenarios' code, on commits of their own, and measure them first.",
)
@click.option(
    "--fresh",
    type=click.IntRange(0, 100_000),
    default=0,
    show_default=True,
    help="Then make that many decisions of the revision against itself, and count false alarms.",
)
@click.option("--write", is_flag=True, help="Write what was chosen to [decision] of tithe.toml.")
@click.option("--head", help="The revision for --inject and --fresh. [default: the work tree's commit]")
@options.seed_option
@options.project_options
@options.format_options
def command(
    names: tuple[str, ...],
    max_false_alarms: str,
    inject: int,
    fresh: int,
    write: bool,
    head: str | None,
    seed: int,
    repo: Path,
    config_path: Path | None,
    style: str,
    output_path: Path | None,
) -> None:
    """Try error levels and thresholds on recorded blocks, and name the pair that catches most within the bound.

    False alarms are drawn from blocks of one revision against itself (`tithe noise` records them), with the arms
    of each block flipped by chance. What is caught is measured on effects that are known: confirmed by runs, told
    by people, or planted by --inject.
    """
    from tithe.runner import tune

    with Project(repo, config_path) as project:
        policy = project.config.decision
        allowed = _rate(max_false_alarms) if max_false_alarms else policy.false_alarms_per_week
        if write and project.way.policy_from:
            raise UsageError("--write has no meaning with a policy from elsewhere")
        scenarios = project.scenarios(names)
        missing = project.unavailable(scenarios)
        runnable = [scenario for scenario in scenarios if scenario.name not in missing]
        warnings = [f"{name} was not run: {why}" for name, why in missing.items()] if inject or fresh else []
        run, spent = new_run_id(), 0.0
        host = ""
        if inject or fresh:
            sha = project.repo.resolve(head) if head is not None else project.repo.head()
            host = project.executor.host
            project.store.add_run(RunRecord(run, "record", sha, sha, time.time(), host))
        if inject:
            warnings += _plant(project, runnable, sha, inject, seed)
        gates = {scenario.name: scenario.gate for scenario in scenarios}
        known = _known(project, scenarios)
        found = tune.recordings(project.store.launches(), gates, known)
        quiet = [one for one in found if not one.effect]
        if not quiet:
            raise UsageError(
                f"no scenario has {tune.FEWEST_BLOCKS} blocks of one revision against itself",
                mend=f"run `tithe noise --blocks {tune.FEWEST_BLOCKS}` first",
            )
        with output.Progress() as progress:
            progress("trying error levels and thresholds on recorded blocks")
            points = tune.roc(found, policy, seed=seed)
        chosen = tune.best(points, allowed)
        if chosen is None:
            nearest = min(points, key=lambda point: point.alarms_per_week_high)
            warnings.append(
                f"no setting keeps the bound of {allowed:g} a week: the nearest is "
                f"{nearest.alarms_per_week_high:.2g}. {_more(len(quiet))}"
            )
        moved = len(found) - len(quiet)
        if not moved:
            warnings.append(
                "no effect is known here: what is caught is measured on shifted blocks alone (--inject)"
            )
        setting = _with(policy, chosen)
        tried = None
        if fresh:
            tried, more = _fresh(project, runnable, sha, setting, fresh, seed)
            warnings += more
        if inject or fresh:
            spent = project.executor.spent()
            warnings += project.executor.notes
        report = TuneReport(
            run,
            host,
            points,
            allowed,
            policy.decisions_per_week,
            chosen,
            next(
                (p for p in points if (p.alpha, p.noise_factor) == (policy.alpha, policy.noise_factor)), None
            ),
            tuple(tune.detectable(found, setting)),
            sum(len(one) for one in quiet),
            moved,
            len(_planted(project)),
            spent,
            tried,
            tuple(output.plain(line) for line in warnings),
        )
        if write and chosen is not None:
            _write(project.config.path, chosen)
        output.emit(report, style, output_path, lambda style: _text(report, style, written=write))
        raise click.exceptions.Exit(EXIT_OK if chosen is not None else EXIT_INFRASTRUCTURE)


def _rate(text: str) -> float:
    match = _RATE.fullmatch(text.strip())
    if match is None or float(match[1]) <= 0:
        raise UsageError(
            f"{output.name(text)!r} is no rate", where="--max-false-alarms", mend="write it as 1/week"
        )
    return float(match[1])


def _more(quiet: int) -> str:
    return (
        f"The bound rests on {quiet} recordings: `tithe noise --blocks 30`, at several times of day, narrows it; "
        "noisier ones need a quieter host"
    )


def _with(policy: DecisionPolicy, point: TunePoint | None) -> DecisionPolicy:
    from dataclasses import replace

    return policy if point is None else replace(policy, alpha=point.alpha, noise_factor=point.noise_factor)


def _known(project: Project, scenarios: Sequence[Scenario]) -> Known:
    """Effects by base, head, scenario and metric: verdicts that stand, and what was planted."""
    directions = {
        (s.name, m.name): 1 if m.direction == "smaller" else -1 for s in scenarios for m in s.metrics
    }
    known: dict[tuple[Sha, Sha, ScenarioName, MetricName], int] = {}
    for outcome in project.store.outcomes():
        better = directions.get((outcome.scenario, outcome.metric), 0)
        sign = {"regressed": better, "improved": -better}.get(outcome.verdict, 0)
        if sign and outcome.source != "import":
            known[outcome.base, outcome.change, outcome.scenario, outcome.metric] = sign
    for line in _planted(project):
        key = (
            Sha(line["base"]),
            Sha(line["head"]),
            ScenarioName(line["scenario"]),
            MetricName(line["metric"]),
        )
        known[key] = 1
    return known


def _planted(project: Project) -> list[Mapping[str, str]]:
    try:
        lines = (project.home / PLANTED).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return [entry for line in lines if (entry := _entry(line)) is not None]


def _entry(line: str) -> Mapping[str, str] | None:
    """None for a line that was cut off when its process was killed."""
    try:
        entry = plain_json(line)
    except CodecError:
        return None
    keys = ("base", "head", "scenario", "metric")
    return entry if isinstance(entry, dict) and all(isinstance(entry.get(key), str) for key in keys) else None


def _plant(project: Project, scenarios: Sequence[Scenario], sha: Sha, count: int, seed: int) -> list[str]:
    """Plants, measures and records; what there is to warn of."""
    from tithe.runner import inject, plant

    executor, warnings = project.executor, []
    run = new_run_id()
    project.store.add_run(RunRecord(run, "record", sha, sha, time.time(), executor.host))
    grounds = []
    with output.Progress() as progress:
        for scenario in scenarios:
            progress(f"{scenario.name}: which functions does it run?")
            if why := executor.prepare(sha):
                raise UsageError(f"{sha[:12]} is not runnable: {why}", mend="name another --head")
            here = plant.ground(executor, project.repo, scenario, sha, run, seed)
            if isinstance(here, str):
                warnings.append(f"nothing is planted in {scenario.name}: {here}")
            else:
                grounds.append(here)
        if not grounds:
            return [*warnings, "nothing could be planted"]
        plan = plant.draw(grounds, count, project.config.decision, seed)
        registered = inject.registration([injection for _, injection in plan])
        click.echo(f"tithe: {len(plan)} slow-downs are registered as {registered[:16]}", err=True)
        made = plant.measure(
            executor, project.repo, plan, run=run, seed=seed, blocks=project.config.decision.max_blocks
        )
        for number, one in enumerate(made, 1):
            progress(f"slow-down {number} of {len(plan)}")
            if isinstance(one, str):
                warnings.append(f"not planted: {one}")
                continue
            own = one.launches[0].run
            project.store.add_run(RunRecord(own, "record", one.base, one.head, time.time(), executor.host))
            project.store.add_launches(one.launches)
            entry = {
                "base": one.base,
                "head": one.head,
                "scenario": one.launches[0].scenario,
                "metric": one.metric,
                "share": one.share,
                "registered": registered,
                "injection": json.loads(to_json(one.injection)),
            }
            with (project.home / PLANTED).open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(entry) + "\n")
    return warnings


def _fresh(
    project: Project, scenarios: Sequence[Scenario], sha: Sha, policy: DecisionPolicy, count: int, seed: int
) -> tuple[FreshDecisions, list[str]]:
    """A/A decisions, scenarios in turn, each a run of its own; nothing of it counts as an outcome."""
    from tithe.runner import engine, tune

    executor, store = project.executor, project.store
    decided = suspected = alarms = launches = 0
    warnings: list[str] = []
    with output.Progress() as progress:
        for number in range(count):
            scenario = scenarios[number % len(scenarios)]
            run = new_run_id()
            store.add_run(RunRecord(run, "record", sha, sha, time.time(), executor.host))
            noise = {
                metric: one
                for (name, metric), one in project.known.noise(executor.host, run).items()
                if name == scenario.name
            }
            seen: list[str] = []
            found = engine.compare(
                scenario,
                sha,
                sha,
                executor,
                policy,
                run=run,
                seed=seed + number,
                noise=noise,
                sink=store.add_launches,
                on_block=lambda stage, *_, seen=seen: seen.append(stage),
            )
            for verdict in found.gate(scenario):
                launches += verdict.launches
                if verdict.verdict == "error":
                    warnings.append(f"{scenario.name}: {verdict.note}")
                    continue
                decided += 1
                suspected += "confirm" in seen
                alarms += verdict.verdict not in ("same", "inconclusive")
            progress(f"decision {number + 1} of {count}: {suspected} suspected, {alarms} confirmed")
    high = tune.poisson_upper(alarms) / max(decided, 1) * policy.decisions_per_week
    return FreshDecisions(decided, suspected, alarms, high, launches), warnings[:5]


def _write(path: Path, chosen: TunePoint) -> None:
    """Changes two keys and leaves everything else, comments too, as it is."""
    import tomlkit

    try:
        document = tomlkit.parse(path.read_text(encoding="utf-8"))
        table = document.setdefault("decision", tomlkit.table())
        table["alpha"] = chosen.alpha
        table["noise_factor"] = chosen.noise_factor
        temporary = path.with_name(f"{path.name}.new")
        temporary.write_text(tomlkit.dumps(document), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise UsageError(f"cannot be written: {error.strerror}", where=output.path_text(path)) from None


def _text(report: TuneReport, style: str, *, written: bool) -> str:
    lines = [
        f"{report.quiet_blocks} quiet blocks, {report.known_effects} known effects ({report.planted} planted); "
        f"{report.decisions_per_week:g} decisions a week, {report.allowed_per_week:g} false alarms allowed",
        "",
        output.table(
            ("level", "k", "false alarms a week", "at most", "caught", "caught, shifted", "launches", ""),
            [
                (
                    f"{p.alpha:g}",
                    f"{p.noise_factor:g}",
                    f"{p.alarms_per_week:.2g}",
                    f"{p.alarms_per_week_high:.2g}",
                    "–" if p.caught is None else f"{p.caught:.0%}",
                    f"{p.caught_shifted:.0%}",
                    f"{p.launches_quiet:.0f} / {p.launches_moved:.0f}",
                    "chosen" if p == report.chosen else "in force" if p == report.current else "",
                )
                for p in _frontier(report)
            ],
            style,
        ),
        "",
        "level: of each stage; k: threshold in standard deviations of a block; launches: of a decision with nothing "
        "there / with an effect. Settings that catch less for no fewer false alarms are left out",
        "",
        output.table(
            ("scenario", "metric", "decided by", "a block scatters", "threshold", "shows", "quiet blocks"),
            [
                (
                    output.name(d.scenario),
                    output.name(d.metric),
                    d.statistic,
                    output.percent(d.block_sd),
                    output.percent(d.threshold),
                    output.percent(d.effect),
                    d.blocks,
                )
                for d in report.detectable
            ],
            style,
        ),
    ]
    if report.fresh is not None:
        fresh = report.fresh
        lines += [
            "",
            f"{fresh.decisions} fresh decisions of a revision against itself: {fresh.suspected} suspected, "
            f"{fresh.alarms} false alarms, at most {fresh.alarms_per_week_high:.3g} a week (95 %, Poisson), "
            f"{fresh.launches} launches",
        ]
    if report.chosen is not None:
        keys = f"alpha = {report.chosen.alpha:g}, noise_factor = {report.chosen.noise_factor:g}"
        how = "written to" if written else "to use it, run again with --write, or put into"
        lines += ["", f"{how} [decision]: {keys}"]
    return "\n".join(lines) + output.warnings_text(report.warnings)


def _frontier(report: TuneReport) -> list[TunePoint]:
    """Points that no other one beats in both, by the bound on their false alarms; and the two that matter."""

    def caught(point: TunePoint) -> float:
        return point.caught_shifted if point.caught is None else (point.caught + point.caught_shifted) / 2

    best, kept = -1.0, []
    for point in sorted(report.points, key=lambda p: (p.alarms_per_week_high, -caught(p))):
        if caught(point) > best + 0.005 or point in (report.chosen, report.current):
            kept.append(point)
            best = max(best, caught(point))
    return kept
