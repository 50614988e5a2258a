"""Commits beside the user's work: of an uncommitted edit, or of an edit that is made on purpose.

The commit is made beside the user's work, on a copy of the index, and no branch or tag points to it. Same
content on the same HEAD gives the same id: author and clock are taken from neither the user nor the moment.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tithe.data import git_process
from tithe.data.errors import UsageError
from tithe.data.paths import own_outputs
from tithe.data.records import Sha
from tithe.data.text import safe_line

NOT_TITHE = (".", ":(exclude,top).tithe")
"""Everything but the folder in which tithe keeps its own things."""

UNTRACKED_LIMIT_BYTES = 100 * 2**20
"""An untracked file larger than this is taken for an accident: it would be copied into the repository."""

_IDENTITY = {
    "GIT_AUTHOR_NAME": "tithe",
    "GIT_AUTHOR_EMAIL": "tithe@localhost",
    "GIT_COMMITTER_NAME": "tithe",
    "GIT_COMMITTER_EMAIL": "tithe@localhost",
}


def is_dirty(root: Path) -> bool:
    """Whether a tracked file differs from HEAD, or there is an untracked one that is not ignored."""
    return bool(
        git_process.run(
            root, "status", "--porcelain", "-z", "--untracked-files=normal", "--", *NOT_TITHE
        ).stdout
    )


def snapshot(root: Path, head: Sha) -> Sha:
    """The work tree at `root` as a commit on `head`; `head` itself if they are equal.

    Tracked files and untracked ones that are not ignored go in, `.tithe/` never. Neither the index nor
    the work tree is changed; objects are added to the repository.

    Raises:
        UsageError: an untracked file is so large that it cannot be meant.
        GitError: a file cannot be read, or objects cannot be written.
    """
    if not is_dirty(root):
        return head
    untracked = _untracked(root)
    with tempfile.TemporaryDirectory(prefix="tithe-index-") as folder:
        index = Path(folder, "index")
        env = {"GIT_INDEX_FILE": str(index), **_IDENTITY}
        if not _copy_index(root, index):
            git_process.run(root, "read-tree", head, env=env)
        # Not `git add --all`: it fails where an excluded path is ignored as well.
        edited = git_process.run(
            root, "diff-files", "-z", "--name-only", "--ignore-submodules=none", "--", *NOT_TITHE, env=env
        ).stdout
        paths = edited + b"".join(path + b"\x00" for path in untracked)
        git_process.run(
            root, "update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=paths, env=env
        )
        tree = git_process.text(root, "write-tree", env=env)
    return _commit(root, tree, head, "The work tree, with what is not committed")


def changed(root: Path, parent: Sha, contents: Mapping[str, bytes], message: str) -> Sha:
    """A commit on `parent` in which these files (path to content) are as given; `parent` if they are so there.

    Neither index nor work tree nor any branch is touched.

    Raises:
        GitError: objects cannot be written, or a path is none.
    """
    with tempfile.TemporaryDirectory(prefix="tithe-index-") as folder:
        env = {"GIT_INDEX_FILE": str(Path(folder, "index")), **_IDENTITY}
        git_process.run(root, "read-tree", parent, env=env)
        entries = b""
        for path, content in sorted(contents.items()):
            blob = git_process.run(root, "hash-object", "-w", "--stdin", stdin=content).stdout.strip()
            known = git_process.run(root, "ls-files", "-z", "--stage", "--", f":(top,literal){path}", env=env)
            mode = known.stdout.split(b" ", 1)[0] or b"100644"
            entries += b"%s %s\t%s\x00" % (mode, blob, os.fsencode(path))
        git_process.run(root, "update-index", "--add", "-z", "--index-info", stdin=entries, env=env)
        tree = git_process.text(root, "write-tree", env=env)
    return _commit(root, tree, parent, message)


def patched(root: Path, parent: Sha, patch: bytes, where: str) -> Sha:
    """A commit on `parent` with a patch applied, as `git diff` writes it; `parent` if it changes nothing.

    Raises:
        UsageError: the patch does not apply; says what git says.
    """
    with tempfile.TemporaryDirectory(prefix="tithe-index-") as folder:
        env = {"GIT_INDEX_FILE": str(Path(folder, "index")), **_IDENTITY}
        git_process.run(root, "read-tree", parent, env=env)
        words = ("apply", "--cached", "--whitespace=nowarn", "-")
        done = git_process.run(root, *words, stdin=patch, env=env, ok=(0, 1, 128))
        if done.returncode:
            said = git_process.decode(done.stderr).strip().splitlines()
            what = safe_line(said[0].removeprefix("error: ")) if said else "git apply failed"
            mend = f"make it against {parent[:10]}, such as by `git diff {parent[:10]}`"
            raise UsageError(f"does not apply: {what}", where=where, mend=mend)
        tree = git_process.text(root, "write-tree", env=env)
    return _commit(root, tree, parent, "A patch")


def _commit(root: Path, tree: str, parent: Sha, message: str) -> Sha:
    """The same for the same tree, parent and message; the parent where nothing differs."""
    if tree == git_process.text(root, "rev-parse", "--verify", f"{parent}^{{tree}}"):
        return parent
    clock = git_process.text(root, "log", "-1", "--format=tformat:%ct", parent)
    env = {**_IDENTITY, "GIT_AUTHOR_DATE": f"@{clock} +0000", "GIT_COMMITTER_DATE": f"@{clock} +0000"}
    return Sha(
        git_process.text(root, "commit-tree", "--no-gpg-sign", tree, "-p", parent, "-m", message, env=env)
    )


def _copy_index(root: Path, target: Path) -> bool:
    """Copy the index with its time stamp; False if there is none.

    git trusts an entry only if its file is older than the index, so a copy that looked younger than its
    original would hide an edit made within the same tick of the clock.
    """
    source = Path(root, git_process.text(root, "rev-parse", "--git-path", "index"))
    try:
        with source.open("rb") as old, target.open("wb") as new:
            status = os.fstat(old.fileno())
            shutil.copyfileobj(old, new, 1 << 20)
    except FileNotFoundError:
        return False
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    return True


def _untracked(root: Path) -> list[bytes]:
    """Files that are neither tracked nor ignored; repositories within the work tree are none of its files."""
    listed = git_process.run(
        root, "ls-files", "-z", "--others", "--exclude-standard", "--", *NOT_TITHE
    ).stdout
    own = {os.fsencode(name) for name in own_outputs(root)}
    found = [raw for raw in listed.split(b"\x00") if raw and not raw.endswith(b"/") and raw not in own]
    for raw in found:
        try:
            size = os.lstat(os.path.join(os.fsencode(root), raw)).st_size  # noqa: PTH118 - bytes
        except OSError:
            continue
        if size > UNTRACKED_LIMIT_BYTES:
            raise UsageError(
                f"is not tracked and has {size / 2**20:.0f} MiB, too much to copy into the repository",
                where=safe_line(git_process.decode_path(raw)),
                mend="add it to .gitignore, or commit it",
            )
    return found
