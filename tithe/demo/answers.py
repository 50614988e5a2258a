"""The answer key: which commit of a demo does what. Only tests and benchmarks import this module.

Nothing of it is in the demo itself, and no command of tithe reads it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from tithe.data.records import ScenarioName, Sha
from tithe.demo.timeline import Commit, commits

REGRESSING = (
    "eager import",
    "blocking log",
    "repr key",
    "quadratic check",
    "cache missed",
    "default changed",
)
"""Kinds that make ttfb larger."""
BREAKING = ("crash", "uncheckable")
"""Kinds under which a scenario no longer ends well."""


@dataclass(frozen=True)
class Fault:
    """A commit that changes how scenarios start. `key` names the edit, the same in every seed."""

    sha: Sha
    parent: Sha
    index: int
    kind: str
    key: str
    scenarios: tuple[ScenarioName, ...]
    """Those whose ttfb moves by 12 % or more, or which crash or are mended; torch ones included."""
    description: str
    recorded: bool
    """In the recorded era."""


def answers(seed: int) -> tuple[Fault, ...]:
    """Every commit with an effect in the demo of `seed`, oldest first; all others are harmless."""
    return _faults(commits(seed))


def regressing(seed: int) -> tuple[Fault, ...]:
    """Those of the new era that a gate should catch: slower, crashing or not to be started at all."""
    bad = REGRESSING + BREAKING
    return tuple(fault for fault in answers(seed) if fault.kind in bad and not fault.recorded)


def scenario_names(config: str) -> tuple[ScenarioName, ...]:
    """Names in the text of a tithe.toml."""
    return tuple(ScenarioName(name) for name in re.findall(r'^name = "([^"]+)"$', config, re.MULTILINE))


def _faults(history: Sequence[Commit]) -> tuple[Fault, ...]:
    found: list[Fault] = []
    border = next(i for i, commit in enumerate(history) if commit.step.tag == "v0.3")
    for index, commit in enumerate(history):
        effect = commit.step.effect
        if effect is None:
            continue
        names = scenario_names(commit.files["tithe.toml"])
        hit = tuple(name for name in names if any(fnmatchcase(name, glob) for glob in effect.scenarios))
        found.append(
            Fault(
                commit.sha,
                Sha(commit.parent),
                index,
                effect.kind,
                commit.step.key,
                hit,
                effect.what,
                index <= border,
            )
        )
    return tuple(found)
