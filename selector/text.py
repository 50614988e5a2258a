"""How much the words of a change speak of a scenario: BM25 over split identifiers.

It needs no history, and finds what no import says: `models/mlp.py` and a scenario called `mlp-small`, or a
configuration file whose name is put together at run time.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tithe.data.records import Change, Scenario

K1 = 1.2
B = 0.5
MAX_PATHS = 300

_SPLIT = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_STOP = frozenset(
    _SPLIT.findall(
        "a an and as at by for from in into is it no not of on or that the this to with "
        "py toml yaml yml json cfg ini txt md src lib init main test tests python"
    )
)


def tokens(text: str) -> list[str]:
    """Lower-case pieces of the identifiers in `text`, a plural without its s; single letters are dropped."""
    found = []
    for piece in _SPLIT.findall(text):
        word = piece.lower()
        if len(word) < 2 or word in _STOP:
            continue
        found.append(word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word)
    return found


class TextIndex:
    """The words of all scenarios: name, command, named files. Built once, asked per change."""

    def __init__(self, scenarios: Sequence[Scenario]) -> None:
        documents = [
            Counter(tokens(" ".join((s.name, *s.command, *s.files, *s.env.values())))) for s in scenarios
        ]
        self._count = len(documents)
        lengths = np.array([sum(d.values()) for d in documents], dtype=np.float64)
        norm = K1 * (1 - B + B * lengths / max(lengths.mean(), 1.0)) if documents else lengths
        postings: dict[str, list[tuple[int, float]]] = {}
        for at, document in enumerate(documents):
            for word, count in document.items():
                postings.setdefault(word, []).append((at, count * (K1 + 1) / (count + float(norm[at]))))
        self._postings = {
            word: (
                np.array([at for at, _ in found], dtype=np.intp),
                np.array([value for _, value in found]) * self._idf(len(found)),
            )
            for word, found in postings.items()
        }

    def _idf(self, found: int) -> float:
        """Zero for a word that every scenario has: it tells none from another."""
        return math.log(self._count / found) if found < self._count else 0.0

    def words(self, change: Change) -> list[str]:
        """The distinct words of its paths and subject."""
        paths: Iterable[str] = (edit.path for edit in change.files[:MAX_PATHS])
        return sorted(set(tokens(" ".join((*paths, change.subject)))))

    def score(self, change: Change) -> NDArray[np.float64]:
        """BM25 of the change's words against each scenario, (scenarios,), 0 where they share none."""
        total = np.zeros(self._count)
        for word in self.words(change):
            if word in self._postings:
                at, value = self._postings[word]
                total[at] += value
        return total

    def shared(self, words: Iterable[str], scenario: int) -> list[str]:
        """Those of `words` that a scenario has and that tell scenarios apart, the most telling first."""
        found = []
        for word in words:
            if word in self._postings:
                at, value = self._postings[word]
                hit = int(np.searchsorted(at, scenario))
                if hit < at.size and at[hit] == scenario and value[hit] > 0:
                    found.append((-float(value[hit]), word))
        return [word for _, word in sorted(found)]
