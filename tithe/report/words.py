"""What a result amounts to, in the words that all faces share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tithe import output
from tithe.data.records import FAILING, CheckReport, RunReport, Verdict

Report = CheckReport | RunReport

ORDER = ("broken", "regressed", "error", "inconclusive", "fixed", "improved", "same")
"""Of verdicts in a list: what asks for something first."""


def is_alert(verdict: Verdict) -> bool:
    """Whether it makes the command exit with 1."""
    return verdict.gate and verdict.confirmed and verdict.verdict in FAILING


def alerts(report: Report) -> list[Verdict]:
    """What regressed or broke, confirmed, on a metric that decides."""
    return [verdict for verdict in shown(report) if is_alert(verdict)]


def shown(report: Report) -> list[Verdict]:
    """Verdicts of the metrics that decide; what asks for something first."""
    found = [verdict for verdict in report.verdicts if verdict.gate]
    return sorted(found, key=lambda v: (ORDER.index(v.verdict), v.scenario, v.metric))


def aside(report: Report) -> list[tuple[str, str]]:
    """Scenario, and in words its metrics that moved without deciding: nobody confirmed those."""
    found: dict[str, list[str]] = {}
    for verdict in sorted(report.verdicts, key=lambda v: (v.scenario, v.metric)):
        if not verdict.gate and verdict.verdict in ("regressed", "improved", "broken", "fixed"):
            moved = output.percent(verdict.ratio - 1, signed=True) if verdict.ratio else verdict.verdict
            moved = f"× {verdict.ratio:.1f}" if verdict.ratio and verdict.ratio >= 2 else moved
            found.setdefault(verdict.scenario, []).append(f"{output.name(verdict.metric)} {moved}")
    return [(scenario, ", ".join(words)) for scenario, words in found.items()]


def counted(verdicts: Sequence[Verdict]) -> str:
    """`1 regressed, 2 same`."""
    counts = {name: sum(v.verdict == name for v in verdicts) for name in ORDER}
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing was run"


def headline(report: Report) -> tuple[str, str]:
    """A mark and a sentence. "No regression was found" is never "nothing changed"."""
    deciding = [verdict for verdict in report.verdicts if verdict.gate]
    found = alerts(report)
    if found:
        parts = []
        for name, words in (("regressed", "regressed"), ("broken", "broke")):
            names = {v.scenario for v in found if v.verdict == name}
            if names:
                parts.append(f"{plural(len(names), 'scenario')} {words}")
        return "❌", " and ".join(parts)
    ran = {verdict.scenario for verdict in deciding}
    failed = {verdict.scenario for verdict in deciding if verdict.verdict == "error"}
    if failed:
        return "⚠️", f"{plural(len(failed), 'scenario')} could not be measured"
    if not ran:
        return "➖", f"nothing was run{_why_nothing(report)}"
    unsure = {verdict.scenario for verdict in deciding if verdict.verdict == "inconclusive"}
    if unsure:
        return (
            "⚠️",
            f"no regression was found, but {plural(len(unsure), 'scenario')} of {len(ran)} stayed inconclusive",
        )
    fixed = {verdict.scenario for verdict in deciding if verdict.verdict == "fixed"}
    if fixed == ran:
        return "⚠️", f"the base does not run {plural(len(fixed), 'scenario')}: nothing was compared"
    beside = f", and the base does not run {len(fixed)} more: compared with nothing" if fixed else ""
    return "✅", f"no regression was found in the {plural(len(ran - fixed), 'scenario')} that ran{beside}"


def _why_nothing(report: Report) -> str:
    if not isinstance(report, CheckReport) or report.selection.selected:
        return ""
    reasons = {candidate.picked for candidate in report.selection.rest}
    if "budget" in reasons:
        return ": the budget is below the cheapest decision"
    if "words" in reasons:
        return ": only documents and tests changed, and none that a scenario uses"
    return ""


def verdict_word(verdict: Verdict) -> str:
    """The verdict, and whether it still waits for its confirmation."""
    moved = verdict.verdict in ("regressed", "improved", "broken", "fixed")
    return verdict.verdict + ("" if verdict.confirmed or not moved else " (unconfirmed)")


def effect(verdict: Verdict) -> str:
    """Head against base with its interval."""
    return output.ratio_words(verdict.ratio, verdict.low, verdict.high)


def note(verdict: Verdict) -> str:
    """Why, or what would have been seen."""
    if verdict.note:
        return verdict.note
    if verdict.verdict == "same" and verdict.low is not None and verdict.high is not None:
        return f"{max(1 - verdict.low, verdict.high - 1) * 100:.1f} % or more is excluded"
    if verdict.verdict == "inconclusive" and verdict.detectable is not None:
        return f"would have shown {verdict.detectable * 100:.1f} % or more"
    return ""


def plural(count: int, word: str) -> str:
    """`1 scenario`, `2 scenarios`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def spent(report: Report) -> str:
    """Machine time, as people write it."""
    return output.duration(report.spent_s)


def total_cost(costs: Iterable[float]) -> str:
    """A sum of costs, as people write it."""
    return output.duration(sum(costs))
