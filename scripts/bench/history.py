"""Reading a git history into a store, beside `git log --numstat` in the same run.

    scripts/bench/history REPOSITORY... [--last N]

Each is read by processes of their own, in turns. `--last` takes the newest N first-parent commits alone, for copies
that lack files of older ones (`git log --numstat` ends there, tithe goes on without counting lines).
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FORMAT = "--format=%H%n%P%n%an%n%at%n%B"
READ = """
import resource, sys, time
from pathlib import Path
from tithe.data.git import GitRepo
from tithe.data.store import Store
repo = GitRepo(Path(sys.argv[1]))
tip = repo.resolve("HEAD")
began = time.perf_counter()
with Store.open(Path(sys.argv[2])) as store:
    known = store.last_change()
    after = known.sha if known else (repo.resolve(sys.argv[3]) if sys.argv[3] else None)
    added = store.add_changes(repo.first_parent(tip, after=after))
took = time.perf_counter() - began
own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(took, added, own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)
"""


def read(repo: Path, store: Path, after: str) -> list[float]:
    words = [sys.executable, "-c", READ, str(repo), str(store), after]
    return [
        float(word)
        for word in subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    ]


def git(repo: Path, *words: str) -> tuple[float, bool]:
    began = time.perf_counter()
    done = subprocess.run(
        ["git", "-C", str(repo), "log", "--first-parent", "-m", "-M", "--numstat", FORMAT, *words],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    return time.perf_counter() - began, done.returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("repositories", nargs="+", type=Path)
    parser.add_argument("--last", type=int, default=0)
    parser.add_argument("--times", type=int, default=3)
    options = parser.parse_args()
    for repo in options.repositories:
        after = f"HEAD~{options.last}" if options.last else ""
        ours, theirs, whole = [], [], True
        with tempfile.TemporaryDirectory() as scratch:
            for turn in range(options.times):
                took, whole = git(repo, f"{after}..HEAD" if after else "HEAD")
                theirs.append(took)
                ours.append(read(repo, Path(scratch) / f"{turn}.db", after))
            again = read(repo, Path(scratch) / "0.db", after)
        middle = statistics.median(one[0] for one in ours)
        beside = statistics.median(theirs)
        print(
            f"{repo}: {ours[0][1]:.0f} changes, {middle:.1f} s, {ours[0][1] / middle:.0f} a second, "
            f"{max(one[2] for one in ours):.0f} MiB (git: {max(one[3] for one in ours):.0f} MiB); "
            f"again {again[0]:.2f} s; git log --numstat {beside:.1f} s{'' if whole else ' until it failed'}, "
            f"ratio {middle / beside:.2f}"
        )
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main()
