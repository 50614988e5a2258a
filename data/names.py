"""What the files of one revision are called: module names, paths and folders to files.

A repository says where its modules lie in several ways: folders on the search path, packages that stand
anywhere, links into packages, a script that sees what lies beside it. All are tried, the configured first.
"""

from __future__ import annotations

import posixpath
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from tithe.data.imports import Ref

if TYPE_CHECKING:
    from tithe.data.config import Config

SCANNED_SUFFIXES = (".toml", ".yaml", ".yml", ".json", ".cfg", ".ini", ".gin", ".conf", ".sh")
"""Text files that may name other files; those of any other suffix are nodes without edges."""

MAX_SAME_WORD = 3
"""A bare word is an edge to the modules of that name if there are no more than this many."""
MAX_FOLDER = 50
"""A folder named in a string is an edge to its files if it holds no more than this many."""


class Names:
    """The modules, files and folders of one revision by the names that they are called by."""

    def __init__(self, files: Mapping[str, str], config: Config, links: Mapping[str, str]) -> None:
        self.files = files
        self.folders: dict[str, list[str]] = defaultdict(list)
        self._by_name: dict[str, list[str]] = defaultdict(list)
        self._by_stem: dict[str, list[str]] = defaultdict(list)
        for path in sorted(files):
            self.folders[posixpath.dirname(path)].append(path)
            name = posixpath.basename(path)
            self._by_name[name].append(path)
            if path.endswith(SCANNED_SUFFIXES):
                self._by_stem[name.rsplit(".", 1)[0]].append(path)
        self._modules: dict[str, str] = {}
        self._packages: dict[str, str] = {}
        self._of_file: dict[str, tuple[str, bool]] = {}
        roots = [clean(root) for root in config.pythonpath_of(files)]
        roots += sorted({self._root_of(path) for path in files if path.endswith("/__init__.py")} - set(roots))
        if "" not in roots:
            roots.append("")
        for root in roots:
            self._add_root(root, "")
        for link, folder in links.items():
            for root in roots:
                if not root or link.startswith(root + "/"):
                    dotted = link[len(root) + 1 if root else 0 :].replace("/", ".")
                    self._add_root(folder, dotted)
                    break
        self.tops = {name.split(".", 1)[0] for name in self._modules}
        self._by_last: dict[str, set[str]] = defaultdict(set)
        for dotted, path in self._modules.items():
            if "." in dotted:
                self._by_last[dotted.rpartition(".")[2]].add(path)

    def _root_of(self, init: str) -> str:
        """The folder above the topmost package that holds `init`."""
        folder = posixpath.dirname(init)
        while folder and posixpath.join(folder, "__init__.py") in self.files:
            folder = posixpath.dirname(folder)
        return folder

    def _add_root(self, root: str, prefix: str) -> None:
        """Names every module under `root`, put under package `prefix`; the first to name one wins."""
        for path in sorted(self.files):
            if not path.endswith(".py") or (root and not path.startswith(root + "/")):
                continue
            parts = path[len(root) + 1 if root else 0 : -3].split("/")
            package = parts[-1] == "__init__"
            if package:
                parts.pop()
            dotted = ".".join(([prefix] if prefix else []) + parts)
            if not dotted or not all(part.isidentifier() for part in dotted.split(".")):
                continue
            self._modules.setdefault(dotted, path)
            if prefix or path not in self._of_file:
                self._of_file[path] = (dotted, package)
            folder = posixpath.dirname(path)
            self._packages.setdefault(dotted if package else dotted.rpartition(".")[0], folder)

    def module(self, dotted: str, near: str = "") -> list[tuple[str, str]]:
        """What importing `dotted` runs: its own file as `import`, the packages above it as `package`.

        `near` is the file that asks: a script sees its own folder's modules.
        """
        target = self._modules.get(dotted, "")
        if not target and near and posixpath.join(posixpath.dirname(near), "__init__.py") not in self.files:
            beside = posixpath.join(posixpath.dirname(near), *dotted.split("."))
            target = next((p for p in (beside + ".py", beside + "/__init__.py") if p in self.files), "")
        found = [("import", target)] if target else []
        parts = dotted.split(".")
        for end in range(1, len(parts)):
            above = self._modules.get(".".join(parts[:end]))
            if above and above != target:
                found.append(("package", above))
        return found

    def resolve(self, ref: Ref, path: str) -> Iterator[tuple[str, str]]:
        """Files that `ref`, found in `path`, leads to, with the kind of each edge."""
        if ref.kind == "string":
            yield from self.string(ref.target, path)
            return
        if ref.kind == "word":
            # A registry's short name: `{"model": "resnet"}` for `mytrainer.models.resnet`.
            named = self._by_last.get(ref.target, set())
            if len(named) <= MAX_SAME_WORD:
                yield from (("word", target) for target in sorted(named))
            return
        base = self._absolute(ref, path)
        if base is None:
            return
        found: dict[str, str] = {}
        submodules = [name for name in ref.names if f"{base}.{name}" in self._modules]
        for name in submodules:
            for kind, target in self.module(f"{base}.{name}", path):
                found.setdefault(target, kind)
        for kind, target in self.module(base, path):
            # `from package import module` runs the package on the way and takes nothing from it.
            passing = bool(ref.names) and len(submodules) == len(ref.names)
            found.setdefault(target, "package" if passing else kind)
        for target, kind in found.items():
            yield (ref.kind if kind == "import" else kind), target

    def _absolute(self, ref: Ref, path: str) -> str | None:
        if ref.level == 0:
            return ref.target or None
        dotted, package = self._of_file.get(path, ("", False))
        parts = dotted.split(".") if dotted else []
        up = ref.level - (1 if package else 0)
        if up > len(parts):
            return None
        kept = parts[: len(parts) - up]
        return ".".join(kept + ([ref.target] if ref.target else [])) or None

    def string(self, text: str, path: str) -> Iterator[tuple[str, str]]:
        """Files that a string may name: as a path, as a module, as a folder of files."""
        text = text.replace("\\", "/")
        found = self.path(text, posixpath.dirname(path))
        if found:
            yield "string", found
            return
        dotted, _, _ = text.strip(".").partition(":")
        if "." in text and "/" not in dotted and dotted.split(".", 1)[0] in self.tops:
            target = self._modules.get(dotted) or self._modules.get(dotted.rpartition(".")[0])
            if target and not text.endswith("."):
                yield "string", target
                return
            folder = self._packages.get(dotted)
        else:
            folder = self.folder(text, posixpath.dirname(path))
        if folder is not None and 0 < len(inside := self.folders.get(folder, [])) <= MAX_FOLDER:
            # "pkg.models." is the head of a name made at run time; a plain folder name means its data files.
            wanted = [p for p in inside if p.endswith(".py") == text.endswith(".")]
            for target in wanted:
                yield "folder", target

    def path(self, text: str, *folders: str) -> str | None:
        """The file that `text` names from the top, from one of `folders`, or by a name that only it has."""
        if not text or text.startswith("/"):
            return None
        for folder in ("", *folders):
            candidate = clean(posixpath.join(folder, text))
            if candidate in self.files:
                return candidate
        name = posixpath.basename(text)
        if "." in name.strip("."):
            same = [p for p in self._by_name.get(name, ()) if p.endswith("/" + text)]
            if len(same) == 1 and not name.endswith(".py"):
                return same[0]
        return None

    def node(self, text: str, *folders: str) -> str | None:
        """The file that another tool means: by its path, or by the dotted name of its module."""
        return (
            self.path(text, *folders)
            or self._modules.get(text)
            or self.path(text.replace("\\", "/"), *folders)
        )

    def folder(self, text: str, *folders: str) -> str | None:
        """The folder that `text` names from the top or from one of `folders`."""
        if not text or text.startswith("/") or not text.strip("./"):
            return None
        for folder in ("", *folders):
            candidate = clean(posixpath.join(folder, text))
            if candidate in self.folders:
                return candidate
        return None

    def stem(self, word: str) -> list[str]:
        """Configuration files called `word` but for their suffix, if they are few."""
        found = self._by_stem.get(word, [])
        return found if len(found) <= 3 else []


def clean(path: str) -> str:
    """`path` without dots and doubled slashes; empty for the top."""
    cleaned = posixpath.normpath(path)
    return "" if cleaned == "." else cleaned
