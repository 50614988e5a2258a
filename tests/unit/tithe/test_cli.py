"""The command line as a stranger meets it: help, usage errors and exit codes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tithe.cli import COMMANDS
from tithe.data.errors import EXIT_MEANINGS


def tithe(*args: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-m", "tithe", *args],
        cwd=cwd,
        capture_output=True,
        text=True,
        env={**os.environ, **env},
    )


def test_help_lists_every_command_and_exit_code(tmp_path: Path) -> None:
    done = tithe("--help", cwd=tmp_path)
    assert done.returncode == 0
    for name, (_, line) in COMMANDS.items():
        assert f"  {name} " in done.stdout
        assert line in done.stdout
    for code, meaning in EXIT_MEANINGS.items():
        assert f"{code} {meaning}" in " ".join(done.stdout.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, tmp_path: Path) -> None:
    done = tithe(name, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split("\n\n")) >= 2
    for line in done.stdout.splitlines():
        words = line.split()
        if words and words[0].startswith("--"):
            assert len(words) > 1, f"no help for {words[0]}"


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("slect",), "Did you mean 'select'"),
        (("select",), "--budget"),
        (("select", "--budget"), "--budget"),
        (("status", "--frmat", "json"), "--frmat"),
        (("status",), "not in a git repository"),
        (("init",), "not in a git repository"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(args: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = tithe(*args, cwd=tmp_path)
    assert done.returncode == 2
    assert says in done.stderr
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("tithe: ")


def test_the_reference_page_is_what_the_code_says() -> None:
    from tithe.reference import render

    page = Path(__file__).resolve().parents[3] / "docs" / "reference.md"
    assert page.read_text(encoding="utf-8") == render(), "run: python -m tithe.reference > docs/reference.md"
