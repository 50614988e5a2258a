"""Every face says what the record says, within its limits, and nothing in it is obeyed by whoever shows it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from tithe import output
from tithe.data.records import (
    Candidate,
    CheckReport,
    DiffSummary,
    MetricName,
    RunId,
    RunReport,
    ScenarioName,
    Selection,
    Verdict,
)
from tithe.data.text import inert_json
from tithe.markdown import code, inline, table
from tithe.report import words
from tithe.report.github import commands
from tithe.report.junit import junit
from tithe.report.summary import COMMENT_BYTES, MARKER, SUMMARY_BYTES, comment, summary

SLOW = Verdict(
    ScenarioName("lm"), MetricName("ttfb"), "regressed", 1.12, 1.09, 1.15, 1e-5, 6, 50, True, 0.02, 0.03
)
SAME = Verdict(ScenarioName("mlp"), MetricName("ttfb"), "same", 1.0, 0.98, 1.02, 0.5, 3, 14, detectable=0.05)
UNSURE = replace(SAME, scenario=ScenarioName("conv"), verdict="inconclusive")
OTHER = replace(SLOW, metric=MetricName("rss"), gate=False)
FAILED = Verdict(ScenarioName("gnn"), MetricName("ttfb"), "error", note="both arms fail")


def chosen(name: str, *reasons: str) -> Candidate:
    return Candidate(ScenarioName(name), 0.3, {"cpu": 10.0}, 1, "chosen", reasons or ("near",))


def selection(*rest: Candidate) -> Selection:
    return Selection(
        "id", "a" * 40, "b" * 40, DiffSummary(1, 5, 1, ("x.py",)), {"cpu": 60.0}, 0, "prior",
        (chosen("lm", "uses x.py directly, which changed"), chosen("mlp")), rest,
    )  # fmt: skip


def check(
    *verdicts: Verdict, rest: tuple[Candidate, ...] = (), warnings: tuple[str, ...] = ()
) -> CheckReport:
    return CheckReport(RunId("r"), "a" * 40, "b" * 40, verdicts, 12.0, warnings, selection(*rest))


LEFT = replace(chosen("rl", "costs 10 s, 3 s are left"), picked="budget", rank=3)


def test_the_verdict_comes_first_and_the_evidence_after() -> None:
    text = summary(check(SAME, SLOW, OTHER, rest=(LEFT,), warnings=("careful",)))
    lines = text.splitlines()
    assert lines[0] == "## ❌ tithe: 1 scenario regressed"
    assert "2 of 3 scenarios selected by the prior for 1 changed file" in lines[2]
    rows = [line for line in lines if line.startswith("| `")]
    assert rows[0].startswith("| `lm` | `ttfb` | **regressed** | +12.0 % (+9.0 … +15.0) | 50 |")
    assert "which changed" in rows[0]
    assert any(line.endswith("without a confirmation: `lm` rss +12.0 %.") for line in lines)
    assert "2.0 % or more is excluded" in rows[1]
    assert "the budget is spent" in rows[2]
    assert "- careful" in lines


@pytest.mark.parametrize(
    ("verdicts", "said"),
    [
        ((SAME,), "✅ tithe: no regression was found in the 1 scenario that ran"),
        ((SAME, UNSURE), "no regression was found, but 1 scenario of 2 stayed inconclusive"),
        ((SAME, FAILED), "1 scenario could not be measured"),
        ((SLOW, FAILED), "1 scenario regressed"),
        ((replace(SLOW, verdict="broken"), SLOW), "1 scenario regressed and 1 scenario broke"),
        ((replace(SLOW, confirmed=False),), "no regression was found"),
        ((), "nothing was run"),
    ],
)
def test_headlines_never_say_more_than_is_known(verdicts: tuple[Verdict, ...], said: str) -> None:
    assert said in summary(check(*verdicts)).splitlines()[0]


def test_nothing_run_says_why() -> None:
    words_only = replace(LEFT, picked="words")
    report = replace(check(), selection=replace(selection(words_only), selected=()))
    assert "only documents and tests changed" in summary(report).splitlines()[0]


def test_the_comment_is_found_again_and_names_what_to_run() -> None:
    text = comment(check(SLOW, SAME), "https://ci.example/1")
    assert text.startswith(f"{MARKER}\n### ❌ tithe: 1 scenario regressed\n")
    assert "tithe run lm --base aaaaaaaaaa --head bbbbbbbbbb" in text
    assert "mlp" not in text
    assert "[The whole result](https://ci.example/1)" in text
    assert "latest one" in comment(check(SAME))


def test_annotations_are_ten_at_most_and_say_how_many_there_are() -> None:
    (line,) = commands(check(SLOW, SAME, OTHER))
    assert line == "::error title=tithe%3A lm regressed::ttfb +12.0 %25 (+9.0 … +15.0) against aaaaaaaaaa"
    many = [replace(SLOW, scenario=ScenarioName(f"s{n:02}")) for n in range(25)]
    lines = commands(check(*many, UNSURE))
    assert len(lines) == 10
    assert lines[-1] == "::error title=tithe::and 17 more: see the job summary"


def test_junit_counts_and_never_passes_what_is_not_known() -> None:
    root = ElementTree.fromstring(junit(check(SLOW, SAME, UNSURE, FAILED, OTHER, rest=(LEFT,))))
    assert {key: root.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "1",
        "skipped": "2",
    }
    told = {case.get("name"): [child.tag for child in case] for case in root.iter("testcase")}
    assert told == {
        "lm ttfb": ["failure"],
        "mlp ttfb": ["system-out"],
        "conv ttfb": ["skipped"],
        "gnn ttfb": ["error"],
        "rl selection": ["skipped"],
    }


def test_sizes_stay_within_what_the_forges_take() -> None:
    long = "x" * 3000
    rest = tuple(
        replace(LEFT, scenario=ScenarioName(f"s{n}{long}"), reasons=(long,) * 9) for n in range(10_000)
    )
    verdicts = tuple(replace(SLOW, scenario=ScenarioName(f"s{n}{long}"), note=long) for n in range(3000))
    report = check(*verdicts, rest=rest, warnings=(long,) * 1000)
    assert len(summary(report).encode()) <= SUMMARY_BYTES
    assert len(comment(report).encode()) <= COMMENT_BYTES
    assert "3000 scenarios regressed" in summary(report)


@pytest.mark.parametrize("size", [1, 60, 150])
def test_what_is_cut_is_whole_rows(size: int) -> None:
    """A cut within code would set free what stands in it."""
    evil = "<img src=x> [a](http://evil.example) @all " * 5
    verdicts = tuple(
        replace(SLOW, scenario=ScenarioName(f"s{n}" + "x" * size), note=evil) for n in range(3000)
    )
    for text in (comment(check(*verdicts)), summary(check(*verdicts, warnings=(evil * 9,) * 50))):
        assert kinds(text) <= ALLOWED | {"fence"}  # the command to run
        assert "more" in text


HOSTILE = [
    "::set-output name=x::y",
    "##[add-mask]x ##vso[task.setvariable]y",
    "gh-3",
    "see %12 and PROJ-44",
    "fixed in deadbeef1 or 1234567a",
    "@everyone #1 GH-2 www.evil.example https://evil.example a@b.example",
    "<img src=x onerror=alert(1)><script>alert(1)</script> <!-- --> </details> &lt;",
    "![x](https://evil.example/x.png) [y](javascript:alert(1)) **b** _i_ ~~s~~ `c` ``d`` | bar \\| $x^2$ :smile:",
    "\x1b[31mred\x1b]0;title\x07 \x9b31m \u202e \u2028::error::x\r\n::warning::y\x00",
    "a`", "`", "```", "\\", "|", " ", "- list", "# head", "> quote", "1. one", "=1+1", "~~~",
]  # fmt: skip
ALLOWED = {
    "text", "code_inline", "softbreak", "paragraph_open", "paragraph_close", "inline", "table_open", "table_close",
    "thead_open", "thead_close", "tbody_open", "tbody_close", "tr_open", "tr_close", "th_open", "th_close",
    "td_open", "td_close", "heading_open", "heading_close", "strong_open", "strong_close", "bullet_list_open",
    "bullet_list_close", "list_item_open", "list_item_close",
}  # fmt: skip
OURS = re.compile(r"</?(details|summary)>|<!-- tithe:check -->|<details><summary>")


def parser() -> MarkdownIt:
    """As GitHub reads: addresses are linked where they have a scheme or www., and not for ending in .py."""
    made = MarkdownIt("gfm-like", {"linkify": True})
    assert made.linkify is not None
    made.linkify.set({"fuzzy_link": False})
    return made


def kinds(text: str) -> set[str]:
    """Kinds of tokens in rendered Markdown; HTML is what is not our own fold."""
    found = set()
    for token in parser().parse(text):
        for each in (token, *(token.children or ())):
            if each.type in ("html_block", "html_inline") and not OURS.sub("", each.content).strip():
                continue
            if each.type == "html_block":
                assert each.content.startswith("<details><summary>Left out: "), each.content
                continue
            found.add(each.type)
            if each.type == "text":
                assert "@" not in each.content, each.content
                assert "://" not in each.content
                assert "www." not in each.content
                assert not re.search(
                    r"#\d|\b[A-Za-z]{2,}-\d|%\w|\b[0-9]*[a-f][0-9a-f]{6,}\b|:\w+:|\$", each.content
                ), each.content
    return found


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_words_are_shown_and_not_obeyed(text: str) -> None:
    name = ScenarioName(text)
    bad = replace(SLOW, scenario=name, metric=MetricName(text), note=text)
    report = CheckReport(
        RunId(text), text, text, (bad, replace(FAILED, scenario=name, note=text)), 1.0, (text,),
        replace(
            selection(replace(LEFT, scenario=name, picked=text, reasons=(text, text))),
            base=text, head=text, model=text, budget={text: 3.0}, selected=(chosen(text, text),),
        ),
    )  # fmt: skip
    assert kinds(summary(report)) <= ALLOWED
    assert kinds(comment(report)) <= ALLOWED | {"fence"}
    for face in (summary(report), comment(report), "\n".join(commands(report)), junit(report)):
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029]", face)
        assert "##[" not in face
        assert "##vso[" not in face
    for line in (*summary(report).splitlines(), *comment(report).splitlines()):
        assert not line.lstrip().startswith("::")
    for line in commands(report):
        head, properties, message = re.fullmatch(r"::(\w+) ([^:]*)::(.*)", line).groups()  # type: ignore[union-attr]
        assert head in ("error", "warning")
        assert properties.count("=") - properties.count("title=") == text.count("=")
        assert "%0A" not in message
    ElementTree.fromstring(junit(report))


@given(st.text(max_size=80))
def test_any_text_is_one_piece_of_code_in_a_cell(text: str) -> None:
    tokens = parser().parse(table(["a", "b"], [["x", code(text) or "–"], [inline(text) or "–", "y"]]))
    cells = [token for token in tokens if token.type == "td_open"]
    assert len(cells) == 4
    found = {child.type for token in tokens for child in token.children or ()}
    assert found <= {"text", "code_inline"}


@given(st.recursive(st.text(), lambda x: st.lists(x, max_size=3) | st.dictionaries(st.text(), x, max_size=3)))
def test_json_is_equal_and_inert(value: object) -> None:
    document = json.dumps(value, ensure_ascii=False, indent=2)
    shown = inert_json(document)
    assert json.loads(shown) == value
    assert "##[" not in shown
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]", shown)


def test_no_printed_line_begins_a_workflow_command() -> None:
    assert (
        output.inert("a\n::set-output::x\n  ::error::y\nb ::c") == "a\n: :set-output::x\n  : :error::y\nb ::c"
    )


def test_a_run_has_the_same_faces() -> None:
    report = RunReport(RunId("r"), "a" * 40, "b" * 40, (SLOW,), 3.0)
    assert "1 scenario regressed" in summary(report)
    assert ElementTree.fromstring(junit(report)).get("failures") == "1"
    assert words.counted(words.shown(report)) == "1 regressed"
