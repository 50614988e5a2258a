"""A small hand for making real git repositories, deaf to the configuration of whoever runs the tests.

`workshop` makes empty ones; `project` is one with scenarios of some tens of milliseconds, and the command line on it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
}


class Workshop:
    """A git repository in the making; each commit is one minute after the one before."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = 1_700_000_000

    def git(self, *words: str, stdin: str = "") -> str:
        """What `git words…` prints, stripped."""
        date = f"@{self.clock} +0000"
        env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
        env |= _ENVIRONMENT | {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        done = subprocess.run(
            ["git", "-C", str(self.root), *words],
            input=stdin,
            capture_output=True,
            text=True,
            env=env,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def write(self, path: str, content: str | bytes) -> Path:
        """Write one file of the work tree."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
        return target

    def commit(self, subject: str, files: dict[str, str] | None = None, *, at: int | None = None) -> str:
        """Commit the work tree, with `files` written first, and return the commit."""
        for path, content in (files or {}).items():
            self.write(path, content)
        before = self.clock
        self.clock = before if at is None else at
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "-m", subject)
        self.clock = before + 60
        return self.git("rev-parse", "HEAD")


@pytest.fixture
def workshop(tmp_path: Path) -> Callable[[str], Workshop]:
    """Make an empty repository of the given name below the test's own folder, on branch main."""

    def make(name: str = "repository") -> Workshop:
        root = tmp_path / name
        root.mkdir()
        made = Workshop(root)
        made.git("init", "--quiet", "--initial-branch=main")
        return made

    return make


CONFIG = """\
[tithe]
main = "main"

[graph]
packages = ["pkg"]

[[scenario]]
name = "quick"
command = "python job.py"
metrics = ["ttfb", "wall"]
timeout = "20s"
"""

JOB = """\
from pkg import work
from tithe import first_batch

work.run()
first_batch()
"""

# About 40 ms of real work, so that a slow-down of a third stands out of the noise of a start.
WORK = "def run():\n    return sum(i * i for i in range({size}))\n"
SIZE = 600_000


class Project(Workshop):
    """A repository with scenarios, and the command line on it."""

    def tithe(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """`tithe words…` in a process of its own."""
        return subprocess.run(
            [sys.executable, "-m", "tithe", *words],
            cwd=self.root,
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """One quick scenario that calls `tithe.first_batch()` after some real work."""
    root = tmp_path / "project"
    root.mkdir()
    made = Project(root)
    made.git("init", "--quiet", "--initial-branch=main")
    made.commit(
        "Start",
        {
            "tithe.toml": CONFIG,
            "pkg/__init__.py": "",
            "pkg/work.py": WORK.format(size=SIZE),
            "job.py": JOB,
            "README.md": "A job.\n",
        },
    )
    return made
