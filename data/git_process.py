"""Calls git so that the answer depends on the repository and the question, and on nothing else.

A user's configuration can colour, page, quote, sign, re-order and filter almost everything that git prints,
and a hook or an inherited `GIT_DIR` can make it act elsewhere. So every call goes through here: an
environment without `GIT_*` (credentials and configuration sources excepted), settings that win over all
files, plumbing or explicit formats, NUL-separated fields, and no shell.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import IO, TypeAlias

from tithe.data.credentials import hidden
from tithe.data.errors import GitError
from tithe.data.text import safe_line

OLDEST_GIT = (2, 31)
"""The first with `--diff-merges=first-parent`."""

_KEPT = re.compile(
    r"^GIT_(SSH|SSH_COMMAND|SSH_VARIANT|ASKPASS|SSL_.*|HTTP_.*|PROXY_.*|PROTOCOL.*|ALLOW_PROTOCOL"
    r"|CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+)|CEILING_DIRECTORIES|DISCOVERY_ACROSS_FILESYSTEM)$"
)
_SETTINGS = {
    "advice.detachedHead": "false",
    "color.ui": "false",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.quotePath": "false",
    "core.safecrlf": "false",
    "core.splitIndex": "false",
    "core.warnAmbiguousRefs": "true",
    "diff.orderFile": os.devnull,
    "fetch.negotiationAlgorithm": "noop",
    "gc.auto": "0",
    "i18n.commitEncoding": "UTF-8",
    "log.showRoot": "true",
    "log.showSignature": "false",
    "maintenance.auto": "false",
    "submodule.recurse": "false",
}
_LOCKED = re.compile(
    rb"(Unable to create|could not lock|cannot lock|unable to lock)[^\n]*File exists"
    # Another git is in the middle of making or removing a worktree.
    rb"|(failed to read|Invalid path|could not create directory of)[^\n]*[/\\]worktrees[/\\]"
)
LOCK_PATIENCE_S = 30.0

Output: TypeAlias = IO[bytes]
"""What a running git prints."""


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The caller's environment without what would change git's answers, and with `extra`."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("GIT_") or _KEPT.match(key)}
    env.pop("LANGUAGE", None)
    env |= {
        "LC_ALL": "C",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }
    return env | dict(extra or {})


def command_line(where: Path | None, words: Sequence[str]) -> list[str]:
    """`git` with the settings in front; `where` is the folder that it works in."""
    settings = [part for key, value in _SETTINGS.items() for part in ("-c", f"{key}={value}")]
    folder = ["-C", str(where)] if where is not None else []
    return ["git", "--no-pager", *folder, *settings, *words]


@lru_cache(maxsize=1)
def require_git() -> tuple[int, ...]:
    """The version of git.

    Raises:
        GitError: git is not installed, or too old.
    """
    done = _start_and_wait(["git", "version"], environment(), None)
    match = re.search(rb"(\d+)\.(\d+)", done.stdout)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if version < OLDEST_GIT:
        needed = ".".join(map(str, OLDEST_GIT))
        raise GitError(
            f"git {needed} or newer is needed, this is {decode(done.stdout).strip()}", mend="update git"
        )
    return version


def run(
    where: Path | None,
    *words: str,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    ok: Sequence[int] = (0,),
    timeout_s: float | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run `git words…` in `where` to its end; a lock that another process holds is waited for.

    Raises:
        GitError: git is missing, or ended with a code that is not in `ok`; says what git said.
    """
    line = command_line(where, words)
    deadline = time.monotonic() + LOCK_PATIENCE_S
    pause = 0.02
    while True:
        done = _start_and_wait(line, environment(env), stdin, timeout_s)
        if done.returncode in ok:
            return done
        if not _LOCKED.search(done.stderr) or time.monotonic() > deadline:
            raise failure(words[0], done.stderr, done.returncode)
        time.sleep(pause)
        pause = min(2 * pause, 0.5)


def text(where: Path | None, *words: str, env: Mapping[str, str] | None = None) -> str:
    """What `git words…` prints, without the line end."""
    return decode(run(where, *words, env=env).stdout).removesuffix("\n")


@contextmanager
def streaming(
    where: Path | None, *words: str, stdin: IO[bytes] | None = None, env: Mapping[str, str] | None = None
) -> Iterator[Output]:
    """The output of `git words…` while it runs; git is ended if the caller stops reading early.

    Raises:
        GitError: as for `run`, at the end of the output.
    """
    with tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(
                command_line(where, words),
                stdin=stdin if stdin is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment(env),
            )
        except OSError as error:
            raise _cannot_start(error) from None
        assert process.stdout is not None  # noqa: S101 - stdout=PIPE above
        finished = False
        try:
            yield process.stdout
            finished = not process.stdout.read(1)
        finally:
            if not finished:
                process.kill()
            process.stdout.close()
            code = process.wait()
        if finished and code:
            errors.seek(0)
            raise failure(words[0], errors.read(), code)


def fields(stream: Output, *, chunk: int = 1 << 16) -> Iterator[bytes]:
    """The NUL-terminated fields of `stream`; what follows the last NUL is a field too if it is not empty."""
    rest = b""
    while block := stream.read(chunk):
        *whole, rest = (rest + block).split(b"\x00")
        yield from whole
    if rest:
        yield rest


def decode(raw: bytes) -> str:
    """Text of a commit or a message: UTF-8, with U+FFFD for what is not."""
    return raw.decode("utf-8", "replace")


def decode_path(raw: bytes) -> str:
    """A path that can be stored and shown, different for different paths: odd bytes become `\\xNN`."""
    return raw.decode("utf-8", "backslashreplace")


def os_path(raw: bytes) -> Path:
    """A path that git printed, as the operating system has it."""
    return Path(os.fsdecode(raw))


def failure(command: str, stderr: bytes, code: int) -> GitError:
    """The error for a git that failed: the first line that says `fatal` or `error`, else the last one."""
    lines = [line for line in decode(stderr).splitlines() if line.strip()]
    said = next((line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else "")
    what = safe_line(hidden(re.sub(r"^(fatal|error): ", "", said)), limit=300) or f"ended with code {code}"
    mend = ""
    if "dubious ownership" in what:
        mend = "the repository belongs to another user: see safe.directory in `git help config`"
    elif _LOCKED.search(stderr):
        mend = "if no git is running there, remove the lock file"
    elif "No space left" in decode(stderr):
        mend = "free some disk space"
    return GitError(what, where=f"git {command}", mend=mend)


def _start_and_wait(
    line: list[str], env: dict[str, str], stdin: bytes | None, timeout_s: float | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run to the end. With a time limit git gets a session of its own: its helpers must end with it."""
    try:
        process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            start_new_session=timeout_s is not None,
        )
    except OSError as error:
        raise _cannot_start(error) from None
    with process:
        try:
            stdout, stderr = process.communicate(stdin or None, timeout=timeout_s)
        except BaseException as error:
            if timeout_s is None:
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise GitError(f"did not end within {timeout_s:g} s", where="git") from None
            raise
    return subprocess.CompletedProcess(line, process.returncode, stdout, stderr)


def _cannot_start(error: OSError) -> GitError:
    if isinstance(error, FileNotFoundError):
        return GitError("git was not found", mend=f"install git {'.'.join(map(str, OLDEST_GIT))} or newer")
    return GitError(f"git cannot be started ({error.strerror})")
