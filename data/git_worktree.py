"""Checkouts of single revisions beside the user's own, also where some of the files cannot be had.

A partial clone whose promisor is out of reach has commits and trees of all history and the contents of
little of it. What a benchmark needs is most often there, and documentation or assets are what is not; so
everything that exists is exported and the rest is named, and the caller decides what that means.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

from tithe.data import git_process
from tithe.data.errors import GitError
from tithe.data.git_objects import ObjectReader
from tithe.data.records import Sha


class TreeEntry(NamedTuple):
    """One file of a revision; `path` is as git has it."""

    mode: bytes
    kind: bytes
    id: str
    path: bytes


def tree(root: Path, sha: Sha) -> list[TreeEntry]:
    """All files, links and submodules of `sha`, in git's order."""
    found = []
    for field in git_process.run(root, "ls-tree", "-r", "-z", "--full-tree", sha).stdout.split(b"\x00"):
        if field:
            head, _, path = field.partition(b"\t")
            mode, kind, name = head.split()
            found.append(TreeEntry(mode, kind, name.decode("ascii"), path))
    return found


def add(root: Path, objects: ObjectReader, sha: Sha, path: Path) -> tuple[str, ...]:
    """A detached checkout of `sha` at `path`, which must not exist or be empty; the files it lacks.

    Raises:
        GitError: `path` is in use, or the checkout failed.
    """
    lacking = _lacking(root, objects, sha) if objects.promisor else []
    words = ("worktree", "add", "--quiet", "--detach", "--force")
    if not lacking:
        try:
            git_process.run(root, *words, "--end-of-options", str(path), sha)
        except GitError:
            # A copy of a partial clone does not always say that it is one.
            lacking = [] if objects.promisor or _commit_lacks(objects, sha) else _lacking(root, objects, sha)
            if not lacking:
                raise
            shutil.rmtree(path, ignore_errors=True)
            git_process.run(root, "worktree", "prune")
        else:
            return ()
    git_process.run(root, *words, "--no-checkout", "--end-of-options", str(path), sha)
    try:
        _export(path, sha, lacking)
    except GitError:
        remove(root, path)
        raise
    return tuple(git_process.decode_path(entry.path) for entry in lacking)


def remove(root: Path, path: Path) -> None:
    """Remove the checkout at `path` with all that lies in it; one that is gone already is forgotten.

    Raises:
        GitError: `path` is not a checkout that was added to this repository.
    """
    if (path / ".git").exists():
        git_process.run(root, "worktree", "remove", "--force", "--force", "--end-of-options", str(path))
    elif path.exists() and any(path.iterdir()):
        raise GitError("is not a worktree of this repository", where=str(path), mend="remove it by hand")
    else:
        git_process.run(root, "worktree", "prune")


def _commit_lacks(objects: ObjectReader, sha: Sha) -> bool:
    return bool(objects.missing([sha]))


def _lacking(root: Path, objects: ObjectReader, sha: Sha) -> list[TreeEntry]:
    entries = [entry for entry in tree(root, sha) if entry.kind == b"blob"]
    missing = objects.missing(entry.id for entry in entries)
    if missing and objects.fetch(sorted(missing)):
        missing = objects.missing(missing)
    return [entry for entry in entries if entry.id in missing]


def _export(path: Path, sha: Sha, lacking: list[TreeEntry]) -> None:
    """Write what there is; what lacks leaves the index meanwhile, or git would look for its contents.

    Afterwards it is put back, marked as not checked out, so that the checkout does not look edited (version
    numbers are made from that). Attributes stay out: git reads them whenever it looks at the work tree.
    """
    names = b"".join(entry.path + b"\x00" for entry in lacking)
    git_process.run(path, "read-tree", sha)
    git_process.run(path, "update-index", "--force-remove", "-z", "--stdin", stdin=names)
    git_process.run(path, "checkout-index", "--all", "--quiet", "--index")
    back = [entry for entry in lacking if entry.path.rpartition(b"/")[2] != b".gitattributes"]
    lines = b"".join(b"%s %s\t%s\x00" % (entry.mode, entry.id.encode(), entry.path) for entry in back)
    names = b"".join(entry.path + b"\x00" for entry in back)
    git_process.run(path, "update-index", "-z", "--index-info", stdin=lines)
    git_process.run(path, "update-index", "--skip-worktree", "-z", "--stdin", stdin=names)
