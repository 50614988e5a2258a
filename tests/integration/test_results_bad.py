"""What teams really have: duplicates, clocks that run backwards, two imports at once, a disk that is full or locked."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.conftest import Project
from tithe.data.store import Store


@pytest.fixture
def bench(project: Project) -> tuple[Project, list[str]]:
    shas = [project.commit(f"Change {n}", {"work.txt": str(n)}) for n in range(30)]
    assert project.tithe("ingest", "git").returncode == 0
    return project, shas


def table(path: Path, shas: list[str], *, step: int = 15, clock: int = 60, names: int = 1) -> Path:
    dice = random.Random(1)
    lines = ["benchmark,value,unit,commit,host,at"]
    for name in range(names):
        for n, sha in enumerate(shas):
            value = (2.0 if n >= step else 1.0) * dice.uniform(0.99, 1.01)
            lines.append(f"b{name},{value},s,{sha},box,{1_700_000_000 + clock * n}")
    path.write_text("\n".join(lines) + "\n")
    return path


def report(project: Project, *words: object) -> dict[str, object]:
    done = project.tithe("ingest", "results", *map(str, words), "--format", "json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_clock_that_runs_backwards_moves_no_step(bench: tuple[Project, list[str]], tmp_path: Path) -> None:
    """The order is git's. What a step becomes known by is the latest of its witnesses."""
    project, shas = bench
    report(project, table(tmp_path / "back.csv", shas, clock=-3600))
    with Store.open(project.root / ".tithe" / "store.db") as store:
        (step,) = [one for one in store.outcomes() if one.verdict == "regressed"]
        changes = {change.sha: change for change in store.changes()}
    assert step.change == shas[15]
    assert step.known_at >= changes[step.change].time


def test_duplicates_within_and_across_files_are_one(bench: tuple[Project, list[str]], tmp_path: Path) -> None:
    project, shas = bench
    path = table(tmp_path / "a.csv", shas)
    lines = path.read_text().splitlines()
    (tmp_path / "b.csv").write_text("\n".join([*lines, *lines[1:], *reversed(lines[1:])]) + "\n")
    found = report(project, path, tmp_path / "b.csv", tmp_path / "b.csv")
    assert (found["points"], found["added"]) == (30 + 2 * 90, 30)


def test_two_at_once_are_as_one_after_the_other(bench: tuple[Project, list[str]], tmp_path: Path) -> None:
    project, shas = bench
    for name in ("a", "b"):
        table(tmp_path / f"{name}.csv", shas, names=20)
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "tithe", "ingest", "results", str(tmp_path / f"{name}.csv"), "--format", "json"],
            cwd=project.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for name in ("a", "b", "a")
    ]  # fmt: skip
    told = [one.communicate(timeout=120) for one in running]
    assert [one.returncode for one in running] == [0, 0, 0], told
    assert sum(json.loads(out)["added"] for out, _ in told) == 600
    before = report(project, tmp_path / "a.csv")
    assert (before["added"], before["outcomes"]) == (0, 0)
    assert project.tithe("db", "check").returncode == 0


def test_many_rows_and_few_good_ones_are_counted_and_named(
    bench: tuple[Project, list[str]], tmp_path: Path
) -> None:
    project, shas = bench
    bad = ["oops", "nan", "-1", "1e999", "", "0x10"]
    rows = [f"b,{bad[n % 6]},s,{shas[0]},box," for n in range(20_000)]
    (tmp_path / "many.csv").write_text(
        "benchmark,value,unit,commit,host,at\n" + "\n".join([*rows, f"b,1,s,{shas[0]},box,"]) + "\n"
    )
    found = report(project, tmp_path / "many.csv")
    assert (found["points"], found["added"], found["refused"]) == (1, 1, 20_000)
    first = found["first_refused"]
    assert isinstance(first, list)
    assert 0 < len(first) <= 20
    assert "many.csv:2" in first[0]["where"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_cannot_be_written_is_one_line(bench: tuple[Project, list[str]], tmp_path: Path) -> None:
    project, shas = bench
    path = table(tmp_path / "a.csv", shas)
    store = project.root / ".tithe" / "store.db"
    store.chmod(0o444)
    done = project.tithe("ingest", "results", str(path))
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1


def test_a_limit_on_file_size_leaves_the_store_whole(
    bench: tuple[Project, list[str]], tmp_path: Path
) -> None:
    """As a full disk: SQLite may write no further."""
    project, shas = bench
    path = table(tmp_path / "a.csv", shas, names=400)
    size = (project.root / ".tithe" / "store.db").stat().st_size
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f {size // 1024 + 64}; exec \"$@\"", "-", sys.executable, "-m", "tithe",
         "ingest", "results", str(path)],
        cwd=project.root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3, done.stdout + done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert project.tithe("db", "check").returncode == 0
    found = report(project, path)
    assert found["added"] == 400 * 30, "nothing of the refused file had stayed"


def test_links_and_pipes_in_a_folder_are_not_waited_for(
    bench: tuple[Project, list[str]], tmp_path: Path
) -> None:
    project, shas = bench
    folder = tmp_path / "r"
    folder.mkdir()
    table(folder / "a.csv", shas)
    os.mkfifo(folder / "pipe.json")
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "gone.csv").symlink_to("nothing")
    (folder / "self").symlink_to(folder)
    found = report(project, folder)
    assert (found["files"], found["added"]) == (1, 30)
