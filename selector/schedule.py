"""What to run under a budget: most faulty changes caught per second of machine time.

Catching a faulty change once is what counts, so the value of a set is not the sum of its chances. A change
is faulty through one of its touched files (a cause); scenarios that depend on the same file would catch the
same fault, and the second of them adds little. With chance p of a scenario split over the causes, cause j
has the weight w_j = max(p_j) / SURE and the set catches

    sum over j of w_j * (1 - product over the chosen of (1 - p_j / w_j))  +  what is each scenario's own.

This is monotone and submodular, and greedy by gain per cost with filling on has a property worth keeping:
a bigger budget never lowers the value. Where two runs first part, the bigger one takes an item that did not
fit into the smaller, whose whole remaining budget is smaller than that item and is filled at no better rate.
The greedy run is tried from each of a fixed set of first picks, which mends its worst case (a small item
that keeps a valuable large one out) and keeps the property, as the best of several such runs. A budget of many
times the dearest of them has no such case: there they are tried up to that, and the one greedy run goes on.

Gains only fall as more is chosen, so that what was far behind cannot lead before all in front of it have fallen:
a greedy run looks again at the few in front, and at all only where none of those leads any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SURE = 0.6
"""Chance that the scenario nearest to a cause would show it."""
OWN = 0.3
"""Part of each chance that no other scenario shares."""
MAX_CAUSES = 32
FIRST_PICKS = 24
TIGHT = 8.0
"""Times the dearest first pick, above which a budget is not tight."""
FRONT = 96
"""Scenarios that a greedy run looks at for each pick."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """What to run, as indices in the order to run it, and what that is expected to catch."""

    chosen: tuple[int, ...]
    value: float


@dataclass(frozen=True)
class Value:
    """The value of sets of scenarios.

    Attributes:
        own: (scenarios,), what each adds whatever else is chosen.
        weight: (causes,), chance of each cause.
        detect: (scenarios, causes) in [0, 1], chance that a scenario shows a cause.
    """

    own: Floats
    weight: Floats
    detect: Floats

    def gains(self, missed: Floats) -> Floats:
        """(scenarios,), what each adds; `missed`, (causes,), is the chance that a cause is missed yet."""
        gain: Floats = self.own + self.detect @ (self.weight * missed)
        return gain

    def of(self, chosen: Sequence[int]) -> float:
        """Expected number of faults caught by `chosen`."""
        at = list(chosen)
        missed = np.prod(1.0 - self.detect[at], axis=0) if at else np.ones(len(self.weight))
        return float(self.own[at].sum() + (self.weight * (1.0 - missed)).sum())


def value_of(probability: Floats, evidence: Floats | None = None) -> Value:
    """Splits chances over causes.

    Args:
        probability: (scenarios,).
        evidence: (scenarios, causes) >= 0, how much of each scenario's chance comes through each touched
            file; None if nothing is known, when chances simply add up.
    """
    count = len(probability)
    if evidence is None or evidence.shape[1] == 0 or not count:
        return Value(probability.copy(), np.zeros(0), np.zeros((count, 0)))
    if evidence.shape[1] > MAX_CAUSES:
        mass = (probability[:, None] * evidence).sum(axis=0)
        evidence = evidence[:, np.sort(np.argsort(-mass, kind="stable")[:MAX_CAUSES])]
    total = evidence.sum(axis=1)
    share = np.divide(evidence, total[:, None], out=np.zeros_like(evidence), where=total[:, None] > 0)
    own = np.where(total > 0, OWN, 1.0) * probability
    part = (1.0 - OWN) * probability[:, None] * share
    weight = part.max(axis=0) / SURE
    detect = np.divide(part, weight, out=np.zeros_like(part), where=weight > 0)
    return Value(own, weight, detect)


def schedule(
    value: Value,
    cost: Floats,
    resource: Sequence[str],
    budget: Mapping[str, float],
    *,
    order: Floats | None = None,
) -> Plan:
    """Chooses under a budget of each resource; never over it.

    Ties go to the lower index, so pass scenarios in the order of their names. Diminishing returns hold among
    scenarios of one resource: each resource is planned by itself, which keeps "a bigger budget is never
    worse" for each.

    Args:
        cost: (scenarios,) seconds, above 0, of the scenario's own resource.
        budget: Seconds by resource; what has none is not chosen.
        order: (scenarios,), higher first: a policy that brings its own order is filled strictly by it.
    """
    chosen: list[int] = []
    total = 0.0
    for name in sorted(budget):
        of = np.array([at for at, of_resource in enumerate(resource) if of_resource == name], dtype=np.intp)
        if not of.size:
            continue
        here = Value(value.own[of], value.weight, value.detect[of])
        if order is not None:
            picks = _fill(np.argsort(-order[of], kind="stable"), cost[of], budget[name])
        else:
            picks = _best(here, cost[of], budget[name])
        chosen += [int(of[at]) for at in picks]
        total += here.of(picks)
    if len(budget) > 1 and order is None:
        chosen = _by_rate(chosen, value, cost)
    return Plan(tuple(chosen), total)


def _fill(order: NDArray[np.intp], cost: Floats, budget: float) -> list[int]:
    """In that order, whatever still fits."""
    left = budget
    picks: list[int] = []
    rest = order[cost[order] <= left]
    while rest.size:
        # What is spent is summed one by one, so that the last cent is the same however many go at once.
        after = np.subtract.accumulate(np.concatenate([[left], cost[rest]]))[1:]
        taken = int(np.argmax(after < 0)) if (after < 0).any() else len(rest)
        picks += rest[:taken].tolist()
        left = float(after[taken - 1])
        rest = rest[taken:]
        rest = rest[cost[rest] <= left]
    return picks


def _best(value: Value, cost: Floats, budget: float) -> list[int]:
    """The best greedy run over the first picks; these must not depend on the budget (see above)."""
    best = _greedy(value, cost, budget, ())
    best_value = value.of(best)
    if len(best) < len(cost):
        alone = value.gains(np.ones(len(value.weight)))
        firsts = np.argsort(-alone, kind="stable")[:FIRST_PICKS]
        tight = min(budget, TIGHT * float(cost[firsts].max()))
        for first in firsts:
            if cost[first] > tight:
                continue
            picks = _greedy(value, cost, tight, (int(first),))
            found = value.of(picks)
            if found > best_value * (1 + 1e-12):
                best, best_value = picks, found
    return _by_rate(best, value, cost)


def _greedy(value: Value, cost: Floats, budget: float, first: tuple[int, ...]) -> list[int]:
    """By gain per cost, `first` before all others; ties go to the lower index."""
    missed = np.ones(len(value.weight))
    free = np.ones(len(cost), dtype=np.bool_)
    picks = list(first)
    left = budget
    for at in first:
        free[at] = False
        left -= float(cost[at])
        missed = missed * (1.0 - value.detect[at])
    if not value.weight.size:
        rate = np.where(free, value.own / cost, -np.inf)
        return picks + _fill(np.argsort(-rate, kind="stable")[: int(free.sum())], cost, left)
    while True:
        open_ = np.flatnonzero(free & (cost <= left))
        if not open_.size:
            return picks
        rate = value.gains(missed)[open_] / cost[open_]
        lead = int(np.argmax(rate))
        if rate[lead] <= 0:
            return picks + _fill(open_, cost, left)
        front, floor = _front(rate)
        front = open_[front]
        own, detect, price = value.own[front], value.detect[front], cost[front]
        fits = np.ones(len(front), dtype=np.bool_)
        at, place = int(open_[lead]), int(np.searchsorted(front, open_[lead]))
        while True:
            picks.append(at)
            free[at] = False
            left -= float(cost[at])
            missed = missed * (1.0 - value.detect[at])
            fits[place] = False
            fits &= price <= left
            ahead = np.where(fits, (own + detect @ (value.weight * missed)) / price, -np.inf)
            place = int(np.argmax(ahead))
            if not ahead[place] > floor:
                break
            at = int(front[place])


def _front(rate: Floats) -> tuple[NDArray[np.intp], float]:
    """The places of the highest rates, in order, and the highest of the others."""
    if len(rate) <= FRONT:
        return np.arange(len(rate)), -np.inf
    split = np.argpartition(-rate, FRONT)
    front, lead = split[:FRONT], int(np.argmax(rate))
    if lead not in front:  # one of several that are equal at the border
        front[-1] = lead
    floor = float(rate[split[FRONT]])
    return np.sort(front), floor


def _by_rate(chosen: Sequence[int], value: Value, cost: Floats) -> list[int]:
    """The same set, what catches most per second first: stopping early loses least."""
    at = np.array(sorted(chosen), dtype=np.intp)
    if not at.size:
        return []
    here = Value(value.own[at], value.weight, value.detect[at])
    return [int(at[place]) for place in _greedy(here, cost[at], np.inf, ())]
