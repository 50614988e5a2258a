"""What a hostile tester found once, and must not find again. Each test is named for what went wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.conftest import Project
from tests.unit.data.test_spool import LAUNCH
from tithe.data.records import Change, FileEdit, Sha
from tithe.data.spool import write_bundle
from tithe.data.store import Store

FAST = """\
[tithe]
main = "main"

[[scenario]]
name = "fast"
command = "python fast.py"
metrics = ["wall"]
timeout = "10s"
"""


@pytest.fixture
def fast(project: Project) -> Project:
    """Two commits of a scenario that ends at once."""
    project.commit("Fast", {"tithe.toml": FAST, "fast.py": "x = 1\n"})
    project.commit("Still", {"fast.py": "x = 2\n"})
    return project


def run(fast: Project, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return fast.tithe("run", "fast", "--base", "HEAD~1", "--head", "HEAD", *words, **env)


def test_output_replaced_what_it_pointed_at(fast: Project, tmp_path: Path) -> None:
    target, link, pipe = tmp_path / "target", tmp_path / "link", tmp_path / "pipe"
    target.write_text("old")
    link.symlink_to(target)
    assert fast.tithe("status", "--output", str(link)).returncode == 0
    assert link.is_symlink()
    assert json.loads(target.read_text())["scenarios"] == 1
    os.mkfifo(pipe)
    reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
    assert fast.tithe("status", "--output", str(pipe)).returncode == 0
    assert json.loads(reader.communicate(timeout=20)[0])["scenarios"] == 1
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    umask = os.umask(0)
    os.umask(umask)
    fast.tithe("status", "--output", str(tmp_path / "new"))
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o666 & ~umask


def test_an_output_that_cannot_be_written_lost_the_report(fast: Project) -> None:
    done = run(fast, "--output", "fast.py/below.json")
    assert done.returncode == 2
    assert "cannot be written" in done.stderr
    assert not (fast.root / ".tithe").exists()  # nothing was measured for it
    # Where only the attempt shows it, the report has been printed.
    done = run(fast, "--output", "/proc/x/y.json")
    assert done.returncode in (2, 3)
    assert done.returncode == 2 or "of machine time" in done.stdout


@pytest.mark.parametrize(
    "change",
    [
        Change(Sha("f" * 40), Sha("e" * 40), 5, "x", 1e9, "forged", ()),
        Change(Sha("f" * 40), Sha("e" * 40), 10**6, "x", 4e10, "forged", (FileEdit("a", 1, 1),)),
    ],
)
def test_a_bundle_put_commits_on_history(fast: Project, tmp_path: Path, change: Change) -> None:
    forged = Change(Sha(fast.git("rev-parse", "HEAD")), Sha("e" * 40), 77, "Mallory", 4e10, "forged", ())
    write_bundle(tmp_path / "spool", [change, forged])
    assert fast.tithe("ingest", "spool", str(tmp_path / "spool")).returncode == 0
    done = fast.tithe("ingest", "git", "--format", "json")
    assert done.returncode == 0, done.stderr
    with Store.open(fast.root / ".tithe/store.db") as store:
        assert [c.subject for c in store.changes()][-2:] == ["Fast", "Still"]
        assert "forged" not in [c.subject for c in store.changes()]


@pytest.mark.parametrize("key", ["seconds", "block", "position", "started_at"])
def test_a_bundle_with_huge_numbers_bricked_the_store(fast: Project, tmp_path: Path, key: str) -> None:
    import gzip
    import hashlib

    from tithe.data.spool import SUFFIX, encode

    large = {"seconds": 1e308, "block": 2**62, "position": -1, "started_at": 1e300}[key]
    text = gzip.decompress(encode([LAUNCH])[1]).decode()
    record = json.loads(text.splitlines()[1])
    record["record"][key] = large
    raw = (text.splitlines()[0] + "\n" + json.dumps(record) + "\n").encode()
    (tmp_path / "spool").mkdir()
    (tmp_path / "spool" / (hashlib.sha256(raw).hexdigest()[:32] + SUFFIX)).write_bytes(gzip.compress(raw))
    done = fast.tithe("ingest", "spool", str(tmp_path / "spool"))
    assert done.returncode == 3
    assert key in done.stdout
    for command in (("status",), ("scenarios",), ("select", "--budget", "1m"), ("train",)):
        assert fast.tithe(*command).returncode == 0


def test_a_rewritten_main_blocked_ingest(fast: Project) -> None:
    assert fast.tithe("ingest", "git").returncode == 0
    fast.git("commit", "--quiet", "--amend", "-m", "Rewritten")
    fast.git("reflog", "expire", "--expire=now", "--all")
    fast.git("gc", "--quiet", "--prune=now")
    done = fast.tithe("ingest", "git")
    assert done.returncode == 0, done.stderr
    assert "was rewritten: 1 changes" in done.stdout
    with Store.open(fast.root / ".tithe/store.db") as store:
        assert [c.subject for c in store.changes()][-2:] == ["Fast", "Rewritten"]
        assert [c.index for c in store.changes()] == list(range(len(store.changes())))
        assert "Still" in [c.subject for c in store.changes(off_history=True)]
    assert "rewritten" not in fast.tithe("ingest", "git").stdout


def test_a_damaged_model_was_a_dead_end(fast: Project) -> None:
    with Store.open(fast.root / ".tithe/store.db") as store:
        store.add_model("001", "001", 1.0, {})
        store.promote("001")
    (fast.root / ".tithe/models/001").mkdir(parents=True)
    done = fast.tithe("select", "--budget", "1m")
    assert done.returncode == 3
    assert "--model prior" in done.stderr
    assert fast.tithe("select", "--budget", "1m", "--model", "prior").returncode == 0
    done = fast.tithe("train")
    assert done.returncode == 0, done.stderr
    assert "compared with nothing" in done.stdout


@pytest.mark.parametrize("damage", ["moved", "worktrees", "git file", "git folder", "locked"])
def test_a_stale_checkout_blocked_its_revision(fast: Project, damage: str) -> None:
    assert run(fast).returncode == 0
    trees = fast.root / ".tithe/cache/arms/t"
    if damage == "moved":
        moved = fast.root.with_name("moved")
        fast.root.rename(moved)
        fast.root = moved
    elif damage == "worktrees":
        shutil.rmtree(fast.root / ".git/worktrees")
    for tree in trees.glob("*-?") if trees.exists() else ():
        if damage == "git file":
            (tree / ".git").unlink()
        elif damage == "git folder":
            (tree / ".git").unlink()
            (tree / ".git/objects").mkdir(parents=True)
        elif damage == "locked":
            (tree / "fast.py").unlink()
            tree.chmod(0o500)
    done = run(fast)
    assert done.returncode == 0, done.stdout + done.stderr


FIFO = """\
import os
for name in ("TITHE_METRICS", "TITHE_MARKS"):
    path = os.environ[name]
    if os.path.exists(path):
        os.unlink(path)
    os.mkfifo(path)
folder = os.path.dirname(os.environ["TITHE_MARKS"])
for name in ("stdout", "stderr"):
    os.unlink(os.path.join(folder, name))
    os.symlink("/dev/zero", os.path.join(folder, name))
"""


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)\n"])
def test_a_pipe_among_the_results_hung_for_ever(fast: Project, end: str) -> None:
    fast.commit("Pipes", {"fast.py": FIFO + end})
    fast.commit("Again", {"fast.py": FIFO + end + "# x\n"})
    began = time.monotonic()
    done = run(fast)
    assert done.returncode in (0, 3), done.stderr
    assert time.monotonic() - began < 60


def test_extreme_values_ended_the_run(fast: Project) -> None:
    config = FAST.replace('metrics = ["wall"]', 'metrics = [{ name = "v" }]')
    body = "import random\nprint('v=' + random.choice(['5e-324', '1.7e308', '1.0']))\n"
    fast.commit("Values", {"tithe.toml": config, "fast.py": body})
    fast.commit("Again", {"fast.py": body + "# x\n"})
    done = run(fast, "--format", "json")
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["verdicts"][0]["metric"] == "v"


def test_a_job_that_kills_its_supervisor_left_its_children(fast: Project, tmp_path: Path) -> None:
    body = (
        "import os, signal, subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(77)'], start_new_session=True)\n"
        f"open({str(tmp_path / 'pids')!r}, 'a').write(f'{{child.pid}}\\n')\n"
        "os.kill(os.getppid(), signal.SIGKILL)\n"
        "time.sleep(5)\n"
    )
    fast.commit("Kills", {"fast.py": body})
    fast.commit("Again", {"fast.py": body + "# x\n"})
    done = run(fast)
    assert done.returncode == 3
    assert "no answer within" not in done.stdout + done.stderr
    assert "signal 9" in done.stdout + done.stderr
    for pid in (tmp_path / "pids").read_text().split():
        assert not Path(f"/proc/{pid}").exists() or "Z" in Path(f"/proc/{pid}/stat").read_text().split()[2]


def test_full_and_closed_streams_changed_the_exit_code(fast: Project) -> None:
    def code(line: str) -> int:
        words = [sys.executable, "-m", "tithe"]
        return subprocess.run(
            ["sh", "-c", f'"$@" {line}', "sh", *words], cwd=fast.root, capture_output=True, check=False
        ).returncode

    assert code("bogus 2>/dev/full") == 2
    assert code("run nonesuch 2>/dev/full") == 2
    assert code("bogus 2>&-") == 2
    assert code("status >&-") == 0
    assert code("status >/dev/full") == 3


def test_a_repository_whose_path_is_not_utf8(fast: Project) -> None:
    odd = fast.root.parent / os.fsdecode(b"b\xff")
    try:
        fast.root.rename(odd)
    except OSError:
        pytest.skip("this file system has no such names")
    fast.root = odd
    for words in (
        ("status", "--format", "json"),
        ("ingest", "git"),
        ("select", "--budget", "1m"),
        ("scenarios",),
    ):
        done = fast.tithe(*words)
        assert done.returncode == 0, done.stderr


def test_two_trainings_took_one_number(fast: Project) -> None:
    from tithe.selector.model import next_version

    models = fast.root / "models"
    (models / "001").mkdir(parents=True)
    assert next_version(models) == "002"


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ('[[scenario]]\nname="b"\ncommand="x"\ntimeout="99999999999999999999h"\n', "timeout"),
        ("[decision]\nwanted_effect=1e-300\n", "wanted_effect"),
        ("[decision]\nmax_blocks=2\n", "max_blocks"),
        ("[decision]\nmax_blocks=25\n", "max_blocks"),
        ("[decision]\nmax_blocks=" + "9" * 6000 + "\n", "number"),
    ],
)
def test_numbers_that_passed_and_then_crashed(fast: Project, line: str, key: str) -> None:
    fast.write("tithe.toml", FAST + line)
    done = fast.tithe("select", "--budget", "1m")
    assert done.returncode == 2, done.stderr
    assert key in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_early_interrupt_printed_a_traceback(fast: Project) -> None:
    codes = set()
    for number in range(12):
        process = subprocess.Popen(
            [sys.executable, "-m", "tithe", "status"],
            cwd=fast.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        time.sleep(0.02 + 0.02 * number)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        codes.add(process.returncode)
        if process.returncode == 130:
            assert b"Traceback" not in said
    assert 130 in codes


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_cancelled_job_died_without_a_word(fast: Project, number: signal.Signals) -> None:
    fast.commit("Slow", {"fast.py": "import time\ntime.sleep(3)\n"})
    process = subprocess.Popen(
        [sys.executable, "-m", "tithe", "run", "fast", "--base", "HEAD~1"],
        cwd=fast.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    time.sleep(2.5)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said.decode().strip().startswith("tithe: stopped; what was finished is recorded")


def test_without_words_the_help_is_readable(fast: Project) -> None:
    done = fast.tithe()
    assert done.returncode == 2
    assert len((done.stdout + done.stderr).splitlines()) > 20


@pytest.mark.parametrize("python", ["/bin/cat", "/bin/true"])
def test_an_interpreter_that_is_none(fast: Project, python: str) -> None:
    fast.write("tithe.toml", FAST.replace("[tithe]\n", f'[tithe]\npython = "{python}"\n'))
    done = run(fast)
    assert done.returncode == 2
    assert "not a Python interpreter" in done.stderr


def test_a_document_of_another_schema(fast: Project) -> None:
    fast.tithe("select", "--budget", "1m", "--output", "s.json")
    document = json.loads((fast.root / "s.json").read_text())
    (fast.root / "s.json").write_text(json.dumps({**document, "schema": 99}))
    done = fast.tithe("run", "s.json")
    assert done.returncode == 2
    assert "schema 99" in done.stderr


# What a newcomer found misleading.


def test_a_metric_that_does_not_decide_exploded_and_was_called_inconclusive(project: Project) -> None:
    config = (project.root / "tithe.toml").read_text().replace('["ttfb", "wall"]', '["ttfb", "rss"]')
    project.commit("Measure memory", {"tithe.toml": config})
    project.commit("A buffer", {"pkg/__init__.py": "BUFFER = bytearray(300_000_000)\n"})
    done = project.tithe("run", "quick", "--base", "HEAD~1", "--head", "HEAD", "--format", "json")
    (rss,) = [v for v in json.loads(done.stdout)["verdicts"] if v["metric"] == "rss"]
    assert (rss["verdict"], rss["confirmed"], rss["gate"]) == ("regressed", False, False)
    assert "does not decide" in rss["note"]


def test_what_tithe_wrote_became_part_of_the_change(fast: Project) -> None:
    heads = set()
    for name in ("a.json", "b.json", "sub/c.json"):
        done = fast.tithe("select", "--budget", "1m", "--format", "json", "--output", name)
        heads.add(json.loads(done.stdout)["head"])
    assert heads == {fast.git("rev-parse", "HEAD")}
    fast.write("mine.json", "{}")
    done = fast.tithe("select", "--budget", "1m", "--format", "json")
    assert json.loads(done.stdout)["diff"]["paths"] == ["mine.json"]


@pytest.mark.parametrize("budget", ["1s", "gpu=5m"])
def test_a_check_that_ran_nothing_was_green(fast: Project, budget: str) -> None:
    words = ("check", "--budget", budget, "--base", "HEAD~1", "--head", "HEAD")
    done = fast.tithe(*words, "--fail-on-inconclusive")
    assert done.returncode == 4
    assert "nothing was run" in done.stdout
    assert "warning: nothing is selected" in done.stdout or "gives no time on cpu" in done.stdout
    assert fast.tithe(*words).returncode == 0


def test_status_counted_scenarios_that_are_gone(fast: Project) -> None:
    assert run(fast).returncode == 0
    fast.write("tithe.toml", FAST.replace('"fast"', '"other"'))
    document = json.loads(fast.tithe("status", "--format", "json").stdout)
    assert (document["scenarios"], document["measured_scenarios"]) == (1, 0)
    fast.tithe("ingest", "git")
    fast.commit("More", {"fast.py": "x = 3\n"})
    assert "has moved on" in fast.tithe("status").stdout
