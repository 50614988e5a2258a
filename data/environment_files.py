"""Files that say which packages a scenario runs with: requirements, locks, manifests, images.

No import leads to them, yet an edit of one can slow down everything that runs in its environment. So each is an
entry of those scenarios: of all, if it stands at the top, or decides when the environment is built anew; else of
those that start in its folder or below, so that the requirements of the documents are nobody's. It is two hops away
and not very near, the less the more scenarios share it: a hub like any other.
"""

from __future__ import annotations

import fnmatch
import posixpath
import re
import shlex
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from tithe.data.entries import Entries
from tithe.data.names import Names, clean
from tithe.data.reach import FAN_IN
from tithe.data.records import Scenario

if TYPE_CHECKING:
    from tithe.data.config import Config

HOPS = 2
NEAR = 0.4
"""Proximity of a file that only one scenario has for its environment."""

_NAME = re.compile(
    r"(requirements|constraints)[\w.-]*\.(txt|in)|pyproject\.toml|setup\.(py|cfg)|environment[\w.-]*\.ya?ml"
    r"|Pipfile|conda-lock[\w.-]*\.ya?ml|(poetry|pdm|uv|pixi|conda|Pipfile)[\w.-]*\.lock|Dockerfile[\w.-]*"
    r"|[\w.-]*\.lock"
)


def is_dependencies(path: str) -> bool:
    """Whether a path names such a file; a requirements file is one even if its suffix is that of a text."""
    folders, name = path.split("/")[:-1], posixpath.basename(path)
    return bool(_NAME.fullmatch(name)) or (
        folders[-1:] == ["requirements"] and name.endswith((".txt", ".in"))
    )


def with_environment(
    scenarios: Sequence[Scenario], starts: Sequence[Entries], names: Names, config: Config
) -> tuple[Entries, ...]:
    """The entries of each scenario with the files of its environment among them."""
    everybody = set(range(len(scenarios)))
    folders = [
        {clean(scenario.cwd), *(posixpath.dirname(path) for path, (hops, _) in start.items() if hops == 0)}
        for scenario, start in zip(scenarios, starts, strict=True)
    ]
    found = [dict(start) for start in starts]
    decisive = set(_decisive(names, config))
    for path in sorted(decisive | {path for path in names.files if is_dependencies(path)}):
        home = posixpath.dirname(path)
        if posixpath.basename(home) == "requirements":
            home = posixpath.dirname(home)
        users = everybody if path in decisive or not home else _below(home, folders)
        near = NEAR * max(len(users), 1) ** -FAN_IN
        for user in users:
            if path not in found[user]:
                found[user][path] = (HOPS, near)
    return tuple(found)


def _below(home: str, folders: Sequence[Collection[str]]) -> set[int]:
    return {
        at
        for at, own in enumerate(folders)
        if any(folder == home or folder.startswith(home + "/") for folder in own)
    }


def _decisive(names: Names, config: Config) -> Iterator[str]:
    """Files on which the environment of all scenarios is built anew, and those that its set-up names."""
    if not config.setup:
        return
    for path in names.files:
        if any(fnmatch.fnmatchcase(path, glob) for glob in config.setup_key):
            yield path
    try:
        words = shlex.split(config.setup)
    except ValueError:
        return
    for word in words:
        named = names.path(word.rpartition("=")[2])
        if named:
            yield named
