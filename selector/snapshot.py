"""What goes into a snapshot and comes out of it: the model, what was learned, costs, noise, and scans of files.

`select` on a snapshot answers what it would have answered on the store at the moment of publishing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tithe.data import scan_cache
from tithe.data.codec import CodecError, from_json, to_json
from tithe.data.errors import ModelError, SnapshotError
from tithe.data.noise import Noise, Scatter
from tithe.data.records import MetricName, Observation, Scenario, ScenarioName
from tithe.data.rules import MAX_SECONDS
from tithe.data.snapshot import MEND, Manifest, SnapshotFile, pack
from tithe.selector import learned as arrays
from tithe.selector.features import State
from tithe.selector.learned import Learned
from tithe.selector.model import INFO_FILE, TREES_FILE, Model

COSTS = "costs.json"
NOISE = "noise.json"
OBSERVED = "observed.json"
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
    observations: tuple[Observation, ...] = ()
    """What launches were seen to load and open."""

    @property
    def known_at(self) -> float:
        """The time after all that it knows."""
        return float(self.learned.moment[1])

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
    observations: Mapping[ScenarioName, Sequence[Observation]],
) -> bytes:
    """The file of a snapshot.

    Args:
        state: Of the scenarios in the order of their names, past all that is known.
        model: Folder of the model in force; None for the prior.
        scans: Of the files of the last change.
        observations: What launches were seen to touch, of those that count today.

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
    if observations:
        seen = [launch for name in sorted(observations) for launch in observations[name]]
        parts[OBSERVED] = to_json(seen).encode()
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
        # Snapshots of earlier versions have none.
        seen = from_json(file.parts.get(OBSERVED, b"[]"), tuple[Observation, ...])
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
        seen,
    )
