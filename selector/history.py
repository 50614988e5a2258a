"""What is known at a moment: changes, outcomes, costs; and which of it labels which pair.

A pair is one change and one scenario. It fails if the latest outcome of any metric that decides does. Only an
outcome that was measured against the change's own parent labels that pair; one over a range of changes says
that the scenario can fail, and not who did it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tithe.data.records import FAILING, STRENGTH, Change, Outcome, Scenario, ScenarioName, Sha

HALF_LIVES = (5.0, 20.0, 80.0)
"""Of a scenario's own rate, in measured changes."""
LABEL_LAG = 1
"""A direct measurement is taken to be known just after this many later changes, in a replayed history."""
DIRECT = frozenset({"ab", "import"})
"""Sources that measure a change by itself, at a time that its arrival alone decides."""


@dataclass(frozen=True)
class History:
    """What the selector may look at.

    The outcomes are all that there are, those that others supersede too: at an earlier moment they were what was
    known. `launch_seconds` (mean machine time of one launch) and `blocks` (expected blocks of a decision with nothing
    there, from the noise), by scenario where they are known, price a selection. They are today's and no features.
    """

    changes: tuple[Change, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    launch_seconds: Mapping[ScenarioName, float] = field(default_factory=dict)
    blocks: Mapping[ScenarioName, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Label:
    """Whether a change made a scenario fail. `weight` is what it counts: confidence times weight."""

    change: Sha
    scenario: ScenarioName
    failing: bool
    weight: float


class Pair:
    """The outcomes of one pair, folded as they arrive: per metric the strongest source counts, then the latest."""

    __slots__ = ("_metrics",)

    def __init__(self) -> None:
        self._metrics: dict[str, tuple[bool, float, int]] = {}

    def add(self, outcome: Outcome) -> None:
        strength = STRENGTH[outcome.source]
        known = self._metrics.get(outcome.metric)
        if known is None or strength >= known[2]:
            weight = outcome.weight * outcome.confidence
            self._metrics[outcome.metric] = (outcome.verdict in FAILING, weight, strength)

    @property
    def failing(self) -> bool:
        return any(failing for failing, _, _ in self._metrics.values())

    @property
    def weight(self) -> float:
        """Of the failing metrics if any fails, otherwise the least sure of those that passed."""
        failing = [weight for fails, weight, _ in self._metrics.values() if fails]
        return max(failing) if failing else min((w for _, w, _ in self._metrics.values()), default=0.0)


def usable(outcome: Outcome, scenarios: Mapping[ScenarioName, Scenario]) -> bool:
    """An outcome that says something about a scenario that still exists, on a metric that decides."""
    scenario = scenarios.get(outcome.scenario)
    return scenario is not None and outcome.verdict != "error" and outcome.metric in scenario.gate


def in_order(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """By the time that they were known; what was known at once, in an order that no input order moves."""
    return sorted(
        outcomes, key=lambda o: (o.known_at, o.change, o.scenario, o.metric, o.base, o.run, o.verdict)
    )


def labels(history: History, scenarios: Sequence[Scenario]) -> list[Label]:
    """A label for every pair measured against the change's own parent, in order of change and name."""
    by_name = {scenario.name: scenario for scenario in scenarios}
    parent = {change.sha: change.parent for change in history.changes}
    position = {change.sha: at for at, change in enumerate(history.changes)}
    pairs: dict[tuple[Sha, ScenarioName], Pair] = defaultdict(Pair)
    for outcome in in_order(history.outcomes):
        if usable(outcome, by_name) and parent.get(outcome.change) == outcome.base:
            pairs[outcome.change, outcome.scenario].add(outcome)
    return [
        Label(sha, name, pair.failing, pair.weight)
        for (sha, name), pair in sorted(pairs.items(), key=lambda item: (position[item[0][0]], item[0][1]))
        if pair.weight > 0
    ]


def replayed(history: History, *, lag: int = LABEL_LAG) -> History:
    """The history as it would have been known, had each change been measured soon after it came.

    A recorded history is often measured long after its changes. Taken as it is, every training row would
    see an empty past and `select` a full one. A direct measurement therefore counts as known no later than
    just after the `lag`-th next change; what was inferred later (bisection, sweeps, people) keeps its time.
    """
    changes = sorted(history.changes, key=lambda change: change.time)
    position = {change.sha: at for at, change in enumerate(changes)}

    def known(outcome: Outcome) -> Outcome:
        at = position.get(outcome.change)
        if at is None or outcome.source not in DIRECT or at + lag >= len(changes):
            return outcome
        latest = changes[at + lag].time
        return outcome if outcome.known_at <= latest else replace(outcome, known_at=latest)

    return replace(history, outcomes=tuple(known(outcome) for outcome in history.outcomes))
