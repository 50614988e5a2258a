"""How much a ranking would have caught on later changes, at a share of the full cost.

Formulas (n tests, m failing, ranks from 1): APFD = 1 - sum(rank) / (n m) + 1 / (2 n). Pair recall at a
budget: failing pairs selected / failing pairs. Change recall: faulty changes with at least one failing pair
selected / faulty changes. The budget of a change is a share of what all its measured scenarios cost; every
policy goes through the scheduler that `select` uses, and pays the same for the same scenario.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tithe.selector.cost import decision_costs
from tithe.selector.features import BASE_RATE
from tithe.selector.rank import Context, Ranker, Ranking, value_for
from tithe.selector.schedule import schedule

BUDGETS = (0.05, 0.10, 0.25, 0.50)
RANDOM_DRAWS = 40

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BacktestRow:
    """One policy: recalls by budget (in the order of `Backtest.budgets`), APFD, mean log loss of a pair.

    `log_loss` is None for what gives an order and no chance.
    """

    policy: str
    change_recall: tuple[float, ...]
    pair_recall: tuple[float, ...]
    apfd: float
    log_loss: float | None = None

    @property
    def score(self) -> float:
        """Mean of change recall and pair recall over all budgets: what two policies are compared by."""
        return float(np.mean([*self.change_recall, *self.pair_recall]))


@dataclass(frozen=True)
class Backtest:
    """What was scored (`changes` later than the training, `faulty` of them), and how each policy did."""

    budgets: tuple[float, ...] = BUDGETS
    changes: int = 0
    faulty: int = 0
    pairs: int = 0
    failing_pairs: int = 0
    since: float = 0.0
    """Time of the first change that was scored."""
    rows: tuple[BacktestRow, ...] = ()

    def row(self, policy: str) -> BacktestRow | None:
        """The row of `policy`."""
        return next((row for row in self.rows if row.policy == policy), None)


@dataclass(frozen=True)
class Case:
    """One change with its labels: `label` 0 or 1 and `weight`, (scenarios,); weight 0 is not measured."""

    context: Context
    label: Floats
    weight: Floats

    @property
    def measured(self) -> list[int]:
        """Indices of the scenarios that were measured."""
        return [int(at) for at in np.flatnonzero(self.weight > 0)]

    @property
    def faulty(self) -> bool:
        return bool((self.label[self.weight > 0] > 0).any())


def evaluate(
    cases: Sequence[Case],
    policies: Mapping[str, Callable[[int], Ranking]],
    *,
    budgets: Sequence[float] = BUDGETS,
) -> Backtest:
    """Scores `policies`, each a function from the index of a case to its ranking."""
    rows = tuple(_score(name, rank, cases, budgets) for name, rank in policies.items())
    return Backtest(
        tuple(budgets),
        len(cases),
        sum(case.faulty for case in cases),
        sum(len(case.measured) for case in cases),
        sum(int((case.label[case.measured] > 0).sum()) for case in cases),
        min((case.context.change.time for case in cases), default=0.0),
        rows,
    )


def ranked_by(ranker: Ranker, cases: Sequence[Case], *, draw: int = 0) -> Callable[[int], Ranking]:
    """`ranker` as a policy of `evaluate`; `draw` moves the seed of one that draws."""

    def rank(at: int) -> Ranking:
        context = cases[at].context
        return ranker.rank(replace(context, seed=context.seed + draw))

    return rank


def mean_rows(name: str, rows: Sequence[BacktestRow]) -> BacktestRow:
    """The mean over several draws of one policy; no log loss."""
    return BacktestRow(
        name,
        tuple(np.mean([row.change_recall for row in rows], axis=0).tolist()),
        tuple(np.mean([row.pair_recall for row in rows], axis=0).tolist()),
        float(np.mean([row.apfd for row in rows])),
    )


def _score(
    name: str, rank: Callable[[int], Ranking], cases: Sequence[Case], budgets: Sequence[float]
) -> BacktestRow:
    caught_changes = np.zeros(len(budgets))
    caught_pairs = np.zeros(len(budgets))
    faulty = failing_pairs = 0
    apfds: list[float] = []
    loss = weight = 0.0
    chances = True
    for at, case in enumerate(cases):
        keep = case.measured
        ranking = rank(at)
        same = np.full(len(case.label), BASE_RATE)
        chances = chances and ranking.order is None
        label = case.label[keep] > 0
        chance = np.clip(ranking.probability[keep], 1e-9, 1 - 1e-9)
        loss -= float((case.weight[keep] * np.where(label, np.log(chance), np.log(1 - chance))).sum())
        weight += float(case.weight[keep].sum())
        if not label.any():
            continue
        faulty += 1
        failing_pairs += int(label.sum())
        value = value_for(case.context, ranking, keep)
        cost = decision_costs(case.context.scenarios, case.context.launch_seconds, same, case.context.blocks)[
            keep
        ]
        order = None if ranking.order is None else ranking.order[keep]
        resources = ["all"] * len(keep)
        for index, share in enumerate(budgets):
            plan = schedule(value, cost, resources, {"all": share * float(cost.sum())}, order=order)
            hits = int(label[list(plan.chosen)].sum())
            caught_changes[index] += hits > 0
            caught_pairs[index] += hits
        whole = schedule(value, cost, resources, {"all": float(cost.sum()) * (1 + 1e-9)}, order=order)
        ranks = 1 + np.flatnonzero(label[list(whole.chosen)])
        apfds.append(1 - float(ranks.sum()) / (len(keep) * len(ranks)) + 1 / (2 * len(keep)))
    return BacktestRow(
        name,
        tuple((caught_changes / max(faulty, 1)).tolist()),
        tuple((caught_pairs / max(failing_pairs, 1)).tolist()),
        float(np.mean(apfds)) if apfds else 0.0,
        loss / weight if chances and weight > 0 else None,
    )
