"""What the store knows in columns: for histories of millions of outcomes, and for what came since a moment.

A record each would take a hundred times the memory and the time. Texts stay the numbers by which the store knows
them; `texts` says what they mean.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from tithe.data.errors import StoreError
from tithe.data.records import STRENGTH, ScenarioName, VerdictName
from tithe.data.store import Store

VERDICTS: tuple[str, ...] = tuple(sorted(get_args(VerdictName)))
"""By the numbers in the columns, in which they also sort."""
SOURCES: tuple[str, ...] = tuple(sorted(STRENGTH))

_ROW = np.dtype(
    [
        ("id", np.int64),
        ("base", np.int32),
        ("change", np.int32),
        ("scenario", np.int32),
        ("metric", np.int32),
        ("run", np.int32),
        ("verdict", np.int8),
        ("source", np.int8),
        ("known_at", np.float64),
        ("confidence", np.float64),
        ("weight", np.float64),
    ]
)


def _numbered(column: str, names: Iterable[str]) -> str:
    cases = " ".join(f"WHEN '{name}' THEN {number}" for number, name in enumerate(names))
    return f"CASE {column} {cases} ELSE -1 END"


_SELECT = f"""
SELECT id, base_id, change_id, scenario_id, metric_id, run_id, {_numbered("verdict", VERDICTS)},
    {_numbered("source", SOURCES)}, known_at, confidence, weight
FROM outcome
"""  # noqa: S608 - of names that stand above
_OF_CHANGES = " WHERE change_id IN (SELECT value FROM json_each(:changes)) AND id <= :last"
_SAMPLED = 16


@dataclass(frozen=True, eq=False)
class KnownOutcomes:
    """Outcomes, (n,) structured: id, base, change, scenario, metric and run by the store's numbers for their
    texts; verdict and source by those of `VERDICTS` and `SOURCES`; known_at, confidence, weight. In the order in
    which they became known; what became known at once is ordered by the texts, so that no store differs from
    another one that holds the same.
    """

    rows: NDArray[np.void]
    texts: Mapping[int, str]
    """Of all but ids."""


def outcomes(store: Store, *, after: int = 0) -> KnownOutcomes:
    """The outcomes that were added after the one whose number is `after`; all of them for 0."""
    return _read(store, f"{_SELECT} WHERE id > :after", {"after": after})


def outcomes_of(store: Store, changes: Collection[int], *, last: int) -> KnownOutcomes:
    """Those about any of `changes` (by number), up to the one whose number is `last`."""
    return _read(
        store, _SELECT + _OF_CHANGES, {"changes": json.dumps(sorted(int(c) for c in changes)), "last": last}
    )


def _read(store: Store, query: str, given: Mapping[str, object]) -> KnownOutcomes:
    with store.reading() as connection:
        rows = np.fromiter(connection.execute(query, given), dtype=_ROW)
        names = ("base", "change", "scenario", "metric", "run")
        numbers = np.unique(np.concatenate([np.unique(rows[name]) for name in names]))
        found = connection.execute(
            "SELECT id, text FROM word WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(numbers.tolist()),),
        )
        texts = dict(found.fetchall())
    if len(rows) and (rows["verdict"].min() < 0 or rows["source"].min() < 0):
        raise StoreError(
            "holds an outcome of an unknown verdict or source",
            where=str(store.path),
            mend="upgrade tithe, or see `tithe db check`",
        )
    rank = np.zeros(int(numbers.max()) + 1 if len(numbers) else 1, dtype=np.int32)
    rank[sorted(texts, key=lambda number: texts[number])] = np.arange(len(texts))
    # The last key counts first; the same order as that of `selector.history.in_order`.
    keys = (rows["verdict"], rank[rows["run"]], rank[rows["base"]], rank[rows["metric"]])
    order = np.lexsort((*keys, rank[rows["scenario"]], rank[rows["change"]], rows["known_at"]))
    return KnownOutcomes(rows[order], texts)


@dataclass(frozen=True)
class Mark:
    """How far a store has been read. Records are only ever added, and each gets the next number."""

    outcome: int = 0
    launch: int = 0
    sampled: tuple[tuple[int, int], ...] = ()
    """Numbers and digests of some outcomes: another store, or one that was brought back from a backup, has others."""


def mark(store: Store) -> Mark:
    """Where the store ends now."""
    with store.reading() as connection:
        last = connection.execute("SELECT COALESCE(MAX(id), 0) FROM outcome").fetchone()[0]
        launch = connection.execute("SELECT COALESCE(MAX(id), 0) FROM launch").fetchone()[0]
    wanted = sorted({max(1, last * n // _SAMPLED) for n in range(_SAMPLED + 1)}) if last else []
    return Mark(last, launch, _digests(store, wanted))


def is_past(store: Store, earlier: Mark) -> bool:
    """Whether the store holds all that it held at `earlier`."""
    now = mark(store)
    if now.outcome < earlier.outcome or now.launch < earlier.launch:
        return False
    return _digests(store, [number for number, _ in earlier.sampled]) == earlier.sampled


def _digests(store: Store, numbers: Collection[int]) -> tuple[tuple[int, int], ...]:
    with store.reading() as connection:
        rows = connection.execute(
            "SELECT id, digest FROM outcome WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
            (json.dumps(list(numbers)),),
        )
        return tuple((int(number), int(digest)) for number, digest in rows)


def changes_digest(store: Store, changes: Collection[int]) -> int:
    """Of what the store says about these changes (by number): another one when any of them is said otherwise, or
    becomes known at all."""
    with store.reading() as connection:
        rows = connection.execute(
            "SELECT SUM(digest % 1000003), SUM(digest % 998244353), COUNT(*) FROM change "
            "WHERE sha_id IN (SELECT value FROM json_each(?))",
            (json.dumps(sorted(int(c) for c in changes)),),
        ).fetchone()
    return int(rows[0] or 0) * 2**70 + int(rows[1] or 0) * 2**24 + int(rows[2])


def launch_sums(store: Store, *, after: int = 0) -> dict[ScenarioName, tuple[int, int]]:
    """Machine time in microseconds and number of the launches that were added after `after`, warm-ups left out."""
    with store.reading() as connection:
        rows = connection.execute(
            "SELECT w.text, m.microseconds, m.launches FROM ("
            " SELECT scenario_id, SUM(CAST(ROUND(seconds * 1e6) AS INTEGER)) AS microseconds, COUNT(*) AS launches"
            " FROM launch WHERE id > ? AND stage <> 'warmup' GROUP BY scenario_id"
            ") m JOIN word w ON w.id = m.scenario_id",
            (after,),
        ).fetchall()
    return {ScenarioName(name): (int(total), int(count)) for name, total, count in rows}


def latest_change(store: Store) -> float:
    """The time of the newest change, on history or not; -inf where there is none."""
    with store.reading() as connection:
        (found,) = connection.execute("SELECT MAX(time) FROM change").fetchone()
    return -math.inf if found is None else float(found)
