"""The whole history for a seed: which commit comes when, by whom, with which files and which id.

Every draw is a hash of the seed and a name, never a random generator of some Python version, so that one
seed gives one history everywhere, bit for bit.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tithe.data.records import Sha
from tithe.demo import history_new, history_recorded
from tithe.demo.edits import PEOPLE, Step, Tree, release
from tithe.demo.objects import commit_id, object_id, tree_id

START = 1709542800
"""Of the first commit: 4 March 2024, 09:00 UTC."""
_KINDS = ("eager import", "blocking log", "repr key", "quadratic check", "cache missed", "default changed")
FILES = Path(__file__).parent / "files"
_RENAMED = {"gitignore": ".gitignore"}


@dataclass(frozen=True)
class Commit:
    """A commit with everything that git hashes; `files` maps path to text."""

    sha: Sha
    parent: str
    person: str
    time: int
    message: str
    files: Tree
    step: Step


def draw(seed: int, *names: object) -> int:
    """A large number that depends on the seed and the names alone."""
    text = ":".join(str(part) for part in (seed, *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def first_tree() -> Tree:
    """The files of the first commit, from the package's templates."""
    tree: Tree = {}
    for file in FILES.rglob("*.txt"):
        path = file.relative_to(FILES).as_posix().removesuffix(".txt")
        tree[_RENAMED.get(path, path)] = file.read_text(encoding="utf-8")
    return dict(sorted(tree.items()))


def recorded_steps() -> tuple[Step, ...]:
    """The commits up to v0.3, the same for every seed."""
    start = Step("import", "ines", "Import trainlab from the research repository", ())
    return (start, *history_recorded.steps())


def new_steps(seed: int) -> tuple[Step, ...]:
    """The commits after v0.3: 9 to 11 faults dealt over 42 commits and three releases.

    Each third holds two faults or more, so that every pair of neighbouring releases has something to find;
    the commit that cannot be checked has faults before and after it within its third.
    """
    sites = history_new.SITES
    by_draw = sorted(range(len(sites)), key=lambda i: draw(seed, "site", i))
    chosen = {next(i for i in by_draw if sites[i].kind == kind) for kind in _KINDS}
    wanted = 9 + draw(seed, "faults") % 3
    for i in by_draw:
        if len(chosen) < wanted:
            chosen.add(i)
    loose = [site.harmful if i in chosen else site.harmless for i, site in enumerate(sites)]
    loose += [history_new.IMPROVEMENT, *history_new.FILLERS]
    crash, mend = history_new.CRASHES[draw(seed, "crash") % len(history_new.CRASHES)]
    broken, closed = history_new.UNCHECKABLE[draw(seed, "uncheckable") % len(history_new.UNCHECKABLE)]
    for attempt in range(10_000):
        order = sorted(loose, key=lambda step: draw(seed, "order", attempt, step.key))
        at = draw(seed, "crash at", attempt) % 30
        order.insert(at, crash)
        order.insert(at + 2 + draw(seed, "mend after", attempt) % 3, mend)
        at = 2 + draw(seed, "uncheckable at", attempt) % 34
        order[at:at] = [broken, closed]
        full = _with_releases(order)
        if _well_spread(full, broken):
            return full
    raise AssertionError(f"seed {seed}: no order fits")  # pragma: no cover


def _with_releases(order: Sequence[Step]) -> tuple[Step, ...]:
    return (
        *order[:13],
        release("0.4", "Start-up checks, and more of them."),
        *order[13:26],
        release("0.5", "Metrics, schedules and options."),
        *order[26:],
        release("0.6", "Small things."),
    )


def _is_fault(step: Step) -> bool:
    return step.effect is not None and step.effect.kind in _KINDS


def _well_spread(full: Sequence[Step], broken: Step) -> bool:
    thirds = (full[:14], full[14:28], full[28:])
    if min(sum(map(_is_fault, third)) for third in thirds) < 2:
        return False
    third = next(part for part in thirds if broken in part)
    at = third.index(broken)
    # Its mend must lie in the same third, and a fault on each side.
    return at + 2 < len(third) and any(map(_is_fault, third[:at])) and any(map(_is_fault, third[at + 2 :]))


def commits(seed: int) -> tuple[Commit, ...]:
    """All commits, oldest first."""
    past, last = _recorded()
    made = list(past)
    _extend(made, new_steps(seed), dict(last), seed)
    return tuple(made)


@functools.lru_cache(maxsize=1)
def _recorded() -> tuple[tuple[Commit, ...], Tree]:
    made: list[Commit] = []
    tree = first_tree()
    _extend(made, recorded_steps(), tree, -1)
    return tuple(made), tree


def _extend(made: list[Commit], steps: Sequence[Step], tree: Tree, seed: int) -> None:
    blobs: dict[str, str] = {}
    for step in steps:
        step.apply(tree)
        when = START
        if made:
            # Working days of an unhurried project: one to three days later, between eight and six.
            day = (made[-1].time // 86400) + 1 + draw(seed, "day", step.key) % 3
            when = day * 86400 + 28800 + draw(seed, "second", step.key) % 36000
        name, mail = PEOPLE[step.author]
        message = step.subject + "\n" + (f"\n{step.body}\n" if step.body else "")
        ids = {path: blobs.setdefault(text, object_id("blob", text.encode())) for path, text in tree.items()}
        parent = made[-1].sha if made else ""
        person = f"{name} <{mail}>"
        sha = commit_id(tree_id(ids), parent, person, when, message)
        made.append(Commit(Sha(sha), parent, person, when, message, dict(tree), step))
