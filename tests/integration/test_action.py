"""The steps of action.yml, run one after another as GitHub would, on a pull request's shallow merge checkout."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.integration.action_runner import action, run_action
from tests.integration.conftest import SIZE, WORK, Project
from tests.integration.forge_server import Forge, forge
from tithe.data.store import Store

SLOW = WORK.format(size=4 * SIZE)
SKIP = ("Install tithe",)


@pytest.fixture
def server() -> Iterator[Forge]:
    with forge() as held:
        yield held


class Pull:
    """A pull request: a branch of a project, and the shallow checkout of its merge that a job gets."""

    def __init__(self, project: Project, tmp_path: Path) -> None:
        self.project = project
        self.tmp_path = tmp_path
        self.count = 0

    def checkout(
        self, files: dict[str, str], *, depth: int = 2, fork: bool = False
    ) -> tuple[Project, dict[str, object]]:
        self.count += 1
        project = self.project
        base = project.git("rev-parse", "main")
        project.git("checkout", "--quiet", "-B", "feature", "main~1")
        head = project.commit("A change", files)
        project.git("checkout", "--quiet", "--detach", "main")
        project.git("merge", "--quiet", "--no-ff", "-m", "Merge for the test", "feature")
        project.git("update-ref", "refs/pull/1/merge", "HEAD")
        project.git("checkout", "--quiet", "main")
        root = self.tmp_path / f"job-{self.count}"
        root.mkdir()
        job = Project(root)
        job.git("init", "--quiet")
        job.git("remote", "add", "origin", f"file://{project.root}")
        job.git(
            "fetch",
            "--quiet",
            "--no-tags",
            f"--depth={depth}",
            "origin",
            "+refs/pull/1/merge:refs/remotes/pull/1/merge",
        )
        job.git("checkout", "--quiet", "--detach", "refs/remotes/pull/1/merge")
        repository = {"full_name": "owner/project"}
        event = {
            "pull_request": {
                "number": 1,
                "head": {"sha": head, "repo": {"full_name": "stranger/project"} if fork else repository},
                "base": {"sha": base, "repo": repository},
            }
        }
        return job, event


@pytest.fixture
def pull(project: Project, tmp_path: Path) -> Pull:
    project.commit("Docs", {"README.md": "Two.\n"})
    project.commit("More docs", {"README.md": "Three.\n"})
    return Pull(project, tmp_path)


def inputs(tmp_path: Path, **more: str) -> dict[str, str]:
    return {
        "budget": "60s",
        "python": sys.executable,
        "spool": str(tmp_path / "spool"),
        "credentials": "SPOOL_KEY=very-secret\n",
        **more,
    }


def test_a_regression_is_told_everywhere_and_then_taken_back(
    pull: Pull, tmp_path: Path, server: Forge
) -> None:
    job, event = pull.checkout({"pkg/work.py": SLOW})
    env = {"GITHUB_API_URL": server.url}
    run = run_action(job.root, tmp_path / "runner", inputs(tmp_path), event, skip=SKIP, **env)
    check = run.steps["Check the change"]
    assert check.code == 1, check.printed
    assert run.outputs == {"exit-code": "1", "alert": "true", "report": str(job.root / ".tithe/report")}
    assert run.summary.startswith("## ❌ tithe: 1 scenario regressed\n")
    assert "| `quick` | `ttfb` | **regressed** |" in run.summary
    (error,) = [line for line in check.printed.splitlines() if line.startswith("::")]
    assert error.startswith("::error title=tithe%3A quick regressed::ttfb ")
    suite = ElementTree.parse(job.root / ".tithe/report/junit.xml").getroot()
    assert suite.get("failures") == "1"
    assert (
        json.loads((job.root / ".tithe/report/report.json").read_text())["verdicts"][0]["verdict"]
        == "regressed"
    )
    (body,) = server.bodies()
    assert body.startswith("<!-- tithe:check -->\n### ❌ tithe: 1 scenario regressed")
    assert "https://github.example/owner/project/actions/runs/42" in body
    assert run.steps["Send what was measured"].code == 0
    assert run.steps["Comment"].printed == "made a comment\n"
    assert server.tokens == {"Bearer token-of-the-job"}

    # The same pull request, mended: the comment is updated, and no second one made.
    job, event = pull.checkout({"pkg/extra.py": "unused = 1\n"})
    run = run_action(job.root, tmp_path / "runner-2", inputs(tmp_path), event, skip=SKIP, **env)
    assert run.outputs["exit-code"] == "0"
    (body,) = server.bodies()
    assert "❌" not in body
    assert run.steps["Comment"].printed == "updated the comment\n"

    # Everything that both measured is in the spool, with the diffs that were tested.
    with Store.open(tmp_path / "store.db") as store:
        from tithe.data.spool import ingest

        report = ingest(store, tmp_path / "spool")
        assert not report.skipped
        assert report.bundles == 2
        assert [o.verdict for o in store.outcomes()].count("regressed") == 1
        assert len(store.changes(off_history=True)) == 2


def test_without_an_alert_there_is_no_comment(pull: Pull, tmp_path: Path, server: Forge) -> None:
    job, event = pull.checkout({"pkg/extra.py": "unused = 1\n"})
    run = run_action(
        job.root, tmp_path / "runner", inputs(tmp_path), event, skip=SKIP, GITHUB_API_URL=server.url
    )
    assert not run.failed, run.printed
    assert "❌" not in run.summary
    assert server.bodies() == []


def test_a_comment_of_somebody_else_with_our_marker_is_left_alone(
    pull: Pull, tmp_path: Path, server: Forge
) -> None:
    forged = {"id": 3, "body": "<!-- tithe:check -->\nmine", "user": {"type": "User"}, "author": {"id": 8}}
    server.comments += [{"id": n, "body": "hello", "user": {"type": "User"}} for n in range(4, 110)]
    server.comments.insert(0, forged)
    job, event = pull.checkout({"pkg/work.py": SLOW})
    run_action(job.root, tmp_path / "runner", inputs(tmp_path), event, skip=SKIP, GITHUB_API_URL=server.url)
    assert forged["body"] == "<!-- tithe:check -->\nmine"
    assert server.bodies()[-1].startswith("<!-- tithe:check -->\n### ❌")


def test_the_step_that_runs_code_has_no_credentials() -> None:
    for step in action()["runs"]["steps"]:
        variables = " ".join(str(value) for value in step.get("env", {}).values())
        if step["name"] == "Check the change":
            assert "credentials" not in variables
            assert "token" not in variables


def test_nothing_is_put_into_a_script_by_the_template() -> None:
    """A `${{ … }}` within `run` would be a shell injection by whoever names a branch."""
    for step in action()["runs"]["steps"]:
        assert "${{" not in step["run"]
        assert step["shell"] == "bash"


def test_a_checkout_that_is_too_shallow_says_how_deep(pull: Pull, tmp_path: Path) -> None:
    job, event = pull.checkout({"pkg/work.py": SLOW}, depth=1)
    (tmp_path / "event.json").write_text(json.dumps(event))
    env = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(tmp_path / "event.json")}
    done = job.tithe("ci", "check", "--budget", "30s", **env)
    assert done.returncode == 2
    assert "fetch-depth: 2" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    # The action asks for the missing commit instead.
    run = run_action(job.root, tmp_path / "runner", inputs(tmp_path, comment="false"), event, skip=SKIP)
    assert run.outputs["exit-code"] == "1", run.printed


@pytest.mark.slow
def test_the_first_step_installs_what_the_others_run(pull: Pull, tmp_path: Path) -> None:
    job, event = pull.checkout({"pkg/extra.py": "unused = 1\n"})
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv/bin/python"
    # What tithe needs is there already, so that the test does not fetch it again.
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    ours = [path for path in sys.path if path.endswith("site-packages")]
    (site / "ours.pth").write_text("\n".join(ours))
    run = run_action(
        job.root, tmp_path / "runner", inputs(tmp_path, python=str(python), comment="false"), event
    )
    assert not run.failed, run.printed
    assert (site / "tithe").is_dir()
