"""A run that was killed goes on: the same verdicts, and no launch made twice but those of the block in flight."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter

import pytest

from tests.integration.conftest import SIZE, WORK, Project
from tithe.data.store import Store

COUNTING = """\
import os
from pkg import work
from tithe import first_batch

with open({log!r}, "a") as file:
    file.write(f"{{os.getpid()}}\\n")
work.run()
first_batch()
"""


@pytest.fixture
def counted(project: Project) -> Project:
    """Every launch writes a line, so that launches that were thrown away are counted too."""
    log = str(project.root.parent / "launches")
    project.commit("Count", {"job.py": COUNTING.format(log=log)})
    project.commit("Slower", {"pkg/work.py": WORK.format(size=3 * SIZE)})
    return project


def made(project: Project) -> int:
    log = project.root.parent / "launches"
    return len(log.read_text().splitlines()) if log.exists() else 0


WORDS = ("run", "--base", "HEAD~1", "--head", "HEAD", "--format", "json")


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_killed_again_and_again_it_ends_as_if_it_had_not_been(counted: Project, how: signal.Signals) -> None:
    drawn = random.Random(int(how))
    kills = 0
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-m", "tithe", *WORDS],
            cwd=counted.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(0.6 + 1.2 * drawn.random())
        if process.poll() is None:
            os.kill(process.pid, how)
            kills += 1
        out, _ = process.communicate(timeout=60)
        if process.returncode in (0, 1) and out:
            break
    else:
        out = counted.tithe(*WORDS).stdout.encode()
    assert kills
    document = json.loads(out)
    (verdict,) = [v for v in document["verdicts"] if v["gate"]]
    assert verdict["verdict"] == "regressed"
    assert any("went on" in line for line in document["warnings"])
    with Store.open(counted.root / ".tithe/store.db") as store:
        launches = list(store.launches())
        assert Counter(launch.id for launch in launches).most_common(1)[0][1] == 1
        assert {launch.run for launch in launches} == {document["id"]}
        assert verdict["launches"] == len(launches)
        # What a kill can waste is the block in flight: four launches.
        assert made(counted) <= len(launches) + 4 * kills
        assert store.counts()["runs"] == 1
    assert list((counted.root / ".tithe/cache/runs").iterdir()) == []

    # It has ended: asked again, it is a new run.
    again = json.loads(counted.tithe(*WORDS).stdout)
    assert again["id"] != document["id"]
    assert not any("went on" in line for line in again["warnings"])


def test_another_question_is_another_run(counted: Project) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tithe", *WORDS],
        cwd=counted.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(2.0)
    process.kill()
    process.wait()
    for words in (
        (*WORDS, "--seed", "1"),
        ("run", "--base", "HEAD~1", "--head", "HEAD~1", "--format", "json"),
    ):
        document = json.loads(counted.tithe(*words).stdout)
        assert not any("went on" in line for line in document["warnings"]), words
    text = (counted.root / "tithe.toml").read_text()
    (counted.root / "tithe.toml").write_text(text.replace('"20s"', '"21s"'))
    document = json.loads(counted.tithe(*WORDS).stdout)
    assert not any("went on" in line for line in document["warnings"])


def test_two_of_the_same_at_once_do_not_share_a_run(counted: Project) -> None:
    both = [
        subprocess.Popen([sys.executable, "-m", "tithe", *WORDS], cwd=counted.root, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    documents = [json.loads(process.communicate(timeout=200)[0]) for process in both]
    assert documents[0]["id"] != documents[1]["id"]
    assert {v["verdict"] for d in documents for v in d["verdicts"] if v["gate"]} == {"regressed"}


@pytest.mark.parametrize(
    "words",
    [("noise", "--blocks", "6"), ("compare", "--head-env", "X=1", "--base", "HEAD~1")],
    ids=["noise", "compare"],
)
def test_other_measurements_go_on_too(counted: Project, words: tuple[str, ...]) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tithe", *words],
        cwd=counted.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while made(counted) < 10 and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    done = counted.tithe(*words)
    assert "an interrupted run went on" in done.stdout, done.stdout + done.stderr
    with Store.open(counted.root / ".tithe/store.db") as store:
        launches = list(store.launches())
        assert store.counts()["runs"] == 1
    assert made(counted) <= len(launches) + 4
    assert counted.tithe(*words).returncode == done.returncode
    with Store.open(counted.root / ".tithe/store.db") as store:
        assert store.counts()["runs"] == 2  # what has ended is not gone on with
