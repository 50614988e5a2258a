"""Puts the rooms together for one repository: the only module that knows where everything of it lies.

Everything is made when it is first asked for, so that a command pays for nothing that it does not use.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from tithe.data import config as configuration
from tithe.data import paths
from tithe.data.config import Config
from tithe.data.errors import UsageError
from tithe.data.git import GitRepo
from tithe.data.records import Change, RunId, Scenario, ScenarioName, Sha

if TYPE_CHECKING:
    from tithe.data.graph import ScenarioGraph
    from tithe.data.store import Store
    from tithe.runner.local import LocalExecutor
    from tithe.selector.history import History
    from tithe.selector.model import Model


class Project(AbstractContextManager["Project"]):
    """A repository with its configuration, store, model and executor."""

    def __init__(self, start: Path, config_path: Path | None = None) -> None:
        self._start = start
        self._config_path = config_path
        self._closers: list[Callable[[], None]] = []

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._closers:
            self._closers.pop()()

    @cached_property
    def repo(self) -> GitRepo:
        """The git repository that the start folder lies in."""
        return GitRepo.open(self._start)

    @cached_property
    def config(self) -> Config:
        """tithe.toml from the work tree, never from a revision under test."""
        return configuration.load(self.repo.root, self._config_path)

    @cached_property
    def home(self) -> Path:
        """`.tithe/`, where the store, the models and the caches live."""
        return paths.home(self.repo.root)

    @cached_property
    def store(self) -> Store:
        """The store, made if there is none."""
        from tithe.data.store import Store

        store = Store.open(paths.store_path(self.repo.root))
        self._closers.append(store.close)
        return store

    @cached_property
    def executor(self) -> LocalExecutor:
        """Runs launches on this host."""
        from tithe.runner.local import LocalExecutor

        executor = LocalExecutor(self.config, self.repo)
        self._closers.append(executor.close)
        return executor

    @cached_property
    def history(self) -> History:
        """What the store knows."""
        from tithe.selector.history import History

        return History(
            changes=tuple(self.store.changes()),
            outcomes=tuple(self.store.outcomes()),
            launch_seconds=self.store.launch_seconds(),
            blocks=self._blocks(),
        )

    def _blocks(self) -> dict[ScenarioName, float]:
        """Expected blocks of a decision with nothing there, from the noise of each scenario's first gate."""
        from tithe.selector.cost import expected_blocks

        noise, decision = self.store.noise(), self.config.decision
        known = {
            scenario.name: (found.sd, found.df)
            for scenario in self.config.scenarios
            if (found := noise.get((scenario.name, scenario.gate[0]))) is not None
        }
        return expected_blocks(known, decision.wanted_effect, decision.max_blocks)

    def graph(self, change: Change) -> ScenarioGraph:
        """Which scenario reaches which file, as the revision of `change` has it."""
        from tithe.data import graph

        return graph.build(self.repo, change.sha, self.config, paths.cache_dir(self.repo.root))

    def model(self, version: str | None = None) -> Model | None:
        """The model of that version, else the promoted one; None where the prior serves or is asked for."""
        version = version or self.store.promoted()
        if version is None or version == "prior":
            return None
        known = [row.version for row in self.store.models()]
        if version not in known:
            raise UsageError(
                f"there is no model {version!r}",
                mend=f"there are {', '.join(known)}" if known else "`tithe train` trains one",
            )
        from tithe.selector.model import Model

        return Model.load(paths.models_dir(self.repo.root) / version)

    def main_branch(self) -> Sha:
        """The tip of the main branch: local, or as the remote has it."""
        try:
            return self.repo.resolve(self.config.main)
        except UsageError as error:
            with suppress(UsageError):
                return self.repo.resolve(f"origin/{self.config.main}")
            where = f"{self.config.path.name}: [tithe] main"
            raise UsageError(error.what, where=where, mend="name the branch of the history") from None

    def tip(self, head: str | None) -> Sha:
        """The revision under test: as named, else the work tree with its uncommitted changes."""
        return self.repo.resolve(head) if head is not None else self.repo.snapshot_worktree()

    def revisions(self, base: str | None, head: str | None) -> tuple[Sha, Sha]:
        """Base and head as commits.

        Head: as named, else the work tree with its uncommitted changes. Base: as named, else where head left
        the main branch; for a commit on the main branch its first parent.
        """
        tip = self.tip(head)
        if base is not None:
            return self.repo.resolve(base), tip
        fork = self.repo.merge_base(self.main_branch(), tip)
        if fork != tip:
            return fork, tip
        parent = self.repo.change(tip).parent
        if not parent:
            raise UsageError(
                "the first commit has nothing to be compared with",
                where=tip[:12],
                mend="name a --base, or commit a change",
            )
        return parent, tip

    def scenarios(self, names: Iterable[str], tier: str | None = None) -> list[Scenario]:
        """The named scenarios in that order; all of the tier (or all) where none is named."""
        chosen = [self.config.scenario(name) for name in names]
        if chosen:
            return list({scenario.name: scenario for scenario in chosen}.values())
        if not self.config.scenarios:
            raise UsageError(
                "no scenario is defined", where=str(self.config.path), mend="add a [[scenario]] table"
            )
        return [s for s in self.config.scenarios if tier is None or s.tier == tier]

    def known_at(self, head: Change) -> float:
        """The moment that features are built for: after all that the store holds, and not before `head`.

        It comes from the records and not from the clock, so that the same store and diff give the same
        selection.
        """
        outcomes = self.history.outcomes
        latest = max((outcome.known_at for outcome in outcomes), default=0.0)
        changes = self.history.changes
        return max(latest, changes[-1].time if changes else 0.0, head.time) + 1.0

    def unavailable(self, scenarios: Iterable[Scenario]) -> dict[ScenarioName, str]:
        """Scenarios that this machine cannot run, with the reason."""
        wanted = [scenario for scenario in scenarios if scenario.requires]
        if not wanted:
            return {}
        from tithe.runner.requirements import missing_modules

        return missing_modules(wanted, self.config)


def new_run_id() -> RunId:
    """Sorts by time, and no two machines draw the same."""
    return RunId(f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:8]}")
