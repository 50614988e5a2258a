"""A change from a stranger: what it asks for in tithe.toml, what its code does and prints, and what comes of each."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.action_runner import run_action
from tests.integration.conftest import CONFIG, WORK, Project
from tests.integration.test_action import SKIP, Pull, inputs
from tests.unit.tithe.test_report import ALLOWED, kinds

HOSTILE_CONFIG = """\
[tithe]
main = "main"
setup = "sh -c 'env > {seen}; exit 0'"
python = "/bin/false"
env = ["*"]

[notify]
urls = ["https://evil.example/hook"]

[decision]
wanted_effect = 0.9

[graph]
packages = ["pkg"]

[[scenario]]
name = "quick"
command = "python job.py"
metrics = ["ttfb", "wall"]
timeout = "20s"
"""

NOISY_JOB = """\
import json, os, sys
from pkg import work
from tithe import first_batch
print("::error::owned\\n::add-mask::quick\\n##[add-mask]quick ##vso[x]\\x1b[31mred\\x1b]0;t\\x07 <b>x</b> @all")
print("::set-output name=x::y\\n" * 10, file=sys.stderr)
for _ in range(160):
    print("x" * 65536)
with open({seen!r}, "a") as file:
    file.write(json.dumps(dict(os.environ)) + "\\n")
work.run()
first_batch()
if {fails}:
    sys.exit("##[add-mask]x ::error::\\x1b[31m<img src=x> @everyone `" + "y" * 10_000_000)
"""

SECRETS = {
    "AWS_SECRET_ACCESS_KEY": "s3cret-1",
    "GITHUB_TOKEN": "s3cret-2",
    "PIP_INDEX_URL": "https://u:s3cret-3@x",
}


@pytest.fixture
def pull(project: Project, tmp_path: Path) -> Pull:
    project.commit("Two", {"README.md": "Two.\n"})
    project.commit("Three", {"README.md": "Three.\n"})
    return Pull(project, tmp_path)


def escapes(text: str) -> list[str]:
    return re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]|##\w*\[", text)


@pytest.mark.parametrize("fails", [False, True])
def test_a_hostile_head_gets_its_scenarios_measured_and_nothing_else(
    pull: Pull, tmp_path: Path, fails: bool
) -> None:
    seen, set_up = tmp_path / "seen", tmp_path / "set-up"
    files = {
        "tithe.toml": HOSTILE_CONFIG.format(seen=set_up),
        "job.py": NOISY_JOB.format(seen=str(seen), fails=fails),
        "pkg/work.py": WORK.format(size=2_400_000),
        "weird ::error::\x1b[31m##[add-mask] @all <b>.py": "x = 1\n",
    }
    job, event = pull.checkout(files, fork=True)
    run = run_action(job.root, tmp_path / "runner", inputs(tmp_path), event, skip=SKIP, **SECRETS)
    check = run.steps["Check the change"]
    assert run.outputs["exit-code"] == "1", check.printed

    # The policy is the base's: no set-up, no wider environment, its own decision rule and interpreter.
    assert not set_up.exists()
    for line in seen.read_text().splitlines():
        environment = json.loads(line)
        assert not set(SECRETS) & set(environment)
        assert not [key for key in environment if key.startswith(("GITHUB_", "RUNNER_", "AWS_", "PIP_"))]
        assert "s3cret" not in line
        assert "very-secret" not in line
    assert "tithe.env, tithe.python, tithe.setup" in check.printed
    assert "notify.urls" in check.printed

    # Nothing that it prints or is called comes out as more than text.
    faces = job.root / ".tithe/report"
    for text in (
        check.printed,
        run.summary,
        *(path.read_text() for path in faces.iterdir() if path.suffix != ".json"),
    ):
        assert not escapes(text)
        assert "s3cret" not in text
    for line in (check.printed + run.summary).splitlines():
        if line.lstrip().startswith("::"):
            assert re.match(r"::(error|warning) title=tithe", line), line
            assert "add-mask" not in line.split("::")[1]
    assert kinds(run.summary) <= ALLOWED
    assert len(check.printed) < 20_000

    # A fork's job has no right to comment, and asks nobody.
    assert run.steps["Comment"].code == 0
    assert "a fork's job may not comment" in run.steps["Comment"].printed


def test_a_scenario_named_like_a_command_is_refused_in_one_line(pull: Pull, tmp_path: Path) -> None:
    config = CONFIG.replace('name = "quick"', 'name = "::set-output name=x::y"')
    job, event = pull.checkout({"tithe.toml": config}, fork=True)
    run = run_action(job.root, tmp_path / "runner", inputs(tmp_path), event, skip=SKIP)
    check = run.steps["Check the change"]
    assert check.code == 2
    (line,) = check.printed.splitlines()
    assert line.startswith("tithe: tithe.toml: ")
    assert "nothing can be said" in run.summary
    assert kinds(run.summary) <= ALLOWED


@pytest.mark.parametrize(
    ("content", "code"),
    [("", 2), ("[[scenario", 2), ("scenario = 3", 2), ("[[scenario]]\nname = 'a'", 2), ("\x00", 2)],
)
def test_a_broken_configuration_of_a_stranger_is_one_line(
    pull: Pull, tmp_path: Path, content: str, code: int
) -> None:
    job, event = pull.checkout({"tithe.toml": content}, fork=True)
    (tmp_path / "event.json").write_text(json.dumps(event))
    env = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(tmp_path / "event.json")}
    done = job.tithe("ci", "check", "--budget", "30s", **env)
    assert done.returncode == code, done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_scenarios_that_a_change_removes_are_named(pull: Pull, tmp_path: Path) -> None:
    config = CONFIG.replace('name = "quick"', 'name = "other"')
    job, event = pull.checkout({"tithe.toml": config}, fork=True)
    run = run_action(job.root, tmp_path / "runner", inputs(tmp_path), event, skip=SKIP)
    assert "removes scenarios" in run.summary
    assert "quick" in run.summary


def test_scenarios_that_a_change_redefines_are_named(pull: Pull, tmp_path: Path) -> None:
    config = CONFIG.replace('command = "python job.py"', 'command = "python -c pass"')
    job, event = pull.checkout({"tithe.toml": config}, fork=True)
    run = run_action(job.root, tmp_path / "runner", inputs(tmp_path), event, skip=SKIP)
    assert "redefines scenarios: quick" in run.steps["Check the change"].printed


def test_files_of_the_ci_system_that_cannot_be_written_hide_no_regression(pull: Pull, tmp_path: Path) -> None:
    job, event = pull.checkout({"pkg/work.py": WORK.format(size=2_400_000)})
    (tmp_path / "event.json").write_text(json.dumps(event))
    (tmp_path / "file").write_text("")
    env = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_PATH": str(tmp_path / "event.json"),
        "GITHUB_OUTPUT": str(tmp_path / "file" / "x"),
        "GITHUB_STEP_SUMMARY": str(tmp_path),
    }
    done = job.tithe("ci", "check", "--budget", "60s", "--report", str(tmp_path / "file" / "r"), **env)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "regressed" in done.stdout
    assert len(done.stderr.splitlines()) == 3
    assert "Traceback" not in done.stderr


def test_a_trusted_change_brings_its_own_policy(pull: Pull, tmp_path: Path) -> None:
    config = CONFIG.replace("[tithe]\n", '[tithe]\nenv = ["ALLOWED"]\n')
    seen = tmp_path / "seen"
    job, event = pull.checkout(
        {
            "tithe.toml": config,
            "job.py": NOISY_JOB.format(seen=str(seen), fails=False),
            "pkg/work.py": WORK.format(size=600_001),
        }
    )
    run = run_action(
        job.root, tmp_path / "runner", inputs(tmp_path, comment="false"), event, skip=SKIP, ALLOWED="1"
    )
    assert "--policy-from" not in run.printed
    assert all(json.loads(line)["ALLOWED"] == "1" for line in seen.read_text().splitlines())
    # The same, not trusted.
    seen.unlink()
    given = inputs(tmp_path, comment="false", untrusted="true")
    run = run_action(job.root, tmp_path / "runner-2", given, event, skip=SKIP, ALLOWED="1")
    assert "tithe.env: only its scenarios count" in run.printed
    assert not any("ALLOWED" in json.loads(line) for line in seen.read_text().splitlines())


def test_a_policy_needs_the_file_at_the_base(project: Project) -> None:
    head = project.git("rev-parse", "HEAD")
    project.git("rm", "--quiet", "--cached", "tithe.toml")
    project.commit("Without", {"README.md": "x"})
    # `commit` adds it again; what matters is a base without it.
    project.git("checkout", "--quiet", "--orphan", "empty")
    project.git("rm", "--quiet", "-r", "--cached", ".")
    project.git("commit", "--quiet", "--allow-empty", "-m", "empty")
    empty = project.git("rev-parse", "HEAD")
    project.git("checkout", "--quiet", "--force", head)
    done = project.tithe("select", "--budget", "1m", "--base", empty, "--policy-from", empty)
    assert done.returncode == 2
    assert "leave out --policy-from" in done.stderr
    done = project.tithe("select", "--budget", "1m", "--policy-from", "--upload-pack=x")
    assert done.returncode == 2
    assert "not a revision" in done.stderr
    outside = project.root.parent / "mine.toml"
    outside.write_text(CONFIG)
    done = project.tithe("select", "--budget", "1m", "--config", str(outside), "--policy-from", "main")
    assert done.returncode == 2
    assert "leave out --policy-from" in done.stderr


@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="what others may see is a matter of the system"
)
def test_what_tithe_knows_cannot_be_read_through_proc(project: Project) -> None:
    """Root may read everything; for others the kernel asks whether the process is dumpable."""
    code = (
        "import ctypes, sys\n"
        "from pathlib import Path\n"
        "from tithe.wiring import Project\n"
        "with Project(Path(sys.argv[1])) as project:\n"
        "    project.executor\n"
        "    print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))\n"  # PR_GET_DUMPABLE
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(project.root)], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "0"
    assert project.tithe("run", "--base", "HEAD", "--head", "HEAD").returncode == 0
