"""What is known: of the store, or of the snapshot that stands in for it where there is none."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tithe.data import paths
from tithe.data.config import Config
from tithe.data.errors import (
    GitError,
    LocationError,
    ModelError,
    SnapshotError,
    StoreError,
    TitheError,
    UsageError,
)
from tithe.data.git import GitRepo
from tithe.data.records import Change, MetricName, RunId, Scenario, ScenarioName
from tithe.data.text import safe_line

if TYPE_CHECKING:
    from tithe.data.graph import ScenarioGraph
    from tithe.data.noise import Noise
    from tithe.data.observed import Observed
    from tithe.data.store import Store
    from tithe.selector.features import State
    from tithe.selector.history import History
    from tithe.selector.model import Model
    from tithe.selector.snapshot import Snapshot
    from tithe.selector.standing import Standing


@dataclass(frozen=True)
class Way:
    """How knowledge comes in and records go out, where there is no store to do both; empty for the store."""

    snapshot: str = ""
    """Folder or URL; the store is not read."""
    or_prior: bool = False
    """Go on with the prior where the snapshot cannot be used, and say so."""
    spool: str = ""
    """Folder or URL for bundles; the store is not written."""
    policy_from: str = ""
    """Revision whose tithe.toml says everything but the scenarios."""
    deepen: bool = False
    """Fetch as much of a shallow clone's history as is needed."""
    patch: str = ""
    """File with a diff, `-` for standard input, that the head has beside its revision."""


class House(Protocol):
    """What knowledge is of."""

    way: Way

    @property
    def repo(self) -> GitRepo: ...
    @property
    def config(self) -> Config: ...
    @property
    def store(self) -> Store: ...


class Knowledge:
    """Everything that is known about one repository, from the way that it comes in by."""

    def __init__(self, house: House) -> None:
        self._house = house

    @cached_property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that stands in for the store; None where there is none."""
        if not self._house.way.snapshot:
            return None
        from tithe.data.snapshot import fetch
        from tithe.selector import snapshot

        try:
            found = snapshot.read(fetch(self._house.way.snapshot, self._snapshots()))
            if found.foreign(self._house.config.scenarios):
                raise SnapshotError(
                    f"knows none of the scenarios of {self._house.config.path.name}",
                    where=found.file.where,
                    mend="it belongs to another project: name this one's",
                )
        except (LocationError, SnapshotError) as error:
            if not self._house.way.or_prior:
                raise
            self._noted.append(f"no snapshot: {error}")
            return None
        if found.model_fault is not None and not self._house.way.or_prior:
            raise found.model_fault
        self._noted.extend(found.file.warnings)
        if found.model_fault is not None:
            self._noted.append(f"the snapshot's model cannot be used: {found.model_fault}")
        return found

    def _snapshots(self) -> Path | None:
        """The cache of fetched snapshots; none where the disk does not allow one."""
        try:
            return paths.cache_dir(self._house.repo.root) / "snapshots"
        except StoreError:
            return None

    @cached_property
    def _noted(self) -> list[str]:
        return []

    def warnings(self) -> tuple[str, ...]:
        """What is to be said of the configuration and the snapshot as far as they were used."""
        found = list(self._noted)
        if self._house.config.unused:
            found.append(
                f"{self._house.config.path.name} differs from {self._house.way.policy_from[:40]} in "
                f"{', '.join(self._house.config.unused)}: only its scenarios count (--policy-from)"
            )
        if self._house.config.removed:
            found.append(
                f"the change removes scenarios, which are not asked: {', '.join(self._house.config.removed)}"
            )
        if self._house.config.redefined:
            found.append(f"the change redefines scenarios: {', '.join(self._house.config.redefined)}")
        return tuple(safe_line(line, limit=600) for line in found)

    @cached_property
    def history(self) -> History:
        """All that the store knows: what a model is trained on."""
        from tithe.data import known
        from tithe.selector.fold import Cells, from_known
        from tithe.selector.history import History

        store = self._house.store
        with store.consistent():
            changes = tuple(store.changes(off_history=True))
            columns = from_known(known.outcomes(store), Cells(self._scenarios()))
        return History(
            changes=changes,
            columns=columns,
            launch_seconds=self.standing.launch_seconds,
            blocks=self._blocks(self.standing.noise),
        )

    @cached_property
    def standing(self) -> Standing:
        """What stands now, of the store."""
        return self._standing(keep=False)

    def keep(self) -> None:
        """Keeps what stands now, for the next command: said by those that bring much that is new."""
        with suppress(TitheError):  # without scenarios there is nothing to keep, and no reason to fail
            self._standing(keep=True)

    def _standing(self, *, keep: bool) -> Standing:
        from tithe.selector.standing import standing

        try:
            cache = paths.cache_dir(self._house.repo.root)
        except StoreError:
            cache = None
        return standing(self._house.store, self._scenarios(), cache, self._blocks, keep=keep)

    def _scenarios(self) -> list[Scenario]:
        return sorted(self._house.config.scenarios, key=lambda scenario: scenario.name)

    def state(self) -> State:
        """What was learned, for the scenarios of the configuration in order of their names."""
        from tithe.selector.features import State
        from tithe.selector.history import History

        if not self._house.way.snapshot:
            return self.standing.state
        known = self.snapshot
        history = History(
            launch_seconds=known.launch_seconds if known else {},
            blocks=self._blocks(known.noise if known else {}),
        )
        return State(history, self._scenarios(), known.learned if known else None)

    def noise(self, host: str, run: RunId) -> Mapping[tuple[ScenarioName, MetricName], Noise]:
        """Scatter of the block statistic on this host before `run`; a snapshot has that of all hosts."""
        if self._house.way.snapshot:
            return self.snapshot.noise if self.snapshot else {}
        return self._house.store.noise(host=host, without=run)

    def _blocks(self, noise: Mapping[tuple[ScenarioName, MetricName], Noise]) -> dict[ScenarioName, float]:
        """Expected blocks of a decision with nothing there, from the noise of each scenario's first gate."""
        from tithe.selector.cost import expected_blocks

        decision = self._house.config.decision
        known = {
            scenario.name: (found.sd, found.df)
            for scenario in self._house.config.scenarios
            if (found := noise.get((scenario.name, scenario.gate[0]))) is not None
        }
        return expected_blocks(known, decision.wanted_effect, decision.max_blocks)

    def observed(self, paths: Collection[str] | None = None) -> Observed:
        """What launches were seen to load and open, as far as it counts today.

        Args:
            paths: Files whose functions are wanted; all if not given.
        """
        from tithe.data.observed import LAUNCHES, Observed

        if not self._house.way.snapshot:
            return Observed(*self._house.store.observations(LAUNCHES, paths))
        return self.snapshot.observed if self.snapshot else Observed(())

    @cached_property
    def _observed_ever(self) -> Observed:
        """The same of all times, for the graphs of the past."""
        from tithe.data.observed import Observed

        return self.observed() if self._house.way.snapshot else Observed(*self._house.store.observations())

    def graph(self, change: Change) -> ScenarioGraph:
        """Which scenario reaches which file, as the revision of `change` has it and as far as is known today.

        A diff that was tested on another machine may not be here: its base's graph stands in.
        """
        paths = {path for edit in change.files for path in (edit.path, edit.old_path) if path}
        return self.observed(paths).overlay(self._graph(change), math.inf)

    def graph_then(self, change: Change) -> ScenarioGraph:
        """`graph` as it was when `change` came."""
        return self._observed_ever.overlay(self._graph(change), change.time)

    def _graph(self, change: Change) -> ScenarioGraph:
        from tithe.data import graph

        cache = paths.cache_dir(self._house.repo.root)
        scans, words = (self.snapshot.scans, self.snapshot.words) if self.snapshot else (b"", None)
        builder = graph.GraphBuilder(self._house.repo, self._house.config, cache, scans=scans, words=words)
        try:
            found = builder.build(change.sha)
        except GitError:
            if change.index >= 0:
                raise
            return builder.build(change.parent)
        # The base's graph is a second one to build, and most changes take no file away.
        if change.parent and (missing := graph.gone(change, found)):
            with suppress(GitError):  # the first commit of a shallow clone has a parent that is not here
                found = graph.with_gone(found, builder.build(change.parent), missing)
        return found

    def incumbent(self) -> tuple[Model | None, str]:
        """The promoted model, and why it cannot be used if it cannot: a new one need not beat that."""
        try:
            return self.model(), ""
        except ModelError as error:
            return None, f"the promoted model cannot be used, and is compared with nothing: {error}"

    def model(self, version: str | None = None) -> Model | None:
        """The model of that version, else the promoted one; None where the prior serves or is asked for."""
        if version == "prior":
            return None
        if self._house.way.snapshot:
            model = self.snapshot.model if self.snapshot else None
            if version is not None and (model is None or model.version != version):
                had = model.version if model else "none"
                raise UsageError(f"the snapshot has no model {version!r}", mend=f"it has {had}")
            return model
        version = version or self._house.store.promoted()
        if version is None:
            return None
        known = [row.version for row in self._house.store.models()]
        if version not in known:
            raise UsageError(
                f"there is no model {version!r}",
                mend=f"there are {', '.join(known)}" if known else "`tithe train` trains one",
            )
        from tithe.selector.model import Model

        return Model.load(paths.models_dir(self._house.repo.root) / version)

    def known_at(self, head: Change) -> float:
        """The moment that features are built for: after all that the store holds, and not before `head`.

        It comes from the records and not from the clock, so that the same store and diff give the same
        selection.
        """
        if self._house.way.snapshot:
            return max(self.snapshot.known_at if self.snapshot else 0.0, head.time) + 1.0
        return max(self.latest, head.time) + 1.0

    @property
    def latest(self) -> float:
        """The time of the newest record in the store that features are made of; 0 where there is none."""
        from tithe.data.known import latest_change

        store = self._house.store
        return max(self.standing.newest, latest_change(store), store.last_observed(), 0.0)
