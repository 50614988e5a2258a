"""A trained model: corrections to the prior, as far as the evidence goes, calibrated on later time.

    log odds = slope * (log odds of the prior + share * sum of trees) + intercept

The trees start from the prior (it is LightGBM's initial score), so that with few failures they can only move
it a little; `share` grows with the number of faulty changes seen, from nothing towards one. That is the whole
hand-over from prior to model: there is no switch.

On disk it is a folder of LightGBM's text and JSON, each with its hash, written under another name and moved
into place. Nothing in it is executed.
"""

from __future__ import annotations

import errno
import hashlib
import math
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tithe._version import VERSION as TITHE_VERSION
from tithe.data.codec import CodecError, from_json, to_json
from tithe.data.errors import ModelError
from tithe.selector import prior
from tithe.selector.backtest import Backtest
from tithe.selector.features import FEATURES
from tithe.selector.rank import Context, Ranker, Ranking
from tithe.selector.trees import Trees, parse

FORMAT = 1
TREES_FILE = "model.txt"
INFO_FILE = "model.json"
MEND = "`tithe train` makes a new one; --model prior does without"

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Calibration:
    """Platt's: log odds as the model has them to log odds as later time had them."""

    slope: float = 1.0
    intercept: float = 0.0


@dataclass(frozen=True)
class Evidence:
    """What it was trained on."""

    changes: int
    pairs: int
    failing_pairs: int
    faulty: int
    """Changes that made something fail."""


@dataclass(frozen=True)
class ModelInfo:
    """`model.json`. `window`: times of the first and last change that it was trained on."""

    version: str
    features: tuple[str, ...]
    prior: int
    share: float
    """Part of the trees' sum that counts."""
    calibration: Calibration
    evidence: Evidence
    window: tuple[float, float]
    created_at: float
    seed: int
    params: Mapping[str, float | int | str | bool]
    rounds: int
    backtest: Backtest
    sha256: Mapping[str, str] = field(default_factory=dict)
    """File name to the hash of its content; of this file itself with an empty hash, under its own name."""
    tithe: str = TITHE_VERSION
    format: int = FORMAT


@dataclass(frozen=True)
class Model:
    """A model in memory."""

    info: ModelInfo
    trees: Trees

    @property
    def version(self) -> str:
        return self.info.version

    def logit(self, rows: NDArray[np.float32]) -> Floats:
        """Calibrated log odds of rows of `FEATURES`, (n, features) -> (n,)."""
        raw = prior.prior_logit(rows) + self.info.share * self.trees.sum(rows)
        return self.info.calibration.slope * raw + self.info.calibration.intercept

    def probability(self, rows: NDArray[np.float32]) -> Floats:
        """Chance of failing, (n,)."""
        return prior.expit(self.logit(rows))

    def ranker(self) -> Ranker:
        """This model behind the seam that all rankers share."""

        def rank(context: Context) -> Ranking:
            return Ranking(self.probability(context.rows), joint=True)

        return Ranker(self.version, rank)

    @classmethod
    def load(cls, folder: Path) -> Model:
        """The model in `folder`.

        Raises:
            ModelError: It is missing, damaged, or belongs to another version, feature set or prior.
        """
        try:
            raw = (folder / INFO_FILE).read_bytes()
            text = (folder / TREES_FILE).read_bytes()
        except OSError as error:
            raise ModelError(
                f"the model cannot be read: {error.strerror or error}", where=str(folder), mend=MEND
            ) from None
        return cls.parse(raw, text, str(folder))

    @classmethod
    def parse(cls, raw: bytes, text: bytes, folder: str) -> Model:
        """The model whose files hold `raw` (its description) and `text` (its trees).

        Raises:
            ModelError: As for `load`.
        """
        where = f"{folder}/{INFO_FILE}"
        trees_where = f"{folder}/{TREES_FILE}"
        try:
            form = from_json(raw, _Form).format
            if form != FORMAT:
                raise ModelError(f"format {form} is not known here, only {FORMAT}", where=where, mend=MEND)
            info = from_json(raw, ModelInfo)
        except CodecError as error:
            raise ModelError(f"the model is damaged: {error.what}", where=where, mend=MEND) from None
        if info.sha256.get(TREES_FILE) != _hash(text):
            raise ModelError(
                "the model is damaged: its hash is not the one recorded",
                where=trees_where,
                mend=MEND,
            )
        if info.sha256.get(INFO_FILE) != _info_hash(info):
            raise ModelError("the model is damaged: its hash is not the one recorded", where=where, mend=MEND)
        if info.features != FEATURES:
            differing = sorted(set(info.features) ^ set(FEATURES))
            named = ", ".join(differing[:5]) or "their order"
            raise ModelError(
                f"the model was trained on other features ({named})", where=where, mend="train again"
            )
        if info.prior != prior.VERSION:
            raise ModelError(
                "the model corrects another version of the prior", where=where, mend="train again"
            )
        trees = parse(text.decode("utf-8", "replace"), where=trees_where)
        if trees.features != FEATURES:
            raise ModelError("the trees name other features", where=trees_where, mend=MEND)
        return cls(info, trees)


@dataclass(frozen=True)
class _Form:
    format: int


def save(info: ModelInfo, trees: str, models: Path) -> Path:
    """Writes a model as the folder `models/<version>` and returns it.

    Where another process has taken that version meanwhile, the next one that is free is used: the folder's name
    is the version.

    Raises:
        ModelError: The folder cannot be written.
    """
    try:
        return _save(info, trees, models)
    except FileExistsError:
        return save(replace(info, version=next_version(models)), trees, models)


def _save(info: ModelInfo, trees: str, models: Path) -> Path:
    target = models / info.version
    try:
        models.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".new-", dir=models))
        try:
            raw = trees.encode()
            hashed = _with_hashes(info, raw)
            (made / TREES_FILE).write_bytes(raw)
            (made / INFO_FILE).write_text(to_json(hashed, indent=2) + "\n", encoding="utf-8")
            made.chmod(0o755)
            if target.exists():
                raise FileExistsError
            made.rename(target)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
    except FileExistsError:
        raise
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
            raise FileExistsError from None
        raise ModelError(
            f"the model cannot be written: {error.strerror or error}",
            where=str(target),
            mend="free space or check rights",
        ) from None
    return target


def next_version(models: Path) -> str:
    """The number after the highest in `models`, three digits or more."""
    numbers = (
        [int(path.name) for path in models.glob("*") if path.name.isdecimal()] if models.is_dir() else []
    )
    return f"{max(numbers, default=0) + 1:03d}"


def share_of(faulty: int, *, half: int = 40) -> float:
    """Part of the trees' sum that counts after `faulty` faulty changes: a half at `half` of them."""
    return faulty / (faulty + half)


def fit_calibration(raw: Floats, label: Floats, weight: Floats, *, strength: float = 20.0) -> Calibration:
    """Platt's scaling by Newton's method, held to slope 1 and intercept 0 by `strength` pseudo-observations.

    Args:
        raw: (n,) log odds on time later than the model was trained on; `label` 0 or 1; `weight` >= 0.
    """

    def cost(a: float, b: float) -> float:
        odds = a * raw + b
        loss = weight * (np.logaddexp(0.0, odds) - label * odds)
        return float(loss.sum()) + 0.5 * strength * ((a - 1.0) ** 2 + 0.25 * b * b)

    a, b = 1.0, 0.0
    current = cost(a, b)
    for _ in range(100):
        chance = prior.expit(a * raw + b)
        error = weight * (chance - label)
        curve = weight * chance * (1 - chance)
        gradient = np.array([(error * raw).sum() + strength * (a - 1.0), error.sum() + 0.25 * strength * b])
        cross = (curve * raw).sum()
        hessian = np.array(
            [[(curve * raw * raw).sum() + strength, cross], [cross, curve.sum() + 0.25 * strength]]
        )
        step = np.linalg.solve(hessian, gradient)
        # A full step may overshoot where the curve is flat, and then runs away.
        while (tried := cost(a - float(step[0]), b - float(step[1]))) > current and np.abs(step).max() > 1e-9:
            step = step / 2
        a, b, current = a - float(step[0]), b - float(step[1]), tried
        if np.abs(step).max() < 1e-9:
            break
    # A slope at or below zero would turn the ranking over on the word of a few events.
    if not (math.isfinite(a) and math.isfinite(b)) or a < 0.2:
        return Calibration()
    return Calibration(round(a, 9), round(b, 9))


def _hash(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _info_hash(info: ModelInfo) -> str:
    others = {name: digest for name, digest in info.sha256.items() if name != INFO_FILE}
    return _hash(to_json(replace(info, sha256=dict(sorted(others.items())))).encode())


def _with_hashes(info: ModelInfo, trees: bytes) -> ModelInfo:
    part = replace(info, sha256={TREES_FILE: _hash(trees)})
    return replace(part, sha256={INFO_FILE: _info_hash(part), TREES_FILE: _hash(trees)})
