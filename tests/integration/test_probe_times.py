"""What a watched launch says of its functions: who ran how often, and what each took, in all threads and processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tithe.runner.launch import LaunchPlan, LaunchResult, launch
from tithe.runner.marks import Times, read_times

WORK = """\
import time

def spin(seconds):
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass

def outer():
    spin(0.05)
    spin(0.05)
    inner()

def inner():
    spin(0.1)

def deep(n):
    spin(0.01)
    if n:
        deep(n - 1)

def numbers(n):
    for i in range(n):
        spin(0.002)
        yield i

def fails():
    spin(0.02)
    raise ValueError

class Thing:
    def method(self):
        def local():
            spin(0.03)
        local()
"""


def run(tmp_path: Path, code: str) -> tuple[LaunchResult, dict[tuple[str, str], Times], float]:
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "main.py").write_text(code)
    folder = tmp_path / "launch"
    folder.mkdir()
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)}
    watch = {
        "TITHE_FILES": str(folder / "files"),
        "TITHE_FILES_ROOT": str(tmp_path),
        "TITHE_TIMES": str(folder / "times"),
    }
    plan = LaunchPlan((sys.executable, "main.py"), tmp_path, env, 60.0, folder, extra_env=watch)
    result = launch(plan)
    assert result.stderr.read_text() == ""
    times, seconds = read_times(folder / "times")
    return result, times, seconds


def test_time_is_told_with_and_without_others(tmp_path: Path) -> None:
    _, times, seconds = run(tmp_path, "import work\nwork.outer()\nwork.deep(4)\n")
    outer, inner, deep = (times["work.py", name] for name in ("outer", "inner", "deep"))
    assert (outer.calls, inner.calls, deep.calls) == (1, 1, 5)
    assert times["work.py", "spin"].calls == 8
    assert 0.2 <= outer.seconds < 0.4
    assert 0.1 <= inner.seconds < 0.2
    assert outer.own_s < 0.05  # all of it is in others
    assert 0.05 <= deep.seconds < 0.15  # once, though it is in itself
    assert times["work.py", "spin"].own_s == pytest.approx(times["work.py", "spin"].seconds)
    assert outer.seconds + deep.seconds <= seconds
    assert times["main.py", "<module>"].seconds >= outer.seconds + deep.seconds
    assert not any(file.startswith("/") or "threading" in file for file, _ in times)


def test_generators_exceptions_and_inner_functions(tmp_path: Path) -> None:
    code = """\
import work
assert sum(work.numbers(5)) == 10
it = work.numbers(3)
next(it)
del it
for _ in range(3):
    try:
        work.fails()
    except ValueError:
        pass
work.Thing().method()
"""
    _, times, _ = run(tmp_path, code)
    assert 0.01 <= times["work.py", "numbers"].seconds < 0.05
    assert times["work.py", "fails"].calls == 3
    assert 0.06 <= times["work.py", "fails"].seconds < 0.12
    local = ("work.py", "Thing.method.local" if sys.version_info >= (3, 11) else "local")
    assert 0.03 <= times[local].seconds < 0.06
    assert times["main.py", "<module>"].calls == 1


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_workers_and_threads_count_and_nothing_is_told_twice(tmp_path: Path, way: str) -> None:
    code = f"""\
import multiprocessing, threading, os, work

if __name__ == "__main__":
    work.inner()
    context = multiprocessing.get_context({way!r})
    worker = context.Process(target=work.outer)
    worker.start()
    worker.join()
    thread = threading.Thread(target=work.Thing().method)
    thread.start()
    thread.join()
    os._exit(0)
"""
    _, times, seconds = run(tmp_path, code)
    assert times["work.py", "inner"].calls == 2  # here, and in the worker
    assert times["work.py", "outer"].calls == 1
    assert 0.2 <= times["work.py", "outer"].seconds < 0.4
    method = "Thing.method" if sys.version_info >= (3, 11) else "method"
    assert 0.03 <= times["work.py", method].seconds < 0.08
    assert seconds >= 0.3


def test_what_the_watching_takes_is_kept_out(tmp_path: Path) -> None:
    code = """\
import work, time

def tiny():
    pass

def many():
    for _ in range(100_000):
        tiny()

work.spin(0.2)
many()
"""
    _, times, _ = run(tmp_path, code)
    assert times["main.py", "tiny"].calls == 100_000
    # Watched it takes more than a fifth of a second; some of the cost of being called stays.
    assert times["main.py", "many"].seconds < 2.5 * times["work.py", "spin"].seconds


def test_a_program_with_a_profiler_of_its_own_goes_on(tmp_path: Path) -> None:
    code = """\
import sys, work
work.inner()
sys.setprofile(lambda *_: None)
work.inner()
sys.setprofile(None)
"""
    _, times, _ = run(tmp_path, code)
    assert times["work.py", "inner"].calls >= 1
