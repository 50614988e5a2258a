"""How long a CI machine that was born empty takes from its checkout to the selection, and what that is beside.

A made-up repository (N scenarios, a package of modules that import each other, configuration files) with a made-up
history of outcomes is published as a snapshot behind a local HTTP server. A fresh clone then selects with a snapshot
that is fetched first, and with one that is cached. Beside it, in the same run and as ratios: the same selection on
the full store, which a CI machine would have to be given; and what a home-made selector pays before it has looked at
anything, importing pandas, scikit-learn and LightGBM.

    scripts/bench/snapshot --scenarios 100 10000
"""

from __future__ import annotations

import argparse
import functools
import http.server
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from tithe.data.git import GitRepo
from tithe.data.records import Change, MetricName, Outcome, ScenarioName
from tithe.data.store import Store

IMPORTS = "import numpy, pandas, sklearn.linear_model, lightgbm"


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scenarios", type=int, nargs="+", default=[100, 10_000])
    parser.add_argument("--changes", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    given = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="tithe-bench-") as scratch:
        for count in given.scenarios:
            rows.append(measure(Path(scratch) / str(count), count, given.changes, given.rounds))
            print(_shown(rows[-1]), flush=True)
    if given.json:
        given.json.write_text(json.dumps(rows, indent=2) + "\n")


def measure(folder: Path, scenarios: int, changes: int, rounds: int) -> dict[str, float]:
    """One size. Times are medians of seconds."""
    home = folder / "weekly"
    make(home, scenarios, changes)
    tithe(home, "ingest", "git")
    fill(home, changes)
    served = folder / "served"
    tithe(home, "snapshot", "publish", str(served))
    (file,) = served.glob("*.tithe-snapshot")
    found: dict[str, list[float]] = {"uncached": [], "cached": [], "store": [], "imports": []}
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=str(served))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        for number in range(rounds):
            clone = folder / f"clone-{number}"
            subprocess.run(["git", "clone", "--quiet", "--depth=2", f"file://{home}", str(clone)], check=True)
            words = ("select", "--budget", "30m", "--base", "HEAD~1", "--head", "HEAD", "--format", "json")
            found["uncached"].append(_timed(clone, *words, "--snapshot", url))
            shutil.rmtree(clone / ".tithe/cache/graph", ignore_errors=True)
            found["cached"].append(_timed(clone, *words, "--snapshot", url))
            shutil.rmtree(home / ".tithe/cache/graph", ignore_errors=True)
            found["store"].append(_timed(home, *words))
            began = time.monotonic()
            subprocess.run([sys.executable, "-c", IMPORTS], check=True)
            found["imports"].append(time.monotonic() - began)
    finally:
        server.shutdown()
        server.server_close()
    medians = {name: statistics.median(values) for name, values in found.items()}
    return {"scenarios": scenarios, "snapshot_bytes": file.stat().st_size, **medians}


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        return


def make(root: Path, scenarios: int, changes: int) -> None:
    """A repository whose scenarios share jobs and configurations, with a commit for each change."""
    rng = random.Random(scenarios)
    modules = max(60, min(1000, scenarios // 5))
    configs = max(20, min(500, scenarios // 10))
    (root / "pkg").mkdir(parents=True)
    (root / "configs").mkdir()
    for at in range(modules):
        used = (
            {min(int(at * rng.betavariate(0.7, 1.3)), at - 1) for _ in range(rng.randrange(4))}
            if at
            else set()
        )
        body = "".join(f"import pkg.m{other}\n" for other in sorted(used))
        (root / f"pkg/m{at}.py").write_text(f"{body}\n\ndef run():\n    return {at}\n")
    (root / "pkg/__init__.py").write_text("")
    for at in range(configs):
        parts = [f"pkg.m{rng.randrange(modules)}" for _ in range(3)]
        (root / f"configs/c{at}.json").write_text(json.dumps({"parts": parts, "size": at}))
    for at in range(20):
        body = "".join(f"import pkg.m{rng.randrange(modules)}\n" for _ in range(5))
        (root / f"job{at}.py").write_text(body)
    lines = ['[tithe]\nmain = "main"\n\n[graph]\npackages = ["pkg"]\n']
    for at in range(scenarios):
        command = f"python job{at % 20}.py --config configs/c{at % configs}.json --width {at}"
        lines.append(f'\n[[scenario]]\nname = "s{at:05}"\ncommand = "{command}"\n')
    (root / "tithe.toml").write_text("".join(lines))
    git(root, "init", "--quiet", "--initial-branch=main")
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "Start")
    for number in range(changes):
        for at in rng.sample(range(modules), 3):
            with (root / f"pkg/m{at}.py").open("a") as file:
                file.write(f"# {number}\n")
        git(root, "commit", "--quiet", "--all", "-m", f"Change {number}")


def fill(root: Path, changes: int) -> None:
    """Forty outcomes for each change, one in fifty of them a regression."""
    rng = random.Random(changes)
    repo = GitRepo.open(root)
    names = [
        line.split('"')[1]
        for line in (root / "tithe.toml").read_text().splitlines()
        if line.startswith("name")
    ]
    with Store.open(root / ".tithe/store.db") as store:
        history = list(repo.first_parent(repo.resolve("main")))
        store.add_outcomes(
            _outcome(rng, change, name) for change in history[1:] for name in rng.sample(names, 40)
        )


def _outcome(rng: random.Random, change: Change, name: str) -> Outcome:
    verdict = "regressed" if rng.random() < 0.02 else "same"
    return Outcome(
        change.parent, change.sha, ScenarioName(name), MetricName("ttfb"), verdict, change.time + 1.0, "ab", "chosen"
    )  # fmt: skip


def git(root: Path, *words: str) -> None:
    """A git command on the made-up repository."""
    who = {"NAME": "Ada", "EMAIL": "ada@example.org"}
    named = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in who.items()}
    subprocess.run(["git", "-C", str(root), *words], check=True, env={**os.environ, **named})


def tithe(root: Path, *words: str) -> None:
    """A tithe command, which must go well."""
    subprocess.run([sys.executable, "-m", "tithe", *words], cwd=root, check=True, stdout=subprocess.DEVNULL)


def _timed(root: Path, *words: str) -> float:
    began = time.monotonic()
    tithe(root, *words)
    return time.monotonic() - began


def _shown(row: dict[str, float]) -> str:
    return (
        f"{row['scenarios']:.0f} scenarios, snapshot of {row['snapshot_bytes'] / 1024:.0f} KiB: "
        f"selected {row['uncached']:.2f} s after an empty folder with the snapshot fetched, "
        f"{row['cached']:.2f} s with it cached ({row['cached'] / row['uncached']:.2f} of that); "
        f"on the full store {row['store']:.2f} s ({row['store'] / row['cached']:.2f} ×); "
        f"importing pandas, scikit-learn and LightGBM alone {row['imports']:.2f} s "
        f"({row['imports'] / row['cached']:.2f} ×)"
    )


if __name__ == "__main__":
    main()
