"""Puts the rooms together for one repository: the only module that knows where everything of it lies.

Everything is made when it is first asked for, so that a command pays for nothing that it does not use.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, TypeVar

import click

from tithe.data import config as configuration
from tithe.data import paths
from tithe.data.config import Config
from tithe.data.errors import UsageError
from tithe.data.git import GitRepo
from tithe.data.records import (
    ArmName,
    Change,
    Launch,
    Outcome,
    RunId,
    RunRecord,
    Scenario,
    ScenarioName,
    Selection,
    Sha,
    Variant,
)
from tithe.data.text import safe_line
from tithe.knowledge import Knowledge, Way

if TYPE_CHECKING:
    from tithe.data.outbox import Outbox
    from tithe.data.store import Store
    from tithe.runner.local import LocalExecutor
    from tithe.runner.resume import OpenRun

T = TypeVar("T")

OUTBOX = "outbox"
"""Folder below `.tithe/` for records that are on their way to a spool."""
STOPPED = "stopped; what was finished goes to the spool, and the same command begins anew"


class Records(Protocol):
    """Where what was measured goes: the store, or an outbox on the way to one."""

    def add_run(self, run: RunRecord) -> None: ...
    def add_launches(self, launches: Iterable[Launch]) -> object: ...
    def add_outcomes(self, outcomes: Iterable[Outcome]) -> object: ...
    def add_changes(self, changes: Iterable[Change]) -> object: ...
    def add_selection(self, selection: Selection, created_at: float) -> None: ...


class Project(AbstractContextManager["Project"]):
    """A repository with its configuration, store (or snapshot and spool), model and executor."""

    def __init__(self, start: Path, config_path: Path | None = None, way: Way | None = None) -> None:
        self._start = start
        self._config_path = config_path
        self.way = way or Way()
        self._closers: list[Callable[[], None]] = []
        self._outbox: Outbox | None = None
        self.undelivered = False
        """Whether records could not be brought to the spool."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            spooling = self._outbox is not None
            for line in self.deliver():
                click.echo(f"tithe: {line}", err=True)
            if spooling and isinstance(error, KeyboardInterrupt):
                # What was sent is not here any more to go on from; see `open_run`.
                raise KeyboardInterrupt(STOPPED)
        finally:
            while self._closers:
                self._closers.pop()()

    @cached_property
    def repo(self) -> GitRepo:
        """The git repository that the start folder lies in."""
        repo = GitRepo.open(self._start)
        self._own_home(repo)
        return repo

    @staticmethod
    def _own_home(repo: GitRepo) -> None:
        """Refuses a checkout that brings tithe's own folder: a store, models and records that anybody made up."""
        if os.path.lexists(repo.root / paths.HOME) and (found := repo.tracked(paths.HOME)):
            raise UsageError(
                f"{paths.HOME} belongs to tithe on this machine, and the checkout's commit brings "
                f"{safe_line(found, limit=100)}",
                where=safe_line(str(repo.root), limit=300),
                mend=f"take it out of the repository: git rm -r --cached {paths.HOME}",
            )

    @cached_property
    def config(self) -> Config:
        """tithe.toml from the work tree, never from a revision under test; see `Way.policy_from`."""
        policy = self._policy if self.way.policy_from else None
        return configuration.load(self.repo.root, self._config_path, policy=policy)

    def _policy(self, path: str) -> tuple[str, str]:
        revision = self._deepened(lambda: self.repo.resolve(self.way.policy_from), self.way.policy_from)
        content = self.repo.content(revision, path)
        shown = f"{path} of {revision[:10]}"
        if content is None:
            mend = (
                "leave out --policy-from for a change that is trusted, such as the one that brings the file"
            )
            raise UsageError("there is no such file", where=shown, mend=mend)
        return shown, content.decode("utf-8-sig", "replace")

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

    def executor_of(self, variants: Mapping[ArmName, Variant]) -> LocalExecutor:
        """Runs launches of arms that differ in more than their revisions."""
        from tithe.runner.local import LocalExecutor

        executor = LocalExecutor(self.config, self.repo, variants)
        self._closers.append(executor.close)
        return executor

    def open_run(
        self,
        kind: str,
        base: Sha,
        head: Sha,
        seed: int,
        scenarios: Iterable[Scenario],
        executor: LocalExecutor | None = None,
    ) -> tuple[OpenRun | None, RunId, list[Launch]]:
        """A new run, or one of the same that was broken off, with what it has recorded.

        `kind` says all that makes two runs the same, beside the rest.

        A run whose records go to a spool is always new: they are sent on, and not kept.
        """
        if self.way.spool:
            return None, new_run_id(), []
        from tithe.runner.resume import OpenRun, key_of

        host = (executor or self.executor).host
        key = key_of(kind, base, head, seed, host, self.config.decision)
        opened = OpenRun(paths.cache_dir(self.repo.root) / "runs", key, scenarios, new_run_id())
        self._closers.append(opened.close)
        known = list(self.store.launches(run=opened.run)) if opened.resumed else []
        return opened, opened.run, known

    @cached_property
    def known(self) -> Knowledge:
        """What is known: of the store, or of a snapshot."""
        return Knowledge(self)

    @cached_property
    def records(self) -> Records:
        """Where what was measured goes."""
        if not self.way.spool:
            return self.store
        from tithe.data.locations import destination
        from tithe.data.outbox import Outbox

        destination(self.way.spool)  # a URL that cannot be meant is said before anything is run
        self._outbox = Outbox(self.home / OUTBOX)
        return self._outbox

    def deliver(self) -> tuple[str, ...]:
        """Brings the records to the spool; what there is to say about it. Once, and at the latest at the end."""
        if self._outbox is None:
            return ()
        from tithe.data.locations import location

        outbox, self._outbox = self._outbox, None
        report = outbox.deliver(location(self.way.spool))
        self.undelivered = bool(report.faults)
        kept = f"kept in {paths.HOME}/{OUTBOX} until `tithe spool push` can send it"
        if report.lost:
            kept = f"{paths.HOME}/{OUTBOX} could not be written either, and {report.lost} records are lost"
        told = [f"not spooled: {fault}; {kept}" for fault in report.faults]
        return tuple(safe_line(line, limit=800) for line in (*told, *report.damaged))

    def main_branch(self) -> Sha:
        """The tip of the main branch: local, or as the remote has it."""
        try:
            return self.repo.resolve(self.config.main)
        except UsageError as error:
            with suppress(UsageError):
                return self.repo.resolve(f"origin/{self.config.main}")
            where = f"{self.config.path.name}: [tithe] main"
            raise UsageError(error.what, where=where, mend="name the branch of the history") from None

    @cached_property
    def _patch(self) -> bytes:
        if self.way.patch == "-":
            try:
                return sys.stdin.buffer.read()
            except (AttributeError, OSError, ValueError):  # closed, or nothing that can be read
                raise UsageError(
                    "there is no standard input", where="--patch -", mend="pipe a diff in"
                ) from None
        try:
            return Path(self.way.patch).read_bytes()
        except OSError as error:
            raise UsageError(
                f"cannot be read: {error.strerror}", where=safe_line(self.way.patch), mend="name a diff"
            ) from None

    def tip(self, head: str | None) -> Sha:
        """The revision under test: as named, else the work tree with its uncommitted changes; see `Way.patch`."""
        if self.way.patch:
            parent = self.repo.resolve(head) if head is not None else self.repo.head()
            return self.repo.patched(parent, self._patch, self.way.patch)
        return self.repo.resolve(head) if head is not None else self.repo.snapshot_worktree()

    def revisions(self, base: str | None, head: str | None) -> tuple[Sha, Sha]:
        """Base and head as commits.

        Head: as named, else the work tree with its uncommitted changes. Base: as named, else where head left
        the main branch; for a commit on the main branch its first parent. See also `Way.deepen`.
        """
        return self._deepened(lambda: self._revisions(base, head), base or "", head or "")

    def commit(self, revision: str) -> Sha:
        """The commit that `revision` names; see also `Way.deepen`."""
        return self._deepened(lambda: self.repo.resolve(revision), revision)

    def merge_base(self, a: Sha, b: Sha) -> Sha:
        """The best common ancestor of two commits; see also `Way.deepen`."""
        return self._deepened(lambda: self.repo.merge_base(a, b))

    def _deepened(self, what: Callable[[], T], *revisions: str) -> T:
        """`what()`, with as much history fetched as it needs, where that is asked for."""
        try:
            return what()
        except UsageError:
            if not self.way.deepen or not self.repo.is_shallow():
                raise
        for _ in self.repo.deepen(self.config.main if "config" in self.__dict__ else "main", *revisions):
            with suppress(UsageError):
                return what()
        return what()

    def _revisions(self, base: str | None, head: str | None) -> tuple[Sha, Sha]:
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
        self.require_scenarios()
        return [s for s in self.config.scenarios if tier is None or s.tier == tier]

    def require_scenarios(self) -> None:
        """Refuses a configuration in which there is nothing to measure."""
        if not self.config.scenarios:
            raise UsageError(
                "no scenario is defined", where=str(self.config.path), mend="add a [[scenario]] table"
            )

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
