"""The words of code: identifiers and their pieces, and which of them a scenario's own source has.

A scenario that runs one class of a long file of benchmarks is about that class: where its name or command names
functions or classes of the file, the words are theirs and those that stand outside of any; else the whole file's.
"""

from __future__ import annotations

import ast
import hashlib
import re
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_BYTES = 1_000_000
MAX_PART = 2_000
"""Distinct words of one part of a file."""
MAX_WORDS, MIN_WORDS, WORDS_OF_ALL = 600, 50, 2_000_000
"""Of a document, of a document where there are many, and of all."""
MAX_TEXTS = 2**28
LONG = 8
"""Letters of a name that says much."""
OUTSIDE = ""
"""The part of a file that stands in no function or class."""

_SPLIT = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]+")
_STOP = frozenset(
    _SPLIT.findall(
        "a an and as at by for from in into is it no not of on or that the this to with "
        "py toml yaml yml json cfg ini txt md src lib init main test tests python "
        "def class self cls return import if else elif try except raise none true false lambda yield pass "
        "while break continue global assert del async await str int float list dict tuple set len range print"
    )
)

_COLUMNS = {"key": "u8", "document": "i4", "of": "i4", "word": "i4", "count": "f4"}

Parts = Mapping[str, Mapping[str, int]]
"""Of one file: qualified name of a function, method or class (without its methods) to its words and their counts."""


def tokens(text: str) -> list[str]:
    """Lower-case pieces of the identifiers in `text`, a plural without its s; single letters are dropped."""
    found = []
    for piece in _SPLIT.findall(text):
        word = piece.lower()
        if len(word) < 2 or word in _STOP:
            continue
        found.append(word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word)
    return found


def identifiers(text: str) -> list[str]:
    """Whole identifiers of more than one piece, in lower case, without underscores at either end."""
    found = []
    for name in _NAME.findall(text):
        whole = name.strip("_").lower()
        if len(_SPLIT.findall(name)) > 1:
            found.append(whole)
    return found


def words(text: str) -> list[str]:
    """`identifiers` and `tokens`."""
    return [*identifiers(text), *tokens(text)]


def parts_of(source: bytes) -> Parts:
    """The parts of a Python file; one that does not parse is one part."""
    if len(source) > MAX_BYTES:
        return {}
    text = source.decode("utf-8", "replace")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {OUTSIDE: _counted(text)}
    lines = text.splitlines()
    outside, found = [True] * len(lines), dict[str, Mapping[str, int]]()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = [
                child for child in node.body if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
            ]
            methods = inner if isinstance(node, ast.ClassDef) else []
            own = set(_lines(node))
            for method in methods:
                of = set(_lines(method))
                found[f"{node.name}.{method.name}"] = _counted(_text(lines, of))
                own -= of
            found[node.name] = _counted(_text(lines, own))
            for at in _lines(node):
                if at < len(outside):
                    outside[at] = False
    found[OUTSIDE] = _counted("\n".join(line for line, kept in zip(lines, outside, strict=True) if kept))
    return found


def _lines(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> range:
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return range(first - 1, node.end_lineno or node.lineno)


def _text(lines: Sequence[str], numbers: Iterable[int]) -> str:
    return "\n".join(lines[at] for at in sorted(numbers) if at < len(lines))


def _counted(text: str) -> Mapping[str, int]:
    counts = Counter(words(text))
    return (
        dict(sorted(counts.most_common(MAX_PART))) if len(counts) > MAX_PART else dict(sorted(counts.items()))
    )


def of_scenario(parts: Parts, named: Iterable[str]) -> Counter[str]:
    """The words of those parts that `named` (whole identifiers of the scenario's name and command) names, or of all.

    Of a class that is named with some of its methods, these and what stands outside of its methods; of one that is
    named alone, all of it.
    """
    wanted = frozenset(named)
    classes = {name.split(".")[0] for name in parts if "." in name}
    chosen = {name for name in parts if name and "." not in name and name in wanted}
    for name in parts:
        owner, dot, method = name.partition(".")
        if dot and owner in chosen:
            some = any(
                m in wanted for o, _, m in (other.partition(".") for other in parts) if o == owner and m
            )
            if method in wanted or not some or method.startswith(("setup", "__init__")):
                chosen.add(name)
        elif dot and method in wanted and owner in classes and owner not in wanted and len(method) > 6:
            chosen |= {name, owner}
    total: Counter[str] = Counter()
    for name in sorted(chosen) or sorted(parts):
        total.update(parts[name])
    if chosen:
        total.update(parts.get(OUTSIDE, {}))
    return total


@dataclass(frozen=True, eq=False)
class Words:
    """The words of some documents, as rows of (document, word, count); and which document each scenario has.

    Attributes:
        texts: The words, in order.
        key: (scenarios,), what the document of each follows from: where two are equal, so are their documents.
        document: (scenarios,), -1 for one without source.
        of, word, count: (n,), by document and word.
    """

    texts: tuple[str, ...]
    key: NDArray[np.uint64]
    document: NDArray[np.int32]
    of: NDArray[np.int32]
    word: NDArray[np.int32]
    count: NDArray[np.float32]

    @property
    def documents(self) -> int:
        return int(self.document.max()) + 1 if len(self.document) else 0


def none() -> Words:
    """Of no scenario."""
    return gathered((), ())


def cap(scenarios: int) -> int:
    """How many words a document may have: 10⁵ scenarios fit into memory too. A power of two, so that it is steady."""
    return 1 << (max(MIN_WORDS, min(MAX_WORDS, WORDS_OF_ALL // max(scenarios, 1))).bit_length() - 1)


def telling(counts: Mapping[str, int], most: int) -> Mapping[str, int]:
    """The `most` words that say most: long ones are names that few have, then those that are often there."""
    if len(counts) <= most:
        return counts
    chosen = sorted(counts, key=lambda word: (len(word) < LONG, -counts[word], word))[:most]
    return {word: counts[word] for word in chosen}


def key_of(*parts: object) -> int:
    """64 bits of what a document follows from."""
    return int.from_bytes(hashlib.blake2b(repr(parts).encode(), digest_size=8).digest(), "little")


def gathered(
    documents: Sequence[Mapping[str, int]], document: Sequence[int], key: Sequence[int] | None = None
) -> Words:
    """Documents in columns.

    Args:
        document: (scenarios,), which is that of each.
        key: (scenarios,), see `Words`; nothing is to be kept if not given.
    """
    texts = sorted({word for one in documents for word in one})
    number = {word: at for at, word in enumerate(texts)}
    ordered = [sorted(one) for one in documents]
    return Words(
        tuple(texts),
        np.array(key if key is not None else [0] * len(document), dtype=np.uint64),
        np.array(document, dtype=np.int32),
        np.repeat(np.arange(len(documents), dtype=np.int32), [len(one) for one in ordered]),
        np.array([number[word] for one in ordered for word in one], dtype=np.int32),
        np.array(
            [one[w] for one, names in zip(documents, ordered, strict=True) for w in names], dtype=np.float32
        ),
    )


def found_in(earlier: Words, key: NDArray[np.uint64]) -> NDArray[np.intp]:
    """(scenarios,), where `earlier` has what this key stands for; -1 where it has not."""
    if not len(earlier.key):
        return np.full(len(key), -1, dtype=np.intp)
    order = np.argsort(earlier.key, kind="stable")
    at = np.minimum(np.searchsorted(earlier.key[order], key), len(order) - 1)
    return np.where(earlier.key[order][at] == key, order[at], -1)


def joined(earlier: Words, fresh: Words) -> Words:
    """`fresh`, where the documents of scenarios whose `document` is -1 there come from `earlier`, if it has them."""
    at = found_in(earlier, fresh.key)
    old = np.where((fresh.document < 0) & (at >= 0), earlier.document[at] if len(earlier.key) else -1, -1)
    kept = np.unique(old[old >= 0])
    if not len(fresh.of) and len(kept) == earlier.documents and np.array_equal(fresh.key, earlier.key):
        return earlier
    place = np.full(max(earlier.documents, 1), -1, dtype=np.int32)
    place[kept] = fresh.documents + np.arange(len(kept), dtype=np.int32)
    rows = place[earlier.of] >= 0
    used = np.unique(earlier.word[rows])
    texts = sorted({*fresh.texts, *(earlier.texts[word] for word in used.tolist())})
    number = {word: at for at, word in enumerate(texts)}
    renamed = np.zeros(len(earlier.texts), dtype=np.int32)
    renamed[used] = [number[earlier.texts[word]] for word in used.tolist()]
    own = np.array([number[word] for word in fresh.texts], dtype=np.int32)
    return Words(
        tuple(texts),
        fresh.key,
        np.where(old >= 0, place[old], fresh.document).astype(np.int32),
        np.concatenate([fresh.of, place[earlier.of[rows]]]),
        np.concatenate([own[fresh.word], renamed[earlier.word[rows]]]),
        np.concatenate([fresh.count, earlier.count[rows]]),
    )


def pack(words: Words) -> dict[str, NDArray[Any]]:
    """Arrays for a file; `unpack` is the way back."""
    columns = {name: getattr(words, name) for name in _COLUMNS}
    return {"texts": np.frombuffer("\n".join(words.texts).encode(), dtype=np.uint8), **columns}


def unpack(stored: Mapping[str, NDArray[Any]]) -> Words:
    """What `pack` gave.

    Raises:
        ValueError: The arrays do not fit together.
        KeyError: One is missing.
    """
    raw = stored["texts"].tobytes()
    if len(raw) > MAX_TEXTS:
        raise ValueError("too many words")
    texts = tuple(raw.decode().split("\n")) if raw else ()
    found = {name: stored[name] for name in _COLUMNS}
    if any(column.dtype != _COLUMNS[name] or column.ndim != 1 for name, column in found.items()):
        raise ValueError("its columns are of other types")
    words = Words(texts, **found)
    if len(words.key) != len(words.document) or not len(words.of) == len(words.word) == len(words.count):
        raise ValueError("its columns do not fit together")
    bounds = ((words.of, 0, words.documents), (words.word, 0, len(texts)), (words.document, -1, 2**31 - 1))
    if any(len(column) and (column.min() < least or column.max() >= end) for column, least, end in bounds):
        raise ValueError("it refers to what is not there")
    if not (np.isfinite(words.count).all() and (words.count >= 0).all() and (np.diff(words.of) >= 0).all()):
        raise ValueError("it has a count that is none")
    return words
