"""`tithe tune` on a small repository: what is recorded, planted and chosen, and what is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.conftest import Project
from tithe.data.config import load
from tithe.data.git import GitRepo
from tithe.data.store import Store

LIBRARY = """\
def work(items):
    return sum(i * i for i in items)


def setup():
    return list(range(3000))
"""
JOB = """\
import lib

items = lib.setup()
for _ in range(20):
    lib.work(items)
"""
SCENARIO = """
[[scenario]]
name = "walled"
command = "python work.py"
metrics = ["wall", "cpu"]
timeout = "20s"
"""


@pytest.fixture
def bench(project: Project) -> Project:
    config = (project.root / "tithe.toml").read_text()
    project.commit("Work", {"work.py": JOB, "lib.py": LIBRARY, "tithe.toml": config + SCENARIO})
    return project


def test_nothing_recorded_says_what_to_record(bench: Project) -> None:
    done = bench.tithe("tune")
    assert done.returncode == 2
    assert "run `tithe noise --blocks 16` first" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("rate", ["1", "0/week", "1/day", "-1/week", "x"])
def test_a_rate_that_is_none(bench: Project, rate: str) -> None:
    done = bench.tithe("tune", f"--max-false-alarms={rate}")
    assert done.returncode == 2
    assert "write it as 1/week" in done.stderr


def test_tune_plants_tries_and_writes(bench: Project, tmp_path: Path) -> None:
    assert bench.tithe("noise", "walled", "--blocks", "16").returncode == 0
    (bench.root / "tithe.toml").write_text(
        (bench.root / "tithe.toml").read_text() + "\n# my own\n[decision] # of ours\nmax_blocks = 3 # few\n"
    )
    head = GitRepo.open(bench.root).head()
    status = bench.git("status", "--porcelain")

    done = bench.tithe(
        "tune",
        "walled",
        "--max-false-alarms",
        "4000/week",
        "--inject",
        "2",
        "--fresh",
        "2",
        "--format",
        "json",
    )

    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["planted"] == 2
    assert report["known_effects"] == 2
    assert report["chosen"]["caught"] is not None
    assert "2 slow-downs are registered as " in done.stderr
    assert report["quiet_blocks"] >= 16
    assert report["fresh"]["decisions"] == 2
    assert report["chosen"] in report["points"]
    assert report["chosen"]["alarms_per_week_high"] <= 4000
    assert {d["scenario"] for d in report["detectable"]} == {"walled"}
    assert bench.git("status", "--porcelain") == status  # on commits of their own
    entries = [
        json.loads(line) for line in (bench.root / ".tithe" / "planted.jsonl").read_text().splitlines()
    ]
    with Store.open(bench.root / ".tithe" / "store.db") as store:
        made = list(store.launches())
        assert store.outcomes() == []  # nobody's change did it
    for entry in entries:
        assert entry["base"] == head
        mine = [launch for launch in made if launch.sha == entry["head"] and launch.stage == "record"]
        assert len(mine) == 2 * 3  # two of each block of three
        assert entry["share"] in (0.05, 0.075, 0.1, 0.15)
        assert entry["registered"] == entries[0]["registered"]

    again = bench.tithe("tune", "walled", "--max-false-alarms", "4000/week", "--write")
    assert again.returncode == 0, again.stderr
    assert "written to [decision]: alpha = " in again.stdout
    text = (bench.root / "tithe.toml").read_text()
    assert "# my own\n[decision] # of ours\nmax_blocks = 3 # few\n" in text
    decision = load(bench.root).decision
    assert (decision.alpha, decision.noise_factor, decision.max_blocks) == (
        report["chosen"]["alpha"],
        report["chosen"]["noise_factor"],
        3,
    )


def test_a_bound_that_nothing_keeps_is_said(bench: Project) -> None:
    assert bench.tithe("noise", "walled", "--blocks", "16").returncode == 0
    (bench.root / ".tithe" / "planted.jsonl").write_text('{"base": 1}\nnonsense\n{"base": "x", "he\n')
    done = bench.tithe("tune", "walled", "--max-false-alarms", "0.000000000001/week")
    assert done.returncode in (0, 3), done.stderr
    assert "Traceback" not in done.stderr
    if done.returncode == 3:
        assert "no setting keeps the bound" in done.stdout
