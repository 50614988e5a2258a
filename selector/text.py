"""How much the words of a change speak of a scenario: BM25 over identifiers and their pieces.

It needs no history, and finds what no import says: `models/mlp.py` and a scenario called `mlp-small`, or a function
in C that the Python of a benchmark names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tithe.data.records import Change, Scenario
from tithe.data.words import Words, identifiers, tokens

K1 = 1.2
B = 0.5
MAX_PATHS = 300

Floats = NDArray[np.float64]


class TextIndex:
    """Documents by their words. Built once, asked per change."""

    def __init__(self, words: Words) -> None:
        """The document of each scenario is one of `words`."""
        self._document = words.document
        self._count = words.documents
        lengths = np.bincount(words.of, weights=words.count, minlength=self._count)
        # Of scenarios and not of documents, here and below: they are what is told apart, and two that read the same
        # may be one document or two.
        share = np.bincount(self._document[self._document >= 0], minlength=self._count)
        mean = float(lengths @ share) / max(int(share.sum()), 1)
        norm = K1 * (1 - B + B * lengths / max(mean, 1.0))
        self._number: Mapping[str, int] = {word: at for at, word in enumerate(words.texts)}
        order = np.argsort(words.word, kind="stable")
        count = words.count[order].astype(np.float64)
        self._of = words.of[order]
        having = np.bincount(words.word[order], weights=share[self._of], minlength=len(words.texts))
        scenarios = len(self._document)
        # Nothing for a word that every scenario has: it tells none from another.
        idf = (
            np.log(scenarios / np.clip(having, 1, max(scenarios, 1))) if scenarios else np.zeros(len(having))
        )
        self._value = count * (K1 + 1) / (count + norm[self._of]) * idf[words.word[order]]
        self._start = np.searchsorted(words.word[order], np.arange(len(words.texts) + 1))

    def score(self, words: Iterable[str]) -> Floats:
        """BM25 of these words against each scenario, (scenarios,), 0 where they share none."""
        total = np.zeros(self._count + 1)
        for word in words:
            at = self._number.get(word)
            if at is not None:
                part = slice(int(self._start[at]), int(self._start[at + 1]))
                total[self._of[part]] += self._value[part]
        return total[self._document]

    def shared(self, words: Iterable[str], scenario: int) -> list[str]:
        """Those of `words` that a scenario has and that tell scenarios apart, the most telling first."""
        found = []
        document = int(self._document[scenario])
        for word in words:
            at = self._number.get(word)
            if at is None:
                continue
            part = slice(int(self._start[at]), int(self._start[at + 1]))
            hit = np.flatnonzero(self._of[part] == document)
            if document >= 0 and hit.size and (value := float(self._value[part][hit[0]])) > 0:
                found.append((-value, word))
        return [word for _, word in sorted(found)]


def index_of(scenarios: Sequence[Scenario]) -> TextIndex:
    """By what each is called and how it is run: name, command, named files."""
    from tithe.data.words import gathered

    documents = [
        Counter(tokens(" ".join((s.name, *s.command, *s.files, *s.env.values())))) for s in scenarios
    ]
    return TextIndex(gathered(documents, range(len(documents))))


def words_of(change: Change) -> list[str]:
    """The distinct pieces of its paths and subject."""
    paths = (edit.path for edit in change.files[:MAX_PATHS])
    return sorted(set(tokens(" ".join((*paths, change.subject)))))


def code_words_of(change: Change) -> list[str]:
    """What it says in terms of code: functions and classes that it touches, whole and in pieces, and `words_of`."""
    symbols = " ".join(symbol for edit in change.files[:MAX_PATHS] for symbol in edit.symbols)
    text = f"{symbols} {change.subject} {change.body[:2000]}"
    return sorted({*identifiers(text), *tokens(symbols), *words_of(change)})
