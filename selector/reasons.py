"""Why a scenario stands where it stands, in words that a stranger understands."""

from __future__ import annotations

import numpy as np

from tithe.data.text import safe_line
from tithe.selector.features import State, touched_keys
from tithe.selector.paths import kind_of
from tithe.selector.rank import Context

MAX_WORDS = 3


def reasons(state: State, context: Context, scenario: int, *, model: bool) -> tuple[str, ...]:
    """The reasons for the scenario at index `scenario`, the most telling first.

    Args:
        model: Whether a trained model took part.
    """
    found = [_graph(context, scenario)]
    history = _history(state, context, scenario)
    if history:
        found.append(history)
    dependencies = [path for path in context.near.paths if kind_of(path) == "dependencies"]
    if dependencies:
        found.append(f"{_path(dependencies[0])} changed, which every scenario depends on")
    words = state.text.shared(context.change, scenario)[:MAX_WORDS]
    if words:
        found.append("shares the words " + ", ".join(words) + " with the change")
    measured, failures = int(state.measured[scenario]), int(state.failures[scenario])
    if not measured:
        found.append("never measured before")
    else:
        found.append(
            f"regressed in {failures} of {measured} {_plural('change', measured)} that it was measured on"
        )
    if not model:
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


def _history(state: State, context: Context, scenario: int) -> str:
    best, said = 0.0, ""
    for key in touched_keys(context.change):
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
