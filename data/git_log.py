"""Turns the output of `git log -z` into changes, one at a time.

The stream has no nesting to hold on to: fields of a commit, its files, the next commit, all NUL-terminated.
A commit begins with a \\x01, which neither a count of lines nor the head of a raw entry can, and after it
the number of fields is fixed; so no subject, path or author can be taken for anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from tithe.data.errors import GitError
from tithe.data.git_process import decode, decode_path
from tithe.data.records import Change, FileEdit, Sha

FORMAT = "--format=tformat:%x01%H%x00%P%x00%ae%x00%ct%x00%s%x00%b"
NUMSTAT = ("--numstat", "--find-renames=50%", "-l1000")
RAW = ("--raw", "--no-abbrev", "--find-renames=100%")
"""For partial clones: counting lines would fetch every file of history, one request per commit."""
FIXED = (
    "-z",
    "--diff-merges=first-parent",
    "--no-ext-diff",
    "--no-textconv",
    "--no-relative",
    "--no-color",
    "--ignore-submodules=none",
    "--diff-algorithm=myers",
    "--encoding=UTF-8",
)

BODY_LIMIT = 10_000
"""Characters of a commit message that are kept; some bots write megabytes."""

_NUMSTAT = re.compile(rb"^\n?(\d+|-)\t(\d+|-)\t(.*)$", re.DOTALL)
_RAW = re.compile(rb"^\n?:[0-7]+ [0-7]+ [0-9a-f]+ [0-9a-f]+ ([A-Z])\d*$")


@dataclass(frozen=True)
class Entry:
    """One commit of the log, before its place in history is known."""

    sha: Sha
    parents: tuple[Sha, ...]
    author: str
    time: float
    subject: str
    body: str
    files: tuple[FileEdit, ...]

    def with_symbols(self, touched: Sequence[Sequence[str]]) -> Entry:
        """The entry with the symbols of each of its files; as it is where they are not those of its files."""
        if len(touched) != len(self.files):
            return self
        files = (
            replace(edit, symbols=tuple(symbols)) for edit, symbols in zip(self.files, touched, strict=True)
        )
        return replace(self, files=tuple(files))

    def change(self, *, index: int, time: float, parent: Sha | None = None) -> Change:
        """The record, with the place in history and the monotone time that the caller knows."""
        first = self.parents[0] if self.parents else Sha("")
        return Change(
            sha=self.sha,
            parent=first if parent is None else parent,
            index=index,
            author=self.author,
            time=time,
            subject=self.subject,
            files=self.files,
            body=self.body,
            merge=len(self.parents) > 1,
        )


def entries(fields: Iterable[bytes]) -> Iterator[Entry]:
    """The commits in the fields of `git log -z` with `FORMAT` and `NUMSTAT` or `RAW`."""
    stream = iter(fields)
    field = next(stream, None)
    while field is not None:
        head = field.lstrip(b"\n")
        if not head.startswith(b"\x01"):
            raise GitError(
                "its output is not understood", where="git log", mend="please report it with git's version"
            )
        parents, author, time, subject, body = (next(stream, b"") for _ in range(5))
        files: list[FileEdit] = []
        field = next(stream, None)
        while field is not None and not field.lstrip(b"\n").startswith(b"\x01"):
            edit = _edit(field, stream)
            if edit is not None:
                files.append(edit)
            field = next(stream, None)
        yield Entry(
            sha=Sha(head[1:].decode("ascii")),
            parents=tuple(Sha(parent) for parent in parents.decode("ascii").split()),
            author=decode(author),
            time=float(time or 0),
            subject=decode(subject),
            body=decode(body[: 4 * BODY_LIMIT]).strip()[:BODY_LIMIT],
            files=tuple(files),
        )


def edits(fields: Iterable[bytes]) -> tuple[FileEdit, ...]:
    """The files in the fields of `git diff-tree -z` with `NUMSTAT` or `RAW`."""
    stream = iter(fields)
    return tuple(edit for field in stream if (edit := _edit(field, stream)) is not None)


def _edit(field: bytes, stream: Iterator[bytes]) -> FileEdit | None:
    if match := _NUMSTAT.match(field):
        added, deleted = (-1 if count == b"-" else int(count) for count in match.group(1, 2))
        if match[3]:
            return FileEdit(decode_path(match[3]), added, deleted)
        old, new = next(stream, b""), next(stream, b"")
        return FileEdit(decode_path(new), added, deleted, decode_path(old))
    if match := _RAW.match(field):
        path = next(stream, b"")
        if match[1] in b"RC":
            return FileEdit(decode_path(next(stream, b"")), 0, 0, decode_path(path))
        return FileEdit(decode_path(path), -1, -1)
    if not field.strip(b"\n"):
        return None
    raise GitError(
        "its output is not understood", where="git log", mend="please report it with git's version"
    )
