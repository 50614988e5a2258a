"""Three machines that share nothing but a store behind a URL: nothing is lost or doubled, also when a job is killed."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.http_store import HttpStore, http_store
from tests.integration.conftest import SIZE, WORK, Project
from tithe.data.spool import SUFFIX, read_bundle
from tithe.data.store import Store

DOCS = (Path(__file__).resolve().parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")


@pytest.fixture
def url(tmp_path: Path) -> Iterator[HttpStore]:
    with http_store(tmp_path / "bucket") as held:
        yield held


class Machine(Project):
    """A clone with a home and a lock folder of its own."""

    def __init__(self, origin: Project, root: Path) -> None:
        subprocess.run(["git", "clone", "--quiet", str(origin.root), str(root)], check=True)
        super().__init__(root)
        self.clock = origin.clock + 3600
        runtime = root.parent / f"{root.name}-runtime"
        runtime.mkdir(mode=0o700)
        self.environment = {"HOME": str(runtime), "XDG_RUNTIME_DIR": str(runtime), "TMPDIR": str(runtime)}

    def tithe(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return super().tithe(*words, **self.environment, **env)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "tithe", *words],
            cwd=self.root, env={**os.environ, **self.environment},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip

    def change(self, number: int) -> None:
        self.commit(f"Change {number}", {"pkg/work.py": WORK.format(size=SIZE + number)})


def launches(folder: Path) -> Counter[str]:
    """How often each launch is in the bundles of a folder."""
    return Counter(
        record.id
        for path in folder.rglob(f"*{SUFFIX}")
        for record in read_bundle(path)
        if hasattr(record, "arm")
    )


def test_what_is_published_is_used_and_what_is_measured_comes_back(
    project: Project, tmp_path: Path, url: HttpStore
) -> None:
    weekly = Machine(project, tmp_path / "weekly")
    first, second = (Machine(project, tmp_path / name) for name in ("first", "second"))
    for words in (("ingest", "git"), ("snapshot", "publish", f"{url.url}/snapshot")):
        done = weekly.tithe(*words)
        assert done.returncode == 0, done.stderr
    for number, machine in enumerate((first, second), 1):
        machine.change(number)
    jobs = [
        machine.start(
            "check", "--budget", "60s", "--snapshot", f"{url.url}/snapshot", "--spool", f"{url.url}/spool"
        )
        for machine in (first, second)
    ]
    assert [job.wait(timeout=120) for job in jobs] == [0, 0]
    for machine in (first, second):
        assert not (machine.root / ".tithe/store.db").exists()
        assert list((machine.root / ".tithe/outbox").iterdir()) == []
    sent = launches(tmp_path / "bucket/spool")
    for _ in range(2):
        done = weekly.tithe("ingest", "spool", f"{url.url}/spool", "--format", "json")
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["already"] == 2
    with Store.open(weekly.root / ".tithe/store.db") as store:
        assert store.counts()["launches"] == len(sent)
        assert set(sent.values()) == {1}
        assert store.counts()["runs"] == 2
        assert len({outcome.change for outcome in store.outcomes()}) == 2
        # The diffs came along, so that the next model learns from them.
        known = {change.sha: change for change in store.changes(off_history=True)}
        for outcome in store.outcomes():
            assert [edit.path for edit in known[outcome.change].files] == ["pkg/work.py"]
            assert known[outcome.change].parent == outcome.base
    assert weekly.tithe("train").returncode == 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_of_a_killed_job_all_that_was_measured_is_sent_once(
    project: Project, tmp_path: Path, url: HttpStore, how: signal.Signals
) -> None:
    machine = Machine(project, tmp_path / "job")
    machine.change(1)
    spool = f"{url.url}/spool"
    drawn = random.Random(int(how))
    for _ in range(3):
        job = machine.start("run", "--base", "HEAD~1", "--head", "HEAD", "--spool", spool)
        time.sleep(0.4 + 1.5 * drawn.random())
        os.kill(job.pid, how)
        job.wait(timeout=60)
    done = machine.tithe("spool", "push", spool)
    assert done.returncode == 0, done.stderr
    outbox = machine.root / ".tithe/outbox"
    assert not outbox.exists() or list(outbox.iterdir()) == []
    sent = launches(tmp_path / "bucket/spool")
    assert set(sent.values()) <= {1}
    with Store.open(tmp_path / "store.db") as store:
        from tithe.data.spool import ingest

        report = ingest(store, spool)
        assert not report.skipped
        assert store.counts()["launches"] == len(sent)


def test_a_spool_that_cannot_be_reached_keeps_the_records_and_says_so(
    project: Project, tmp_path: Path
) -> None:
    machine = Machine(project, tmp_path / "job")
    machine.change(1)
    dead = "http://user:hunter2@127.0.0.1:9/spool"
    done = machine.tithe("run", "quick", "--base", "HEAD~1", "--spool", dead)
    assert done.returncode == 3
    assert "same" in done.stdout or "inconclusive" in done.stdout
    assert "not spooled" in done.stdout
    assert "tithe spool push" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr
    done = machine.tithe("spool", "push", str(tmp_path / "elsewhere"))
    assert done.returncode == 0
    assert launches(tmp_path / "elsewhere")


@pytest.mark.parametrize("damage", ["corrupt", "truncated", "foreign", "no snapshot", "newer", "nobody"])
def test_a_snapshot_that_cannot_be_used(project: Project, tmp_path: Path, damage: str) -> None:
    weekly = Machine(project, tmp_path / "weekly")
    place = tmp_path / "snapshot"
    weekly.tithe("ingest", "git")
    assert weekly.tithe("snapshot", "publish", str(place)).returncode == 0
    machine = Machine(project, tmp_path / "job")
    machine.change(1)
    (file,) = place.glob("*.tithe-snapshot")
    url, said = str(place), "damaged"
    if damage == "corrupt":
        file.write_bytes(file.read_bytes()[::-1])
    elif damage == "truncated":
        file.write_bytes(file.read_bytes()[:100])
    elif damage == "no snapshot":
        shutil.rmtree(place)
        said = "no snapshot was published"
    elif damage == "newer":
        pointer = json.loads((place / "latest.json").read_text())
        (place / "latest.json").write_text(json.dumps({**pointer, "format": 99, "tithe": "9.9"}))
        said = "upgrade"
    elif damage == "nobody":
        url, said = "http://127.0.0.1:9/x", "cannot be read"
    else:
        text = (machine.root / "tithe.toml").read_text()
        (machine.root / "tithe.toml").write_text(text.replace('"quick"', '"another"'))
        said = "another project"
    words = ("select", "--budget", "1m", "--base", "HEAD~1", "--snapshot", url)
    done = machine.tithe(*words)
    assert done.returncode == 3, done.stdout
    (line,) = done.stderr.splitlines()
    assert said in line
    done = machine.tithe(*words, "--or-prior", "--format", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["model"] == "prior"
    assert said in found["warnings"][0]


def test_the_lines_of_the_documentation_run(project: Project, tmp_path: Path, url: HttpStore) -> None:
    blocks = re.findall(r"<!-- tested:[^>]*-->\n```console\n(.*?)```", DOCS, re.DOTALL)
    assert len(blocks) == 2
    weekly, job = (Machine(project, tmp_path / name) for name in ("weekly", "job"))
    job.change(1)
    places = {"$SPOOL": f"{url.url}/spool", "$SNAPSHOT": f"{url.url}/snapshot"}
    (tmp_path / "bucket/spool").mkdir()
    for machine, block in ((weekly, blocks[0]), (job, blocks[1]), (weekly, blocks[0])):
        for line in block.splitlines():
            assert line.startswith("$ tithe ")
            words = [places.get(word, word) for word in line.removeprefix("$ tithe ").split()]
            more = ("--base", "HEAD~1") if words[:2] == ["ci", "check"] else ()
            done = machine.tithe(*words, *more)
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    assert {path.name for path in (job.root / ".tithe/report").iterdir()} == {
        "report.json",
        "summary.md",
        "comment.md",
        "junit.xml",
    }
    report = job.root / ".tithe/report/report.json"
    for style, begins in (("markdown", "## "), ("junit", "<?xml"), ("comment", "<!-- tithe"), ("text", "")):
        done = job.tithe("report", str(report), "--format", style)
        assert done.returncode == 0
        assert done.stdout.startswith(begins)
    assert json.loads(job.tithe("report", str(report), "--format", "json").stdout) == json.loads(
        report.read_text()
    )
    done = job.tithe("report", str(job.root / "tithe.toml"))
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
