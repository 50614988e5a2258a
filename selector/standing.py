"""What stands now: state, costs and noise of a store, kept beside it so that a `select` reads what is new alone.

A store with millions of outcomes takes a minute to learn from. What was learned is therefore kept as arrays, with the
mark up to which the store had been read. The next one goes on from there, and comes to the same numbers, to the last
bit, as one that begins anew. It begins anew by itself wherever it could not: an outcome that arrives late (it was
known before others that are learned already), a change that is said otherwise now, other scenarios or metrics that
decide, another store, arrays that are damaged or of another version. Nothing is lost with the folder.
"""

from __future__ import annotations

import math
import secrets
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np

from tithe.data import known
from tithe.data.codec import CodecError, from_json, to_json
from tithe.data.known import KnownOutcomes, Mark
from tithe.data.noise import Noise, Scatter
from tithe.data.records import Change, MetricName, Scenario, ScenarioName, Sha
from tithe.data.store import Store
from tithe.selector.features import CO_HALF_LIFE, FEATURES, MAX_TOUCHED, State
from tithe.selector.fold import Cells, Columns, from_known
from tithe.selector.history import HALF_LIVES, History
from tithe.selector.learned import Learned, Names, unfit

FOLDER = "standing"
CURRENT = "current"
INFO = "info.json"
NAMES = "names.json"
VERSION = 1
"""Of what is kept and of how it is learned: another one is not read."""
WORTH_KEEPING = 20_000
"""Outcomes or launches that are new, from which on what was learned is kept anew by itself."""
OLD_S = 600.0
ARRAYS = tuple(each.name for each in fields(Learned) if each.name != "names")
BIG = frozenset({"at", "pair", "pair_counts"})


@dataclass(frozen=True)
class _Info:
    version: int
    features: str
    gates: dict[str, tuple[str, ...]]
    """Of the scenarios that were learned of."""
    strangers: tuple[str, ...]
    """Scenarios with outcomes that were not learned of."""
    mark: Mark
    newest: float
    """When the last outcome became known."""
    changes: tuple[int, ...]
    """Numbers of the changes that outcomes are about."""
    changes_digest: str
    launches: dict[ScenarioName, tuple[int, int]]
    """Microseconds and number."""
    noise: tuple[Scatter, ...]


@dataclass(frozen=True)
class Standing:
    """What `select` needs to know of a store."""

    state: State
    launch_seconds: Mapping[ScenarioName, float]
    """Mean machine time of a launch."""
    noise: Mapping[tuple[ScenarioName, MetricName], Noise]
    """Of all hosts together."""
    newest: float
    """When the last outcome became known; -inf for none."""
    fresh: int
    """Outcomes that were not learned before."""
    rebuilt: str
    """Why it was begun anew; empty where it was not."""


Blocks = Callable[[Mapping[tuple[ScenarioName, MetricName], Noise]], Mapping[ScenarioName, float]]


def standing(
    store: Store, scenarios: Sequence[Scenario], cache: Path | None, blocks: Blocks, *, keep: bool = False
) -> Standing:
    """What stands now, of `scenarios` in the order of their names.

    Args:
        cache: Folder for what was learned; None learns all of it anew.
        blocks: Expected blocks of a decision, from the noise.
        keep: Keeps what was learned also where little is new.

    Raises:
        StoreError: The store cannot be read.
    """
    folder = cache / FOLDER if cache else None
    with store.consistent():
        info, learned, why = _load(folder)
        cells = Cells(scenarios)
        if info is not None:
            why = _unfit(store, info, scenarios)
        late = known.outcomes(store, after=info.mark.outcome if info and not why else 0)
        if info is not None and not why and len(late.rows) and not late.rows["known_at"].min() > info.newest:
            late, why = known.outcomes(store), "an outcome came late"
        if why:
            info = learned = None
        mark = known.mark(store)
        launches = _summed(store, info)
        noise = _noise(store, info, mark)
        earlier, changes = _earlier(store, info, late, cells)
        digest_of = sorted({*(info.changes if info else ()), *np.unique(late.rows["change"]).tolist()})
        digest = known.changes_digest(store, digest_of)
    history = History(
        changes,
        launch_seconds={name: total / 1e6 / count for name, (total, count) in launches.items()},
        blocks=blocks(noise),
    )
    state = State(history, scenarios, learned, later=from_known(late, cells), earlier=earlier)
    newest = max(
        float(late.rows["known_at"].max()) if len(late.rows) else -math.inf,
        info.newest if info else -math.inf,
    )
    new = max(len(late.rows), mark.launch - (info.mark.launch if info else 0))
    if folder is not None and new and (keep or why or new >= WORTH_KEEPING):
        state.advance(np.nextafter(newest, math.inf) if math.isfinite(newest) else 0.0)
        kept = _Info(
            version=VERSION,
            features=_shape(),
            gates={scenario.name: scenario.gate for scenario in scenarios},
            strangers=tuple(sorted({*(info.strangers if info else ()), *_strangers(late, scenarios)})),
            mark=mark,
            newest=newest,
            changes=tuple(digest_of),
            changes_digest=str(digest),
            launches=launches,
            noise=tuple(
                Scatter(*key, found.sd, found.df, found.location, found.trimmed, found.heavy)
                for key, found in sorted(noise.items())
            ),
        )
        with suppress(OSError):  # what cannot be kept is learned anew
            _keep(folder, kept, state.learned())
    return Standing(state, history.launch_seconds, noise, newest, len(late.rows), why)


def _earlier(
    store: Store, info: _Info | None, late: KnownOutcomes, cells: Cells
) -> tuple[Columns | None, tuple[Change, ...]]:
    """What was learned of the comparisons that are spoken of again, and the changes that are to be known."""
    if not len(late.rows):
        return None, ()
    if info is None:
        return None, tuple(store.changes(off_history=True))
    touched = np.unique(late.rows["change"]).tolist()
    before = known.outcomes_of(store, touched, last=info.mark.outcome)
    return from_known(before, cells), tuple(store.changes_named({Sha(late.texts[n]) for n in touched}))


def _summed(store: Store, info: _Info | None) -> dict[ScenarioName, tuple[int, int]]:
    sums = dict(info.launches) if info else {}
    for name, (total, count) in known.launch_sums(store, after=info.mark.launch if info else 0).items():
        before = sums.get(name, (0, 0))
        sums[name] = (before[0] + total, before[1] + count)
    return sums


def _noise(store: Store, info: _Info | None, mark: Mark) -> dict[tuple[ScenarioName, MetricName], Noise]:
    if info is None:
        return store.noise()
    found = {
        (row.scenario, row.metric): Noise(row.sd, row.df, row.location, row.trimmed, row.heavy)
        for row in info.noise
    }
    if mark.launch > info.mark.launch:
        found |= store.noise(after=info.mark.launch)
    return found


def _strangers(late: KnownOutcomes, scenarios: Sequence[Scenario]) -> set[str]:
    ours = {scenario.name for scenario in scenarios}
    return {late.texts[int(number)] for number in np.unique(late.rows["scenario"])} - ours


def _shape() -> str:
    """Of what is learned: other half-lives or features are another one."""
    return f"{len(FEATURES)} {HALF_LIVES} {CO_HALF_LIFE} {MAX_TOUCHED}"


def _unfit(store: Store, info: _Info, scenarios: Sequence[Scenario]) -> str:
    """Why what was kept is not what this store and these scenarios would be learned to; empty where it is."""
    gates = {scenario.name: scenario.gate for scenario in scenarios}
    if any(gates.get(ScenarioName(name)) != gate for name, gate in info.gates.items()):
        return "a scenario is gone, or decided otherwise"
    if gates.keys() & set(info.strangers):
        return "a scenario is new that was measured before"
    if not known.is_past(store, info.mark):
        return "it is of another store"
    if str(known.changes_digest(store, info.changes)) != info.changes_digest:
        return "a change is said otherwise"
    return ""


def _load(folder: Path | None) -> tuple[_Info | None, Learned | None, str]:
    if folder is None:
        return None, None, "nothing is kept"
    try:
        place = folder / (folder / CURRENT).read_text(encoding="ascii").strip()
        info = from_json((place / INFO).read_bytes(), _Info)
        if (info.version, info.features) != (VERSION, _shape()):
            return None, None, "it is of another version"
        names = from_json((place / NAMES).read_bytes(), Names)
        # Mapped, not read: a change touches some tens of thousands of files.
        arrays = {
            name: np.load(place / f"{name}.npy", mmap_mode="r" if name in BIG else None, allow_pickle=False)
            for name in ARRAYS
        }
    except (OSError, ValueError, CodecError, EOFError):
        return None, None, "nothing is kept that can be read"
    learned = Learned(names, **arrays)
    if unfit(learned, thorough=False):
        return None, None, "nothing is kept that can be read"
    return info, learned, ""


def _keep(folder: Path, info: _Info, learned: Learned) -> None:
    """Writes it under a name of its own and points to it: readers see the one before, or this one."""
    name = secrets.token_hex(8)
    place = folder / name
    place.mkdir(parents=True)
    try:
        for array in ARRAYS:
            np.save(place / f"{array}.npy", getattr(learned, array), allow_pickle=False)
        (place / NAMES).write_text(to_json(learned.names), encoding="utf-8")
        (place / INFO).write_text(to_json(info), encoding="utf-8")
        pointer = folder / f".{name}"
        pointer.write_text(name, encoding="ascii")
        pointer.replace(folder / CURRENT)
    except OSError:
        shutil.rmtree(place, ignore_errors=True)
        raise
    for other in folder.iterdir():
        # One that is being written, or read by somebody who has just been pointed to it, is young.
        if other.name not in (name, CURRENT) and other.stat().st_mtime < time.time() - OLD_S:
            shutil.rmtree(other, ignore_errors=True) if other.is_dir() else other.unlink(missing_ok=True)
