"""LightGBM's trees evaluated with numpy: importing LightGBM costs a second, which `select` need not pay.

Reads the text format that `Booster.save_model` writes, numerical splits only. The rules for missing values
are those of LightGBM's `Tree::NumericalDecision`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tithe.data.errors import ModelError

_CATEGORICAL = 1
_DEFAULT_LEFT = 2
_MISSING_ZERO = 1
_MISSING_NAN = 2
_ZERO = 1e-35


@dataclass(frozen=True)
class Tree:
    """One tree: inner nodes by index; a child below 0 is leaf number `-child - 1`."""

    feature: NDArray[np.intp]
    threshold: NDArray[np.float64]
    decision: NDArray[np.intp]
    left: NDArray[np.intp]
    right: NDArray[np.intp]
    leaf: NDArray[np.float64]


@dataclass(frozen=True)
class Trees:
    """A sum of trees over named features."""

    features: tuple[str, ...]
    trees: tuple[Tree, ...]

    def sum(self, rows: NDArray[np.float32]) -> NDArray[np.float64]:
        """Raw score of each row, (n, features) -> (n,)."""
        values = rows.astype(np.float64)
        total = np.zeros(len(rows))
        for tree in self.trees:
            total += _evaluate(tree, values)
        return total


def _evaluate(tree: Tree, values: NDArray[np.float64]) -> NDArray[np.float64]:
    count = len(values)
    if not len(tree.feature):
        return np.full(count, tree.leaf[0])
    node = np.zeros(count, dtype=np.intp)
    going = np.arange(count)
    while going.size:
        at = node[going]
        value = values[going, tree.feature[at]]
        decision = tree.decision[at]
        missing = (decision >> 2) & 3
        lost = np.isnan(value)
        value = np.where(lost & (missing != _MISSING_NAN), 0.0, value)
        default = ((missing == _MISSING_ZERO) & (np.abs(value) <= _ZERO)) | ((missing == _MISSING_NAN) & lost)
        with np.errstate(invalid="ignore"):
            goes_left = np.where(default, (decision & _DEFAULT_LEFT) > 0, value <= tree.threshold[at])
        node[going] = np.where(goes_left, tree.left[at], tree.right[at])
        going = going[node[going] >= 0]
    return tree.leaf[-node - 1]


def parse(text: str, *, where: str = "") -> Trees:
    """The trees in LightGBM's text format.

    Raises:
        ModelError: It is not that format, or holds what is not read here (categorical splits).
    """
    try:
        head, *blocks = text.split("\nTree=")
        fields = _fields(head)
        if "feature_names" not in fields:
            raise ValueError("feature_names is missing")
        features = tuple(fields["feature_names"].split())
        trees = tuple(_tree(_fields(block), len(features)) for block in blocks)
        return Trees(features, trees)
    except (ValueError, KeyError, IndexError) as error:
        raise ModelError(
            f"not a model that can be read: {error}",
            where=where,
            mend="train again, or promote an earlier version",
        ) from None


def _fields(block: str) -> dict[str, str]:
    lines = (line.partition("=") for line in block.split("\n\n", 1)[0].splitlines())
    return {key: value for key, sign, value in lines if sign}


def _ints(text: str) -> NDArray[np.intp]:
    return np.array([int(word) for word in text.split()], dtype=np.intp)


def _floats(text: str) -> NDArray[np.float64]:
    return np.array([float(word) for word in text.split()], dtype=np.float64)


def _tree(fields: dict[str, str], features: int) -> Tree:
    leaf = _floats(fields["leaf_value"])
    nodes = int(fields["num_leaves"]) - 1
    if nodes == 0:
        none = np.zeros(0, dtype=np.intp)
        return Tree(none, np.zeros(0), none, none, none, leaf)
    tree = Tree(
        _ints(fields["split_feature"]),
        _floats(fields["threshold"]),
        _ints(fields["decision_type"]),
        _ints(fields["left_child"]),
        _ints(fields["right_child"]),
        leaf,
    )
    if (tree.decision & _CATEGORICAL).any():
        raise ValueError("it has categorical splits")
    parts: Sequence[NDArray[np.intp] | NDArray[np.float64]] = (
        tree.feature,
        tree.threshold,
        tree.decision,
        tree.left,
        tree.right,
    )
    if any(len(part) != nodes for part in parts) or len(leaf) != nodes + 1:
        raise ValueError("a tree is cut short")
    children = np.concatenate([tree.left, tree.right])
    # Every inner node but the root and every leaf is the child of one node, and none of an earlier one: this
    # is what makes the walk end.
    parents = np.concatenate([np.arange(nodes), np.arange(nodes)])
    expected = np.concatenate([np.arange(-nodes - 1, 0), np.arange(1, nodes)])
    if (
        not np.array_equal(np.sort(children), np.sort(expected))
        or (children[children >= 0] <= parents[children >= 0]).any()
    ):
        raise ValueError("a tree is not a tree")
    if ((tree.feature < 0) | (tree.feature >= features)).any():
        raise ValueError("a split names a feature that is not there")
    return tree
