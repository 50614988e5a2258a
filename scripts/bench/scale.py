"""A store with millions of outcomes: its size, how fast it is filled, and what waits for it.

    scripts/bench/scale --outcomes 10000000 --folder /tmp/scale

The outcomes are made up (the folder is filled once and then measured again and again), 1,000 scenarios on every
change. What is timed is real: `ingest`, `status`, learning all of it anew, and what `select` loads, each in a process
of its own, beside what a user would do instead (one SQL query over the outcomes; pandas on the same rows).
"""

from __future__ import annotations

import argparse
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from tithe.data.records import Change, FileEdit, MetricName, Outcome, ScenarioName, Sha
from tithe.data.store import Store

SCENARIOS = 1000
FILES = 3000
BATCH = 50_000

LOAD = """
import sys, time
from pathlib import Path
from tithe.wiring import Project
with Project(Path(sys.argv[1])) as project:
    project.config, project.store
    import numpy, tithe.selector.standing, tithe.selector.features
    began = time.perf_counter()
    if sys.argv[2] == "anew":
        project.known.keep()
    standing = project.known.standing
    keys = [f"pkg/m{n % 150}/f{n}.py" for n in range(20)] + [f"pkg/m{n}/" for n in range(20)]
    standing.state.advance(project.known.latest + 1)
    found = sum(standing.state.knows(key) for key in keys)
    took = time.perf_counter() - began
import resource
print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, standing.fresh, found)
"""
PANDAS = """
import sqlite3, sys, time
import pandas
began = time.perf_counter()
with sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True) as connection:
    table = pandas.read_sql_query("SELECT scenario_id, verdict, known_at FROM outcome", connection)
failing = table.verdict.isin(["regressed", "broken"])
table.assign(failing=failing).groupby("scenario_id").failing.agg(["sum", "count"])
print(time.perf_counter() - began)
"""


def changes(count: int) -> Iterator[Change]:
    dice = random.Random(1)
    for at in range(count):
        touched = dice.sample(range(FILES), 1 + dice.randrange(8))
        yield Change(
            sha=Sha(f"{at + 1:040x}"),
            parent=Sha(f"{at:040x}"),
            index=at,
            author=f"author {dice.randrange(60)}",
            time=float(at * 600),
            subject="A change",
            files=tuple(FileEdit(f"pkg/m{n % 150}/f{n}.py", 3, 1) for n in touched),
        )


def outcomes(first: int, count: int) -> Iterator[Outcome]:
    """`count` outcomes from the `first` on, in the order in which they became known."""
    dice = random.Random(first)
    names = [ScenarioName(f"suite.group{n % 20}.test_{n}") for n in range(SCENARIOS)]
    for number in range(first, first + count):
        at, scenario = divmod(number, SCENARIOS)
        failing = dice.random() < 0.002
        ratio = 1.1 if failing else 1.0
        yield Outcome(
            base=Sha(f"{at:040x}"),
            change=Sha(f"{at + 1:040x}"),
            scenario=names[scenario],
            metric=MetricName("wall"),
            verdict="regressed" if failing else "same",
            known_at=at * 600 + 1 + scenario * 0.01,
            source="ab",
            picked="chosen",
            ratio=ratio,
            low=ratio - 0.01,
            high=ratio + 0.01,
            confidence=0.99,
            run="run",
        )


def prepare(folder: Path) -> None:
    """A repository with a configuration of so many scenarios."""
    (folder / "pkg").mkdir(parents=True, exist_ok=True)
    (folder / "pkg" / "__init__.py").write_text("")
    (folder / "run.py").write_text("import pkg\n")
    tables = "".join(
        f'[[scenario]]\nname = "suite.group{n % 20}.test_{n}"\ncommand = "python run.py {n}"\n'
        'metrics = ["wall"]\ngate = ["wall"]\n'
        for n in range(SCENARIOS)
    )
    (folder / "tithe.toml").write_text('[tithe]\nmain = "main"\n' + tables)
    if not (folder / ".git").exists():
        git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.c"]
        subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", "All"], check=True)


def fill(folder: Path, total: int) -> None:
    with Store.open(folder / ".tithe" / "store.db") as store:
        there = store.counts()["outcomes"]
        if there >= total:
            return
        began = time.perf_counter()
        store.add_changes(changes(-(-total // SCENARIOS)))
        print(f"{-(-total // SCENARIOS)} changes in {time.perf_counter() - began:.1f} s", flush=True)
        began, last = time.perf_counter(), time.perf_counter()
        for first in range(there, total, BATCH):
            store.add_outcomes(outcomes(first, min(BATCH, total - first)))
            if (first // BATCH) % 20 == 19:
                now = time.perf_counter()
                print(
                    f"{first + BATCH} outcomes, the last {20 * BATCH}: {20 * BATCH / (now - last):.0f}/s",
                    flush=True,
                )
                last = now
        print(f"{(total - there) / (time.perf_counter() - began):.0f} outcomes a second, all in all")


def measured(words: list[str], times: int = 5) -> tuple[float, list[str]]:
    """Median of the first number that a process prints, and its other words."""
    found = [
        subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True).stdout.split()
        for _ in range(times)
    ]
    return statistics.median(float(words[0]) for words in found), found[-1][1:]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--outcomes", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, required=True, help="Filled once, then measured again.")
    options = parser.parse_args()
    prepare(options.folder)
    fill(options.folder, options.outcomes)
    path = options.folder / ".tithe" / "store.db"
    size = path.stat().st_size
    print(f"store: {size / 2**20:.0f} MiB, {size / options.outcomes:.0f} bytes an outcome")

    shutil.rmtree(options.folder / ".tithe" / "cache", ignore_errors=True)
    anew, rest = measured(["-c", LOAD, str(options.folder), "anew"], 1)
    print(f"learning all of it anew, and keeping it: {anew:.1f} s, {rest[0]} MiB")
    began = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "tithe", "status", "--repo", str(options.folder)],
        check=True,
        capture_output=True,
    )
    print(f"status: {time.perf_counter() - began:.1f} s")
    kept, rest = measured(["-c", LOAD, str(options.folder), "kept"])
    print(f"what select loads, kept, with 40 touched files and folders: {kept * 1000:.0f} ms, {rest[0]} MiB")
    with Store.open(path) as store:
        now = store.outcomes(since=(options.outcomes // SCENARIOS - 1) * 600.0)[-1].known_at
        late = list(outcomes(options.outcomes + 10 * SCENARIOS, SCENARIOS))
        store.add_outcomes([one for one in late if one.known_at > now])
    fresh, rest = measured(["-c", LOAD, str(options.folder), "kept"])
    print(f"the same with {rest[1]} new outcomes: {fresh * 1000:.0f} ms")
    instead, _ = measured(["-c", PANDAS, str(path)], 1)
    print(f"pandas, three columns and one mean: {instead:.1f} s, {instead / kept:.0f} × what select loads")
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main()
