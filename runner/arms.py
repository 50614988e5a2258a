"""Versions under test, made runnable once and kept: worktrees by revision, environments by content.

Everything is named by what it is made from, so that two tithe processes, or the runs of two days, share it. A
revision stands in up to two places, whose paths are equally long: a path's length and a file's position on
the disk move timings by more than many a regression, and places alternate from block to block. Whoever uses
a place holds its lock shared; making and collecting take it exclusively. A marker beside the folder (`.ok`)
says that it was finished: what a killed process left behind has none, and is made again.

The environment holds dependencies only. The arm's own code comes from its checkout, which stands before
site-packages on PYTHONPATH, so that an editable install of another revision is never what is measured.
"""

from __future__ import annotations

import contextlib
import fnmatch
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from tithe.data import git_process
from tithe.data.codec import CodecError, plain_json
from tithe.data.config import Config
from tithe.data.errors import ConfigError, GitError, LaunchError, SetupError, TitheError
from tithe.data.git import GitRepo
from tithe.data.records import Place, Sha, Variant
from tithe.data.text import safe_line
from tithe.runner.environment import SETUP_ALLOWED, base_environment
from tithe.runner.files import read_regular
from tithe.runner.launch import LaunchPlan, launch
from tithe.runner.locks import FileLock

KEEP_CHECKOUTS = 40
KEEP_ENVIRONMENTS = 10
KEEP_S = 30 * 86400.0
"""How long an arm that nobody asks for stays."""
KEEP_BYTES = 20 << 30
"""What checkouts, and what environments, may take together; the newest one stays, however large."""
COMPILE_WHOLE = 2000
"""Checkouts of more Python files have only the configured packages compiled ahead."""
COMPILE_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Arm:
    """A runnable version: where its checkout stands and which interpreter runs it."""

    sha: Sha
    place: Place
    checkout: Path
    interpreter: str


@lru_cache(maxsize=8)
def interpreter_of(config_python: str) -> str:
    """The interpreter of the arms, as an absolute path.

    Raises:
        ConfigError: there is none of that name.
    """
    if not config_python:
        return sys.executable
    found = shutil.which(config_python)
    if found is None:
        raise ConfigError(
            f"there is no interpreter {safe_line(config_python)!r}",
            where="python",
            mend="name one that exists",
        )
    return str(Path(found).absolute())


_VERSION = re.compile(r"\w+-\d+\.\d+\S*")
LOGGED = 16 << 20
"""Bytes of each output of a set-up's step that go to its log: more than `launch` keeps."""


@lru_cache(maxsize=8)
def interpreter_version(interpreter: str) -> str:
    """Its version, such as `cpython-3.11.7`, asked of it unless it is the one that runs tithe.

    Raises:
        ConfigError: it does not run.
    """
    code = "import sys; print(sys.implementation.name + '-' + sys.version.split()[0])"
    try:
        done = subprocess.run(
            [interpreter, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        done = None
    found = safe_line(done.stdout) if done else ""
    if not _VERSION.fullmatch(found):
        raise ConfigError(
            "is not a Python interpreter that runs",
            where=f"python = {safe_line(interpreter)!r}",
            mend="name one such as python3.12, or leave it out",
        )
    return found


PLAIN = Variant()
INHERIT = """\
import pathlib, site, sys
own = [p for p in sys.path if p.endswith(("site-packages", "dist-packages"))]
(made,) = pathlib.Path(sys.argv[1]).glob("lib/python*/site-packages")
(made / "_inherited.pth").write_text("".join(f"import site; site.addsitedir({p!r})\\n" for p in own))
"""
"""Puts the packages of an interpreter behind those of a new environment."""


class ArmCache:
    """Checkouts and environments under one folder, for one configuration.

    Raises (construction):
        ConfigError: the configured interpreter does not exist.
    """

    def __init__(self, config: Config, repo: GitRepo, folder: Path) -> None:
        self._config = config
        self._repo = repo
        self._trees = folder / "t"
        self._environments = folder / "e"
        for made in (self._trees, self._environments):
            made.mkdir(parents=True, exist_ok=True)
        self._git_lock = folder / "git.lock"
        self._interpreter = interpreter_of(config.python)
        if config.python:
            interpreter_version(self._interpreter)
        self._held: dict[Path, FileLock] = {}
        self._checked: set[Path] = set()
        self._faults: dict[tuple[Sha, Place, Variant], str] = {}
        self._interpreters: dict[tuple[Sha, Variant], str] = {}

    def arm(self, sha: Sha, place: Place, variant: Variant = PLAIN) -> Arm:
        """The version in that place, made when it is not there.

        Raises:
            SetupError: checkout, environment or set-up failed; says where the log is. The same fault is told
                again at once for the same revision and place.
        """
        if fault := self._faults.get((sha, place, variant)):
            raise SetupError(fault)
        try:
            checkout = self._checkout(sha, place)
            if (sha, variant) not in self._interpreters:
                self._interpreters[sha, variant] = self._environment(sha, checkout, variant)
        except (GitError, SetupError) as error:
            self._faults[sha, place, variant] = str(error)
            raise SetupError(str(error)) from None
        return Arm(sha, place, checkout, self._interpreters[sha, variant])

    def missing(self, arm: Arm) -> tuple[str, ...]:
        """Files that its checkout lacks, since a partial clone could not fetch them."""
        found = _read_marker(arm.checkout).get("missing", [])
        return tuple(str(path) for path in found) if isinstance(found, list) else ()

    def close(self) -> None:
        """Let go of all arms, and collect the oldest ones that no process uses."""
        for lock in self._held.values():
            lock.release()
        self._held.clear()
        self._checked.clear()
        self._collect(self._trees, KEEP_CHECKOUTS)
        self._collect(self._environments, KEEP_ENVIRONMENTS)

    # Checkouts

    def _checkout(self, sha: Sha, place: Place) -> Path:
        path = self._trees / f"{sha[:20]}-{place}"
        if path in self._checked and (path / ".git").is_file():
            return path

        def make() -> None:
            self._remove(path)
            with _locked(self._git_lock):
                missing = self._repo.add_worktree(sha, path)
            self._compile(sha, path)
            state = {
                "missing": list(missing),
                "status": _tracked_changes(path),
                "compiled": self._interpreter,
            }
            _write_marker(path, state)

        self._hold(path, self._intact, make)
        self._checked.add(path)
        return path

    def _intact(self, path: Path) -> bool:
        """Whether the checkout is as it was made: a scenario may have edited it, or deleted it."""
        state = _read_marker(path)
        if state.get("compiled") != self._interpreter or not (path / ".git").is_file():
            return False  # without its .git, git would answer for the user's own checkout around it
        try:
            return _tracked_changes(path) == state.get("status")
        except GitError:
            return False

    def _compile(self, sha: Sha, checkout: Path) -> None:
        """Byte-code for both places alike, before the first launch. Files that do not compile are left.

        The environment of a set-up has the same interpreter as this one, and reads the same byte-code.
        """
        targets = ["."]
        if sum(path.endswith(".py") for path in self._repo.files(sha)) > COMPILE_WHOLE:
            packages = [Path(*name.split(".")) for name in self._config.packages_in(checkout)]
            entries = [
                Path(entry) / name for entry in self._config.pythonpath_in(checkout) for name in packages
            ]
            targets = [str(entry) for entry in entries if (checkout / entry).is_dir()]
        if targets:
            words = (self._interpreter, "-I", "-m", "compileall", "-q", *targets)
            self._work(words, checkout, COMPILE_TIMEOUT_S, checkout.with_name(f"{checkout.name}.log"))

    # Environments

    def _environment(self, sha: Sha, checkout: Path, variant: Variant) -> str:
        """The interpreter for a revision: of an environment of its own if there is something to put into one."""
        python = interpreter_of(variant.python) if variant.python else self._interpreter
        if not (self._config.setup or variant.install or variant.isolated):
            return python
        path = self._environments / self._environment_key(sha, python, variant)
        interpreter = path / "bin" / "python"

        def whole(path: Path) -> bool:
            return bool(_read_marker(path)) and interpreter.exists()

        def make() -> None:
            shutil.rmtree(path, ignore_errors=True)
            self._set_up(path, checkout, str(interpreter), python, variant)
            _write_marker(path, {"setup": self._config.setup})

        self._hold(path, whole, make)
        return str(interpreter)

    def _environment_key(self, sha: Sha, python: str, variant: Variant) -> str:
        parts = [self._config.setup, python, interpreter_version(python), *variant.install]
        for name, blob in sorted(self._repo.files(sha).items()):
            if any(fnmatch.fnmatchcase(name, glob) for glob in self._config.setup_key):
                parts += [name, blob]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]

    def _set_up(self, path: Path, checkout: Path, interpreter: str, python: str, variant: Variant) -> None:
        log = path.with_name(f"{path.name}.log")
        log.unlink(missing_ok=True)
        steps = [(python, "-m", "venv", str(path)), *setup_steps(self._config.setup)]
        if not self._config.setup:
            # No set-up says what the program needs: what the interpreter has is there, and can be replaced.
            steps.append((python, "-c", INHERIT, str(path)))
        if variant.install:
            quiet = ("--quiet", "--disable-pip-version-check")
            steps.append(("python", "-m", "pip", "install", *quiet, *variant.install))
        for step in steps:
            words = (interpreter, *step[1:]) if step[0] in ("python", "python3") else step
            why = self._work(words, checkout, self._config.setup_timeout_s, log, interpreter=interpreter)
            if why:
                shutil.rmtree(path, ignore_errors=True)
                raise SetupError(f"set-up `{safe_line(shlex.join(step), limit=80)}` {why}; log: {log}")

    def _work(
        self, words: tuple[str, ...], cwd: Path, timeout_s: float, log: Path, *, interpreter: str = ""
    ) -> str:
        """Run a step, append what it prints to the log; returns how it failed, or nothing.

        For holders of the exclusive lock of what the log is of.
        """
        folder = log.with_suffix(".work")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        env = base_environment((*SETUP_ALLOWED, *self._config.env_allow), interpreter=interpreter or words[0])
        try:
            result = launch(LaunchPlan(words, cwd, env, timeout_s, folder, probe=False))
            said = b"".join(read_regular(path, LOGGED) for path in (result.stdout, result.stderr))
            with log.open("ab") as file:
                file.write(f"$ {shlex.join(words)}\n".encode() + said)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if result.problem:
            return f"cannot start: {safe_line(result.problem)}"
        if result.timed_out:
            return f"took longer than {timeout_s:g} s"
        if result.exit_code:
            return f"failed (exit {result.exit_code}): {last_line(said)}"
        return ""

    # Sharing with other processes

    def _hold(self, path: Path, whole: Callable[[Path], bool], make: Callable[[], None]) -> None:
        """Hold the lock of `path` shared until `close`, with `path` whole, made by one process if need be."""
        if held := self._held.pop(path, None):
            held.release()
        lock = FileLock(path.with_name(f"{path.name}.lock"))
        try:
            lock.acquire(shared=True)
            while not whole(path):
                lock.release()
                self._acquire_exclusively(lock)
                if not whole(path):
                    make()
                lock.release()
                lock.acquire(shared=True)  # another process may collect it in between: look again
            os.utime(_marker(path))
        except BaseException:
            lock.release()
            raise
        self._held[path] = lock

    def _acquire_exclusively(self, lock: FileLock) -> None:
        """Bounded: two processes that each wait for what the other uses must not wait for ever."""
        deadline = time.monotonic() + self._config.setup_timeout_s + COMPILE_TIMEOUT_S
        while not lock.acquire(wait=False):
            if time.monotonic() > deadline:
                raise SetupError("another tithe process uses it", where=str(lock.path), mend="try later")
            time.sleep(0.05)

    def _remove(self, path: Path) -> None:
        """Everything in here is tithe's own, whatever a scenario, a move or a clean-up has made of it."""
        _marker(path).unlink(missing_ok=True)
        if path.parent == self._trees:
            with _locked(self._git_lock):
                _remove_tree(path)
                self._repo.forget_worktrees()
        else:
            _remove_tree(path)

    def _collect(self, folder: Path, keep: int) -> None:
        total = 0
        for index, marker in enumerate(newest_first(folder.glob("*.ok"))):
            path = marker.with_suffix("")
            total += _size(path)
            if index < keep and _age(marker) <= KEEP_S and (total <= KEEP_BYTES or index == 0):
                continue
            lock = FileLock(path.with_name(f"{path.name}.lock"))
            try:
                if not lock.acquire(wait=False):
                    continue
                self._remove(path)
                path.with_name(f"{path.name}.log").unlink(missing_ok=True)
            except TitheError:
                continue  # collecting is a courtesy; the next process tries again
            finally:
                lock.release(remove=lock.held)


class _locked:  # noqa: N801 - reads as the context manager that it is
    def __init__(self, path: Path) -> None:
        self._lock = FileLock(path)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _remove_tree(path: Path) -> None:
    """Removes a file, a link or a folder, also one that a job has taken its own rights on."""
    if path.is_symlink() or not path.is_dir():
        path.unlink(missing_ok=True)
        return
    shutil.rmtree(path, ignore_errors=True)
    if not path.exists():
        return
    for folder, _, _ in os.walk(path):
        with contextlib.suppress(OSError):
            Path(folder).chmod(0o700)
    try:
        shutil.rmtree(path)
    except OSError as error:
        raise SetupError(
            f"cannot be removed: {error.strerror}", where=str(path), mend="remove it by hand"
        ) from None


def setup_steps(setup: str) -> list[tuple[str, ...]]:
    """The commands of a set-up, which `&&` separates; they never pass through a shell."""
    steps: list[list[str]] = [[]]
    for word in shlex.split(setup):
        if word == "&&":
            steps.append([])
        else:
            steps[-1].append(word)
    return [tuple(step) for step in steps if step]


def last_line(output: bytes) -> str:
    """The last line with something in it, safe to show."""
    lines = [line for line in output[-20_000:].decode(errors="replace").splitlines() if line.strip()]
    return safe_line(lines[-1]) if lines else "it printed nothing"


def _tracked_changes(path: Path) -> str:
    return git_process.text(path, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules")


def _marker(path: Path) -> Path:
    return path.with_name(f"{path.name}.ok")


def _read_marker(path: Path) -> Mapping[str, object]:
    try:
        found = plain_json(_marker(path).read_bytes())
    except (OSError, CodecError):
        return {}
    return found if isinstance(found, dict) else {}


def _size(path: Path) -> int:
    """Bytes on disk, as noted when it was made."""
    found = _read_marker(path).get("bytes", 0)
    return found if isinstance(found, int) else 0


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0


def _bytes_of(path: Path) -> int:
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512  # noqa: PTH118 - many files
    return total


def _write_marker(path: Path, state: Mapping[str, object]) -> None:
    state = {**state, "bytes": _bytes_of(path)}
    whole = path.with_name(f"{path.name}.new")
    try:
        whole.write_text(json.dumps(state), encoding="utf-8")
        whole.replace(_marker(path))
    except OSError as error:
        raise LaunchError(f"cannot be written: {error.strerror}", where=str(whole)) from None


def newest_first(paths: Iterable[Path]) -> list[Path]:
    """By the time of their last change; what has gone meanwhile comes last."""

    def key(path: Path) -> tuple[float, str]:
        try:
            return -path.stat().st_mtime, path.name
        except OSError:
            return 0.0, path.name

    return sorted(paths, key=key)
