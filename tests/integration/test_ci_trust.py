"""What a change may bring to a CI job, and what it gains by it: nothing. Each of these was once possible."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.action_runner import action, run_action
from tests.integration.conftest import CONFIG, SIZE, WORK, Project
from tests.integration.test_action import SKIP, SLOW, Pull, inputs

HOUSE = Path(__file__).resolve().parents[2]


@pytest.fixture
def pull(project: Project, tmp_path: Path) -> Pull:
    project.commit("Two", {"README.md": "Two.\n"})
    project.commit("Three", {"README.md": "Three.\n"})
    return Pull(project, tmp_path)


def said(job: Project, event: object, tmp_path: Path, *words: str, **env: str) -> subprocess.CompletedProcess:
    (tmp_path / "event.json").write_text(json.dumps(event))
    given = {"GITHUB_EVENT_NAME": "pull_request", **env}
    return job.tithe(*words, GITHUB_ACTIONS="true", GITHUB_EVENT_PATH=str(tmp_path / "event.json"), **given)


def test_no_step_imports_from_the_checkout(pull: Pull, tmp_path: Path) -> None:
    """Modules that the steps import, once more in the change: they say where they were loaded."""
    stolen = tmp_path / "stolen"
    evil = f"import os\nopen({str(stolen)!r}, 'a').write(os.getcwd() + chr(10))\nraise SystemExit(0)\n"
    names = ("tithe/__init__", "click", "shlex", "msgspec", "numpy", "pip/__main__", "sitecustomize")
    job, event = pull.checkout({f"{name}.py": evil for name in names})
    given = inputs(tmp_path, snapshot=str(tmp_path / "none"))
    run = run_action(
        job.root, tmp_path / "runner", given, event, skip=SKIP, GITHUB_API_URL="http://127.0.0.1:1"
    )
    assert set(run.steps) == {"Fetch the snapshot", "Check the change", "Send what was measured", "Comment"}
    # A launch imports what its own checkout brings, since that is what is measured: elsewhere, with no secrets.
    assert str(job.root) not in stolen.read_text().splitlines()
    assert list((tmp_path / "spool").iterdir()), run.printed
    for step in action()["runs"]["steps"]:
        for line in step["run"].splitlines():
            if '"$TITHE_PYTHON"' in line:
                assert '"$TITHE_PYTHON" -I ' in line
    lab = (HOUSE / "ci/gitlab.yml").read_text()
    assert lab.count("python3 ") == lab.count("python3 -I ")


@pytest.mark.parametrize("link", [False, True])
def test_a_change_that_brings_tithes_own_folder_is_refused(pull: Pull, tmp_path: Path, link: bool) -> None:
    job, event = pull.checkout({"pkg/work.py": SLOW})
    if link:
        (job.root / ".tithe").symlink_to(tmp_path)
    else:
        (job.root / ".TITHE").mkdir()
        (job.root / ".TITHE" / "outbox.txt").write_text("forged")
        (job.root / ".tithe").mkdir(exist_ok=True)
    job.git("add", "--force", ".tithe" if link else ".TITHE")
    job.git("commit", "--quiet", "--amend", "--no-edit")
    for words in (("ci", "check", "--budget", "1m"), ("ci", "push", str(tmp_path / "spool")), ("status",)):
        done = said(job, event, tmp_path, *words)
        assert done.returncode == 2, done.stdout
        assert "belongs to tithe" in done.stderr
        assert len(done.stderr.splitlines()) == 1


def test_moving_the_package_hides_no_regression(pull: Pull, tmp_path: Path) -> None:
    """What is imported is asked of each revision: with the head's answer the base would only fail."""
    project = pull.project
    config = CONFIG.replace('packages = ["pkg"]\n', "").replace('pythonpath = ["."]\n', "")
    project.commit("Defaults", {"tithe.toml": config})
    project.commit("Docs", {"README.md": "x"})
    job, event = pull.checkout({"src/pkg/work.py": SLOW, "src/pkg/__init__.py": ""}, fork=True)
    job.git("rm", "--quiet", "-r", "pkg")
    # The job's own way of starting is moved along.
    job.git("commit", "--quiet", "--amend", "--no-edit")
    done = said(job, event, tmp_path, "ci", "check", "--budget", "60s")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "regressed" in done.stdout


def test_under_pull_request_target_nothing_was_checked(pull: Pull, tmp_path: Path) -> None:
    job, event = pull.checkout({"pkg/work.py": SLOW}, fork=True)
    job.git("checkout", "--quiet", "--detach", "HEAD~1")  # the base, as this event checks out
    done = said(
        job, event, tmp_path, "ci", "check", "--budget", "60s", GITHUB_EVENT_NAME="pull_request_target"
    )
    assert done.returncode == 2
    assert "not the change" in done.stderr
    given = ("--base", "HEAD")
    done = said(job, event, tmp_path, "ci", "check", "--budget", "60s", *given)
    assert done.returncode == 2
    assert "check out the change itself" in done.stderr


def test_what_the_main_branch_improved_meanwhile_is_not_held_against_a_change(
    pull: Pull, tmp_path: Path
) -> None:
    """A checkout of the branch itself, whose target has moved on: it is compared with where it left it."""
    project = pull.project
    start = project.git("rev-parse", "main")
    fast = project.commit("Twice as fast", {"pkg/work.py": WORK.format(size=SIZE // 4)})
    project.git("checkout", "--quiet", "-B", "feature", start)
    head = project.commit("Words", {"pkg/extra.py": "x = 1\n"})
    repository = {"full_name": "owner/project"}
    event = {
        "pull_request": {
            "number": 1,
            "head": {"sha": head, "repo": repository},
            "base": {"sha": fast, "repo": repository},
        }
    }
    done = said(project, event, tmp_path, "ci", "check", "--budget", "60s")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{start[:10]} → {head[:10]}" in done.stdout


def test_a_branch_pushed_with_force_is_compared_with_the_commit_before(
    project: Project, tmp_path: Path
) -> None:
    before = project.git("rev-parse", "HEAD")
    project.commit("Words", {"pkg/extra.py": "x = 1\n"})
    event = {"before": "e" * 40, "forced": True}
    done = said(project, event, tmp_path, "ci", "check", "--budget", "60s", GITHUB_EVENT_NAME="push")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "eeeeeeeeee is gone: compared with the commit before instead" in done.stdout
    assert f"{before[:10]} → " in done.stdout


def test_an_event_that_nobody_knows_is_a_strangers(project: Project, tmp_path: Path) -> None:
    project.commit("Words", {"pkg/extra.py": "x = 1\n"})
    done = said(project, {}, tmp_path, "ci", "check", "--budget", "60s", GITHUB_EVENT_NAME="issue_comment")
    assert done.returncode == 2
    assert "give --base or --policy-from" in done.stderr


@pytest.mark.parametrize("option", ["--base", "--policy-from", "--snapshot", "--spool"])
def test_an_option_that_is_given_empty_is_no_default(project: Project, option: str) -> None:
    """`--policy-from "$BASE"` with a variable that is not set."""
    done = project.tithe("ci", "check", "--budget", "60s", option, "")
    assert done.returncode == 2
    assert "is empty" in done.stderr


def test_a_fork_without_secrets_is_green(pull: Pull, tmp_path: Path) -> None:
    job, event = pull.checkout({"pkg/extra.py": "x = 1\n"}, fork=True)
    given = inputs(
        tmp_path, spool="s3://bucket/spool", credentials="AWS_ACCESS_KEY_ID=\nAWS_SECRET_ACCESS_KEY=\n"
    )
    run = run_action(job.root, tmp_path / "runner", given, event, skip=SKIP)
    assert not run.failed, run.printed
    assert "::notice" in run.steps["Send what was measured"].printed
    given = inputs(tmp_path)
    run = run_action(job.root, tmp_path / "runner", given, event, skip=SKIP)
    assert not run.failed, run.printed
    assert "a fork's job sends nothing" in run.steps["Send what was measured"].printed
    assert not (tmp_path / "spool").exists()


@pytest.mark.parametrize("line", ["very secret", "-----BEGIN KEY-----", "1X=very-secret", "A B=very-secret"])
def test_a_credential_that_is_none_is_not_shown(pull: Pull, tmp_path: Path, line: str) -> None:
    job, event = pull.checkout({"NOTES.md": "x\n"})
    given = inputs(tmp_path, snapshot=str(tmp_path / "none"), credentials=f"GOOD=1\n{line}\nvery-secret\n")
    run = run_action(job.root, tmp_path / "runner", given, event, skip=SKIP)
    step = run.steps["Fetch the snapshot"]
    assert step.code == 2
    assert step.printed.startswith("tithe: credentials: line 2 is not NAME=value")
    assert line not in step.printed
    assert "very-secret" not in step.printed


def test_all_lines_of_the_arguments_count(pull: Pull, tmp_path: Path) -> None:
    job, event = pull.checkout({"pkg/extra.py": "x = 1\n"})
    folder = tmp_path / "my report"
    given = inputs(tmp_path, arguments=f"--seed 3\n--report '{folder}'\n--untrusted\n")
    run = run_action(job.root, tmp_path / "runner", given, event, skip=(*SKIP, "Send what was measured"))
    assert run.outputs["report"] == str(folder), run.printed
    given = inputs(tmp_path, arguments="--seed 3 'x")
    run = run_action(job.root, tmp_path / "runner", given, event, skip=(*SKIP, "Send what was measured"))
    assert run.steps["Check the change"].printed == "tithe: arguments: a quote is not closed\n"


@pytest.mark.parametrize("name", ["untrusted", "fail-on-inconclusive"])
def test_a_flag_that_is_neither_true_nor_false_is_an_error(pull: Pull, tmp_path: Path, name: str) -> None:
    job, event = pull.checkout({"NOTES.md": "x\n"})
    run = run_action(job.root, tmp_path / "runner", inputs(tmp_path, **{name: "yes"}), event, skip=SKIP)
    assert run.steps["Check the change"].code == 2
    assert run.steps["Check the change"].printed == f"tithe: {name}: write true or false\n"


def test_no_report_of_another_change_is_commented_on(pull: Pull, tmp_path: Path) -> None:
    job, event = pull.checkout({"NOTES.md": "x\n"})
    done = said(job, event, tmp_path, "ci", "check", "--budget", "60s")
    assert done.returncode == 0, done.stderr
    report = job.root / ".tithe/report/report.json"
    stale = report.read_text()
    # A check that cannot be made leaves nothing of the one before.
    (job.root / "tithe.toml").write_text("[")
    assert said(job, event, tmp_path, "ci", "check", "--budget", "60s").returncode == 2
    assert not list(report.parent.iterdir())
    head = json.loads(stale)["head"]
    report.write_text(stale.replace(head, "e" * 40))
    env = {"GITHUB_TOKEN": "t", "GITHUB_API_URL": "http://127.0.0.1:1", "GITHUB_REPOSITORY": "o/r"}
    done = said(job, event, tmp_path, "ci", "comment", **env)
    assert done.returncode == 2
    assert "is about eeeeeeeeee" in done.stderr
    report.unlink()
    os.mkfifo(report)
    done = said(job, event, tmp_path, "ci", "comment", **env)
    assert done.returncode == 2
    assert "no regular file" in done.stderr


def test_a_check_in_a_subfolder_keeps_its_records_where_they_are_sent_from(
    pull: Pull, tmp_path: Path
) -> None:
    job, event = pull.checkout({"pkg/extra.py": "x = 1\n"})
    (tmp_path / "event.json").write_text(json.dumps(event))
    env = {
        **os.environ,
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_NAME": "pull_request",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
    }
    for words in (("check", "--budget", "60s", "--outbox"), ("push", str(tmp_path / "spool"))):
        done = subprocess.run(
            [sys.executable, "-I", "-m", "tithe", "ci", *words],
            cwd=job.root / "pkg", env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    assert list((tmp_path / "spool").iterdir())
    assert not (job.root / "pkg" / ".tithe").exists()


def test_the_outputs_say_what_the_step_exits_with(pull: Pull, tmp_path: Path) -> None:
    job, event = pull.checkout({"pkg/extra.py": "x = 1\n"})
    told = tmp_path / "told"
    (tmp_path / "file").write_text("")
    words = ("ci", "check", "--budget", "60s", "--report", str(tmp_path / "file" / "r"))
    done = said(job, event, tmp_path, *words, GITHUB_OUTPUT=str(told))
    assert done.returncode == 3
    assert "exit-code=3\nalert=false\n" in told.read_text()


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"selection": ' + "[" * 100_000, "7", "{}", '"selection"']
)
def test_what_is_no_result_is_said_in_one_line(project: Project, tmp_path: Path, content: str) -> None:
    (tmp_path / "r.json").write_text(content)
    done = project.tithe("report", str(tmp_path / "r.json"))
    assert done.returncode == 2
    assert "no result" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Report" not in done.stderr


def test_impossible_numbers_are_no_result(pull: Pull, tmp_path: Path) -> None:
    job, event = pull.checkout({"pkg/extra.py": "x = 1\n"})
    assert said(job, event, tmp_path, "ci", "check", "--budget", "60s").returncode == 0
    good = (job.root / ".tithe/report/report.json").read_text()
    spent = json.loads(good)["spent_s"]
    for number in ("-5", "1e300", "1e999"):
        (tmp_path / "r.json").write_text(good.replace(f'"spent_s": {spent}', f'"spent_s": {number}'))
        done = job.tithe("report", str(tmp_path / "r.json"))
        assert done.returncode == 2, number
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("key", ["name", "main"])
def test_a_name_does_not_end_in_a_new_line(project: Project, key: str) -> None:
    text = (project.root / "tithe.toml").read_text()
    old = 'name = "quick"' if key == "name" else 'main = "main"'
    assert old in text
    (project.root / "tithe.toml").write_text(text.replace(old, old[:-1] + '\\n"'))
    done = project.tithe("select", "--budget", "1m")
    assert done.returncode == 2
    assert f"{key}: " in done.stderr


def test_the_examples_of_jobs_parse_and_name_inputs_that_there_are() -> None:
    found = 0
    for page in ("README.md", "docs/ci.md"):
        for block in re.findall(r"```yaml\n(.*?)```", (HOUSE / page).read_text(encoding="utf-8"), re.DOTALL):
            for step in _steps(yaml.safe_load(block)):
                if step.get("uses", "").startswith("tithe/"):
                    found += 1
                    assert set(step["with"]) <= set(action()["inputs"]), step
    assert found >= 2
    jobs = yaml.safe_load((HOUSE / "ci/gitlab.yml").read_text(encoding="utf-8"))
    assert {job["extends"] for job in jobs.values() if "extends" in job} <= set(jobs)


def _steps(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield from node.get("steps", ())
        for value in node.values():
            yield from _steps(value)
