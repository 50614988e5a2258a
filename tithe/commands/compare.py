"""`tithe compare`: a proposal against what is, over many scenarios in bounded time."""

from __future__ import annotations

import re
import shlex
import time
from dataclasses import replace
from pathlib import Path

import click

from tithe import options, output
from tithe.commands.run import exit_code, one_budget, report_text
from tithe.data.config import OWN_VARIABLES
from tithe.data.errors import UsageError
from tithe.data.records import CompareReport, RunRecord, RunReport, Variant
from tithe.wiring import Project, new_run_id

_VARIABLE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


@click.command("compare", short_help="A/B-test a proposal: interpreter, package, variable.")
@click.argument("names", nargs=-1, metavar="[SCENARIO...]")
@click.option("--head-env", multiple=True, metavar="NAME=VALUE", help="A variable of the head's launches.")
@click.option(
    "--head-python", default="", metavar="PYTHON", help="The head's interpreter, such as python3.13."
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
    "--head", help="The revision of the head. [default: the work tree, uncommitted changes included]"
)
@click.option("--budget", help="Start no further scenario once this much machine time is spent: 60s, 30m.")
@options.seed_option
@options.inconclusive_option
@options.project_options
@options.format_options
def command(
    names: tuple[str, ...],
    head_env: tuple[str, ...],
    head_python: str,
    head_install: tuple[str, ...],
    head_args: str,
    base_env: tuple[str, ...],
    base_python: str,
    base_install: tuple[str, ...],
    base_args: str,
    base: str | None,
    head: str | None,
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
    interpreter, packages, environment variables, arguments. All scenarios are run, or those that are named. The
    launches are kept; nothing of it counts as the outcome of a change.
    """
    from tithe.runner import engine
    from tithe.runner.summary import geometric_mean

    apart = bool(head_install or base_install)
    mine = Variant(_variables(base_env), base_python, base_install, _words(base_args), apart)
    proposed = Variant(_variables(head_env), head_python, head_install, _words(head_args), apart)
    with Project(repo, config_path) as project:
        budget_s = one_budget(budget)
        scenarios = project.scenarios(names)
        head_sha = project.tip(head)
        base_sha = project.repo.resolve(base) if base is not None else head_sha
        if base_sha == head_sha and mine == proposed:
            raise UsageError(
                "both sides are the same",
                mend="say what the proposal is, such as --head-install or --head-env",
            )
        missing = project.unavailable(scenarios)
        run, store = new_run_id(), project.store
        executor = project.executor_of({"base": mine, "head": proposed})
        store.add_run(RunRecord(run, "run", base_sha, head_sha, time.time(), executor.host))
        with output.Progress() as progress:
            found = engine.run(
                [scenario for scenario in scenarios if scenario.name not in missing],
                base_sha,
                head_sha,
                executor,
                project.config.decision,
                run=run,
                seed=seed,
                noise=project.known.noise(executor.host, run),
                sink=store.add_launches,
                budget_s=budget_s,
                progress=progress,
            )
        not_run = tuple(f"{name} was not run: {why}" for name, why in missing.items())
        found = replace(found, warnings=(*found.warnings, *executor.notes, *not_run))
        mean, low, high = geometric_mean(found.verdicts) or (None, None, None)
        report = CompareReport(
            run,
            base_sha,
            head_sha,
            mine,
            proposed,
            found.verdicts,
            found.spent_s,
            mean_ratio=mean,
            mean_low=low,
            mean_high=high,
            warnings=found.warnings,
        )
        output.emit(report, style, output_path, lambda _: _text(report, found))
        raise click.exceptions.Exit(exit_code(found, scenarios, fail_on_inconclusive=fail_on_inconclusive))


def _text(report: CompareReport, found: RunReport) -> str:
    lines = [f"base: {_told(report.base_variant)}", f"head: {_told(report.head_variant)}", ""]
    if report.mean_ratio is not None:
        words = output.ratio_words(report.mean_ratio, report.mean_low, report.mean_high)
        count = sum(v.gate and v.ratio is not None for v in report.verdicts)
        lines += [f"over all: {words}, geometric mean of {count}", ""]
    return "\n".join([*lines, report_text(found)])


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
