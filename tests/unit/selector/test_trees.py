"""Trees read by numpy give what LightGBM gives."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest

from tithe.data.errors import ModelError
from tithe.selector.trees import parse


def booster(rng: np.random.Generator, **params: object) -> tuple[lightgbm.Booster, np.ndarray]:
    rows = rng.normal(size=(600, 5)).astype(np.float32)
    rows[rng.random(rows.shape) < 0.15] = np.nan
    rows[:, 3] = np.where(rng.random(600) < 0.5, 0.0, rows[:, 3])
    label = (np.nan_to_num(rows[:, 0]) + rng.normal(size=600) > 0.5).astype(float)
    data = lightgbm.Dataset(rows, label=label, params={"verbosity": -1, **params})
    return lightgbm.train({"objective": "binary", "verbosity": -1, "num_leaves": 7, **params}, data, 25), rows


@pytest.mark.parametrize("params", [{}, {"zero_as_missing": True}, {"use_missing": False}], ids=str)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_equal_to_lightgbm(seed: int, params: dict[str, object]) -> None:
    rng = np.random.default_rng(seed)
    made, _ = booster(rng, **params)
    fresh = rng.normal(size=(400, 5)).astype(np.float32)
    fresh[rng.random(fresh.shape) < 0.2] = np.nan
    fresh[rng.random(fresh.shape) < 0.2] = 0.0
    fresh[:3] = np.array([np.inf, -np.inf, 1e30])[:, None]
    expected = made.predict(fresh, raw_score=True)
    np.testing.assert_allclose(parse(made.model_to_string()).sum(fresh), expected, rtol=1e-12, atol=1e-12)


def test_a_tree_of_one_leaf() -> None:
    rows = np.zeros((50, 2), dtype=np.float32)
    data = lightgbm.Dataset(rows, label=np.arange(50) % 2, params={"verbosity": -1})
    made = lightgbm.train({"objective": "binary", "verbosity": -1}, data, 2)
    np.testing.assert_allclose(parse(made.model_to_string()).sum(rows), made.predict(rows, raw_score=True))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("feature_names=", "names="),
        ("left_child=", "left_child=0 "),
        ("split_feature=", "split_feature=99 "),
        ("num_leaves=7", "num_leaves=6"),
        ("threshold=", "threshold=x "),
        ("leaf_value=", "leaf="),
    ],
)
def test_damage_is_refused(old: str, new: str) -> None:
    text = booster(np.random.default_rng(0))[0].model_to_string()
    assert old in text
    with pytest.raises(ModelError, match="not a model"):
        parse(text.replace(old, new))


def test_a_cycle_is_refused_before_it_is_walked() -> None:
    text = booster(np.random.default_rng(0))[0].model_to_string()
    line = next(row for row in text.splitlines() if row.startswith("left_child="))
    nodes = len(line.split())
    with pytest.raises(ModelError, match="not a tree"):
        parse(text.replace(line, "left_child=" + " ".join(["0"] * nodes)))
    with pytest.raises(ModelError):
        parse("")
