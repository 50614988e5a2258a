"""Why a scenario stands where it stands, in words that a stranger understands."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tithe.data.text import safe_line
from tithe.selector.features import State, touched_keys
from tithe.selector.paths import kind_of
from tithe.selector.rank import Context
from tithe.selector.text import words_of

MAX_WORDS = 3


@dataclass(frozen=True)
class Told:
    """What the reasons of all scenarios have in common, worked out once. `model`: whether one took part."""

    state: State
    context: Context
    model: bool

    @cached_property
    def keys(self) -> tuple[str, ...]:
        """The touched files and folders of which something is known."""
        return tuple(key for key in touched_keys(self.context.change) if self.state.knows(key))

    @cached_property
    def dependency(self) -> str:
        """A file of dependencies that changed; empty if none."""
        return next((path for path in self.context.near.paths if kind_of(path) == "dependencies"), "")

    @cached_property
    def words(self) -> list[str]:
        """The words of the change."""
        return words_of(self.context.change)


def reasons(told: Told, scenario: int) -> tuple[str, ...]:
    """The reasons for the scenario at index `scenario`, the most telling first."""
    state, context = told.state, told.context
    found = [_graph(context, scenario)]
    history = _history(state, told.keys, scenario)
    if history:
        found.append(history)
    if told.dependency:
        found.append(f"{_path(told.dependency)} changed, which every scenario depends on")
    words = state.text.shared(told.words, scenario)[:MAX_WORDS]
    if words:
        found.append("shares the words " + ", ".join(words) + " with the change")
    measured, failures = int(state.measured[scenario]), int(state.failures[scenario])
    if not measured:
        found.append("never measured before")
    else:
        found.append(
            f"regressed in {failures} of {measured} {_plural('change', measured)} that it was measured on"
        )
    if not told.model:
        found.append("no trained model: the prior ranks it")
    if state.guessed[scenario]:
        found.append("its cost is a guess, as it was never timed")
    return tuple(found)


def _graph(context: Context, scenario: int) -> str:
    near = context.near
    if not near.paths:
        return "the change touches no file"
    distance = near.distance[scenario]
    if np.isfinite(distance).any():
        closest = distance.min()
        # Among equals the one that counts most, then by name.
        strength = np.where(distance == closest, near.proximity[scenario] * near.weight, -1.0)
        path = _path(near.paths[int(np.argmax(strength))])
        if closest == 0:
            return f"its own file {path} changed"
        hops = int(closest)
        if hops == 1:
            return f"uses {path} directly, which changed"
        return f"{hops} steps from {path}, which changed"
    if (near.proximity[scenario] > 0).any():
        path = _path(near.paths[int(np.argmax(near.proximity[scenario] * near.weight))])
        return f"{path} changed, beside files that it uses"
    return "reaches none of the files that changed"


def _history(state: State, keys: tuple[str, ...], scenario: int) -> str:
    best, said = 0.0, ""
    for key in keys:
        failures, changes = state.counts(key, scenario)
        if failures and failures / (changes + 1.0) > best:
            best = failures / (changes + 1.0)
            said = (
                f"regressed in {failures} of {changes} {_plural('change', changes)} that touched {_path(key)}"
            )
    return said


def _plural(word: str, count: int) -> str:
    return word if count == 1 else word + "s"


def _path(path: str) -> str:
    return "the top folder" if path == "/" else safe_line(path, limit=80)
