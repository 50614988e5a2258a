"""What makes a launch count, in which words it does not, and from when its phases run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tithe.data.records import BUILTIN_METRICS, Metric, MetricName, Scenario, ScenarioName
from tithe.runner.launch import LaunchResult
from tithe.runner.local import judge, measured, queued_seconds
from tithe.runner.marks import Mark

SCENARIO = Scenario(
    ScenarioName("s"),
    ("python", "train.py"),
    metrics=(*BUILTIN_METRICS.values(), Metric(MetricName("loss"), "")),
    gate=(MetricName("ttfb"),),
)
CHECKOUT = Path("/somewhere/checkout")
RESULT = LaunchResult(
    exit_code=0,
    timed_out=False,
    started_at=0.0,
    seconds=2.0,
    wall_s=1.5,
    cpu_s=1.2,
    rss_bytes=1000,
    marks=(Mark("interpreter", 0.1, 1), Mark("train-batch", 0.5, 1), Mark("train-batch", 0.7, 2)),
)


def test_values_and_phases() -> None:
    values, phases = measured(SCENARIO, RESULT)
    assert values == {"cpu": 1.2, "rss": 1000.0, "ttfb": 0.5, "wall": 1.5}
    assert phases == {"interpreter": 0.1, "train-batch": 0.5}


def test_phases_count_from_the_submit_time() -> None:
    values, phases = measured(SCENARIO, RESULT, queued_s=10.0)
    assert phases == {"queued": 10.0, "interpreter": 10.1, "train-batch": 10.5}
    assert (values["ttfb"], values["wall"]) == (10.5, 1.5)


def test_ok() -> None:
    assert judge(SCENARIO, RESULT, {"ttfb": 0.5}, CHECKOUT) == ("ok", "")


def test_a_missing_first_batch_says_how_to_mark_it() -> None:
    status, note = judge(SCENARIO, RESULT, {"wall": 1.5}, CHECKOUT)
    assert status == "unmarked"
    assert "tithe.first_batch()" in note


def test_a_missing_custom_metric_says_how_to_report_it() -> None:
    status, note = judge(replace(SCENARIO, gate=(MetricName("loss"),)), RESULT, {"wall": 1.5}, CHECKOUT)
    assert status == "unmarked"
    assert "loss=NUMBER" in note


def test_a_metric_that_does_not_decide_may_be_missing() -> None:
    assert judge(replace(SCENARIO, gate=(MetricName("wall"),)), RESULT, {"wall": 1.5}, CHECKOUT)[0] == "ok"


def test_a_failure_tells_the_last_line_without_what_a_terminal_obeys(tmp_path: Path) -> None:
    stderr = tmp_path / "stderr"
    stderr.write_bytes(b"Traceback\n\x1b]0;owned\x07\x1b[31mValueError: " + b"x" * 500 + b"\n\n")
    status, note = judge(SCENARIO, replace(RESULT, exit_code=1, stderr=stderr), {}, CHECKOUT)
    assert status == "failed"
    assert note.startswith("exit code 1: ")
    assert "ValueError: xxx" in note
    assert note.isprintable()
    assert len(note) <= 200


def test_a_failure_names_files_as_in_the_repository_wherever_the_arm_stands(tmp_path: Path) -> None:
    stderr = tmp_path / "stderr"
    checkout = Path("/" + "deep/" * 100 + "checkout")
    stderr.write_text(f"python: can't open file '{checkout}/jobs/nowhere.py': No such file")
    _, note = judge(SCENARIO, replace(RESULT, exit_code=2, stderr=stderr), {}, checkout)
    assert note == "exit code 2: python: can't open file 'jobs/nowhere.py': No such file"


def test_time_out_and_a_command_that_is_not_there() -> None:
    assert judge(SCENARIO, replace(RESULT, timed_out=True, exit_code=143), {}, CHECKOUT)[0] == "timeout"
    status, note = judge(SCENARIO, replace(RESULT, exit_code=None, problem="No such file"), {}, CHECKOUT)
    assert (status, note) == ("failed", "cannot start python: No such file")


@pytest.mark.parametrize(
    ("given", "expected"), [("90", 10.0), ("", 0.0), ("soon", 0.0), ("200", 0.0), ("nan", 0.0), ("-1e9", 0.0)]
)
def test_queued(given: str, expected: float) -> None:
    assert queued_seconds({"TITHE_SUBMITTED": given}, 100.0) == expected
