"""`tithe.first_batch()`: a line in a file while tithe measures, and nothing at all elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run(code: str, **env: str) -> subprocess.CompletedProcess[str]:
    plain = {key: value for key, value in os.environ.items() if not key.startswith("TITHE_")}
    return subprocess.run(
        [sys.executable, "-c", "from tithe.first_batch_mark import first_batch, mark\n" + code],
        env={**plain, **env}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def names(file: Path) -> list[str]:
    return [line.split()[0] for line in file.read_text().splitlines()]


def test_without_tithe_it_does_nothing() -> None:
    done = run("first_batch(); mark('x'); print('on')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")


def test_each_name_is_marked_once(tmp_path: Path) -> None:
    file = tmp_path / "marks"
    done = run("first_batch(); first_batch(); mark('token iser\\n'); print('on')", TITHE_MARKS=str(file))
    assert done.stdout == "on\n"
    assert names(file) == ["first-batch", "token_iser_"]


def test_it_never_raises(tmp_path: Path) -> None:
    done = run(
        "mark([1]); mark(None); first_batch(); print('on')", TITHE_MARKS=str(tmp_path / "no" / "folder")
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "on\n", "")


def test_stop_ends_the_process_after_what_was_printed(tmp_path: Path) -> None:
    file = tmp_path / "marks"
    code = "print('before', end=''); first_batch(); print('after')"
    for stop in ("first-batch", "first-step"):
        done = run(code, TITHE_MARKS=str(file), TITHE_STOP=stop)
        assert (done.returncode, done.stdout) == (0, "before")
    assert names(file) == ["first-batch", "stopped"] * 2


def test_with_torch_the_first_step_comes_later(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['torch'] = sys; first_batch(); print('on'); mark('first-step'); print('no')"
    )
    done = run(code, TITHE_MARKS=str(tmp_path / "marks"), TITHE_STOP="first-step")
    assert (done.returncode, done.stdout) == (0, "on\n")
