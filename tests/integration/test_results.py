"""`tithe ingest results` and `tithe db` on a small repository with a real history."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.integration.conftest import Project
from tithe.data.store import Store


@pytest.fixture
def bench(project: Project) -> tuple[Project, list[str]]:
    shas = [project.commit(f"Change {n}", {"work.txt": str(n)}) for n in range(40)]
    assert project.tithe("ingest", "git").returncode == 0
    return project, shas


def asv(folder: Path, shas: list[str], step: int) -> None:
    """An asv folder in which one of two benchmarks steps."""
    dice = random.Random(1)
    (folder / "i7").mkdir(parents=True)
    (folder / "benchmarks.json").write_text("{}")
    (folder / "i7" / "machine.json").write_text('{"machine": "i7"}')
    for n, sha in enumerate(shas):
        results = {
            "suite.time_stepping": [[(2.0 if n >= step else 1.0) * dice.uniform(0.99, 1.01)], [], "v"],
            "suite.time_steady": [[dice.uniform(0.99, 1.01)], [], "v"],
        }
        document = {
            "commit_hash": sha,
            "env_name": "py3.11",
            "date": 1_700_000_000_000 + n * 60_000,
            "params": {"machine": "i7"},
            "version": 2,
            "result_columns": ["result", "params", "version"],
            "results": results,
        }
        (folder / "i7" / f"{sha[:8]}-py3.11.json").write_text(json.dumps(document))


def test_an_asv_folder_becomes_outcomes(bench: tuple[Project, list[str]], tmp_path: Path) -> None:
    project, shas = bench
    asv(tmp_path / "results", shas, step=20)
    done = project.tithe("ingest", "results", str(tmp_path / "results"), "--format", "json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["files"], report["points"], report["added"], report["refused"]) == (40, 80, 80, 0)
    assert (report["series"], report["steps"]) == (2, 1)
    with Store.open(project.root / ".tithe" / "store.db") as store:
        found = store.outcomes()
    (step,) = [one for one in found if one.verdict == "regressed"]
    assert (step.change, step.base, step.scenario) == (shas[20], shas[19], "suite.time_stepping")
    assert step.source == "import"
    assert {one.scenario for one in found} == {"suite.time_stepping", "suite.time_steady"}

    again = json.loads(
        project.tithe("ingest", "results", str(tmp_path / "results"), "--format", "json").stdout
    )
    assert (again["added"], again["outcomes"]) == (0, 0)
    # One file after the other says what all at once say.
    other = json.loads(project.tithe("db", "export", str(tmp_path / "one"), "--format", "json").stdout)
    shutil.rmtree(project.root / ".tithe" / "store.db", ignore_errors=True)
    for path in (project.root / ".tithe").glob("store.db*"):
        path.unlink()
    project.tithe("ingest", "git")
    for path in sorted((tmp_path / "results" / "i7").glob("*-py3.11.json"), reverse=True)[:5]:
        project.tithe("ingest", "results", str(path))
    project.tithe("ingest", "results", str(tmp_path / "results"))
    assert (
        json.loads(project.tithe("db", "export", str(tmp_path / "two"), "--format", "json").stdout)[
            "records"
        ]["measurements"]
        == other["records"]["measurements"]
    )
    assert (tmp_path / "one" / "measurements.jsonl").read_text() == (
        tmp_path / "two" / "measurements.jsonl"
    ).read_text()


def test_what_is_refused_is_counted_and_named(bench: tuple[Project, list[str]], tmp_path: Path) -> None:
    project, shas = bench
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "cut.json").write_text('{"commit_hash": "')
    (tmp_path / "r" / "none.csv").write_text("benchmark,value,commit\nx,oops,abcdef1\n")
    (tmp_path / "r" / "good.csv").write_text(f"benchmark,value,commit\nx,1,{shas[0]}\nx,1,{'f' * 40}\n")
    done = project.tithe("ingest", "results", str(tmp_path / "r"))
    assert done.returncode == 0, done.stderr
    assert "cut.json" in done.stdout
    assert "none.csv:2" in done.stdout
    assert "its value is no number" in done.stdout
    assert "left out: 1 points of commits that are not on main" in done.stdout
    assert "Traceback" not in done.stderr
    bad = project.tithe("ingest", "results", str(tmp_path / "r" / "cut.json"))
    assert bad.returncode == 3


def test_short_ids_of_commits_are_found_and_ambiguous_ones_are_not(
    bench: tuple[Project, list[str]], tmp_path: Path
) -> None:
    project, shas = bench
    rows = "".join(f"x,1,{sha[:9]}\n" for sha in shas)
    (tmp_path / "short.csv").write_text("benchmark,value,commit\n" + rows)
    report = json.loads(
        project.tithe("ingest", "results", str(tmp_path / "short.csv"), "--format", "json").stdout
    )
    assert (report["added"], report["unknown"]) == (40, 0)


# The store itself.


def test_a_good_store_is_said_to_be_good_and_a_broken_one_is_not(bench: tuple[Project, list[str]]) -> None:
    project, _ = bench
    done = project.tithe("db", "check")
    assert (done.returncode, done.stdout.strip()) == (0, "nothing is wrong with the store")
    path = project.root / ".tithe" / "store.db"
    raw = bytearray(path.read_bytes())
    middle = len(raw) // 2
    raw[middle : middle + 3000] = bytes(3000)
    path.write_bytes(raw)
    done = project.tithe("db", "check")
    assert done.returncode == 3
    assert "fault: " in done.stdout or "corrupt" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_backup_is_whole_while_others_write(bench: tuple[Project, list[str]], tmp_path: Path) -> None:
    project, _ = bench
    stop = threading.Event()

    def write() -> None:
        with Store.open(project.root / ".tithe" / "store.db") as store:
            number = 0
            while not stop.is_set():
                number += 1
                store.set_tags({f"t{number}": store.changes()[0].sha})

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(3):
            done = project.tithe("db", "backup", str(tmp_path / f"{number}.db"))
            assert done.returncode == 0, done.stderr
    finally:
        stop.set()
        writer.join()
    for number in range(3):
        with Store.open(tmp_path / f"{number}.db", read_only=True) as store:
            assert store.check() == []
            assert len(store.changes()) >= 40
    done = project.tithe("db", "backup", str(tmp_path / "0.db"))
    assert done.returncode == 3
    assert "is there already" in done.stderr
    assert not list(tmp_path.glob("*.part"))


def test_compact_gives_space_back_and_keeps_all(bench: tuple[Project, list[str]]) -> None:
    project, _ = bench
    path = project.root / ".tithe" / "store.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE big (x)")
        connection.executemany("INSERT INTO big VALUES (?)", [("y" * 1000,) for _ in range(5000)])
        connection.execute("DROP TABLE big")
    connection.close()
    before = path.stat().st_size
    done = project.tithe("db", "compact")
    assert done.returncode == 0, done.stderr
    assert path.stat().st_size < before / 2
    assert project.tithe("db", "check").returncode == 0


def test_migrate_says_what_it_did(bench: tuple[Project, list[str]]) -> None:
    project, _ = bench
    done = project.tithe("db", "migrate")
    assert done.returncode == 0
    assert "as this tithe writes it" in done.stdout


# A patch as the change under test.


def test_a_patch_is_a_change_and_touches_nothing(bench: tuple[Project, list[str]], tmp_path: Path) -> None:
    project, shas = bench
    project.write("work.txt", "from a patch\n")
    diff = project.git("diff") + "\n"
    project.git("checkout", "--", "work.txt")
    project.write("other.txt", "not committed")
    status = project.git("status", "--porcelain")
    (tmp_path / "change.diff").write_text(diff)
    done = project.tithe(
        "select", "--budget", "1m", "--patch", str(tmp_path / "change.diff"), "--format", "json"
    )
    assert done.returncode == 0, done.stderr
    selection = json.loads(done.stdout)
    assert selection["base"] == shas[-1]
    assert selection["diff"]["paths"] == ["work.txt"]
    assert project.git("status", "--porcelain") == status
    assert project.git("show", f"{selection['head']}:work.txt") == "from a patch"
    piped = subprocess.run(
        [sys.executable, "-m", "tithe", "select", "--budget", "1m", "--patch", "-", "--format", "json"],
        cwd=project.root,
        input=diff,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(piped.stdout)["head"] == selection["head"]


@pytest.mark.parametrize("content", ["", "nonsense\n", "--- a/gone\n+++ b/gone\n@@ -1 +1 @@\n-x\n+y\n"])
def test_a_patch_that_does_not_apply_says_so(
    bench: tuple[Project, list[str]], tmp_path: Path, content: str
) -> None:
    project, _ = bench
    (tmp_path / "bad.diff").write_text(content)
    done = project.tithe("select", "--budget", "1m", "--patch", str(tmp_path / "bad.diff"))
    assert done.returncode == 2
    assert "bad.diff: does not apply: " in done.stderr
    assert "Traceback" not in done.stderr
    assert project.tithe("select", "--budget", "1m", "--patch", str(tmp_path / "none.diff")).returncode == 2


def test_benchmarks_whose_names_fall_together_stay_two_series(
    bench: tuple[Project, list[str]], tmp_path: Path
) -> None:
    """`f[a b]` and `f(a,b)` are both scenario `f_a_b_`; one that is twice as slow is no step of the other."""
    project, shas = bench
    names = ('"f[a b]"', '"f(a,b)"')
    rows = [f"{names[n % 2]},{(1, 2)[n % 2]},{sha}" for n, sha in enumerate(shas)]
    (tmp_path / "x.csv").write_text("benchmark,value,commit\n" + "\n".join(rows) + "\n")
    found = project.tithe("ingest", "results", str(tmp_path / "x.csv"), "--format", "json")
    report = json.loads(found.stdout)
    assert (report["added"], report["series"], report["steps"]) == (40, 2, 0)


def test_a_unit_that_changed_is_no_step(bench: tuple[Project, list[str]], tmp_path: Path) -> None:
    project, shas = bench
    rows = [f"x,{(1, 30)[n > 20]},{('img', 'imgs')[n > 20]},{sha}" for n, sha in enumerate(shas)]
    (tmp_path / "x.csv").write_text("benchmark,value,unit,commit\n" + "\n".join(rows) + "\n")
    report = json.loads(
        project.tithe("ingest", "results", str(tmp_path / "x.csv"), "--format", "json").stdout
    )
    assert (report["added"], report["steps"]) == (40, 0)


# What looks after the store neither makes one nor passes a damaged one on.


@pytest.mark.parametrize(
    "verb", [("check",), ("migrate",), ("backup", "copy.db"), ("compact",), ("export", "out")]
)
def test_a_store_that_is_not_there_is_not_made(project: Project, verb: tuple[str, ...]) -> None:
    project.commit("First", {"work.txt": "1"})
    done = project.tithe("db", *verb)
    assert (done.returncode, done.stdout) == (3, "")
    assert "no such store" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (project.root / ".tithe" / "store.db").exists()


@pytest.mark.parametrize("verb", [("check",), ("migrate",), ("backup", "copy.db"), ("compact",)])
def test_a_damaged_store_is_refused(bench: tuple[Project, list[str]], verb: tuple[str, ...]) -> None:
    """Every page can be read, so that SQLite copies it without a word; a value and a reference cannot be."""
    project, _ = bench
    with sqlite3.connect(project.root / ".tithe" / "store.db") as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("INSERT INTO observation VALUES (1, 1, 1, 1, 0.0)")
        connection.execute("INSERT INTO observed_file VALUES (1, 999999, 7)")
    connection.close()
    done = project.tithe("db", *verb)
    assert done.returncode == 3, done.stdout
    assert "Traceback" not in done.stderr
    assert not (project.root / "copy.db").exists()


def test_what_others_put_into_the_store_is_named_and_not_exported(
    bench: tuple[Project, list[str]], tmp_path: Path
) -> None:
    project, _ = bench
    with sqlite3.connect(project.root / ".tithe" / "store.db") as connection:
        connection.execute("CREATE VIEW evil AS SELECT 1 AS a, 2 AS b")
        connection.execute("CREATE TRIGGER hook AFTER INSERT ON word BEGIN SELECT 1; END")
    connection.close()
    done = project.tithe("db", "check")
    assert done.returncode == 3
    assert "view evil is none of tithe's" in done.stdout
    assert "trigger hook is none of tithe's" in done.stdout
    assert project.tithe("db", "export", str(tmp_path / "out")).returncode == 0
    assert not (tmp_path / "out" / "evil.jsonl").exists()


@pytest.mark.parametrize("name", [".tithe/store.db", ".tithe/store.db-wal", "tithe.toml", "other.db"])
def test_no_result_is_written_over_what_cannot_be_brought_back(
    bench: tuple[Project, list[str]], name: str
) -> None:
    project, _ = bench
    sqlite3.connect(project.root / "other.db").execute("CREATE TABLE a (b)").connection.close()
    path = project.root / name
    before = path.read_bytes() if path.exists() else None
    done = project.tithe("status", "--output", name)
    assert done.returncode == 2
    assert "name another one" in done.stderr
    assert (path.read_bytes() if path.exists() else None) == before


def test_a_clone_that_got_deeper_brings_what_it_lacked(
    bench: tuple[Project, list[str]], tmp_path: Path
) -> None:
    project, shas = bench
    clone = tmp_path / "clone"
    for words in (
        ["clone", "-q", "--depth", "5", f"file://{project.root}", str(clone)],
        ["-C", str(clone), "config", "user.email", "a@b"],
    ):
        subprocess.run(["git", *words], check=True, capture_output=True)
    words = [sys.executable, "-m", "tithe", "ingest", "git", "--repo", str(clone), "--format", "json"]
    run = {"capture_output": True, "text": True, "check": False}
    assert json.loads(subprocess.run(words, **run).stdout)["changes"] == 5  # type: ignore[call-overload]
    subprocess.run(["git", "-C", str(clone), "fetch", "-q", "--unshallow"], check=True)
    assert json.loads(subprocess.run(words, **run).stdout)["changes"] >= len(shas)  # type: ignore[call-overload]
    with (
        Store.open(project.root / ".tithe" / "store.db") as whole,
        Store.open(clone / ".tithe" / "store.db") as deeper,
    ):
        assert deeper.changes() == whole.changes()
    assert json.loads(subprocess.run(words, **run).stdout)["added"] == 0  # type: ignore[call-overload]


def test_a_store_of_a_whole_clone_serves_a_shallow_one(
    bench: tuple[Project, list[str]], tmp_path: Path
) -> None:
    """CI keeps the store and clones a few commits: the oldest commit that the store knows is not here."""
    project, _ = bench
    clone = tmp_path / "clone"
    words = ["git", "clone", "-q", "--depth", "5", f"file://{project.root}", str(clone)]
    subprocess.run(words, check=True, capture_output=True)
    (clone / ".tithe").mkdir()
    with Store.open(project.root / ".tithe" / "store.db") as whole:
        whole.backup(clone / ".tithe" / "store.db")
        known = whole.changes()
    done = project.tithe("ingest", "git", "--repo", str(clone), "--format", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["added"] == 0
    with Store.open(clone / ".tithe" / "store.db") as kept:
        assert kept.changes() == known
