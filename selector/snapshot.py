"""What goes into a snapshot and comes out of it: the model, what was learned, costs, noise, and scans of files.

`select` on a snapshot answers what it would have answered on the store at the moment of publishing.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tithe.data import scan_cache
from tithe.data import words as source_words
from tithe.data.codec import CodecError, from_json, to_json
from tithe.data.errors import ModelError, SnapshotError
from tithe.data.noise import Noise, Scatter
from tithe.data.observed import Observed
from tithe.data.records import MetricName, Observation, Scenario, ScenarioName
from tithe.data.rules import MAX_SECONDS
from tithe.data.snapshot import MEND, Manifest, SnapshotFile, pack
from tithe.data.text import safe_line
from tithe.data.uses import UseColumns
from tithe.data.words import Words
from tithe.selector import learned as arrays
from tithe.selector.features import State
from tithe.selector.learned import Learned
from tithe.selector.model import INFO_FILE, TREES_FILE, Model

COSTS = "costs.json"
NOISE = "noise.json"
OBSERVED = "observed.json"
USES = "uses.npz"
WORDS = "words.npz"
SCANS = f"graph/scans-{scan_cache.VERSION}.jsonl"
MODEL = "model/"


@dataclass(frozen=True)
class Snapshot:
    """All that a machine without a store knows."""

    file: SnapshotFile
    learned: Learned
    launch_seconds: Mapping[ScenarioName, float]
    """Mean machine time of a launch."""
    noise: Mapping[tuple[ScenarioName, MetricName], Noise]
    """Of all hosts together."""
    model: Model | None
    """None where the prior serves."""
    model_fault: ModelError | None
    """Why the model that is in it cannot be used: it is of another version or feature set."""
    scans: bytes
    """Of the files of its last change, for `tithe.data.graph`."""
    observed: Observed
    """What launches were seen to load and open."""
    words: Words | None = None
    """Of the source that each scenario runs, as of its last change."""

    @property
    def known_at(self) -> float:
        """The time after all that it knows."""
        return max(float(self.learned.moment[1]), self.observed.newest)

    def foreign(self, scenarios: Sequence[Scenario]) -> bool:
        """Whether it knows scenarios, and none of these."""
        known = set(self.learned.names.scenarios)
        return bool(known) and bool(scenarios) and not known.intersection(s.name for s in scenarios)


@dataclass(frozen=True)
class Counts:
    """How much stands behind a snapshot."""

    changes: int
    outcomes: int
    tip: str = ""
    """The newest change of the main branch's history."""


def build(
    state: State,
    launch_seconds: Mapping[ScenarioName, float],
    noise: Mapping[tuple[ScenarioName, MetricName], Noise],
    model: Path | None,
    scans: bytes,
    created_at: float,
    counts: Counts,
    observed: Observed,
    words: Words | None = None,
) -> bytes:
    """The file of a snapshot.

    Args:
        state: Of the scenarios in the order of their names, past all that is known.
        model: Folder of the model in force; None for the prior.
        scans: Of the files of the last change.
        observed: What launches were seen to touch; what counts today goes into the file.
        words: Of the source that each scenario runs, as of the last change.

    Raises:
        ModelError: The model cannot be read.
    """
    scatter = [
        Scatter(*key, found.sd, found.df, found.location, found.trimmed, found.heavy)
        for key, found in sorted(noise.items())
    ]
    parts = {
        **arrays.to_parts(state.learned()),
        COSTS: to_json(dict(sorted(launch_seconds.items()))).encode(),
        NOISE: to_json(scatter).encode(),
        SCANS: scans,
    }
    launches, uses = observed.before(math.inf)
    if launches:
        parts |= {OBSERVED: to_json(launches).encode(), USES: _packed(uses)}
    if words is not None:
        parts[WORDS] = _archive(source_words.pack(words))
    version = "prior"
    if model is not None:
        version = Model.load(model).version
        parts |= {f"{MODEL}{name}": (model / name).read_bytes() for name in (INFO_FILE, TREES_FILE)}
    manifest = Manifest(
        created_at=created_at,
        tip=counts.tip,
        changes=counts.changes,
        outcomes=counts.outcomes,
        scenarios=len(state.scenarios),
        model=version,
    )
    return pack(manifest, parts)


def read(file: SnapshotFile) -> Snapshot:
    """What is in the file.

    Raises:
        SnapshotError: A part is missing, or damaged.
    """
    try:
        costs = from_json(file.part(COSTS), dict[ScenarioName, float])
        scatter = from_json(file.part(NOISE), list[Scatter])
        launches = from_json(file.parts.get(OBSERVED, b"[]"), tuple[Observation, ...])
    except CodecError as error:
        raise SnapshotError(f"is damaged: {error.what}", where=file.where, mend=MEND) from None
    if not all(0 <= seconds <= MAX_SECONDS for seconds in costs.values()):
        raise SnapshotError(f"is damaged: {COSTS} has a cost that is none", where=file.where, mend=MEND)
    if not all(
        min(row.sd, row.heavy) >= 0 and max(row.sd, row.heavy) < math.inf and 0 < row.df < math.inf
        for row in scatter
    ):
        raise SnapshotError(f"is damaged: {NOISE} has a noise that is none", where=file.where, mend=MEND)
    model = fault = None
    if file.manifest.model != "prior":
        raw, trees = (file.part(f"{MODEL}{name}") for name in (INFO_FILE, TREES_FILE))
        try:
            model = Model.parse(raw, trees, f"{file.where}: {MODEL[:-1]}")
        except ModelError as error:
            fault = ModelError(error.what, where=error.where, mend=MEND)
    return Snapshot(
        file,
        arrays.from_parts(file.part(arrays.ARRAYS), file.part(arrays.NAMES), file.where),
        costs,
        {
            (row.scenario, row.metric): Noise(row.sd, row.df, row.location, row.trimmed, row.heavy)
            for row in scatter
        },
        model,
        fault,
        file.parts.get(SCANS, b""),
        Observed(launches, _unpacked(file, len(launches)) if launches else None),
        _words(file) if WORDS in file.parts else None,
    )


def _packed(uses: UseColumns) -> bytes:
    texts = np.frombuffer(to_json(list(uses.texts)).encode(), dtype=np.uint8)
    return _archive({"texts": texts, **{name: getattr(uses, name) for name in _USES}})


def _archive(columns: dict[str, Any]) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **columns)
    return arrays.undated(buffer.getvalue())


def _words(file: SnapshotFile) -> Words:
    try:
        with np.load(io.BytesIO(file.part(WORDS)), allow_pickle=False) as stored:
            return source_words.unpack(stored)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise SnapshotError(
            f"{WORDS} cannot be read: {safe_line(str(error))}", where=file.where, mend=MEND
        ) from None


_USES = {"seen": "i4", "path": "i4", "name": "i4", "calls": "f8", "share": "f8", "own": "f8"}


def _unpacked(file: SnapshotFile, launches: int) -> UseColumns:
    try:
        with np.load(io.BytesIO(file.part(USES)), allow_pickle=False) as stored:
            texts = from_json(stored["texts"].tobytes(), tuple[str, ...])
            found = {name: stored[name] for name in _USES}
        rows = len(found["seen"])
        if any(column.shape != (rows,) or column.dtype != _USES[name] for name, column in found.items()):
            raise ValueError("its columns do not fit together")
        limits = (("seen", launches), ("path", len(texts)), ("name", len(texts)))
        if rows and any(found[name].min() < 0 or found[name].max() >= most for name, most in limits):
            raise ValueError("it refers to what is not there")
        if not all(
            np.isfinite(found[name]).all() and (found[name] >= 0).all() for name in ("calls", "share", "own")
        ):
            raise ValueError("it has a share that is none")
    except (CodecError, OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise SnapshotError(
            f"{USES} cannot be read: {safe_line(str(error))}", where=file.where, mend=MEND
        ) from None
    return UseColumns(texts, **found)
