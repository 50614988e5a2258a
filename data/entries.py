"""Where a scenario starts: the files that its command, its `files` and the rules of the graph name."""

from __future__ import annotations

import fnmatch
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from tithe.data.imports import scan_python
from tithe.data.names import MAX_FOLDER, Names, clean
from tithe.data.records import Scenario

if TYPE_CHECKING:
    from tithe.data.config import Config

Entries = dict[str, tuple[int, float]]
"""File to (hops, proximity) that a scenario starts with there."""


def entries(scenario: Scenario, names: Names, config: Config) -> Entries:
    """The entries of `scenario` among the files that `names` knows; empty if nothing names one."""
    found: Entries = {}

    def add(path: str, hops: int = 0, near: float = 1.0) -> None:
        if path not in found or found[path][1] < near:
            found[path] = (hops, near)

    def add_refs(source: bytes) -> None:
        for ref in scan_python(source).refs:
            for _, target in names.resolve(ref, posixpath.join(scenario.cwd, "-c")):
                add(target)

    words = list(scenario.command)
    if words:
        for module in _console_modules(words[0], names):
            add(module)
    for position, word in enumerate(words):
        before = words[position - 1] if position else ""
        if before == "-c":
            add_refs(word.encode("utf-8", "surrogateescape"))
            continue
        if before == "-m" or (word.startswith("-m") and position == 1 and len(word) > 2):
            dotted = word if before == "-m" else word[2:]
            for kind, target in [*names.module(f"{dotted}.__main__"), *names.module(dotted)]:
                add(target, *((0, 1.0) if kind == "import" else (1, 0.5)))
            continue
        for part in _parts(word):
            _add_word(part, scenario.cwd, names, add, is_program=position == 0)
    for value in scenario.env.values():
        for part in _parts(value):
            named = names.path(part, clean(scenario.cwd))
            if named:
                add(named)
    owned = [path for pattern in scenario.files for path in _matching(pattern, names.files)]
    for path in owned:
        add(path, 0, max(len(owned), 1) ** -0.25)
    for rule in config.rules:
        if any(fnmatch.fnmatchcase(scenario.name, pattern) for pattern in rule.scenarios):
            ruled = [path for pattern in rule.files for path in _matching(pattern, names.files)]
            for path in ruled:
                add(path, 1, 0.8 * max(len(ruled), 1) ** -0.25)
    return found


class _Add(Protocol):
    def __call__(self, path: str, hops: int = 0, near: float = 1.0) -> None: ...


def _add_word(part: str, cwd: str, names: Names, add: _Add, *, is_program: bool) -> None:
    target = names.path(part, clean(cwd))
    if target:
        add(target)
        return
    dotted = part.partition(":")[0]
    if "." in dotted and dotted.split(".", 1)[0] in names.tops:
        for kind, path in names.module(dotted):
            add(path, *((0, 1.0) if kind == "import" else (1, 0.5)))
        return
    folder = names.folder(part, clean(cwd))
    if folder is not None and not is_program:
        inside = [p for p in names.files if p.startswith(folder + "/")] if folder else []
        if 0 < len(inside) <= 10 * MAX_FOLDER:
            for path in inside:
                add(path, 0, len(inside) ** -0.25)
        return
    if not is_program:
        for path in names.stem(part):
            add(path, 1, 0.7)


def _parts(word: str) -> Iterator[str]:
    """The pieces of a word that may name a file: `--config=a.yaml`, `tests/test_a.py::test_b`, `a,b`."""
    for piece in re.split(r"[=,]", word.split("::", 1)[0]):
        if piece and not piece.startswith("-") and len(piece) <= 300:
            yield piece


def _matching(pattern: str, files: Mapping[str, str]) -> list[str]:
    cleaned = pattern.removeprefix("./")
    if cleaned.endswith("/"):
        cleaned += "*"
    return [path for path in sorted(files) if fnmatch.fnmatchcase(path, cleaned)]


def _console_modules(program: str, names: Names) -> list[str]:
    """Files of a program that is a module's `main`: a package that is called as the program is."""
    stem = posixpath.basename(program).replace("-", "_")
    found = []
    for dotted in (f"{stem}.__main__", f"{stem}.cli", stem):
        found += [path for kind, path in names.module(dotted) if kind == "import"]
    return found[:1]
