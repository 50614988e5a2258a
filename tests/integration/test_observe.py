"""`tithe observe` watches real launches, and the graph knows from then on what they touch."""

from __future__ import annotations

import json
import sqlite3

from tests.integration.conftest import CONFIG, Project

JOB = """\
import importlib, os, subprocess, sys
from multiprocessing import Process
from pathlib import Path
from pkg import work
from tithe import first_batch

def child():
    open("shards/part.bin").read()
    os._exit(0)

if __name__ == "__main__":
    importlib.import_module(Path("plugin.txt").read_text().strip())
    Path("shards/out.bin").write_text("made")
    worker = Process(target=child)
    worker.start()
    worker.join()
    subprocess.run([sys.executable, "tools/prepare.py"], check=True)
    subprocess.run(["sh", "tools/note.sh"], check=True)
    if "never" in os.environ:
        from pkg import unused
    first_batch()
"""
FILES = {
    "job.py": JOB,
    "pkg/work.py": "",
    "pkg/unused.py": "",
    "plugins/hidden.py": "VALUE = 1\n",
    "plugin.txt": "plugins.hidden\n",
    "shards/part.bin": "x",
    "shards/out.bin": "is written over",
    "tools/prepare.py": "import json\n",
    "tools/note.sh": "true\n",
    "aside.py": "",
}


def observe(project: Project, *words: str) -> dict[str, object]:
    done = project.tithe("observe", *words, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def proximity(project: Project) -> dict[str, float]:
    shown = json.loads(project.tithe("graph", "--scenario", "quick", "--format", "json").stdout)
    return {row["path"]: row["proximity"] for row in shown["nearest"]}


def test_what_a_launch_loads_and_opens_is_near_from_then_on(project: Project) -> None:
    head = project.commit("Load what no import names", FILES)
    before = proximity(project)
    assert "plugins/hidden.py" not in before
    document = observe(project, "--head", head)
    (row,) = document["observed"]  # type: ignore[misc]
    assert document["warnings"] == []
    touched = sqlite3.connect(project.root / ".tithe" / "store.db").execute(
        "SELECT path, touched FROM observed_files"
    )
    flags = dict(touched.fetchall())
    for path in ("job.py", "pkg/work.py", "plugins/hidden.py", "plugin.txt", "shards/part.bin"):
        assert flags[path] == 1, path
    assert flags["tools/prepare.py"] == flags["tools/note.sh"] == 1  # in processes that it started
    assert flags["pkg/unused.py"] == 0
    assert "aside.py" not in flags
    assert flags.get("shards/out.bin", 0) == 0  # it was written, not read
    assert "plugins/hidden.py" in row["unforeseen"]
    functions = sqlite3.connect(project.root / ".tithe" / "store.db").execute(
        "SELECT path, name, calls, share, own FROM observed_functions"
    )
    used = {(path, name): (calls, share, own) for path, name, calls, share, own in functions}
    assert used["job.py", "<module>"][1] > 0.5
    assert used["job.py", "child"][0] == 1
    assert used["plugins/hidden.py", "<module>"][2] >= 0
    after = proximity(project)
    assert after["plugins/hidden.py"] > 0.3
    assert after["pkg/unused.py"] < before["pkg/unused.py"]
    said = project.tithe("graph", "--scenario", "quick", "--to", "plugins/hidden.py").stdout
    assert "since a launch was seen to touch it" in said
    project.commit("Touch the plugin", {"plugins/hidden.py": "VALUE = 2\n"})
    chosen = json.loads(project.tithe("select", "--budget", "10m", "--format", "json").stdout)
    assert chosen["selected"][0]["reasons"][0] == "uses plugins/hidden.py directly, which changed"


def test_a_launch_that_fails_says_nothing_of_the_scenario(project: Project) -> None:
    project.commit("Break it", {"job.py": "import pkg.work\nraise SystemExit('no data')\n"})
    done = project.tithe("observe")
    assert done.returncode == 3
    assert "no data" in done.stdout
    assert "Traceback" not in done.stderr
    assert json.loads(project.tithe("graph", "--scenario", "quick", "--format", "json").stdout)["nearest"]


def test_a_program_that_is_no_python_is_told(project: Project) -> None:
    project.write("tithe.toml", CONFIG.replace("python job.py", "true").replace('"ttfb", ', ""))
    done = project.tithe("observe")
    assert done.returncode == 3
    assert "no Python process was seen" in done.stdout


def test_nonsense_in_the_notes_of_a_launch_harms_nobody(project: Project) -> None:
    code = """\
import os
from tithe import first_batch
note = os.environ.get("TITHE_FILES")
if note:
    with open(note, "ab") as file:
        file.write(b"\\0../../etc/passwd\\0/etc/shadow\\0<b>x</b>\\x1b[2J\\0a")
        file.write(b"/a" * 50_000 + b"\\0\\xff\\xfe\\0no end")
first_batch()
"""
    project.commit("Lie", {"job.py": code})
    document = observe(project)
    (row,) = document["observed"]  # type: ignore[misc]
    assert row["unforeseen"] == []
    assert row["touched"] == 1  # job.py


def test_an_unknown_scenario_is_one_line(project: Project) -> None:
    done = project.tithe("observe", "quik")
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean" in done.stderr
