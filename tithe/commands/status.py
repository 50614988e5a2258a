"""`tithe status`: what the store knows, and what is missing."""

from __future__ import annotations

import time
from pathlib import Path

import click

from tithe import options, output
from tithe.data.errors import TitheError
from tithe.wiring import Project


@click.command("status", short_help="Show what the store knows and what is missing.")
@options.project_options
@options.format_options
def command(repo: Path, config_path: Path | None, style: str, output_path: Path | None) -> None:
    """Show what the store knows: history, outcomes by verdict, models, machine time; and what to do next.

    Named are measurements that weeks of decisions make suspect: one that finds nearly every head slower, and hosts
    that scatter unlike.
    """
    from tithe.runner import watch

    with Project(repo, config_path) as project:
        store = project.store
        counts = store.counts()
        verdicts = store.verdict_counts()
        scenarios = project.config.scenarios
        standing = project.known.standing
        standing.state.advance(project.known.latest + 1.0)
        promoted = store.promoted()
        last = store.last_change()
        measured = {scenario.name for scenario in scenarios} & set(standing.launch_seconds)
        next_steps = []
        if not counts["changes"]:
            next_steps.append("`tithe ingest git` reads the history of the main branch")
        elif last is not None and last.sha != _tip(project):
            next_steps.append(f"`tithe ingest git`: {project.config.main} has moved on")
        if not verdicts:
            next_steps.append(
                "`tithe check --budget 5m` measures a first change; `tithe ingest spool` takes what others measured"
            )
        elif promoted is None and not counts["models"]:
            next_steps.append("`tithe train` trains a model; until then the prior ranks")
        untimed = len(scenarios) - len(measured)
        if untimed:
            next_steps.append(
                f"`tithe noise` times {untimed} scenario{'' if untimed == 1 else 's'} whose cost is a guess so far"
            )
        now = time.time()
        odd = watch.one_sided(store.outcomes(since=now - watch.WEEKS * 7 * 86400), now)
        odd += watch.unlike_hosts(
            {host: store.noise(host=host) for host in sorted({r.host for r in store.runs()})}
        )
        document = {
            "schema": 1,
            "id": f"status-{int(time.time())}",
            "store": output.path_text(store.path),
            "counts": counts,
            "verdicts": verdicts,
            "faulty_changes": standing.state.faulty,
            "model": promoted,
            "last_change": last.sha if last else None,
            "scenarios": len(project.config.scenarios),
            "measured_scenarios": len(measured),
            "next": next_steps,
            "findings": odd,
        }

        def text(style: str) -> str:
            rows = [
                (
                    "history",
                    f"{counts['changes']} changes"
                    + (f", the last {output.short(last.sha)} {output.name(last.subject)}" if last else ""),
                ),
                ("scenarios", f"{len(project.config.scenarios)}, {len(measured)} of them measured"),
                ("launches", f"{counts['launches']} in {counts['runs']} runs"),
                ("outcomes", ", ".join(f"{n} {v}" for v, n in verdicts.items()) or "none"),
                ("faulty changes", f"{standing.state.faulty}, measured against their own parents"),
                ("model", _model(promoted, counts["models"])),
                ("store", output.path_text(store.path)),
            ]
            lines = [output.table(("what", "state"), rows, style)]
            lines += [f"odd: {output.name(one, 300)}" for one in odd]
            lines += [f"next: {step}" for step in next_steps]
            return "\n".join(lines)

        output.emit(document, style, output_path, text)


def _tip(project: Project) -> str:
    try:
        return project.main_branch()
    except TitheError:
        return ""


def _model(promoted: str | None, trained: int) -> str:
    if promoted is not None:
        return f"version {output.name(promoted)} of {trained}"
    return f"the prior ranks: {trained} trained, none better yet" if trained else "none: the prior ranks"
