"""What launches were seen to load and open, laid over the graph that the text of the files gives.

Text says what may be reached, a launch says what was. A file that a launch touched is one hop away at most and
near, the less the more scenarios touch it: a hub that everything loads stays a hub. A file that text leads to and
that no launch touched fades with each launch that left it alone, and never quite goes: another input may reach it.
Only what was known before a moment counts for it, so that a past change is judged by what was known then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tithe.data.graph import ScenarioGraph
from tithe.data.reach import FAN_IN
from tithe.data.records import Observation, ScenarioName
from tithe.data.uses import UseColumns, columns_of, speaking

LAUNCHES = 5
"""The newest ones of a scenario count: what it did a year ago says little."""
NEAR = 0.9
"""Proximity of a file that one scenario alone touches."""
LEFT_ALONE = 0.7
"""What is left of the proximity after each launch that did not touch a file."""
LEAST = 0.15


class Observed:
    """What launches were seen to touch, looked up as of any moment."""

    def __init__(self, observations: Sequence[Observation], uses: UseColumns | None = None) -> None:
        """`uses` are the functions, by the places of their observations; those that they hold if not given."""
        # Of one scenario's at one moment the later ones given count as later: the store has an order for them.
        order = sorted(range(len(observations)), key=lambda at: observations[at].known_at)
        self._all = [observations[at] for at in order]
        self._times = [seen.known_at for seen in self._all]
        columns = columns_of(observations) if uses is None else uses
        place = np.empty(len(order), dtype=np.int32)
        place[order] = np.arange(len(order))
        self._uses = replace(columns, seen=place[columns.seen])
        self._counted: tuple[int, dict[ScenarioName, list[int]]] = (0, {})

    @property
    def newest(self) -> float:
        """When the last of them was there to be read; 0 where there is none."""
        return self._times[-1] if self._times else 0.0

    def before(self, t: float) -> tuple[tuple[Observation, ...], UseColumns]:
        """Those that count at `t`, by scenario and the newest last, and their functions."""
        found = self._before(t)
        chosen = [at for name in sorted(found) for at in found[name]]
        place = np.full(len(self._all), -1, dtype=np.int32)
        place[chosen] = np.arange(len(chosen))
        rows = np.flatnonzero(place[self._uses.seen] >= 0)
        uses = self._uses.taken(rows, place[self._uses.seen[rows]])
        return tuple(replace(self._all[at], functions=()) for at in chosen), uses

    def _before(self, t: float) -> dict[ScenarioName, list[int]]:
        count = bisect_left(self._times, t)
        if self._counted[0] != count:
            found: dict[ScenarioName, list[int]] = defaultdict(list)
            for at, seen in enumerate(self._all[:count]):
                found[seen.scenario].append(at)
            self._counted = (count, {name: launches[-LAUNCHES:] for name, launches in found.items()})
        return self._counted[1]

    def overlay(self, graph: ScenarioGraph, t: float) -> ScenarioGraph:
        """The graph as of `t`, with what was seen by then.

        Files that were touched and that text does not lead to come after the others.
        """
        latest = {name: launches for name, launches in self._before(t).items() if name in graph.row}
        if not latest:
            return graph
        known = {name: [self._all[at] for at in launches] for name, launches in latest.items()}
        uses = speaking(self._uses, latest, graph.row, len(self._all))
        return replace(_overlay(graph, known), uses=uses)


def _overlay(graph: ScenarioGraph, known: Mapping[ScenarioName, Sequence[Observation]]) -> ScenarioGraph:
    touched = {name: {path for launch in seen for path in launch.touched} for name, seen in known.items()}
    more = sorted({path for paths in touched.values() for path in paths} - graph.column.keys())
    files = (*graph.files, *more)
    column = {path: at for at, path in enumerate(files)}
    count, wider = len(graph.scenarios), ((0, 0), (0, len(more)))
    near = np.pad(graph.proximity, wider)
    far = np.pad(graph.distance, wider, constant_values=np.inf)
    # How many scenarios use a file, from those that were watched; what text says counts as one more.
    users = (near > 0).mean(axis=0) if count else np.zeros(len(files))
    at = {
        name: np.array([column[path] for path in sorted(paths)], np.intp) for name, paths in touched.items()
    }
    for columns in at.values():
        users[columns] += 1.0
    users = np.maximum(users * count / (len(known) + 1.0), 1.0)
    for name, launches in known.items():
        row = graph.row[name]
        alone: dict[str, int] = defaultdict(int)
        for launch in launches:
            for path in launch.untouched:
                if path in column and path not in touched[name]:
                    alone[path] += 1
        for path, times in alone.items():
            # Files that are no modules may have been read by C code, which nobody sees.
            left = max(LEAST, LEFT_ALONE**times) ** (1.0 if path.endswith(".py") else 0.5)
            near[row, column[path]] *= left
        seen = at[name]
        near[row, seen] = np.maximum(near[row, seen], NEAR * users[seen] ** -FAN_IN)
        far[row, seen] = np.minimum(far[row, seen], 1.0)
    return replace(graph, files=files, distance=far, proximity=near)
