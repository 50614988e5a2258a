"""The chance that serves while there is little or no history, and that the model starts from.

It is a sum of log odds, each term of which can be said in words:

    log odds = logit(the rate of all) + OFFSET
             + RATE * (logit(the scenario's own rate, shrunk) - logit(the rate of all))
             + NEAR * how near the nearest touched file is
             + NEAREST * how near it is beside the scenario that is nearest of all
             - HOP * hops to the nearest touched file, up to FAR_HOPS, beyond the first
             + CO_FILE, CO_FOLDER * what touched files and folders did to this scenario before (a log lift)
             + TEXT * words that it shares with the change and few other scenarios have
             + DEPENDENCIES, if a requirements or lock file changed (then nothing is more than two hops away)
             - UNREACHED, if nothing that changed is reached from its command and no dependency changed
             - HARMLESS, if only documents, tests and the like changed

The coefficients were set by hand and rounded, looking at made-up histories; they are smaller than each signal
would earn alone, since the signals overlap and a chance that is too sure spends the budget on one scenario
that costs as much as three. With a full history the model corrects them (`tithe.selector.model`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tithe.selector.features import FEATURES

VERSION = 1
"""Models keep corrections to the prior: one that was trained on another prior is refused."""

OFFSET = -0.5
RATE = 0.4
NEAR = 0.5
NEAREST = 0.8
HOP = 0.3
FAR_HOPS = 5.0
CO_FILE = 0.4
CO_FOLDER = 0.1
TEXT = 0.1
TEXT_MOST = 5.0
DEPENDENCIES = 1.0
UNREACHED = 1.5
HARMLESS = 2.0

Floats = NDArray[np.float64]
_COLUMN = {name: at for at, name in enumerate(FEATURES)}


def logit(p: Floats) -> Floats:
    """Log odds of `p`, kept finite."""
    clipped = np.clip(p, 1e-9, 1 - 1e-9)
    odds: Floats = np.log(clipped / (1 - clipped))
    return odds


def expit(x: Floats) -> Floats:
    """The inverse of `logit`, without overflow."""
    chance: Floats = 0.5 * (1.0 + np.tanh(0.5 * x))
    return chance


def prior_logit(rows: NDArray[np.float32]) -> Floats:
    """Log odds of the prior for rows of `FEATURES`, (n, features) -> (n,)."""

    def column(name: str) -> Floats:
        return rows[:, _COLUMN[name]].astype(np.float64)

    rate = 0.5 * (column("rate_20") + column("rate_80"))
    base = logit(column("base_rate"))
    near = column("proximity")
    dependencies = column("dependency_edit") > 0
    effective = (column("code_share") > 0) | (column("config_edit") > 0) | dependencies
    hops = np.minimum(column("distance"), np.where(dependencies, 2.0, FAR_HOPS))
    total: Floats = (
        base
        + OFFSET
        + RATE * (logit(rate) - base)
        + NEAR * near
        + NEAREST * column("proximity_share")
        - HOP * (hops - 1.0)
        + CO_FILE * column("co_file")
        + CO_FOLDER * column("co_folder")
        + TEXT * np.minimum(column("text"), TEXT_MOST)
        + np.where(dependencies, DEPENDENCIES, 0.0)
        - np.where((near <= 0) & ~dependencies, UNREACHED, 0.0)
        - np.where(effective, 0.0, HARMLESS)
    )
    return total
