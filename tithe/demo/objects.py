"""git object ids, computed without git.

A commit's id is a hash of its content, so the whole history, ids included, follows from the seed alone: the
answer key needs no repository, and what git wrote can be checked against what was meant.
Format: https://git-scm.com/book/en/v2/Git-Internals-Git-Objects.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping


def object_id(kind: str, content: bytes) -> str:
    """The SHA-1 that git names an object of `kind` (blob, tree, commit) by."""
    head = f"{kind} {len(content)}\0".encode()
    return hashlib.sha1(head + content, usedforsecurity=False).hexdigest()


def tree_id(files: Mapping[str, str]) -> str:
    """Id of the tree that holds these files; `files` maps path to blob id. All are plain files (100644)."""
    folders: dict[str, dict[str, str]] = {}
    entries: list[tuple[bytes, bytes]] = []
    for path, blob in files.items():
        name, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(name, {})[rest] = blob
        else:
            entries.append((name.encode(), b"100644 " + name.encode() + b"\0" + bytes.fromhex(blob)))
    for name, inner in folders.items():
        # git sorts a folder as if its name ended in a slash.
        entries.append(
            (name.encode() + b"/", b"40000 " + name.encode() + b"\0" + bytes.fromhex(tree_id(inner)))
        )
    return object_id("tree", b"".join(entry for _, entry in sorted(entries)))


def commit_id(tree: str, parent: str, person: str, when: int, message: str) -> str:
    """Id of a commit whose author and committer are one `person` ("Name <mail>"), at `when` in UTC."""
    lines = [f"tree {tree}"]
    if parent:
        lines.append(f"parent {parent}")
    lines += [f"author {person} {when} +0000", f"committer {person} {when} +0000", "", message]
    return object_id("commit", "\n".join(lines).encode())
