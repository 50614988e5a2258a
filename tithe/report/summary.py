"""The job summary and the comment in Markdown: the verdict first, then the evidence, then what was left out.

Both are cut to what the forges take, where cutting loses least: the rows of what was left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from tithe import output
from tithe.data.records import Candidate, CheckReport, Selection, Verdict
from tithe.markdown import code, folded, inline, table
from tithe.report import words
from tithe.report.words import Report

SUMMARY_BYTES = 1_000_000
"""GitHub takes 1 MiB a step."""
COMMENT_CHARACTERS = 60_000
"""GitHub takes 65,536."""
MARKER = "<!-- tithe:check -->"
"""First line of a comment, by which the next run finds it again."""
ROWS = 500
"""Of one table; a summary with more is read by nobody."""


def summary(report: Report) -> str:
    """The whole result."""
    selection = report.selection if isinstance(report, CheckReport) else None
    mark, sentence = words.headline(report)
    head = [f"## {mark} tithe: {sentence}", "", _ran(report, selection)]
    shown = words.shown(report)
    if shown:
        head += ["", _verdicts(shown, selection)]
    aside = words.aside(report)
    if aside:
        told = "; ".join(f"{code(scenario, 80)} {inline(moved)}" for scenario, moved in aside[:ROWS])
        head += ["", f"Also moved, without deciding and without a confirmation: {told}."]
    tail = []
    if report.warnings:
        tail += ["", "**Warnings**", "", *(f"- {inline(line, 600)}" for line in report.warnings[:50])]
    for rows in (ROWS, 100, 20, 0):
        middle = ["", _left_out(selection, rows)] if selection and selection.rest else []
        text = "\n".join([*head, *middle, *tail]) + "\n"
        if len(text.encode()) <= SUMMARY_BYTES:
            return text
    return text.encode()[:SUMMARY_BYTES].decode("utf-8", "ignore")


def comment(report: Report, link: str = "") -> str:
    """The body of the one comment on a change; `link` leads to the whole result."""
    mark, sentence = words.headline(report)
    found = words.alerts(report)
    lines = [MARKER, f"### {mark} tithe: {sentence}", ""]
    if found:
        lines += [_verdicts(found[:ROWS], None), ""]
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
    text = "\n".join(lines) + "\n"
    return text if len(text) <= COMMENT_CHARACTERS else text[:COMMENT_CHARACTERS] + "\n"


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
        for resource, seconds in selection.budget.items()
    )
    ranked = "the prior" if selection.model == "prior" else f"model {inline(selection.model)}"
    return (
        f"{_compared(report)} of a budget of {budget}. {len(selection.selected)} of {words.plural(total, 'scenario')} "
        f"selected by {ranked} for {words.plural(diff.files, 'changed file')} (+{diff.added} −{diff.deleted})."
    )


def _verdicts(verdicts: Sequence[Verdict], selection: Selection | None) -> str:
    why = {candidate.scenario: candidate for candidate in selection.selected} if selection else {}
    headers = ["scenario", "metric", "verdict", "head against base (95 % interval)", "launches", "note"]
    rows = []
    for verdict in verdicts[:ROWS]:
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
    more = f"\n\nand {len(verdicts) - ROWS} more" if len(verdicts) > ROWS else ""
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
