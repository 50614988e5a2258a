"""Real jobs under the real supervisor, hostile ones among them: nothing survives, all is measured."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tithe.data.errors import LaunchError
from tithe.runner import launch as launching
from tithe.runner.launch import LaunchPlan, LaunchResult, launch

Run = Callable[..., LaunchResult]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Launch words, with `{pids}` replaced by a file to write process ids to."""
    count = 0

    def start(*words: str, timeout_s: float = 30.0, **more: object) -> LaunchResult:
        nonlocal count
        count += 1
        folder = tmp_path / f"{count:04d}"
        folder.mkdir()
        argv = tuple(word.replace("{pids}", str(tmp_path / "pids")) for word in words)
        plan = LaunchPlan(argv, folder, {"PATH": os.environ["PATH"]}, timeout_s, folder, **more)  # type: ignore[arg-type]
        return launch(plan)

    return start


def alive(tmp_path: Path) -> list[int]:
    """Those of the noted processes that still run (a zombie of a foreign parent does not)."""
    found = []
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            if not Path("/proc/self").exists():
                try:
                    os.kill(pid, 0)
                except ProcessLookupError:
                    continue
                found.append(pid)
            continue
        if state not in "ZX":
            found.append(pid)
    return found


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


@pytest.mark.parametrize(
    ("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
)
def test_exit_codes_are_as_a_shell_says_them(run: Run, script: str, code: int) -> None:
    result = run("sh", "-c", script)
    assert (result.exit_code, result.timed_out, result.problem) == (code, False, "")


def test_output_goes_to_files_and_input_is_empty(run: Run) -> None:
    result = run("sh", "-c", "cat; echo out; echo err >&2")
    assert result.stdout.read_text() == "out\n"
    assert result.stderr.read_text() == "err\n"


@pytest.mark.parametrize("command", [("no-such-command-here",), ("./none",), ("/",)])
def test_what_cannot_start_says_why(run: Run, command: tuple[str, ...]) -> None:
    result = run(*command)
    assert result.exit_code is None
    assert result.problem in ("No such file or directory", "Permission denied")


def test_the_environment_is_the_given_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET", "x")
    assert "SECRET" not in run("env").stdout.read_text()


def test_memory_is_the_jobs_and_not_the_launchers(run: Run) -> None:
    ballast = bytearray(os.urandom(1 << 20)) * 200  # this process is fat now
    small, large = run("true"), run(*python("x = bytearray(b'1') * (120 << 20)"))
    assert small.rss_bytes < (60 << 20) < len(ballast)
    assert (115 << 20) < large.rss_bytes < (180 << 20)


def test_cpu_of_the_whole_tree_counts(run: Run) -> None:
    burn = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    code = f"import subprocess, sys\nfor _ in range(2): subprocess.run([sys.executable, '-c', {burn!r}])"
    result = run(*python(code))
    assert result.cpu_s >= 0.6


@pytest.mark.skipif(sys.platform != "linux", reason="orphans are adopted by a subreaper only on Linux")
def test_cpu_of_orphans_counts_too(run: Run) -> None:
    burn = "import time; end = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
    detached = (
        f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {burn!r}], start_new_session=True)"
    )
    code = (
        f"import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {detached!r}]); time.sleep(2)"
    )
    assert run(*python(code)).cpu_s >= 0.3


def test_wall_ends_with_the_main_process(run: Run) -> None:
    result = run("sh", "-c", "sleep 30 & sleep 0.3")
    assert 0.3 <= result.wall_s < 10
    assert result.seconds >= result.wall_s
    assert result.killed >= 1


ESCAPE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("{pids}", "a").write(f"{os.getpid()}\\n")
        for number in range(3):
            os.close(number)
        time.sleep(60)
    os._exit(0)
open("{pids}", "a").write(f"{os.getpid()}\\n")
time.sleep(float(sys.argv[1]))
"""


@pytest.mark.parametrize(("sleep", "timeout_s"), [("0.3", 30.0), ("60", 1.0)])
def test_a_double_fork_with_a_session_of_its_own_does_not_escape(
    run: Run, tmp_path: Path, sleep: str, timeout_s: float
) -> None:
    result = run(sys.executable, "-c", ESCAPE, sleep, timeout_s=timeout_s)
    assert result.timed_out == (sleep == "60")
    assert len((tmp_path / "pids").read_text().split()) == 2
    assert alive(tmp_path) == []


def test_a_killed_supervisor_ends_its_own_launch_and_no_other(tmp_path: Path) -> None:
    """Two processes of tithe number their launches alike."""
    for name in ("one", "two"):
        (tmp_path / name / "00000001").mkdir(parents=True)
    env = {"PATH": os.environ["PATH"]}
    patient = LaunchPlan(("sleep", "4"), tmp_path, env, 30.0, tmp_path / "one/00000001")
    deadly = LaunchPlan(
        ("sh", "-c", "sleep 60 & kill -9 $PPID; sleep 5"), tmp_path, env, 30.0, tmp_path / "two/00000001"
    )
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(launch, patient)
        time.sleep(1.0)
        with pytest.raises(LaunchError, match="signal 9"):
            launch(deadly)
        assert waiting.result().exit_code == 0


def test_a_time_out_kills_a_tree_that_ignores_sigterm(run: Run, tmp_path: Path) -> None:
    script = "trap '' TERM; (trap '' TERM; echo $$ >>{pids}; sleep 60) & echo $$ >>{pids}; sleep 60"
    result = run("sh", "-c", script, timeout_s=0.5)
    assert (result.exit_code, result.timed_out) == (137, True)
    assert result.seconds < 20
    assert alive(tmp_path) == []


def test_endless_output_neither_blocks_the_job_nor_fills_the_disk(run: Run) -> None:
    result = run(
        "sh", "-c", "head -c 300000000 /dev/zero; echo last; head -c 300000000 /dev/zero >&2", cap=100_000
    )
    assert result.exit_code == 0
    assert result.stdout.read_bytes().endswith(b"last\n")
    assert result.stdout.stat().st_size < 101_000
    assert all(cut > 299_000_000 for cut in result.cut)


def test_a_job_that_deletes_its_folder_is_still_measured(run: Run) -> None:
    result = run("sh", "-c", 'rm -rf "$PWD"; echo gone')
    assert result.exit_code == 0
    assert result.wall_s > 0


DRIVER = """
import signal
import sys
from pathlib import Path
from tithe.runner.launch import LaunchPlan, launch
folder = Path(sys.argv[1])
script = 'echo $$ >>"$0"; setsid sh -c \\'echo $$ >>"$0"; sleep 60\\' "$0" & sleep 60'
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background of a shell ignore it
launch(LaunchPlan(("sh", "-c", script, sys.argv[2]), folder, {"PATH": "/usr/bin:/bin"}, 100.0, folder))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_when_tithe_dies_its_job_dies_too(tmp_path: Path, number: signal.Signals) -> None:
    folder = tmp_path / "l"
    folder.mkdir()
    pids = tmp_path / "pids"
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(folder), str(pids)], stderr=subprocess.DEVNULL
    )
    wait_for(lambda: pids.exists() and len(pids.read_text().split()) == (2 if sys.platform == "linux" else 1))
    driver.send_signal(number)
    driver.wait(30)
    wait_for(lambda: not alive(tmp_path))


def test_a_supervisor_that_cannot_work_is_an_error_of_ours(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('out of order')")
    monkeypatch.setattr(launching, "SUPERVISOR", broken)
    with pytest.raises(LaunchError, match="out of order"):
        run("true")


def wait_for(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.05)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="the memory of others is read from /proc")
def test_a_job_beyond_its_memory_is_ended_with_its_children(run: Run, tmp_path: Path) -> None:
    code = """
import os, time
with open(r'{pids}', 'a') as file:
    file.write(f'{os.getpid()}\\n')
children = []
for number in range(3):
    if os.fork() == 0:
        with open(r'{pids}', 'a') as file:
            file.write(f'{os.getpid()}\\n')
        kept = bytearray(60 << 20)
        kept[::4096] = bytes(len(range(0, len(kept), 4096)))
        time.sleep(60)
time.sleep(60)
"""
    began = time.monotonic()
    result = run(*python(code), memory=150 << 20, timeout_s=50)
    assert result.too_large > 150 << 20  # together: none of them alone
    assert not result.timed_out
    assert time.monotonic() - began < 30
    assert alive(tmp_path) == []
    small = run(*python("kept = bytearray(20 << 20)"), memory=150 << 20)
    assert (small.too_large, small.exit_code) == (0, 0)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="no affinity here")
def test_a_job_keeps_to_its_cores(run: Run) -> None:
    core = max(os.sched_getaffinity(0))
    result = run(*python("import os; print(os.sched_getaffinity(0))"), cores=(core,))
    assert result.stdout.read_text().strip() == f"{{{core}}}"
    free = run(*python("import os; print(len(os.sched_getaffinity(0)))"))
    assert int(free.stdout.read_text()) == len(os.sched_getaffinity(0))


def test_instructions_are_counted_or_it_is_said_why_not(run: Run) -> None:
    few = run(*python("pass"), instructions=True)
    assert few.exit_code == 0
    if few.uncounted:
        assert few.instructions is None
        return
    many = run(
        *python("import os\nif os.fork() == 0:\n    sum(range(10**7))\n    os._exit(0)\nos.wait()"),
        instructions=True,
    )
    assert few.instructions is not None
    assert many.instructions is not None
    assert many.instructions > few.instructions + 10**7  # what the child ran
    assert run(*python("pass")).instructions is None


def test_a_counter_counts_a_whole_tree(tmp_path: Path) -> None:
    """On an event that every Linux has, where hardware counts nothing for a guest: nanoseconds on a processor."""
    code = """
import os, sys
sys.path.insert(0, sys.argv[1])
import supervisor
read, write = os.pipe()
pid = os.fork()
if pid == 0:
    os.read(read, 1)
    work = 'import os\\nif os.fork() == 0:\\n    sum(range(5*10**6)); os._exit(0)\\nos.wait()'
    os.execv(sys.executable, [sys.executable, '-c', work])
counter, why = supervisor.open_counter(pid, (1, 1))
os.write(write, b'x')
usage = os.wait4(pid, 0)[2]
if counter < 0:
    print('none', why)
else:
    print(int.from_bytes(os.read(counter, 8), sys.byteorder) / 1e9, usage.ru_utime + usage.ru_stime)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(launching.SUPERVISOR.parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    words = done.stdout.split()
    if words[0] == "none":
        pytest.skip(done.stdout)
    counted, used = map(float, words)
    assert counted == pytest.approx(used, rel=0.3, abs=0.1)
