"""Bad input through the command line: one clear line, the documented exit code, nothing lost, no traceback."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest


def one_line(done: subprocess.CompletedProcess[str], code: int, *says: str) -> None:
    assert done.returncode == code, done.stdout + done.stderr
    assert done.stderr.startswith("tithe: ")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    for text in says:
        assert text in done.stderr


def verdict(done: subprocess.CompletedProcess[str]) -> dict[str, object]:
    document = json.loads(done.stdout)
    assert document["schema"] == 1
    (only,) = [v for v in document["verdicts"] if v["metric"] == "ttfb"]
    assert isinstance(only, dict)
    return only


def test_no_configuration(project) -> None:
    (project.root / "tithe.toml").unlink()
    one_line(project.tithe("scenarios"), 2, "tithe.toml", "tithe init")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[tithe\n", "tithe.toml:1:"),
        ("[tithe]\nmian = 'main'\n", "main"),
        ("[tithe]\n[[scenario]]\nname = 'x'\ncommand = 'python x.py'\ntimeout = 'soon'\n", "timeout"),
        ("[tithe]\n[[scenario]]\nname = 'x'\n", "command"),
        ("[tithe]\n[[scenario]]\nname = 'x'\ncommand = 'a'\nstop = 'never'\n", "stop"),
    ],
)
def test_wrong_configuration_names_file_key_and_what_was_expected(project, text: str, says: str) -> None:
    project.write("tithe.toml", text)
    one_line(project.tithe("scenarios"), 2, "tithe.toml", says)


@pytest.mark.parametrize(
    "revision", ["--upload-pack=touch /tmp/x", "-h", "no-such-branch", "HEAD~99", "", "a b\x1b[31m"]
)
def test_unknown_and_hostile_revisions(project, revision: str) -> None:
    done = project.tithe("run", f"--base={revision}", "--head", "HEAD")
    one_line(done, 2)
    assert "\x1b" not in done.stderr
    one_line(project.tithe("bisect", "quick", f"--good={revision}", "--bad=HEAD"), 2)


def test_unknown_scenario_suggests_the_nearest(project) -> None:
    one_line(project.tithe("run", "quik"), 2, "quik", "quick")
    one_line(project.tithe("bisect", "quik", "--good", "HEAD", "--bad", "HEAD"), 2, "quick")
    one_line(project.tithe("shrink", "quik"), 2, "quick")


@pytest.mark.parametrize("budget", ["0", "0s", "-5m", "10", "lots", "", "nan", "cpu=", "1e999s"])
def test_budget_zero_negative_or_without_unit(project, budget: str) -> None:
    project.commit("Change", {"pkg/work.py": "def run():\n    pass\n"})
    for command in ("select", "check"):
        one_line(project.tithe(command, f"--budget={budget}"), 2, "budget")


def test_empty_store_selects_from_the_prior_and_says_so(project) -> None:
    project.commit("Change", {"pkg/work.py": "def run():\n    pass\n"})
    done = project.tithe("select", "--budget", "5m")
    assert done.returncode == 0, done.stderr
    assert "prior" in done.stdout
    document = json.loads(project.tithe("select", "--budget", "5m", "--format", "json").stdout)
    assert document["model"] == "prior"
    assert [c["scenario"] for c in document["selected"]] == ["quick"]


def test_dirty_work_tree_is_the_diff_under_test(project) -> None:
    project.write("pkg/work.py", "def run():\n    return sum(i * i for i in range(2_400_000))\n")
    project.write("pkg/new.py", "VALUE = 1\n")
    before = project.git("status", "--porcelain")
    document = json.loads(project.tithe("select", "--budget", "5m", "--format", "json").stdout)
    assert sorted(document["diff"]["paths"]) == ["pkg/new.py", "pkg/work.py"]
    assert document["base"] == project.git("rev-parse", "HEAD")
    done = project.tithe("check", "--budget", "5m", "--format", "json")
    assert done.returncode == 1, done.stdout + done.stderr
    assert verdict(done)["verdict"] == "regressed"
    assert verdict(done)["confirmed"] is True
    assert project.git("status", "--porcelain") == before


def test_shallow_clone_says_what_is_missing(project, tmp_path: Path) -> None:
    for number in range(3):
        project.commit(f"Change {number}", {"README.md": f"{number}\n"})
    first = project.git("rev-parse", "HEAD~2")
    subprocess.run(
        ["git", "clone", "-q", "--depth", "1", project.root.as_uri(), str(tmp_path / "shallow")], check=True
    )
    shallow = type(project)(tmp_path / "shallow")
    done = shallow.tithe("ingest", "git")
    assert done.returncode == 0, done.stderr
    assert "shallow" in done.stdout
    one_line(shallow.tithe("bisect", "quick", "--good", first, "--bad", "HEAD"), 2, "fetch")


FAILING = {
    "missing": ("python nowhere.py", None, "nowhere.py"),
    "no such program": ("no-such-program --x", None, "no-such-program"),
    "fails": (
        "python bad.py",
        "import sys\nprint('it \\x1b[31mbroke', file=sys.stderr)\nsys.exit(3)\n",
        "exit code 3",
    ),
    "no first batch": ("python bad.py", "print('training')\n", "tithe.first_batch()"),
}


@pytest.mark.parametrize("kind", FAILING)
def test_scenario_that_cannot_be_measured_is_an_error_with_the_reason(project, kind: str) -> None:
    command, script, says = FAILING[kind]
    if script is not None:
        project.write("bad.py", script)
    project.write("tithe.toml", (project.root / "tithe.toml").read_text().replace("python job.py", command))
    project.commit("Break it")
    done = project.tithe("run", "--base", "HEAD", "--head", "HEAD", "--format", "json")
    assert done.returncode == 3, done.stdout + done.stderr
    found = verdict(done)
    assert found["verdict"] == "error"
    assert says in str(found["note"])
    assert "\x1b" not in done.stdout


def test_scenario_that_hangs_is_ended_with_its_whole_tree(project) -> None:
    project.write(
        "hang.py",
        "import subprocess, sys, time\n"
        'code = \'import os, time; os.setsid(); open("child.pid", "w").write(str(os.getpid())); time.sleep(600)\'\n'
        "subprocess.Popen([sys.executable, '-c', code])\n"
        "time.sleep(600)\n",
    )
    text = (project.root / "tithe.toml").read_text()
    project.write("tithe.toml", text.replace("python job.py", "python hang.py").replace("20s", "1s"))
    project.commit("Hang")
    done = project.tithe("run", "--base", "HEAD", "--head", "HEAD", "--format", "json")
    assert done.returncode == 3
    assert "longer than 1 s" in str(verdict(done)["note"])
    import os

    pids = [int(path.read_text()) for path in (project.root / ".tithe").rglob("child.pid")]
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_garbage_on_stdout_is_not_a_value(project) -> None:
    project.write(
        "noise.py",
        "import os, sys\nsys.stdout.buffer.write(bytes(range(128, 256)) * 200)\nprint('value=nan')\n",
    )
    config = (project.root / "tithe.toml").read_text().replace("python job.py", "python noise.py")
    project.write("tithe.toml", config.replace('["ttfb", "wall"]', '[{ name = "value" }]'))
    project.commit("Noise")
    done = project.tithe("run", "--base", "HEAD", "--head", "HEAD", "--format", "json")
    assert done.returncode == 3
    (found,) = json.loads(done.stdout)["verdicts"]
    assert found["verdict"] == "error"
    assert "value" in found["note"]


def test_store_from_a_newer_version_is_left_alone(project) -> None:
    assert project.tithe("ingest", "git").returncode == 0
    path = project.root / ".tithe" / "store.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 999")
        for (name,) in connection.execute("select name from sqlite_master where type = 'table'").fetchall():
            if "version" in name:
                connection.execute("UPDATE " + name + " SET version = 999")  # noqa: S608 - our own table
    connection.close()
    before = path.read_bytes()
    one_line(project.tithe("status"), 3, "newer")
    assert path.read_bytes() == before


def test_corrupt_store_says_how_to_mend_it(project) -> None:
    assert project.tithe("ingest", "git").returncode == 0
    path = project.root / ".tithe" / "store.db"
    path.write_bytes(b"not a database at all" * 500)
    one_line(project.tithe("status"), 3, "store.db")


def test_two_clean_revisions_are_not_blamed(project) -> None:
    head = project.commit("Docs", {"README.md": "More words.\n"})
    done = project.tithe("run", "--base", "HEAD~1", "--head", head, "--format", "json")
    assert done.returncode == 0, done.stdout
    found = verdict(done)
    assert found["verdict"] in ("same", "inconclusive")
    assert found["detectable"] is not None


def test_a_scenario_that_cannot_run_here_is_named_and_never_silently_passed(project) -> None:
    config = (project.root / "tithe.toml").read_text()
    project.write("tithe.toml", config + 'requires = ["no_such_module_anywhere"]\n')
    done = project.tithe("run", "--base", "HEAD", "--head", "HEAD")
    assert done.returncode == 3, done.stdout
    assert "quick was not run: not installed: no_such_module_anywhere" in done.stdout
    document = json.loads(project.tithe("select", "--budget", "5m", "--format", "json").stdout)
    assert [(c["scenario"], c["picked"]) for c in document["rest"]] == [("quick", "unavailable")]


def test_the_first_commit_has_nothing_to_be_compared_with(project) -> None:
    for command in ("select", "check"):
        one_line(project.tithe(command, "--budget", "1m"), 2, "first commit", "--base")


@pytest.mark.parametrize("content", [None, "{}", "not json", "[1, 2]", "\x00\xff"])
def test_a_selection_that_is_none(project, content: str | None) -> None:
    if content is not None:
        project.write("selection.json", content)
    one_line(project.tithe("run", "selection.json"), 2, "selection.json")


def test_output_that_cannot_be_written_and_a_reader_that_went_away(project) -> None:
    project.commit("Change", {"pkg/work.py": "def run():\n    pass\n"})
    blocked = str(project.root / "README.md" / "x.json")
    one_line(project.tithe("select", "--budget", "1m", "--output", blocked), 2, "cannot be written")
    for target, code in (("/dev/full", 3), ("/dev/null", 0)):
        with Path(target).open("w") as stream:
            done = subprocess.run(
                [sys.executable, "-m", "tithe", "status"],
                cwd=project.root,
                stdout=stream,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
        assert done.returncode == code
        assert "Traceback" not in done.stderr


def test_interrupt_keeps_what_is_done_and_leaves_nothing_running(project) -> None:
    project.commit("Change", {"pkg/work.py": "import time\n\ndef run():\n    time.sleep(0.3)\n"})
    command = [sys.executable, "-m", "tithe", "run", "quick", "--base", "HEAD", "--head", "HEAD"]
    process = subprocess.Popen(
        command, cwd=project.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and launches(project) < 6:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, out + err
    assert err.strip().startswith("tithe: stopped")
    assert launches(project) >= 6
    assert not list((project.root / ".tithe" / "cache" / "scratch").glob("*/*"))


def launches(project) -> int:
    path = project.root / ".tithe" / "store.db"
    if not path.exists():
        return 0
    try:
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            found = connection.execute("select count(*) from launch").fetchone()[0]
        connection.close()
    except sqlite3.Error:
        return 0
    return int(found)


def test_code_that_does_not_come_from_the_checkout_is_a_warning(project) -> None:
    config = (
        (project.root / "tithe.toml").read_text().replace('packages = ["pkg"]', 'packages = ["pkg", "json"]')
    )
    project.write("tithe.toml", config)
    head = project.commit("Use json", {"job.py": "import json\n" + (project.root / "job.py").read_text()})
    for words in (("run", "--base", head, "--head", head), ("check", "--budget", "5m", "--head", head)):
        done = project.tithe(*words, "--format", "json")
        assert done.returncode in (0, 1), done.stderr
        warnings = json.loads(done.stdout)["warnings"]
        assert any("json was imported from" in warning for warning in warnings), warnings
