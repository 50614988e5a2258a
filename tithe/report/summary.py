"""The job summary and the comment in Markdown: the verdict first, then the evidence, then what was left out.

Both keep to what the forges take; what goes are whole rows, the last ones first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tithe import output
from tithe.data.records import Candidate, CheckReport, Selection, Verdict
from tithe.markdown import code, folded, inline, table
from tithe.report import words
from tithe.report.words import Report

SUMMARY_BYTES = 1_000_000
"""GitHub takes 1 MiB a step."""
COMMENT_BYTES = 60_000
"""GitHub takes 65,536 characters."""
MARKER = "<!-- tithe:check -->"
"""First line of a comment, by which the next run finds it again."""
ROWS = 500
"""Of one table; a summary with more is read by nobody."""
FEWEST = 20
"""Rows that are kept where the rest does not fit: what asks for something comes first."""


def summary(report: Report) -> str:
    """The whole result."""
    selection = report.selection if isinstance(report, CheckReport) else None
    mark, sentence = words.headline(report)
    aside = words.aside(report)

    def text(rows: int) -> str:
        lines = [f"## {mark} tithe: {sentence}", "", _ran(report, selection)]
        if shown := words.shown(report):
            lines += ["", _verdicts(shown, selection, max(rows, FEWEST))]
        if aside:
            told = [f"{code(scenario, 80)} {inline(moved)}" for scenario, moved in aside[: max(rows, FEWEST)]]
            lines += ["", f"Also moved, without deciding and without a confirmation: {'; '.join(told)}."]
        if selection and selection.rest:
            lines += ["", _left_out(selection, rows)]
        if report.warnings:
            lines += ["", "**Warnings**", ""]
            lines += [f"- {inline(line, 600)}" for line in report.warnings[: max(FEWEST, min(rows, 50))]]
        return "\n".join(lines) + "\n"

    return _fitting(text, SUMMARY_BYTES)


def _fitting(text: Callable[[int], str], most: int) -> str:
    """The text with as many rows as fit into so many bytes: whole rows go, since half of one means something else."""
    for rows in (ROWS, 100, FEWEST):
        told = text(rows)
        if len(told.encode()) <= most:
            return told
    return text(0)


def comment(report: Report, link: str = "") -> str:
    """The body of the one comment on a change; `link` leads to the whole result."""
    return _fitting(lambda rows: _comment(report, link, max(rows, 1)), COMMENT_BYTES)


def _comment(report: Report, link: str, rows: int) -> str:
    mark, sentence = words.headline(report)
    found = words.alerts(report)
    lines = [MARKER, f"### {mark} tithe: {sentence}", ""]
    if found:
        lines += [_verdicts(found, None, rows), ""]
        lines.append("Each was seen twice, in independent runs of both versions on one machine.")
        first = found[0]
        lines += [
            "",
            "To see it yourself:",
            "",
            f"```sh\ntithe run {_word(first.scenario)} "
            f"--base {output.short(report.base)} --head {output.short(report.head)}\n```",
        ]
    else:
        lines.append(
            "An earlier version of this change had a regression. This is the result of the latest one."
        )
    lines += ["", f"{_compared(report)}." + (f" [The whole result]({link})" if link else "")]
    return "\n".join(lines) + "\n"


def _compared(report: Report) -> str:
    base, head = code(output.short(report.base)), code(output.short(report.head))
    return f"{base} → {head}, {words.spent(report)} of machine time"


def _ran(report: Report, selection: Selection | None) -> str:
    if selection is None:
        return f"{_compared(report)}."
    total = len(selection.selected) + len(selection.rest)
    diff = selection.diff
    budget = ", ".join(
        output.duration(seconds) if resource == "cpu" else f"{output.duration(seconds)} of {inline(resource)}"
        for resource, seconds in list(selection.budget.items())[:FEWEST]
    )
    ranked = "the prior" if selection.model == "prior" else f"model {inline(selection.model)}"
    return (
        f"{_compared(report)} of a budget of {budget}. {len(selection.selected)} of {words.plural(total, 'scenario')} "
        f"selected by {ranked} for {words.plural(diff.files, 'changed file')} (+{diff.added} −{diff.deleted})."
    )


def _verdicts(verdicts: Sequence[Verdict], selection: Selection | None, most: int) -> str:
    why = {candidate.scenario: candidate for candidate in selection.selected} if selection else {}
    headers = ["scenario", "metric", "verdict", "head against base (95 % interval)", "launches", "note"]
    rows = []
    for verdict in verdicts[:most]:
        name = words.verdict_word(verdict)
        row = [
            code(verdict.scenario, 80),
            code(verdict.metric, 40),
            f"**{name}**" if words.is_alert(verdict) else name,
            words.effect(verdict),
            str(verdict.launches),
            inline(words.note(verdict), 200),
        ]
        if selection:
            candidate = why.get(verdict.scenario)
            row.append(
                "; ".join(inline(reason, 120) for reason in candidate.reasons[:2]) if candidate else ""
            )
        rows.append(row)
    if selection:
        headers.append("selected because")
    more = f"\n\nand {len(verdicts) - most} more" if len(verdicts) > most else ""
    return table(headers, rows) + more


def _left_out(selection: Selection, rows: int) -> str:
    cost = words.total_cost(sum(candidate.cost.values()) for candidate in selection.rest)
    title = f"Left out: {words.plural(len(selection.rest), 'scenario')}, which would have taken about {cost}"
    if not rows:
        return title + "."
    cells = [_left(candidate) for candidate in selection.rest[:rows]]
    more = f"\n\nand {len(selection.rest) - rows} more" if len(selection.rest) > rows else ""
    return folded(
        title, table(["scenario", "chance", "cost", "left out because", "what is known"], cells) + more
    )


def _left(candidate: Candidate) -> list[str]:
    why = {
        "budget": "the budget is spent",
        "tier": "its tier",
        "resource": "no budget for its resource",
        "words": "no code changed",
    }
    return [
        code(candidate.scenario, 80),
        output.percent(candidate.probability),
        output.duration(sum(candidate.cost.values())),
        inline(why.get(candidate.picked, candidate.picked), 60),
        "; ".join(inline(reason, 120) for reason in candidate.reasons[:2]),
    ]


def _word(name: str) -> str:
    import shlex

    return shlex.quote(output.name(name)).replace("`", "")
