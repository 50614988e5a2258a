"""Rankers: the prior, and the baselines that anything better must beat under the same scheduler."""

from __future__ import annotations

import hashlib

import numpy as np

from tithe.selector.features import FEATURES
from tithe.selector.prior import expit, prior_logit
from tithe.selector.rank import Context, Floats, Ranker, Ranking

_COLUMN = {name: at for at, name in enumerate(FEATURES)}


def _column(context: Context, name: str) -> Floats:
    return context.rows[:, _COLUMN[name]].astype(np.float64)


def _random(context: Context) -> Ranking:
    """Every order equally likely; the draw depends on the seed and the change alone."""
    text = f"{context.seed}:{context.change.sha}:{context.change.parent}"
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
    count = len(context.scenarios)
    return Ranking(_column(context, "base_rate"), order=np.random.default_rng(seed).random(count))


def _graph_only(context: Context) -> Ranking:
    """The nearest by the import graph per cost; nothing else is known to it, so it gives no chance."""
    order = (_column(context, "proximity") + 0.002) / context.launch_seconds
    return Ranking(_column(context, "base_rate"), order=order)


def _frequency(context: Context) -> Ranking:
    """How often each scenario failed so far, per cost, whatever the change touches."""
    return Ranking(_column(context, "rate_80"))


def _prior(context: Context) -> Ranking:
    return Ranking(expit(prior_logit(context.rows)), joint=True)


RANDOM = Ranker("random", _random)
GRAPH_ONLY = Ranker("graph-only", _graph_only)
FREQUENCY = Ranker("frequency/cost", _frequency)
PRIOR = Ranker("prior", _prior)
BASELINES: tuple[Ranker, ...] = (RANDOM, GRAPH_ONLY, FREQUENCY)
