"""Which functions and classes a change touched: from the heads of its hunks, and from what it defines anew.

A second git runs beside the one that lists history, because a stream of patches cannot be trusted to hold what the
first one must not get wrong: whoever writes a file writes its patch. Here a patch can only ever name symbols of the
file that it is of. Every line of content begins with one of ` `, `+`, `-` and `\\`, so that what begins otherwise is
git's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO

from tithe.data import git_log, git_process
from tithe.data.errors import GitError
from tithe.data.records import Sha

MAX_SYMBOLS = 40
"""Of one file; a change that touches more touched the file as a whole."""
MAX_GAPS = 50
"""Commits whose files are missing, after which no symbols are read any more."""
OPTIONS = ("-p", "-U0", "--find-renames=50%", "-l1000", "--format=tformat:%x01%H")
ATTRIBUTES = Path(__file__).with_name("attributes")
"""Tells git which language a file is in, so that the head of a hunk names methods too."""

_CHUNK = 1 << 20
_WANTED = re.compile(
    rb"^(?:\x01([0-9a-f]{40,64})$|(diff --git )|@@ -[^@\n]* @@ ([^\n]{1,400})"
    rb"|[+-][ \t]*(?:async[ \t]+)?(?:def|class)[ \t]+([A-Za-z_]\w{0,79}))",
    re.MULTILINE,
)
_DEFINED = re.compile(
    rb"\b(?:def|class|func|fn|function|struct|interface|impl|trait|module|type)\s+(?:\([^)]*\)\s*)?([A-Za-z_]\w{0,79})"
)
_CALLED = re.compile(rb"([A-Za-z_]\w{1,79})\s*\(")

Touched = tuple[tuple[str, ...], ...]
"""Symbols of each file of a change, in git's order of its files."""


class SymbolReader:
    """Symbols of the commits of a first-parent history, asked for in its order."""

    def __init__(self, root: Path, tip: Sha, after: Sha | None) -> None:
        self._root, self._tip = root, tip
        self._stack = ExitStack()
        self._gaps = 0
        self._commits: Iterator[tuple[str, Touched]] = iter(())
        self._begin(after)

    def __enter__(self) -> SymbolReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def of(self, sha: Sha) -> Touched:
        """Of each file of `sha`; nothing where it cannot be read, or is not the next one."""
        try:
            for found, touched in self._commits:
                if found == sha:
                    return touched
        except GitError:
            pass
        # A file of this one is missing: the next one may be whole.
        self._gaps += 1
        self._end()
        if self._gaps <= MAX_GAPS and sha != self._tip:
            self._begin(sha)
        return ()

    def _begin(self, after: Sha | None) -> None:
        words = ("log", "--reverse", "--first-parent", *_options(), "--end-of-options", self._tip)
        stream = self._stack.enter_context(
            git_process.streaming(
                self._root, *words, *([f"^{after}"] if after else []), "--", env=_environment()
            )
        )
        self._commits = commits(stream)

    def _end(self) -> None:
        self._commits = iter(())
        with suppress(GitError):
            self._stack.close()


def of_diff(root: Path, *trees: str) -> Touched:
    """Of each file that two trees differ in."""
    words = ("diff-tree", "-r", "--root", "--no-commit-id", *_options()[:-1], *trees, "--")
    with git_process.streaming(root, *words, env=_environment()) as stream:
        return next((touched for _, touched in commits(stream)), ())


def _options() -> tuple[str, ...]:
    return (*(word for word in git_log.FIXED if word not in ("-z", "--encoding=UTF-8")), *OPTIONS)


def _environment() -> dict[str, str]:
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.attributesFile",
        "GIT_CONFIG_VALUE_0": str(ATTRIBUTES),
    }


def commits(stream: IO[bytes]) -> Iterator[tuple[str, Touched]]:
    """Commits and their symbols in the output of `git log -p`; of `git diff-tree` one without a name."""
    sha, files = "", list[dict[str, None]]()
    for match in _matches(stream):
        commit, begins, head, defined = match.groups()
        if commit:
            if sha or files:
                yield sha, tuple(tuple(symbols) for symbols in files)
            sha, files = commit.decode("ascii"), []
        elif begins:
            files.append({})
        elif files and len(files[-1]) < MAX_SYMBOLS:
            name = defined or _name(head)
            if name:
                files[-1][name.decode("ascii", "replace")] = None
    if sha or files:
        yield sha, tuple(tuple(symbols) for symbols in files)


def _matches(stream: IO[bytes]) -> Iterator[re.Match[bytes]]:
    rest = b""
    while block := stream.read(_CHUNK):
        cut = block.rfind(b"\n") + 1
        if not cut:
            # A line longer than a chunk: what it would have named is at its beginning.
            rest = rest[:_CHUNK] + (block if len(rest) < _CHUNK else b"")
            continue
        yield from _WANTED.finditer(rest + block[:cut])
        rest = block[cut:]
    yield from _WANTED.finditer(rest)


def _name(head: bytes) -> bytes:
    found = _DEFINED.search(head) or _CALLED.search(head)
    return found[1] if found else b""
