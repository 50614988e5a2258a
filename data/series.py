"""From points of other tools to outcomes: the steps of every benchmark's history, and where nothing stepped.

A series is one benchmark, in one version of it, on one host, over first-parent history. A step between two measured
commits is an outcome of the later one against the earlier; where commits between them were not measured it is an
outcome of that interval, and of no change alone. What did not step is `same`, with what the noise leaves of it. Nothing
is known before its last witness was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, median

import numpy as np

from tithe.data import steps
from tithe.data.points import Point
from tithe.data.records import MetricName, Outcome, ScenarioName, Sha

METRIC = MetricName("value")
FEWEST = 2 * steps.SURROUNDINGS
"""Points of a series below which nothing can be said of it."""
EDGE_S = 1.0


@dataclass(frozen=True)
class Place:
    """Where a commit stands on history."""

    sha: Sha
    index: int
    time: float


def outcomes(
    scenario: ScenarioName,
    points: Sequence[Point],
    history: Mapping[str, Place],
    *,
    smallest: float,
    now: float,
) -> Iterator[Outcome]:
    """Outcomes of one series, with effects of at least `smallest` (relative) as steps.

    `history` has commits of first-parent history by full id; points of other commits are left out. Of several
    points of one commit the median counts. Nothing is known later than `now`.
    """
    # What changed its unit is another series, and not one that stepped.
    units: dict[tuple[str, str], dict[str, list[Point]]] = {}
    for point in points:
        if point.commit in history:
            by_commit = units.setdefault((point.unit, point.direction), {})
            by_commit.setdefault(point.commit, []).append(point)
    for kind in sorted(units):
        yield from _series(scenario, units[kind], history, smallest, now)


def _series(
    scenario: ScenarioName,
    by_commit: Mapping[str, Sequence[Point]],
    history: Mapping[str, Place],
    smallest: float,
    now: float,
) -> Iterator[Outcome]:
    places, values, known, directions = [], [], [], set()
    for commit in sorted(by_commit, key=lambda commit: history[commit].index):
        place, points = history[commit], by_commit[commit]
        value = median([point.value for point in points])
        if value > 0:
            places.append(place)
            values.append(math.log(value))
            known.append(min(max([place.time, *(p.at for p in points if p.at is not None)]), now))
            directions |= {point.direction for point in points}
    if len(values) < FEWEST:
        return
    logs = np.array(values)
    larger_is_worse = directions != {"larger"}
    found = {step.at: step for step in steps.detect(logs, smallest=math.log1p(smallest))}
    sd = max(steps.noise(logs), 1e-9)
    # Around a step that may lie elsewhere nobody knows whether an interval is the one.
    unsure = {at for step in found.values() for at in range(step.low, step.high + 1)} - found.keys()
    # A moment that is no later than that of any witness, however clocks ran.
    latest = np.maximum.accumulate(np.array(known))
    chance = _quiet(sd, smallest)
    for at in range(1, len(values)):
        step = found.get(at)
        seen_by = min(at + steps.SURROUNDINGS - 1, len(values) - 1)
        if step is None and (at in unsure or at + steps.SURROUNDINGS > len(values)):
            continue
        effect = step.effect if step is not None else 0.0
        worse = (effect > 0) == larger_is_worse
        yield Outcome(
            base=places[at - 1].sha,
            change=places[at].sha,
            scenario=scenario,
            metric=METRIC,
            verdict="same" if step is None else "regressed" if worse else "improved",
            known_at=float(latest[seen_by]) + EDGE_S,
            source="import",
            picked="swept",
            ratio=math.exp(effect),
            confidence=chance if step is None else step.confidence,
            weight=1.0,
        )


def _quiet(sd: float, smallest: float) -> float:
    """Chance that a step of the smallest size would have been seen with the values on either side of it."""
    error = sd * math.sqrt(2 / steps.SURROUNDINGS)
    return NormalDist().cdf(math.log1p(smallest) / error - 2.0)
