"""`tithe compare`: a proposal against what is, over many scenarios in bounded time."""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from tithe import options, output
from tithe.commands.run import exit_code, one_budget, report_text
from tithe.data.config import OWN_VARIABLES
from tithe.data.errors import EXIT_INCONCLUSIVE, EXIT_INFRASTRUCTURE, EXIT_OK, EXIT_REGRESSED, UsageError
from tithe.data.records import CompareReport, RunRecord, RunReport, Scenario, Sha, Variant
from tithe.wiring import Project

_ORDER = (EXIT_REGRESSED, EXIT_INFRASTRUCTURE, EXIT_INCONCLUSIVE)
_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


@click.command("compare", short_help="A/B-test a proposal: interpreter, package, variable.")
@click.argument("names", nargs=-1, metavar="[SCENARIO...]")
@click.option("--head-env", multiple=True, metavar="NAME=VALUE", help="A variable of the head's launches.")
@click.option(
    "--head-python",
    multiple=True,
    metavar="PYTHON",
    help="The head's interpreter, such as python3.13. Several are heads of their own.",
)
@click.option(
    "--head-install",
    multiple=True,
    metavar="REQUIREMENT",
    help="What pip installs for the head, such as numpy==2.4.",
)
@click.option(
    "--head-args", default="", metavar="WORDS", help="Words after the command of the head's launches."
)
@click.option("--base-env", multiple=True, metavar="NAME=VALUE", help="The same for the base.")
@click.option("--base-python", default="", metavar="PYTHON", help="The same for the base.")
@click.option("--base-install", multiple=True, metavar="REQUIREMENT", help="The same for the base.")
@click.option("--base-args", default="", metavar="WORDS", help="The same for the base.")
@click.option("--base", help="The revision of the base. [default: the head's]")
@click.option(
    "--head",
    multiple=True,
    help="The revision of the head; several are heads of their own. [default: the work tree, as it is]",
)
@click.option("--budget", help="Start no further scenario once this much machine time is spent: 60s, 30m.")
@options.seed_option
@options.inconclusive_option
@options.project_options
@options.format_options
def command(
    names: tuple[str, ...],
    head_env: tuple[str, ...],
    head_python: tuple[str, ...],
    head_install: tuple[str, ...],
    head_args: str,
    base_env: tuple[str, ...],
    base_python: str,
    base_install: tuple[str, ...],
    base_args: str,
    base: str | None,
    head: tuple[str, ...],
    budget: str | None,
    seed: int,
    fail_on_inconclusive: bool,
    repo: Path,
    config_path: Path | None,
    style: str,
    output_path: Path | None,
) -> None:
    """A/B-test a proposal over many scenarios: is it worth it, where, and how sure is that?

    Both sides run the same revision unless --base says otherwise, and differ in what the options say: an
    interpreter, packages, environment variables, arguments. All scenarios are run, or those that are named. With
    several heads each is compared with the one base. The launches are kept; nothing of it counts as the outcome
    of a change.
    """
    apart = bool(head_install or base_install)
    mine = Variant(_variables(base_env), base_python, base_install, _words(base_args), apart)
    proposed = [
        Variant(_variables(head_env), python, head_install, _words(head_args), apart)
        for python in dict.fromkeys(head_python or ("",))
    ]
    with Project(repo, config_path) as project:
        budget_s = one_budget(budget)
        scenarios = project.scenarios(names)
        shas = list(dict.fromkeys(project.tip(one) for one in head or (None,)))
        base_sha = project.repo.resolve(base) if base is not None else shas[0]
        heads = [(sha, one) for sha in shas for one in proposed]
        same = [sha for sha, one in heads if sha == base_sha and one == mine]
        if same:
            raise UsageError(
                "both sides are the same" if len(heads) == 1 else f"head {same[0][:10]} is the base itself",
                mend="say what the proposal is, such as --head-install or --head-env",
            )
        missing = project.unavailable(scenarios)
        runnable = [scenario for scenario in scenarios if scenario.name not in missing]
        not_run = tuple(f"{name} was not run: {why}" for name, why in missing.items())
        found: list[CompareReport] = []
        spent = 0.0
        for number, (sha, variant) in enumerate(heads):
            # A share of what is left, so that the last head has as much as the first.
            left = None if budget_s is None else max(0.0, budget_s - spent) / (len(heads) - number)
            one = _compared(project, runnable, (base_sha, mine), (sha, variant), seed, left)
            spent += one.spent_s
            found.append(replace(one, warnings=(*one.warnings, *not_run)))
        report = replace(found[0], others=tuple(found[1:]))
        output.emit(report, style, output_path, lambda _: _text(found, project.config.decision.wanted_effect))
        codes = [exit_code(_run(one), scenarios, fail_on_inconclusive=fail_on_inconclusive) for one in found]
        raise click.exceptions.Exit(next((c for c in _ORDER if c in codes), EXIT_OK))


def _compared(
    project: Project,
    scenarios: Sequence[Scenario],
    base: tuple[Sha, Variant],
    head: tuple[Sha, Variant],
    seed: int,
    budget_s: float | None,
) -> CompareReport:
    """One head against the base, as a run of its own."""
    from tithe.data.codec import to_json
    from tithe.runner import engine
    from tithe.runner.resume import ResumingExecutor
    from tithe.runner.summary import geometric_mean

    store = project.store
    executor = project.executor_of({"base": base[1], "head": head[1]})
    kind = f"compare {to_json([base[1], head[1]])}"
    opened, run, known = project.open_run(kind, base[0], head[0], seed, scenarios, executor)
    resuming = ResumingExecutor(executor, known)
    store.add_run(RunRecord(run, "run", base[0], head[0], time.time(), executor.host))
    with output.Progress() as progress:
        found = engine.run(
            scenarios,
            base[0],
            head[0],
            resuming,
            project.config.decision,
            run=run,
            seed=seed,
            noise=project.known.noise(executor.host, run),
            sink=store.add_launches,
            budget_s=budget_s,
            progress=progress,
        )
    mean, low, high = geometric_mean(found.verdicts) or (None, None, None)
    warnings = (*found.warnings, *executor.notes, *resuming.told())
    if opened is not None:
        opened.done()
    executor.close()
    return CompareReport(
        run,
        base[0],
        head[0],
        base[1],
        head[1],
        found.verdicts,
        found.spent_s,
        mean_ratio=mean,
        mean_low=low,
        mean_high=high,
        warnings=warnings,
    )


def _run(report: CompareReport) -> RunReport:
    return RunReport(report.id, report.base, report.head, report.verdicts, report.spent_s, report.warnings)


def _text(found: Sequence[CompareReport], wanted: float) -> str:
    lines = [f"base: {_told(found[0].base_variant)}"]
    for report in found:
        lines += [f"head: {_told(report.head_variant)}", ""]
        if report.mean_ratio is not None:
            words = output.ratio_words(report.mean_ratio, report.mean_low, report.mean_high)
            count = sum(v.gate and v.ratio is not None for v in report.verdicts)
            lines += [f"over all: {words}, geometric mean of {count}", ""]
        lines += [
            report_text(_run(report)),
            *_surer(report, wanted),
            *([""] if report is not found[-1] else []),
        ]
    if len(found) > 1:
        ranked = sorted(found, key=lambda one: (one.mean_ratio is None, one.mean_ratio or 0.0))
        rows = [
            (
                output.short(one.head),
                _told(one.head_variant),
                "–"
                if one.mean_ratio is None
                else output.ratio_words(one.mean_ratio, one.mean_low, one.mean_high),
            )
            for one in ranked
        ]
        lines += ["", output.table(("head", "with", "over all, smallest first"), rows, "text")]
    return "\n".join(lines)


def _surer(report: CompareReport, wanted: float) -> list[str]:
    """What it would take where nothing can be said: an interval narrows with the root of the launches."""
    needs = []
    for v in report.verdicts:
        if v.gate and v.verdict == "inconclusive" and v.low and v.high and v.launches:
            times = (math.log(v.high / v.low) / 2 / math.log1p(wanted)) ** 2
            if times > 1:
                needs.append(f"{output.name(v.scenario)} about {math.ceil(times * v.launches)}")
    return [f"\nfor an interval of ±{wanted:.1%}, launches: {', '.join(needs)}"] if needs else []


def _told(variant: Variant) -> str:
    parts = [f"{name}={value}" for name, value in variant.env]
    parts += [variant.python] if variant.python else []
    parts += [f"with {requirement}" for requirement in variant.install]
    parts += [f"arguments {shlex.join(variant.args)}"] if variant.args else []
    return output.name(", ".join(parts) or "as configured", 300)


def _variables(given: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    found = {}
    for text in given:
        match = _VARIABLE.fullmatch(text)
        if match is None or "\x00" in text:
            raise UsageError(f"{output.name(text)!r} sets no variable", mend="write it as NAME=VALUE")
        if match[1] in OWN_VARIABLES or match[1].startswith("TITHE_"):
            raise UsageError(f"{match[1]} is set by tithe itself", mend="choose another variable")
        found[match[1]] = match[2]
    return tuple(found.items())


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"{output.name(text)!r} cannot be split into words: {error}") from None
