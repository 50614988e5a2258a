"""How much a ranking would have caught on later changes, at a share of the full cost.

Formulas (n tests, m failing, ranks from 1): APFD = 1 - sum(rank) / (n m) + 1 / (2 n). Pair recall at a
budget: failing pairs selected / failing pairs. Change recall: faulty changes with at least one failing pair
selected / faulty changes. The budget of a change is a share of what all its measured scenarios cost; every
policy goes through the scheduler that `select` uses, and pays the same for the same scenario.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

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
    number: int = 0
    """Place of the change in its history."""

    @property
    def measured(self) -> list[int]:
        """Indices of the scenarios that were measured."""
        return [int(at) for at in np.flatnonzero(self.weight > 0)]

    @property
    def faulty(self) -> bool:
        return bool((self.label[self.weight > 0] > 0).any())


@dataclass(frozen=True)
class Caught:
    """What one ranking caught of one change.

    Attributes:
        change, pairs: (budgets,), whether anything that fails was selected, and how many failing pairs.
        loss: Log loss of its measured pairs, weighted and summed; NaN where the ranking gives no chance.
    """

    change: Floats
    pairs: Floats
    apfd: float
    loss: float


@dataclass
class Tally:
    """What policies caught, change by change: a backtest of all of them, or of some.

    Changes come one at a time and nothing of a change is kept but what it was scored with, so that a history of
    millions of pairs costs no more memory than its changes.
    """

    budgets: tuple[float, ...] = BUDGETS
    _times: list[float] = field(default_factory=list)
    _sizes: list[tuple[int, int, float]] = field(default_factory=list)
    """Of each change: pairs, failing pairs, weight."""
    _caught: dict[str, list[Caught]] = field(default_factory=lambda: defaultdict(list))

    def add(self, case: Case, policies: Mapping[str, Iterable[Ranking]]) -> None:
        """Scores the next change. A policy with several rankings (draws) counts with their mean."""
        keep = case.measured
        label = case.label[keep] > 0
        self._times.append(case.context.change.time)
        self._sizes.append((len(keep), int(label.sum()), float(case.weight[keep].sum())))
        same = np.full(len(case.label), BASE_RATE)
        of = case.context
        cost = decision_costs(of.scenarios, of.launch_seconds, same, of.blocks)[keep]
        for name, rankings in policies.items():
            self._caught[name].append(_mean([_caught(case, cost, each, self.budgets) for each in rankings]))

    def __len__(self) -> int:
        return len(self._times)

    def backtest(self) -> Backtest:
        """Of all changes so far."""
        sizes = np.array(self._sizes).reshape(-1, 3)
        failing = sizes[:, 1]
        faulty = np.flatnonzero(failing).tolist()
        rows = []
        for name, every in self._caught.items():
            hit = [every[at] for at in faulty]
            none = np.zeros((1, len(self.budgets)))
            change = np.array([each.change for each in hit]) if hit else none
            pairs = np.array([each.pairs for each in hit]) if hit else none
            loss = sum(each.loss for each in every)
            weight = float(sizes[:, 2].sum())
            rows.append(
                BacktestRow(
                    name,
                    tuple((change.sum(axis=0) / max(len(hit), 1)).tolist()),
                    tuple((pairs.sum(axis=0) / max(float(failing.sum()), 1.0)).tolist()),
                    float(np.mean([each.apfd for each in hit])) if hit else 0.0,
                    loss / weight if weight > 0 and np.isfinite(loss) else None,
                )
            )
        return Backtest(
            self.budgets,
            len(self),
            len(faulty),
            int(sizes[:, 0].sum()),
            int(failing.sum()),
            min(self._times, default=0.0),
            tuple(rows),
        )


def evaluate(
    cases: Sequence[Case],
    policies: Mapping[str, Callable[[int], Ranking]],
    *,
    budgets: Sequence[float] = BUDGETS,
) -> Backtest:
    """Scores `policies`, each a function from the index of a case to its ranking."""
    tally = Tally(tuple(budgets))
    for at, case in enumerate(cases):
        tally.add(case, {name: [rank(at)] for name, rank in policies.items()})
    return tally.backtest()


def ranked_by(ranker: Ranker, cases: Sequence[Case]) -> Callable[[int], Ranking]:
    """`ranker` as a policy of `evaluate`."""
    return lambda at: ranker.rank(cases[at].context)


def drawn(ranker: Ranker, case: Case, draws: int) -> Iterable[Ranking]:
    """The rankings of one that draws, with a seed for each."""
    return (
        ranker.rank(replace(case.context, seed=case.context.seed + draw))
        for draw in range(draws if case.faulty else 1)
    )


def _caught(case: Case, cost: Floats, ranking: Ranking, budgets: Sequence[float]) -> Caught:
    """What a ranking of the case catches; `cost`, (measured,), is the same for all that are compared."""
    keep = case.measured
    label = case.label[keep] > 0
    loss = np.nan
    if ranking.order is None:
        chance = np.clip(ranking.probability[keep], 1e-9, 1 - 1e-9)
        loss = -float((case.weight[keep] * np.where(label, np.log(chance), np.log(1 - chance))).sum())
    change, pairs = np.zeros((2, len(budgets)))
    if not label.any():
        return Caught(change, pairs, np.nan, loss)
    value = value_for(case.context, ranking, keep)
    order = None if ranking.order is None else ranking.order[keep]
    resources = ["all"] * len(keep)
    for index, share in enumerate(budgets):
        plan = schedule(value, cost, resources, {"all": share * float(cost.sum())}, order=order)
        pairs[index] = int(label[list(plan.chosen)].sum())
    whole = schedule(value, cost, resources, {"all": float(cost.sum()) * (1 + 1e-9)}, order=order)
    ranks = 1 + np.flatnonzero(label[list(whole.chosen)])
    apfd = 1 - float(ranks.sum()) / (len(keep) * len(ranks)) + 1 / (2 * len(keep))
    return Caught((pairs > 0).astype(np.float64), pairs, apfd, loss)


def _mean(found: Sequence[Caught]) -> Caught:
    if len(found) == 1:
        return found[0]
    return Caught(
        np.mean([each.change for each in found], axis=0),
        np.mean([each.pairs for each in found], axis=0),
        float(np.mean([each.apfd for each in found])),
        float(np.mean([each.loss for each in found])),
    )
