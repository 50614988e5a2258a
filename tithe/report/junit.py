"""JUnit XML, which most CI systems show: one case a scenario and deciding metric, and one for what did not run.

An inconclusive result is shown as skipped with the reason: as a pass it would say more than is known.
"""

from __future__ import annotations

from xml.etree import ElementTree

from tithe import output
from tithe.data.records import CheckReport, Verdict
from tithe.data.text import safe_line
from tithe.report import words
from tithe.report.words import Report


def junit(report: Report) -> str:
    """The document."""
    verdicts = words.shown(report)
    rest = report.selection.rest if isinstance(report, CheckReport) else ()
    counts = {
        "tests": len(verdicts) + len(rest),
        "failures": sum(words.is_alert(verdict) for verdict in verdicts),
        "errors": sum(verdict.verdict == "error" for verdict in verdicts),
        "skipped": sum(_skipped(verdict) for verdict in verdicts) + len(rest),
    }
    told = {"name": "tithe", "time": f"{report.spent_s:.3f}"}
    told |= {name: str(count) for name, count in counts.items()}
    root = ElementTree.Element("testsuites", told)
    suite = ElementTree.SubElement(root, "testsuite", told)
    for verdict in verdicts:
        case = _case(suite, verdict.scenario, verdict.metric)
        said = _told(verdict)
        if words.is_alert(verdict):
            failure = ElementTree.SubElement(case, "failure", type=verdict.verdict, message=said)
            failure.text = f"{said}\nbase {output.short(report.base)}, head {output.short(report.head)}"
        elif verdict.verdict == "error":
            ElementTree.SubElement(case, "error", type="error", message=said)
        elif _skipped(verdict):
            ElementTree.SubElement(case, "skipped", message=said)
        else:
            ElementTree.SubElement(case, "system-out").text = said
    for candidate in rest:
        why = safe_line("; ".join((candidate.picked, *candidate.reasons[:2])), limit=400)
        ElementTree.SubElement(
            _case(suite, candidate.scenario, "selection"), "skipped", message=f"not run: {why}"
        )
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _skipped(verdict: Verdict) -> bool:
    unconfirmed = verdict.verdict in ("regressed", "broken") and not verdict.confirmed
    return verdict.verdict == "inconclusive" or unconfirmed


def _case(suite: ElementTree.Element, scenario: str, metric: str) -> ElementTree.Element:
    name = f"{output.name(scenario, 200)} {output.name(metric)}"
    return ElementTree.SubElement(suite, "testcase", classname="tithe", name=name)


def _told(verdict: Verdict) -> str:
    said = words.note(verdict)
    line = f"{words.verdict_word(verdict)}: {words.effect(verdict)} head against base"
    return safe_line(f"{line}; {said}" if said else line, limit=600)
