"""What a `State` has learned, as arrays that travel: written once a week, read by every `select` without a store.

What happened beside a touched file is nearly always nothing for nearly every scenario, so it is kept by key with
the scenarios that were measured, and spread out for the few keys that a change asks for.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tithe.data.codec import CodecError, from_json, to_json
from tithe.data.errors import SnapshotError
from tithe.data.rules import MAX_TIME
from tithe.data.snapshot import MEND
from tithe.data.text import safe_line
from tithe.selector.history import HALF_LIVES

ARRAYS = "state/arrays.npz"
NAMES = "state/names.json"

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


@dataclass
class Together:
    """What happened to every scenario when one file or folder was touched."""

    tick: int
    failing: Floats
    """(scenarios,), decayed and shared among the files of each change."""
    measured: Floats
    failures: Ints
    """(scenarios,), plain counts, for people."""
    changes: Ints


@dataclass(frozen=True)
class Names:
    """The words that the arrays are indexed by."""

    scenarios: tuple[str, ...]
    keys: tuple[str, ...]
    """Files, and folders with a slash at the end."""
    authors: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Learned:
    """A state as of a moment; s scenarios, k keys, n pairs of key and scenario, a authors.

    Attributes:
        moment: (2,) measured changes so far, and the time after all that is known.
        failing, measured: (half-lives, s). last_failure: (s,), -inf for never. counts: (2, s) failures and
            changes measured.
        start: (k + 1,) where each key's pairs begin. at: (n,) scenario. pair: (2, n) failing and measured.
            pair_counts: (2, n) failures and changes. tick: (k,).
        authors: (a, 2) faulty changes, changes.
    """

    names: Names
    moment: Floats
    failing: Floats
    measured: Floats
    last_failure: Floats
    counts: Ints
    start: NDArray[np.int64]
    at: Ints
    pair: Floats
    pair_counts: Ints
    tick: NDArray[np.int64]
    authors: Floats

    @cached_property
    def row(self) -> Mapping[str, int]:
        """Key to its number."""
        return {key: at for at, key in enumerate(self.names.keys)}

    def places(self, scenarios: Sequence[str]) -> NDArray[np.intp]:
        """(s,), where each scenario stands in `scenarios`; -1 for one that is not there."""
        index = {name: at for at, name in enumerate(scenarios)}
        return np.array([index.get(name, -1) for name in self.names.scenarios], dtype=np.intp)

    def part(self, row: int) -> slice:
        """Where the pairs of a key stand."""
        return slice(int(self.start[row]), int(self.start[row + 1]))

    def together(self, key: str, places: NDArray[np.intp], count: int) -> Together | None:
        """What is known of a key, spread over `count` scenarios at `places`; None if nothing is."""
        row = self.row.get(key)
        if row is None:
            return None
        part = self.part(row)
        at = self.at[part]
        if at.size and (at.min() < 0 or at.max() >= len(places)):
            return None  # a damaged file: as if nothing was known of it
        to = places[at]
        known = to >= 0
        floats, ints = np.zeros((2, count)), np.zeros((2, count), dtype=np.int32)
        floats[:, to[known]] = self.pair[:, part][:, known]
        ints[:, to[known]] = self.pair_counts[:, part][:, known]
        return Together(int(self.tick[row]), floats[0], floats[1], ints[0], ints[1])


_BEYOND = (OverflowError, RecursionError, MemoryError)
"""What numpy raises at a header that asks for more than there is."""
_SHAPES = {
    "moment": (np.float64, 1),
    "failing": (np.float64, 2),
    "measured": (np.float64, 2),
    "last_failure": (np.float64, 1),
    "counts": (np.int32, 2),
    "start": (np.int64, 1),
    "at": (np.int32, 1),
    "pair": (np.float64, 2),
    "pair_counts": (np.int32, 2),
    "tick": (np.int64, 1),
    "authors": (np.float64, 2),
}


def gather(
    scenarios: Sequence[str],
    keys: Mapping[str, Together],
    authors: Mapping[str, Sequence[float]],
    before: Learned | None = None,
    places: NDArray[np.intp] | None = None,
) -> tuple[Names, dict[str, NDArray[np.float64] | NDArray[np.int64] | NDArray[np.int32]]]:
    """The names, and the arrays of keys and authors, in an order that no input order moves.

    Keys that are not in `keys` are as they were `before`, whose scenarios stand at `places` now.
    """
    told = sorted(authors)
    at, pair, plain, ticks = [], [], [], []
    known = before.row if before is not None else {}
    ordered = sorted({*keys, *known})
    for key in ordered:
        own = keys.get(key)
        if own is not None:
            to = np.flatnonzero(own.changes)
            at.append(to)
            pair.append(np.stack([own.failing[to], own.measured[to]]))
            plain.append(np.stack([own.failures[to], own.changes[to]]))
            ticks.append(own.tick)
            continue
        assert before is not None  # noqa: S101 - it is the only other place that a key comes from
        assert places is not None  # noqa: S101 - given together
        part = before.part(known[key])
        to = places[before.at[part]]
        kept = to >= 0
        at.append(to[kept])
        pair.append(before.pair[:, part][:, kept])
        plain.append(before.pair_counts[:, part][:, kept])
        ticks.append(int(before.tick[known[key]]))
    return Names(tuple(scenarios), tuple(ordered), tuple(told)), {
        "start": np.concatenate([[0], np.cumsum([len(to) for to in at])]).astype(np.int64),
        "at": np.concatenate(at).astype(np.int32) if at else np.zeros(0, np.int32),
        "pair": np.concatenate(pair, axis=1).astype(np.float64) if pair else np.zeros((2, 0)),
        "pair_counts": np.concatenate(plain, axis=1).astype(np.int32)
        if plain
        else np.zeros((2, 0), np.int32),
        "tick": np.array(ticks, dtype=np.int64),
        "authors": np.array([authors[name] for name in told], dtype=np.float64).reshape(len(told), 2),
    }


def to_parts(learned: Learned) -> dict[str, bytes]:
    """The parts of a snapshot."""
    buffer = io.BytesIO()
    np.savez(buffer, **{name: getattr(learned, name) for name in _SHAPES})
    return {ARRAYS: undated(buffer.getvalue()), NAMES: to_json(learned.names).encode()}


def from_parts(arrays: bytes, names: bytes, where: str) -> Learned:
    """What `to_parts` wrote.

    Raises:
        SnapshotError: Something is missing, or does not fit together.
    """
    try:
        known = from_json(names, Names)
        with np.load(io.BytesIO(arrays), allow_pickle=False) as stored:
            found = {name: stored[name] for name in _SHAPES}
    except (CodecError, OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, *_BEYOND) as error:
        raise SnapshotError(
            f"{ARRAYS} cannot be read: {safe_line(str(error))}", where=where, mend=MEND
        ) from None
    learned = Learned(known, **found)
    wrong = unfit(learned)
    if wrong:
        raise SnapshotError(f"{ARRAYS} does not fit together: {wrong}", where=where, mend=MEND)
    return learned


def unfit(learned: Learned, *, thorough: bool = True) -> str:
    """Which array does not fit the others; empty where all do.

    Without `thorough` the pairs are not looked at: they may be many, and `together` looks at those that it takes.
    """
    scenarios, keys, pairs = len(learned.names.scenarios), len(learned.names.keys), learned.at.size
    shapes = {
        "moment": (2,),
        "failing": (len(HALF_LIVES), scenarios),
        "measured": (len(HALF_LIVES), scenarios),
        "last_failure": (scenarios,),
        "counts": (2, scenarios),
        "start": (keys + 1,),
        "at": (pairs,),
        "pair": (2, pairs),
        "pair_counts": (2, pairs),
        "tick": (keys,),
        "authors": (len(learned.names.authors), 2),
    }
    for name, shape in shapes.items():
        array = getattr(learned, name)
        if array.dtype != _SHAPES[name][0] or array.shape != shape:
            return str(name)
    for name in ("moment", "failing", "measured", "authors", *(("pair",) if thorough else ())):
        if not np.isfinite(getattr(learned, name)).all():
            return str(name)
    # The decayed sums may be a little below nothing: a correction takes away what had faded meanwhile.
    for name in ("moment", "counts", "tick", "authors", *(("pair_counts",) if thorough else ())):
        if (getattr(learned, name) < 0).any():
            return f"{name} is negative"
    if learned.moment[1] > MAX_TIME:
        return "moment is no time"
    if np.isnan(learned.last_failure).any():
        return "last_failure"
    start = learned.start
    if start[0] != 0 or start[-1] != pairs or (np.diff(start) < 0).any():
        return "start"
    if thorough and pairs and (learned.at.min() < 0 or learned.at.max() >= scenarios):
        return "at"
    return ""


def undated(raw: bytes) -> bytes:
    """The same archive without the moment that it was written: equal arrays are equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as before, zipfile.ZipFile(buffer, "w") as after:
        for entry in before.infolist():
            after.writestr(zipfile.ZipInfo(entry.filename), before.read(entry))
    return buffer.getvalue()
