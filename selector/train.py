"""From history to a model, and an honest word on whether it is better.

Changes are walked once, in time; the rows of each are made as of the moment that it came. The later part is
scored by models that were trained on the earlier (rolling origin), which gives the calibration, the backtest
and the ground for promotion. The model that is saved is then trained on all. Of each change no more is kept than
the rows to train on, so that millions of pairs fit into a small machine.

With some ten faulty changes nearly everything can be learnt wrongly: trees are tiny, start from the prior,
follow known directions, and count in proportion to the evidence.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tithe.data.graph import ScenarioGraph
from tithe.data.records import Change, Scenario
from tithe.selector import prior
from tithe.selector.backtest import RANDOM_DRAWS, Backtest, Case, Tally, drawn
from tithe.selector.features import CHANGE_FEATURES, FEATURES, MONOTONE, State
from tithe.selector.fold import Cells, Floats, Indices
from tithe.selector.history import History, Labels, labels, replayed
from tithe.selector.model import (
    Calibration,
    Evidence,
    Model,
    ModelInfo,
    fit_calibration,
    next_version,
    save,
    share_of,
)
from tithe.selector.policies import BASELINES, PRIOR, RANDOM
from tithe.selector.rank import Ranking, context_of
from tithe.selector.trees import Trees, parse

if TYPE_CHECKING:
    from tithe.data.config import Config

MODEL = "model"
INCUMBENT = "incumbent"
FOLDS = 4
LEAST_FAULTY = 3
"""Faulty changes on each side of the split in time, below which no backtest is made."""

MANY_FAULTY = 100
PASSING_FOR_ONE = 20
"""Passing pairs to train on for each that fails, where there are more than LEAST_PASSING."""
LEAST_PASSING = 1_000_000
MOST_DRAWN = 4_000
"""Rankings of the baseline that draws, over all changes: the more there are, the fewer of each tell its mean."""


@dataclass(frozen=True)
class TrainReport:
    """What training came to. `version` is empty if no model was made; `better` if it should be promoted."""

    version: str
    better: bool
    why: str
    backtest: Backtest
    evidence: Evidence
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fit:
    """Trees with the part of their sum that counts; `text` is LightGBM's."""

    trees: Trees
    share: float
    text: str
    rounds: int
    params: Mapping[str, float | int | str | bool]

    def raw(self, rows: NDArray[np.float32]) -> Floats:
        """Log odds before calibration."""
        return prior.prior_logit(rows) + self.share * self.trees.sum(rows)


def train(
    history: History,
    config: Config,
    graph_of: Callable[[Change], ScenarioGraph],
    models_dir: Path,
    *,
    now: float,
    seed: int,
    incumbent: Model | None = None,
) -> TrainReport:
    """Trains on what was known before `now` and saves the model under the next version.

    Args:
        graph_of: The graph of the revision of a change.
        incumbent: The promoted model, which a new one has to beat; without one, the prior.

    Raises:
        ModelError: The model cannot be written.
    """
    walk = Walk(history, config.scenarios, now)
    evidence = evidence_of(walk.labels)
    if not evidence.failing_pairs or evidence.failing_pairs == evidence.pairs:
        lack = (
            "no change is known to have failed"
            if not evidence.failing_pairs
            else "no pair is known to have passed"
        )
        return TrainReport(
            "", False, f"nothing to learn from yet: {lack}; the prior serves", Backtest(), evidence
        )
    rows = Rows(walk.labels, seed)
    trial = Trial(walk, rows, incumbent, seed)
    times = []
    for case in walk.cases(graph_of, seed):
        trial.score(case)
        rows.add(case)
        times.append(case.context.change.time)
    backtest = trial.backtest()
    better, why = _judge(trial, backtest, evidence, incumbent)
    fit = fit_trees(rows, walk.labels, seed, len(walk.scenarios))
    info = ModelInfo(
        next_version(models_dir),
        FEATURES,
        prior.VERSION,
        fit.share,
        trial.calibration(walk.labels),
        evidence,
        (min(times), max(times)),
        now,
        seed,
        fit.params,
        fit.rounds,
        backtest,
    )
    version = save(info, fit.text, models_dir).name
    return TrainReport(version, better, why, backtest, evidence)


class Walk:
    """Labelled changes in the order of time, each with its rows as of the moment that it came."""

    def __init__(self, history: History, scenarios: Sequence[Scenario], now: float) -> None:
        """Of what was known before `now`."""
        self.scenarios = tuple(sorted(scenarios, key=lambda scenario: scenario.name))
        self.changes = tuple(sorted(history.changes, key=lambda change: (change.time, change.index)))
        self._cells = Cells(self.scenarios)
        self._columns = history.in_columns(self._cells).before(now)
        self.labels = labels(self.changes, self._columns, self._cells)
        self._seen = replayed(self.changes, self._columns)
        self._history = replace(history, changes=self.changes, outcomes=(), columns=None)

    def labels_at(self, t: float) -> Labels:
        """Those that were known before `t`, had each change been measured soon after it came."""
        return labels(self.changes, self._seen.before(t), self._cells)

    def cases(self, graph_of: Callable[[Change], ScenarioGraph], seed: int) -> Iterator[Case]:
        """One at a time."""
        state = State(self._history, self.scenarios, later=self._seen)
        borders = np.searchsorted(self.labels.change, np.arange(len(self.changes) + 1)).tolist()
        for at, (low, high) in enumerate(pairwise(borders)):
            if low == high:
                continue
            change = self.changes[at]
            of = self.labels.scenario[low:high]
            label, weight = np.zeros((2, len(self.scenarios)))
            label[of], weight[of] = self.labels.failing[low:high], self.labels.weight[low:high]
            context = context_of(state, change, graph_of(change), change.time, seed)
            yield Case(context, label, weight, at)


def evidence_of(known: Labels) -> Evidence:
    """How much there is to learn from."""
    return Evidence(
        len(np.unique(known.change)),
        len(known),
        int(known.failing.sum()),
        len(np.unique(known.change[known.failing])),
    )


class Rows:
    """The rows to train on, as they come: of every failing pair, and of as many others as are worth their memory.

    What is left out is drawn by the seed and the change, and what stays of its kind counts for it.
    """

    def __init__(self, known: Labels, seed: int) -> None:
        failing = int(known.failing.sum())
        passing = max(len(known) - failing, 1)
        self._keep = min(1.0, max(LEAST_PASSING, PASSING_FOR_ONE * failing) / passing)
        self._seed = seed
        self._key: list[NDArray[np.int64]] = []
        self._rows: list[NDArray[np.float32]] = []
        self._prior: list[Floats] = []
        self._scale: list[Floats] = []

    def add(self, case: Case) -> None:
        """Takes the labelled pairs of the next change."""
        at = np.flatnonzero(case.weight > 0)
        scale = np.ones(len(at))
        if self._keep < 1.0:
            text = f"{self._seed}:{case.context.change.sha}:{case.context.change.parent}"
            draw = np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))
            failing = case.label[at] > 0
            kept = failing | (draw.random(len(at)) < self._keep)
            at, scale = at[kept], np.where(failing[kept], 1.0, 1.0 / self._keep)
        rows = case.context.rows[at]
        self._key.append(_keys(np.full(len(at), case.number), at, len(case.label)))
        self._rows.append(rows)
        self._prior.append(prior.prior_logit(rows))
        self._scale.append(scale)

    def labelled(
        self, known: Labels, scenarios: int
    ) -> tuple[list[NDArray[np.float32]], Floats, Floats, Floats]:
        """Rows (in parts), label, weight and log odds of the prior, (n,), of the pairs that `known` labels."""
        key = np.concatenate(self._key) if self._key else np.zeros(0, dtype=np.int64)
        label, weight = _label_of(key, known, scenarios)
        used = weight > 0
        ends = np.cumsum([len(part) for part in self._key])[:-1]
        parts = [
            rows if there.all() else rows[there]
            for rows, there in zip(self._rows, np.split(used, ends), strict=True)
            if there.any()
        ]
        scale = np.concatenate(self._scale)[used]
        return parts, label[used], weight[used] * scale, np.concatenate(self._prior)[used]


def _keys(change: Indices, scenario: Indices, scenarios: int) -> NDArray[np.int64]:
    """(n,), a number for each pair, in the order of `Labels`."""
    found: NDArray[np.int64] = change.astype(np.int64) * scenarios + scenario
    return found


def _label_of(key: NDArray[np.int64], known: Labels, scenarios: int) -> tuple[Floats, Floats]:
    """Label and weight of pairs, (n,) each; the weight of one that has no label is 0."""
    label, weight = np.zeros((2, len(key)))
    own = _keys(known.change, known.scenario, scenarios)
    if len(own) and len(key):
        at = np.minimum(np.searchsorted(own, key), len(own) - 1)
        there = own[at] == key
        label[there], weight[there] = known.failing[at[there]], known.weight[at[there]]
    return label, weight


def parameters(faulty: int, pairs: int, seed: int) -> dict[str, float | int | str | bool]:
    """LightGBM's parameters for this much evidence: more leaves only when more can be told apart."""
    leaves = 4 if faulty < 40 else 8 if faulty < 200 else 16
    return {
        "objective": "binary",
        "boost_from_average": False,
        "learning_rate": 0.05,
        "num_leaves": leaves,
        "min_data_in_leaf": max(10, pairs // 100),
        "min_sum_hessian_in_leaf": 0.2,
        "lambda_l2": 5.0,
        "feature_fraction": 0.5,
        "max_bin": 63,
        "deterministic": True,
        "force_row_wise": True,
        "num_threads": 1,
        "seed": seed % 2**31,
        "verbosity": -1,
    }


def rounds_for(faulty: int) -> int:
    """Trees: a few dozen for a handful of faulty changes, more as they grow."""
    return int(min(30 + 2 * faulty, 300))


def fit_trees(rows: Rows, known: Labels, seed: int, scenarios: int) -> Fit:
    """Trees on top of the prior, for the pairs that `known` labels. Without a failing and a passing one, none."""
    evidence = evidence_of(known)
    if not evidence.failing_pairs or evidence.failing_pairs == evidence.pairs:
        return Fit(Trees(FEATURES, ()), 0.0, "", 0, {})
    import lightgbm

    parts, label, weight, start = rows.labelled(known, scenarios)
    params = parameters(evidence.faulty, len(label), seed)
    rounds = rounds_for(evidence.faulty)
    # What is the same for all scenarios of a change is seen only as often as there are changes: with few of
    # them it is learnt by heart, and it cannot tell one scenario from another.
    contri = 0.1 if evidence.faulty < MANY_FAULTY else 1.0
    data = lightgbm.Dataset(
        parts,
        label=label,
        weight=weight,
        init_score=start,
        feature_name=list(FEATURES),
        params={"verbosity": -1, "max_bin": params["max_bin"]},
    )
    booster = lightgbm.train(
        {
            **params,
            "monotone_constraints": [MONOTONE.get(name, 0) for name in FEATURES],
            "feature_contri": [contri if name in CHANGE_FEATURES else 1.0 for name in FEATURES],
        },
        data,
        num_boost_round=rounds,
    )
    text: str = booster.model_to_string()
    return Fit(parse(text), share_of(evidence.faulty), text, rounds, params)


class Trial:
    """Later changes, scored by models that were trained on earlier ones: rolling origin.

    It begins after the first two fifths of the faulty changes. At each of `FOLDS` borders a model is trained on what
    was known by then, and calibrated on the changes that the models before it had scored.
    """

    def __init__(self, walk: Walk, rows: Rows, incumbent: Model | None, seed: int) -> None:
        self._walk, self._rows, self._seed = walk, rows, seed
        self._incumbent = incumbent.ranker() if incumbent else None
        self._newer = incumbent.info.window[1] if incumbent else np.inf
        self.tally = Tally()
        self.duel = Tally()
        """Of the changes that the incumbent was not trained on."""
        self._key: list[NDArray[np.int64]] = []
        self._raw: list[Floats] = []
        self._fit: Fit | None = None
        self._calibration = Calibration()
        labelled = np.unique(walk.labels.change)
        faulty = np.unique(walk.labels.change[walk.labels.failing])
        first = max(LEAST_FAULTY, len(faulty) * 2 // 5)
        self._borders: frozenset[int] = frozenset()
        self._draws = 0
        if len(faulty) >= first + LEAST_FAULTY:
            held = labelled[np.searchsorted(labelled, faulty[first - 1]) + 1 :]
            cuts = np.unique(np.linspace(0, len(held), FOLDS + 1).astype(int))[:-1]
            self._borders = frozenset(held[cuts].tolist())
            self._draws = min(RANDOM_DRAWS, max(2, MOST_DRAWN // (len(faulty) - first)))

    def score(self, case: Case) -> None:
        """Scores the next change, if it is one of the later ones. Its rows must not be in `rows` yet."""
        if case.number in self._borders:
            known = self._walk.labels_at(case.context.change.time)
            self._fit = fit_trees(self._rows, known, self._seed, len(case.label))
            self._calibration = self.calibration(known)
        if self._fit is None:
            return
        raw = self._fit.raw(case.context.rows)
        at = np.flatnonzero(case.weight > 0)
        self._key.append(_keys(np.full(len(at), case.number), at, len(case.label)))
        self._raw.append(raw[at])
        chance = prior.expit(self._calibration.slope * raw + self._calibration.intercept)
        ours = Ranking(chance, joint=True)
        self.tally.add(
            case,
            {
                MODEL: [ours],
                **{
                    each.name: [each.rank(case.context)] for each in (PRIOR, *BASELINES) if each is not RANDOM
                },
                RANDOM.name: drawn(RANDOM, case, self._draws),
            },
        )
        if self._incumbent is not None and case.context.change.time > self._newer:
            self.duel.add(case, {MODEL: [ours], INCUMBENT: [self._incumbent.rank(case.context)]})

    def calibration(self, known: Labels) -> Calibration:
        """On the changes scored so far, by models of earlier time, as far as `known` labels them."""
        if not self._key:
            return Calibration()
        label, weight = _label_of(np.concatenate(self._key), known, len(self._walk.scenarios))
        used = weight > 0
        return fit_calibration(np.concatenate(self._raw)[used], label[used], weight[used])

    def backtest(self) -> Backtest:
        """Of all changes that were scored; empty if there were too few."""
        return self.tally.backtest() if len(self.tally) else Backtest()


def _judge(trial: Trial, backtest: Backtest, evidence: Evidence, incumbent: Model | None) -> tuple[bool, str]:
    """Whether the new model should serve, and why."""
    trained = (
        f"trained on {evidence.pairs} pairs of {evidence.changes} changes, {evidence.faulty} of them faulty"
    )
    if not backtest.changes:
        return False, (
            f"{trained}: too few to hold later changes back and prove it "
            f"(at least {2 * LEAST_FAULTY} faulty ones are needed); what served so far serves on"
        )
    scored = f"{backtest.changes} later changes ({backtest.faulty} faulty)"
    better, said = _compare(backtest, PRIOR.name)
    if not better:
        return (
            False,
            f"{trained}; on {scored} no better than the prior ({said}); what served so far serves on",
        )
    if incumbent is None:
        return True, f"{trained}; on {scored} better than the prior ({said})"
    duel = trial.duel.backtest()
    if duel.faulty >= LEAST_FAULTY:
        better, said = _compare(duel, INCUMBENT)
        return better, (
            f"{trained}; on {duel.changes} changes ({duel.faulty} faulty) that version {incumbent.version} was not "
            f"trained on {'better' if better else 'no better'} than it ({said})"
        )
    if evidence.pairs > incumbent.info.evidence.pairs:
        return True, (
            f"{trained}; on {scored} better than the prior ({said}); only {duel.faulty} faulty changes came after "
            f"version {incumbent.version}, too few to compare on, and that had learnt from "
            f"{incumbent.info.evidence.pairs} pairs"
        )
    return False, (
        f"{trained}; nothing new since version {incumbent.version} "
        f"(trained on {incumbent.info.evidence.pairs} pairs), which serves on"
    )


def _compare(backtest: Backtest, rival: str) -> tuple[bool, str]:
    """Whether the model beats `rival`: by what it catches; where that is equal, by its log loss."""
    own, other = backtest.row(MODEL), backtest.row(rival)
    if own is None or other is None:
        raise ValueError(f"the backtest lacks {MODEL} or {rival}")
    own_loss, other_loss = own.log_loss or 0.0, other.log_loss or 0.0
    caught = own.score - other.score
    better = caught > 1e-9 or (abs(caught) <= 1e-9 and own_loss < other_loss)
    return better, (
        f"mean catch {own.score:.0%} against {other.score:.0%}, "
        f"log loss {own_loss:.4f} against {other_loss:.4f}"
    )
