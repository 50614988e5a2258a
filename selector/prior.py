"""The chance that serves while there is little or no history, and that the model starts from.

It is a sum of log odds, each term of which can be said in words:

    log odds = logit(the scenario's own rate, shrunk towards the rate of all)
             + NEAR    * how near the nearest touched file is, among all scenarios and at all
             + RARE    * how few other scenarios reach what was touched
             + CO      * what touched files (and, less, folders) did to this scenario before
             + TEXT    * words that it shares with the change and few other scenarios have
             + DEPENDENCIES, if a requirements or lock file changed
             - UNREACHED, if nothing that changed is reached from its command and no dependency changed
             - HARMLESS, if only documents, tests and the like changed

The coefficients were set by hand on made-up histories of several shapes, not fitted: they must hold where
nothing is known. With a full history the model corrects them (`tithe.selector.model`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tithe.selector.features import FEATURES

VERSION = 1
"""Models keep corrections to the prior: one that was trained on another prior is refused."""

NEAR = 1.5
NEAREST = 1.0
RARE = 0.5
CO_FILE = 0.8
CO_FOLDER = 0.3
TEXT = 0.3
TEXT_MOST = 5.0
DEPENDENCIES = 0.7
UNREACHED = 2.0
HARMLESS = 3.0
OFFSET = -0.8
"""Brings the mean of the terms above to about zero, so that the base rate stays what it says."""

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
    near = column("proximity")
    text = np.minimum(column("text"), TEXT_MOST)
    dependencies = column("dependency_edit") > 0
    effective = (column("code_share") > 0) | (column("config_edit") > 0) | dependencies
    unreached = (near <= 0) & (text <= 0) & ~dependencies
    total: Floats = (
        logit(rate)
        + OFFSET
        + NEAR * near
        + NEAREST * column("proximity_share")
        + RARE * np.minimum(column("rarity"), 2.0)
        + CO_FILE * column("co_file")
        + CO_FOLDER * column("co_folder")
        + TEXT * text
        + np.where(dependencies, DEPENDENCIES, 0.0)
        - np.where(unreached, UNREACHED, 0.0)
        - np.where(effective, 0.0, HARMLESS)
    )
    return total
