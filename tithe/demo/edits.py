"""What one commit does to the demo's files, as values.

An edit names the text that it replaces, and refuses to run where that text is not there exactly once. The
commits of the new era are dealt in another order for each seed; that every edit checks its own ground is
what makes "any order" safe to promise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

Tree = dict[str, str]
"""Path to text. All files of the demo are UTF-8 text."""


class Edit(Protocol):
    """Something that changes a tree in place, or raises ValueError if it does not fit it."""

    def apply(self, tree: Tree) -> None: ...


@dataclass(frozen=True)
class Sub:
    """Replaces `old`, which must be in the file exactly once, by `new`."""

    path: str
    old: str
    new: str

    def apply(self, tree: Tree) -> None:
        text = tree[self.path]
        if text.count(self.old) != 1:
            raise ValueError(f"{self.path}: {text.count(self.old)} places read {self.old!r}")
        tree[self.path] = text.replace(self.old, self.new)

    def inverse(self) -> Sub:
        return Sub(self.path, self.new, self.old)


@dataclass(frozen=True)
class Append:
    """Adds text to the end of a file."""

    path: str
    text: str

    def apply(self, tree: Tree) -> None:
        tree[self.path] += self.text


@dataclass(frozen=True)
class New:
    """A file that was not there."""

    path: str
    text: str

    def apply(self, tree: Tree) -> None:
        if self.path in tree:
            raise ValueError(f"{self.path}: is there already")
        tree[self.path] = self.text


@dataclass(frozen=True)
class Effect:
    """What a commit does to start-up. `scenarios` are globs over scenario names."""

    kind: str
    scenarios: tuple[str, ...]
    what: str


@dataclass(frozen=True)
class Step:
    """One commit before it has a date: who, why, what; and its effect, if it has one."""

    key: str
    author: str
    subject: str
    edits: tuple[Edit, ...]
    effect: Effect | None = None
    body: str = ""
    tag: str = ""

    def apply(self, tree: Tree) -> None:
        for edit in self.edits:
            edit.apply(tree)


def undo(step: Step) -> tuple[Edit, ...]:
    """The edits that take a step back; for steps that are made of substitutions alone."""
    back: list[Edit] = []
    for edit in reversed(step.edits):
        if not isinstance(edit, Sub):
            raise ValueError(f"{step.key}: only substitutions can be undone")
        back.append(edit.inverse())
    return tuple(back)


def release(version: str, notes: str) -> Step:
    """The commit that raises the version and tells of the changes; tagged `v<version>`."""
    previous = {"0.1": "0.0.9"}.get(version, f"0.{int(version.split('.')[1]) - 1}.0")
    return Step(
        f"release-{version}",
        "ines",
        f"Release {version}",
        (
            Sub("trainlab/__init__.py", f'"{previous}"', f'"{version}.0"'),
            Append("CHANGELOG.md", f"\n## {version}\n\n{notes}\n"),
        ),
        tag=f"v{version}",
    )


PEOPLE: Mapping[str, tuple[str, str]] = {
    "ines": ("Inês Carvalho", "ines.carvalho@trainlab.example"),
    "tom": ("Tom Baker", "tom@trainlab.example"),
    "yuki": ("Yuki Tanaka", "yuki.tanaka@trainlab.example"),
    "lena": ("Lena Hoffmann", "lena.hoffmann@trainlab.example"),
    "sam": ("Sam Okafor", "sokafor@trainlab.example"),
    "mira": ("Mira Joshi", "mira.joshi@trainlab.example"),
}
