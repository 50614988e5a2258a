"""Best paths from every scenario to every file, all scenarios at once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tithe.data.entries import Entries

KIND_WEIGHT = {
    "import": 1.0,
    "given": 1.0,
    "lazy": 0.9,
    "dynamic": 0.9,
    "string": 0.6,
    "package": 0.6,
    "word": 0.6,
    "folder": 0.4,
}
"""How much of the proximity an edge passes on, by its kind; `given` ones come from another tool's file."""
KIND_HOPS = {
    "import": 1,
    "given": 1,
    "lazy": 1,
    "dynamic": 1,
    "string": 2,
    "package": 1,
    "word": 2,
    "folder": 2,
}
DECAY = 0.85
FAN_IN = 0.25
FAN_OUT = 0.1
MAX_ROUNDS = 64


class Edges:
    """The strongest edge between any two files."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], str] = {}

    def add(self, source: str, target: str, kind: str) -> None:
        """Keeps the edge unless a stronger one between the same files is there."""
        if source == target:
            return
        known = self._kinds.get((source, target))
        if known is None or KIND_WEIGHT[kind] > KIND_WEIGHT[known]:
            self._kinds[source, target] = kind

    def items(self) -> list[tuple[str, str, str]]:
        """(source, target, kind), in order."""
        return [(source, target, kind) for (source, target), kind in sorted(self._kinds.items())]


@dataclass(frozen=True)
class Reach:
    """`distance` and `proximity` as in `tithe.data.graph.ScenarioGraph`, (scenarios, files)."""

    files: tuple[str, ...]
    distance: NDArray[np.float32]
    proximity: NDArray[np.float32]


def relax(entries: Sequence[Entries], edges: Sequence[tuple[str, str, str]]) -> Reach:
    """Best paths from the entries of each scenario along `edges`, (source, target, kind) in order.

    Scenarios with the same entries share a row while it is worked out.
    """
    triples = reachable(entries, edges)
    nodes = sorted({path for entry in entries for path in entry} | {p for s, t, _ in triples for p in (s, t)})
    column = {path: index for index, path in enumerate(nodes)}
    groups: dict[tuple[tuple[str, tuple[int, float]], ...], int] = {}
    member = [groups.setdefault(tuple(sorted(entry.items())), len(groups)) for entry in entries]
    distance = np.full((len(groups), len(nodes)), np.inf, dtype=np.float32)
    proximity = np.zeros((len(groups), len(nodes)), dtype=np.float32)
    for group, index in groups.items():
        for path, (hops, near) in group:
            distance[index, column[path]] = hops
            proximity[index, column[path]] = near
    if triples:
        source = np.array([column[s] for s, _, _ in triples])
        target = np.array([column[t] for _, t, _ in triples])
        weight = weights(source, target, [kind for _, _, kind in triples])
        hops_of = np.array([KIND_HOPS[kind] for _, _, kind in triples], dtype=np.float32)
        order = np.argsort(target, kind="stable")
        source, target, hops_of = source[order], target[order], hops_of[order]
        weight32 = weight[order].astype(np.float32)
        reached, starts = np.unique(target, return_index=True)
        chunk = max(1, 4_000_000 // len(source))
        for low in range(0, len(groups), chunk):
            close, far = proximity[low : low + chunk], distance[low : low + chunk]
            for _ in range(MAX_ROUNDS):
                closer = np.maximum.reduceat(close[:, source] * weight32, starts, axis=1)
                nearer = np.minimum.reduceat(far[:, source] + hops_of, starts, axis=1)
                new_close = np.maximum(close[:, reached], closer)
                new_far = np.minimum(far[:, reached], nearer)
                if np.array_equal(new_close, close[:, reached]) and np.array_equal(new_far, far[:, reached]):
                    break
                close[:, reached] = new_close
                far[:, reached] = new_far
    rows = np.array(member, dtype=np.intp)
    return Reach(tuple(nodes), distance[rows], proximity[rows])


def weights(source: NDArray[np.intp], target: NDArray[np.intp], kinds: Sequence[str]) -> NDArray[np.float64]:
    """What each edge passes on, (edges,) in (0, 1): less into a file that many lead to, and out of one that
    leads to many."""
    fan_in = np.bincount(target).astype(np.float64)[target]
    fan_out = np.bincount(source).astype(np.float64)[source]
    own = np.array([KIND_WEIGHT[kind] for kind in kinds])
    found: NDArray[np.float64] = own * DECAY * fan_in**-FAN_IN * fan_out**-FAN_OUT
    return found


def reachable(
    entries: Sequence[Entries], triples: Sequence[tuple[str, str, str]]
) -> list[tuple[str, str, str]]:
    """The edges that some scenario can follow, so that tests and tools do not count as fan-in."""
    out: dict[str, list[str]] = defaultdict(list)
    for source, target, _ in triples:
        out[source].append(target)
    seen = {path for entry in entries for path in entry}
    stack = sorted(seen)
    while stack:
        for target in out.get(stack.pop(), ()):
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return [triple for triple in triples if triple[0] in seen]
