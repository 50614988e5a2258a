"""The repository under test: revisions, first-parent history, file contents and checkouts.

First-parent history is the one order that everything hangs on: "before", "the change that did it" and "all
changes between two releases" mean the commits that `main` itself went through, each with the diff against
its first parent, so that a merged branch counts as one change.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from tithe.data import git_log, git_process, git_snapshot, git_symbols, git_worktree
from tithe.data.errors import GitError, UsageError
from tithe.data.git_objects import ObjectReader
from tithe.data.git_symbols import SymbolReader
from tithe.data.records import Change, Sha
from tithe.data.text import safe_line

DEEPEN = "the clone is shallow: fetch more of it (git fetch --unshallow, or fetch-depth: 0 in CI)"
DEEPEN_BY_ONE = "the clone is shallow: fetch-depth: 2 in CI, or git fetch --deepen=1, brings it"
DEEPENING = (50, 500, 5000)
"""Commits that are fetched at each attempt, before all of them are."""
FETCH_S = 600.0
_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


MOST_GAPS = 50
"""Commits of a history that lack files, from which on no lines are counted at all."""


class GitRepo:
    """A git checkout; `root` is the top of its work tree.

    All methods raise `GitError` when git is missing or fails, `UsageError` when the caller asked for
    something that the repository does not have.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._objects = ObjectReader(root)

    def __repr__(self) -> str:
        return f"GitRepo({str(self.root)!r})"

    @classmethod
    def open(cls, start: Path) -> GitRepo:
        """The repository whose work tree `start` lies in."""
        git_process.require_git()
        if not start.is_dir():
            raise UsageError("there is no such folder", where=str(start))
        try:
            top = git_process.run(start, "rev-parse", "--show-toplevel").stdout.removesuffix(b"\n")
        except GitError as error:
            if "not a git repository" in error.what:
                mend = "run tithe inside a git checkout"
                raise UsageError("is not in a git repository", where=str(start), mend=mend) from None
            if "work tree" in error.what:
                mend = "run tithe in a checkout, not in a bare repository or in .git"
                raise UsageError("there is no work tree", where=str(start), mend=mend) from None
            raise
        return cls(git_process.os_path(top))

    # Revisions

    def resolve(self, rev: str) -> Sha:
        """The commit that `rev` names: a branch, tag, sha or any expression that git knows for one commit.

        Raises:
            UsageError: unknown, ambiguous, not a commit, or not a revision at all (`--upload-pack=…`).
        """
        shown = safe_line(rev, limit=80)
        if not rev or rev.startswith("-") or not rev.isprintable() or rev != rev.strip():
            raise UsageError(f"{shown!r} is not a revision", mend="give a branch, a tag or a commit")
        done = git_process.run(
            self.root, "rev-parse", "--verify", "--end-of-options", f"{rev}^{{commit}}", ok=(0, 1, 128)
        )
        said = git_process.decode(done.stderr)
        found = git_process.decode(done.stdout).strip()
        if "is ambiguous" in said:
            mend = "write refs/heads/… or refs/tags/…, or more digits of the commit"
            raise UsageError(f"{shown!r} can mean more than one commit", mend=mend)
        if done.returncode == 0 and _SHA.fullmatch(found):
            return Sha(found)
        if "not a git repository" in said or "dubious ownership" in said:
            raise git_process.failure("rev-parse", done.stderr, done.returncode)
        if rev in {"HEAD", "@"}:
            raise UsageError("there is no commit yet", where=str(self.root), mend="commit something first")
        raise UsageError(f"{shown!r} is not a commit here", mend=self._instead_of(rev))

    def head(self) -> Sha:
        """The commit that is checked out."""
        return self.resolve("HEAD")

    def named_parents(self, rev: str) -> tuple[str, ...]:
        """The parents that a commit names, also those that a shallow clone does not have."""
        raw = git_process.run(self.root, "cat-file", "commit", self.resolve(rev)).stdout
        head = git_process.decode(raw.split(b"\n\n", 1)[0])
        return tuple(line.split()[1] for line in head.splitlines() if line.startswith("parent "))

    def main_branch(self) -> str:
        """The branch that history is kept on: the remote's default, a usual name, or the current one."""
        remote = git_process.run(
            self.root, "symbolic-ref", "--quiet", "refs/remotes/origin/HEAD", ok=(0, 1, 128)
        )
        if name := git_process.decode(remote.stdout).strip().removeprefix("refs/remotes/origin/"):
            return name
        branches = set(self._refs("refs/heads"))
        current = git_process.run(self.root, "symbolic-ref", "--quiet", "--short", "HEAD", ok=(0, 1, 128))
        usual = [name for name in ("main", "master", "trunk", "develop") if name in branches]
        return usual[0] if usual else git_process.decode(current.stdout).strip() or "main"

    def merge_base(self, a: Sha, b: Sha) -> Sha:
        """The best common ancestor of `a` and `b`."""
        done = git_process.run(self.root, "merge-base", "--end-of-options", a, b, ok=(0, 1))
        if done.returncode:
            mend = DEEPEN if self.is_shallow() else ""
            raise UsageError(f"{a[:12]} and {b[:12]} have no common ancestor", mend=mend)
        return Sha(git_process.decode(done.stdout).split()[0])

    def tags(self) -> dict[str, Sha]:
        """Tags of commits, by name."""
        form = "%(refname:strip=2)%00%(objecttype)%00%(objectname)%00%(*objecttype)%00%(*objectname)"
        found: dict[str, Sha] = {}
        for line in git_process.run(
            self.root, "for-each-ref", f"--format={form}", "refs/tags"
        ).stdout.splitlines():
            name, kind, sha, peeled_kind, peeled = git_process.decode(line).split("\x00")
            if kind == "commit":
                found[name] = Sha(sha)
            elif peeled_kind == "commit":
                found[name] = Sha(peeled)
            elif peeled_kind == "tag":
                found[name] = self.resolve(f"refs/tags/{name}")
        return found

    # The state of the clone and its work tree

    def is_shallow(self) -> bool:
        """Whether history was cut off when the clone was made."""
        return git_process.text(self.root, "rev-parse", "--is-shallow-repository") == "true"

    def tracked(self, folder: str) -> str:
        """A file that git tracks with `folder` (at the top, in any case) as its name or above it; empty if none."""
        raw = git_process.run(self.root, "ls-files", "-z", "--", f":(top,icase){folder}").stdout
        return git_process.decode(raw.split(b"\0", 1)[0])

    def is_dirty(self) -> bool:
        """Whether the work tree differs from HEAD, untracked files that are not ignored included."""
        return git_snapshot.is_dirty(self.root)

    def snapshot_worktree(self) -> Sha:
        """The work tree as a commit on HEAD (see `git_snapshot.snapshot`); HEAD if it is clean."""
        return git_snapshot.snapshot(self.root, self.head())

    def changed(self, parent: Sha, contents: Mapping[str, bytes], message: str) -> Sha:
        """A commit on `parent` with these files (see `git_snapshot.changed`)."""
        return git_snapshot.changed(self.root, parent, contents, message)

    def patched(self, parent: Sha, patch: bytes, where: str) -> Sha:
        """A commit on `parent` with a patch applied (see `git_snapshot.patched`)."""
        return git_snapshot.patched(self.root, parent, patch, where)

    def deepen(self, branch: str, *revisions: str) -> Iterator[None]:
        """Fetches more of a shallow clone's history with every step, until it is whole.

        Args:
            branch: Whose tip on the remote is wanted too, as `origin/<branch>`.
            revisions: Commits that may not be here at all; only full object ids are asked for.

        Raises:
            GitError: the remote cannot be reached, or does not give what is asked for.
        """
        wanted = [rev for rev in revisions if _SHA.fullmatch(rev)]
        if wanted:
            self._fetch("--depth=1", *wanted)
            yield
        refs = (self.head(), f"+refs/heads/{branch}:refs/remotes/origin/{branch}")
        for commits in DEEPENING:
            if not self.is_shallow():
                return
            self._fetch(f"--deepen={commits}", *refs)
            yield
        if self.is_shallow():
            self._fetch("--unshallow", *refs)
            yield

    def _fetch(self, *words: str) -> None:
        depth, *refs = words
        env = {"GIT_TERMINAL_PROMPT": "0"}
        git_process.run(
            self.root, "fetch", "--quiet", "--no-tags", "--no-recurse-submodules", depth,
            "--end-of-options", "origin", *refs, env=env, timeout_s=FETCH_S,
        )  # fmt: skip
        self.__dict__.pop("_cut", None)

    # History

    def first_parent(self, tip: Sha, *, after: Sha | None = None) -> Iterator[Change]:
        """First-parent history up to and including `tip`, oldest first, from `after` (exclusive) or the root.

        One pass of one git process, read as it comes. `index` counts from the root and `time` never
        falls, also where `after` cuts. In a shallow clone both count from where it was cut off, and the
        oldest commit has no files, as its diff cannot be known. In a partial clone, and where files are
        missing, lines are not counted (-1 stands in their place) and no symbols are known.

        Raises:
            UsageError: `after` is not on the first-parent history of `tip`.
        """
        index, clock = self._position(after) if after else (0, 0.0)
        expected = after
        reader = None if self._objects.promisor else SymbolReader(self.root, tip, after)
        with reader or nullcontext():
            for entry in self._log(tip, after):
                if expected and (not entry.parents or entry.parents[0] != expected):
                    raise self._not_on_history(expected, tip)
                expected = None
                clock = max(clock, entry.time)
                named = entry.with_symbols(reader.of(entry.sha)) if reader else entry
                if entry.sha in self._cut:
                    named = replace(entry, files=())
                yield named.change(index=index, time=clock)
                index += 1
        if expected and expected != tip:
            raise self._not_on_history(expected, tip)

    def _log(self, tip: Sha, after: Sha | None) -> Iterator[git_log.Entry]:
        """Entries of first-parent history, oldest first.

        Where a copy of a partial clone, which does not say that it is one, lacks a file, git dies when it is to
        count its lines: that commit is read without counting, and the next ones as before.
        """
        done, again = after, 0
        while True:
            counting = git_log.RAW if again > MOST_GAPS else self._counting
            held: git_log.Entry | None = None
            try:
                for entry in self._entries(counting, tip, done):
                    if held is not None:
                        done = held.sha
                        yield held
                    held = entry  # it is whole when the next one begins, or git ends well
            except GitError:
                lost = self._next(tip, done)
                if counting == git_log.RAW or lost is None or not self._lacks_files(lost):
                    raise
                (entry,) = self._entries(git_log.RAW, lost, None, "-1")
                done, again = lost, again + 1
                yield entry
            else:
                if held is not None:
                    yield held
                return

    def _entries(
        self, counting: tuple[str, ...], tip: Sha, after: Sha | None, *more: str
    ) -> Iterator[git_log.Entry]:
        words = ("log", "--reverse", "--first-parent", *git_log.FIXED, *counting, git_log.FORMAT, *more)
        with git_process.streaming(
            self.root, *words, "--end-of-options", tip, *([f"^{after}"] if after else []), "--"
        ) as stdout:
            yield from git_log.entries(git_process.fields(stdout))

    def _next(self, tip: Sha, after: Sha | None) -> Sha | None:
        """The first commit of first-parent history behind `after`."""
        words = ("rev-list", "--first-parent", "--reverse", "--end-of-options", tip)
        found = git_process.text(self.root, *words, *([f"^{after}"] if after else []), "--")
        return Sha(found.partition("\n")[0]) if found else None

    def _lacks_files(self, sha: Sha) -> bool:
        """Whether it is files that are missing of what a commit and its parent differ in, and not worse."""
        words = ("-r", "-m", "--first-parent", "--root", "--no-abbrev", sha)
        try:
            raw = git_process.run(self.root, "diff-tree", *words).stdout
        except GitError:
            return False
        ids = {word for line in raw.splitlines() if line.startswith(b":") for word in line.split()[2:4]}
        return bool(self._objects.missing(name.decode() for name in ids if name.strip(b"0")))

    def on_history(self, tip: Sha) -> frozenset[Sha]:
        """The commits of the first-parent history of `tip`."""
        listed = git_process.text(
            self.root, "log", "--first-parent", "--format=tformat:%H", "--end-of-options", tip, "--"
        )
        return frozenset(Sha(line) for line in listed.splitlines())

    def has_parent(self, sha: Sha) -> bool:
        """Whether a commit has one that this clone knows of; a commit that is not here has none."""
        words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{sha}^{{commit}}^")
        return git_process.run(self.root, *words, ok=(0, 1, 128)).returncode == 0

    def range(self, good: Sha, bad: Sha) -> tuple[Sha, ...]:
        """First-parent commits after `good` up to and including `bad`, oldest first; empty if they are equal.

        Raises:
            UsageError: `good` is not on the first-parent history of `bad`.
        """
        if good == bad:
            return ()
        listed = git_process.text(
            self.root,
            "log",
            "--first-parent",
            "--format=tformat:%H %P",
            "--end-of-options",
            bad,
            f"^{good}",
            "--",
        )
        rows = [line.split() for line in listed.splitlines()]
        if not rows or rows[-1][1:2] != [good]:
            raise self._not_on_history(good, bad)
        return tuple(Sha(row[0]) for row in reversed(rows))

    def change(self, head: Sha, base: Sha | None = None) -> Change:
        """The diff between `base` (the first parent if not given) and `head`; its index is -1.

        Raises:
            UsageError: no base is given and the first parent is not in this shallow clone.
        """
        if base is None and head in self._cut:
            raise UsageError(f"the parent of {head[:12]} is not here", mend=DEEPEN_BY_ONE)
        words = (
            "log",
            "-1",
            "--no-patch",
            "-z",
            "--encoding=UTF-8",
            git_log.FORMAT,
            "--end-of-options",
            head,
            "--",
        )
        (entry,) = git_log.entries(git_process.run(self.root, *words).stdout.split(b"\x00")[:-1])
        if base is None and entry.parents:
            base = entry.parents[0]
        trees = [head] if base is None else [base, head]
        with git_process.streaming(
            self.root,
            "diff-tree",
            "-r",
            "--root",
            "--no-commit-id",
            *git_log.FIXED,
            *self._counting,
            *trees,
            "--",
        ) as stdout:
            files = git_log.edits(git_process.fields(stdout))
        touched: git_symbols.Touched = ()
        if not self._objects.promisor:  # of a partial clone every file would have to be fetched
            with suppress(GitError):  # a file is missing: the change is known without its symbols
                touched = git_symbols.of_diff(self.root, *trees)
        whole = replace(entry, files=files).with_symbols(touched)
        return whole.change(index=-1, time=entry.time, parent=base)

    # Contents and checkouts

    def files(self, sha: Sha) -> dict[str, str]:
        """Path to blob id of every file and link of `sha`."""
        entries = git_worktree.tree(self.root, sha)
        return {git_process.decode_path(entry.path): entry.id for entry in entries if entry.kind == b"blob"}

    def content(self, sha: Sha, path: str) -> bytes | None:
        """The content of a file of `sha`; None if there is none of that path."""
        blob = self.files(sha).get(path)
        return None if blob is None else next((content for _, content in self.blobs([blob])), None)

    def blobs(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Id and content of each of `ids` that can be had, through one process (see `git_objects`)."""
        return self._objects.blobs(ids)

    def add_worktree(self, sha: Sha, path: Path) -> tuple[str, ...]:
        """Check `sha` out, detached, at `path`, which must not exist or be empty.

        Returns the paths that could not be had (partial clone, promisor out of reach); else nothing.
        """
        return git_worktree.add(self.root, self._objects, sha, path.absolute())

    def forget_worktrees(self) -> None:
        """Forgets the checkouts that are not there any more."""
        git_process.run(self.root, "worktree", "prune")

    def remove_worktree(self, path: Path) -> None:
        """Remove the checkout at `path` with all that lies in it; one that is gone already is forgotten."""
        git_worktree.remove(self.root, path.absolute())

    # Parts

    @cached_property
    def _counting(self) -> tuple[str, ...]:
        return git_log.RAW if self._objects.promisor else git_log.NUMSTAT

    @cached_property
    def _cut(self) -> frozenset[str]:
        """Commits whose parents a shallow clone does not have."""
        path = self.root / git_process.text(self.root, "rev-parse", "--git-path", "shallow")
        return frozenset(path.read_text().split()) if path.is_file() else frozenset()

    def _position(self, sha: Sha) -> tuple[int, float]:
        """How many first-parent commits `sha` ends, and the latest clock among them."""
        count, clock = 0, 0.0
        with git_process.streaming(
            self.root, "log", "--first-parent", "--format=tformat:%ct", "--end-of-options", sha, "--"
        ) as stdout:
            for line in stdout:
                count += 1
                clock = max(clock, float(line))
        return count, clock

    def _not_on_history(self, old: Sha, new: Sha) -> UsageError:
        mend = DEEPEN if self.is_shallow() else "give two commits of one branch, the older one first"
        return UsageError(f"{old[:12]} is not on the first-parent history of {new[:12]}", mend=mend)

    def _refs(self, *below: str) -> list[str]:
        return git_process.text(self.root, "for-each-ref", "--format=%(refname:strip=2)", *below).splitlines()

    def _instead_of(self, rev: str) -> str:
        names = self._refs("refs/heads", "refs/tags", "refs/remotes")
        if f"origin/{rev}" in names:
            return f"did you mean origin/{rev}?"
        if self.is_shallow():
            return DEEPEN
        near = difflib.get_close_matches(rev, names, n=1)
        return f"did you mean {safe_line(near[0])}?" if near else "give a branch, a tag or a commit"
