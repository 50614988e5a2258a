"""From history to a model, and an honest word on whether it is better.

Changes are walked in time; the rows of each are made as of the moment that it came. The later part is
scored by models that were trained on the earlier (rolling origin), which gives the calibration, the backtest
and the ground for promotion. The model that is saved is then trained on all.

With some ten faulty changes nearly everything can be learnt wrongly: trees are tiny, start from the prior,
follow known directions, and count in proportion to the evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tithe.data.graph import ScenarioGraph
from tithe.data.records import Change
from tithe.selector import prior
from tithe.selector.backtest import RANDOM_DRAWS, Backtest, Case, evaluate, mean_rows, ranked_by
from tithe.selector.features import CHANGE_FEATURES, FEATURES, MONOTONE, State
from tithe.selector.history import History, labels, replayed
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

Floats = NDArray[np.float64]


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
    past = replace(history, outcomes=tuple(o for o in history.outcomes if o.known_at < now))
    cases = cases_of(past, config, graph_of, seed=seed)
    evidence = _evidence(cases)
    passing = evidence.pairs - evidence.failing_pairs
    if not evidence.failing_pairs or not passing:
        lack = (
            "no change is known to have failed"
            if not evidence.failing_pairs
            else "no pair is known to have passed"
        )
        return TrainReport(
            "", False, f"nothing to learn from yet: {lack}; the prior serves", Backtest(), evidence
        )
    held = _hold_out(cases, seed)
    better, why = _judge(held, evidence, incumbent)
    fit = fit_trees(cases, seed)
    times = [case.context.change.time for case in cases]
    info = ModelInfo(
        next_version(models_dir),
        FEATURES,
        prior.VERSION,
        fit.share,
        _calibrate(held.cases, held.raw),
        evidence,
        (min(times), max(times)),
        now,
        seed,
        parameters(evidence.faulty, evidence.pairs, seed),
        fit.rounds,
        held.backtest,
    )
    version = save(info, fit.text, models_dir).name
    return TrainReport(version, better, why, held.backtest, evidence)


def cases_of(
    history: History, config: Config, graph_of: Callable[[Change], ScenarioGraph], *, seed: int
) -> list[Case]:
    """Every labelled change with its rows as of the moment that it came, in order of time."""
    scenarios = tuple(sorted(config.scenarios, key=lambda scenario: scenario.name))
    at = {scenario.name: index for index, scenario in enumerate(scenarios)}
    found: dict[str, tuple[Floats, Floats]] = {}
    for label in labels(history, scenarios):
        values, weights = found.setdefault(label.change, (np.zeros(len(scenarios)), np.zeros(len(scenarios))))
        values[at[label.scenario]] = float(label.failing)
        weights[at[label.scenario]] = label.weight
    state = State(replayed(history), scenarios)
    cases = []
    for change in sorted(history.changes, key=lambda change: (change.time, change.index)):
        if change.sha in found:
            context = context_of(state, change, graph_of(change), change.time, seed)
            cases.append(Case(context, *found[change.sha]))
    return cases


def _evidence(cases: Sequence[Case]) -> Evidence:
    return Evidence(
        len(cases),
        sum(len(case.measured) for case in cases),
        sum(int((case.label[case.measured] > 0).sum()) for case in cases),
        sum(case.faulty for case in cases),
    )


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


def fit_trees(cases: Sequence[Case], seed: int) -> Fit:
    """Trees on top of the prior. Without a failing and a passing pair there are none."""
    evidence = _evidence(cases)
    if not evidence.failing_pairs or evidence.failing_pairs == evidence.pairs:
        return Fit(Trees(FEATURES, ()), 0.0, "", 0)
    import lightgbm

    rows = np.concatenate([case.context.rows[case.measured] for case in cases])
    label = np.concatenate([case.label[case.measured] for case in cases])
    weight = np.concatenate([case.weight[case.measured] for case in cases])
    params = parameters(evidence.faulty, evidence.pairs, seed)
    rounds = rounds_for(evidence.faulty)
    # What is the same for all scenarios of a change is seen only as often as there are changes: with few of
    # them it is learnt by heart, and it cannot tell one scenario from another.
    contri = 0.1 if evidence.faulty < MANY_FAULTY else 1.0
    data = lightgbm.Dataset(
        rows,
        label=label,
        weight=weight,
        init_score=prior.prior_logit(rows),
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
    return Fit(parse(text), share_of(evidence.faulty), text, rounds)


@dataclass(frozen=True)
class HeldOut:
    """Later changes, scored by models that were trained on earlier ones; empty if there were too few.

    `raw` are log odds before, `chance` after a calibration on earlier folds, (cases, scenarios).
    """

    cases: tuple[Case, ...]
    raw: Floats
    chance: Floats
    backtest: Backtest


def _hold_out(cases: Sequence[Case], seed: int) -> HeldOut:
    """Rolling origin over the changes after the first two fifths of the faulty ones."""
    faulty = [at for at, case in enumerate(cases) if case.faulty]
    first = max(LEAST_FAULTY, len(faulty) * 2 // 5)
    if len(faulty) < first + LEAST_FAULTY:
        return HeldOut((), np.zeros((0, 0)), np.zeros((0, 0)), Backtest())
    start = faulty[first - 1] + 1
    held = tuple(cases[start:])
    raw = np.zeros((len(held), len(cases[0].label)))
    chance = np.zeros_like(raw)
    borders = np.unique(np.linspace(0, len(held), FOLDS + 1).astype(int)).tolist()
    for low, high in pairwise(borders):
        fit = fit_trees(cases[: start + low], seed)
        calibration = _calibrate(held[:low], raw[:low])
        for at in range(low, high):
            raw[at] = fit.raw(held[at].context.rows)
            chance[at] = prior.expit(calibration.slope * raw[at] + calibration.intercept)
    rankers = (PRIOR, *(ranker for ranker in BASELINES if ranker is not RANDOM))
    scored = evaluate(
        held,
        {
            MODEL: lambda at: Ranking(chance[at], joint=True),
            **{ranker.name: ranked_by(ranker, held) for ranker in rankers},
        },
    )
    draws = evaluate(held, {str(draw): ranked_by(RANDOM, held, draw=draw) for draw in range(RANDOM_DRAWS)})
    backtest = replace(scored, rows=(*scored.rows, mean_rows(RANDOM.name, draws.rows)))
    return HeldOut(held, raw, chance, backtest)


def _calibrate(cases: Sequence[Case], raw: Floats) -> Calibration:
    """Calibration on cases whose log odds `raw`, (cases, scenarios), came from models of earlier time."""
    if not cases:
        return Calibration()
    weight = np.array([case.weight for case in cases])
    used = weight > 0
    label = np.array([case.label for case in cases])
    return fit_calibration(raw[used], label[used], weight[used])


def _judge(held: HeldOut, evidence: Evidence, incumbent: Model | None) -> tuple[bool, str]:
    """Whether the new model should serve, and why."""
    trained = (
        f"trained on {evidence.pairs} pairs of {evidence.changes} changes, {evidence.faulty} of them faulty"
    )
    if not held.cases:
        return False, (
            f"{trained}: too few to hold later changes back and prove it "
            f"(at least {2 * LEAST_FAULTY} faulty ones are needed); what served so far serves on"
        )
    scored = f"{held.backtest.changes} later changes ({held.backtest.faulty} faulty)"
    better, said = _compare(held.backtest, PRIOR.name)
    if not better:
        return (
            False,
            f"{trained}; on {scored} no better than the prior ({said}); what served so far serves on",
        )
    if incumbent is None:
        return True, f"{trained}; on {scored} better than the prior ({said})"
    since = [at for at, case in enumerate(held.cases) if case.context.change.time > incumbent.info.window[1]]
    newer = [held.cases[at] for at in since]
    count = sum(case.faulty for case in newer)
    if count >= LEAST_FAULTY:
        chance = held.chance[since]
        duel = evaluate(
            newer,
            {
                MODEL: lambda at: Ranking(chance[at], joint=True),
                INCUMBENT: ranked_by(incumbent.ranker(), newer),
            },
        )
        better, said = _compare(duel, INCUMBENT)
        return better, (
            f"{trained}; on {len(newer)} changes ({count} faulty) that version {incumbent.version} was not "
            f"trained on {'better' if better else 'no better'} than it ({said})"
        )
    if evidence.pairs > incumbent.info.evidence.pairs:
        return True, (
            f"{trained}; on {scored} better than the prior ({said}); only {count} faulty changes came after "
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
