"""Writes the demo repository.

git gets the history as one `fast-import` stream, in an environment without the user's configuration, and
must come to the ids that `timeline` computed: a demo that differs anywhere by one bit is refused, since its
recorded history would not fit it. The repository appears under its name only when it is whole.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tithe.data.errors import GitError, UsageError
from tithe.data.records import Sha
from tithe.demo.timeline import Commit, commits

SPOOL = "spool"
"""Folder of the recorded history in the demo; git does not see it."""
RECORDED = Path(__file__).parent / "recorded"
_MARK = "tithe-demo"


@dataclass(frozen=True)
class DemoSummary:
    """What was written; `spool` is the folder of the recorded history, `head` the tip of main."""

    path: Path
    seed: int
    head: Sha
    commits: int
    authors: int
    scenarios: int
    tags: tuple[str, ...]
    spool: Path
    bundles: int


def write(target: Path, *, seed: int, force: bool = False) -> DemoSummary:
    """Write the demo repository of `seed` to `target`, with the recorded history in `target/spool`.

    Args:
        target: a path that does not exist, or an empty folder.
        seed: deals the faults of the new era.
        force: replace `target` if it is a demo that was written by this function.

    Raises:
        UsageError: `target` holds something.
        GitError: git is missing, or made something else of the history.
    """
    target = Path(os.path.abspath(target))  # noqa: PTH100 - a link at the end must stay a link
    _must_be_free(target, force)
    history = commits(seed)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{target.name}-", dir=target.parent) as folder:
        fresh = Path(folder) / "demo"
        _repository(fresh, history)
        bundles = _place_recorded(fresh)
        if target.exists() and any(target.iterdir()):
            target.rename(Path(folder) / "old")
        fresh.rename(target)
    return DemoSummary(
        path=target,
        seed=seed,
        head=history[-1].sha,
        commits=len(history),
        authors=len({commit.person for commit in history}),
        scenarios=history[-1].files["tithe.toml"].count("[[scenario]]"),
        tags=tuple(commit.step.tag for commit in history if commit.step.tag),
        spool=target / SPOOL,
        bundles=bundles,
    )


def _must_be_free(target: Path, force: bool) -> None:
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise UsageError("is there already and is no folder", where=str(target), mend="name another folder")
    if not target.exists() or not any(target.iterdir()):
        return
    if not (target / ".git" / _MARK).is_file():
        raise UsageError("is not empty", where=str(target), mend="name a folder that is empty or not there")
    if not force:
        raise UsageError("is a demo already", where=str(target), mend="give --force to write it anew")


def _repository(folder: Path, history: Sequence[Commit]) -> None:
    folder.mkdir()
    _git(folder, "init", "--quiet", "--template=", "--object-format=sha1", "--initial-branch=main", ".")
    _git(folder, "fast-import", "--quiet", "--date-format=raw", feed=b"".join(_stream(history)))
    head = _git(folder, "rev-parse", "--verify", "refs/heads/main").decode().strip()
    if head != history[-1].sha:
        raise GitError(
            f"git came to commit {head[:12]} where {history[-1].sha[:12]} was meant",
            where=str(folder),
            mend="tell us the version of git",
        )
    _git(folder, "reset", "--quiet", "--hard", "main")
    info = folder / ".git" / "info"
    info.mkdir(exist_ok=True)
    (info / "exclude").write_text(f"/{SPOOL}/\n", encoding="utf-8")
    (folder / ".git" / _MARK).write_text("written by `tithe demo`\n", encoding="utf-8")


def _stream(history: Sequence[Commit]) -> Iterator[bytes]:
    """The history in the format of git-fast-import(1); marks are numbers of commits from 1."""
    before: dict[str, str] = {}
    for number, commit in enumerate(history, 1):
        yield f"commit refs/heads/main\nmark :{number}\n".encode()
        who = f"{commit.person} {commit.time} +0000"
        yield f"author {who}\ncommitter {who}\n".encode()
        yield _data(commit.message)
        if number > 1:
            yield f"from :{number - 1}\n".encode()
        for path in sorted(before.keys() - commit.files.keys()):
            yield f"D {path}\n".encode()
        for path, text in commit.files.items():
            if before.get(path) != text:
                yield f"M 100644 inline {path}\n".encode() + _data(text)
        yield b"\n"
        before = commit.files
        if commit.step.tag:
            yield f"tag {commit.step.tag}\nfrom :{number}\ntagger {who}\n".encode()
            yield _data(f"{commit.step.tag}\n")


def _data(text: str) -> bytes:
    raw = text.encode()
    return f"data {len(raw)}\n".encode() + raw + b"\n"


def _place_recorded(folder: Path) -> int:
    """Copies the recorded bundles into the demo's spool; gives their number."""
    spool = folder / SPOOL
    spool.mkdir()
    bundles = sorted(RECORDED.glob("*.tithe.jsonl.gz"))
    for bundle in bundles:
        shutil.copyfile(bundle, spool / bundle.name)
    return len(bundles)


def _git(folder: Path, *words: str, feed: bytes = b"") -> bytes:
    """Runs git on `folder` with nothing of the user's or the machine's configuration."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    environment.update(
        GIT_CONFIG_NOSYSTEM="1",
        GIT_CONFIG_GLOBAL=os.devnull,
        GIT_CEILING_DIRECTORIES=str(folder.parent),
        HOME=str(folder),
        XDG_CONFIG_HOME=str(folder),
        LC_ALL="C",
    )
    try:
        done = subprocess.run(
            ["git", "-c", "core.autocrlf=false", "-c", "gc.auto=0", *words],
            cwd=folder,
            env=environment,
            input=feed,
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise GitError("git is not installed", mend="install git 2.28 or newer") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise GitError(f"git {words[0]} failed: {said[-1] if said else 'no message'}", where=str(folder))
    return done.stdout
