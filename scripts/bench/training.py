"""Training on 10^5, 10^6 and 10^7 pairs: time and memory of features, trees and backtest, and how they grow.

    scripts/bench/training --rows 100000 1000000 10000000

The history is made up, and says so: changes that touch a few files of a repository, scenarios that reach some of them;
one change in twelve makes two scenarios in a hundred fail. Every size runs in a process of its own, through what
`tithe train` calls; only the store and the import graph, which have benchmarks of their own, are left out. Beside it,
in the same run, what a script of one's own would do with the same history: the same trees by LightGBM's scikit-learn
interface on a pandas frame of twelve decayed and counted columns, without a backtest (up to 10^6 rows: its records
alone take gigabytes beyond).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tithe.data.config import Config
from tithe.data.graph import ScenarioGraph
from tithe.data.records import Change, FileEdit, MetricName, Scenario, ScenarioName, Sha
from tithe.selector import backtest
from tithe.selector import train as training
from tithe.selector.fold import Columns
from tithe.selector.history import History

FILES = 600
FAULTY = 1 / 12
FAILING = 0.02
"""Of the pairs of a faulty change."""
LARGEST_PEER = 1_000_000


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--scenarios", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--one", choices=["tithe", "peer"], help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(
            json.dumps((ours if given.one == "tithe" else peer)(given.rows[0], given.scenarios, given.seed))
        )
        return
    for rows in given.rows:
        found = {}
        for name in ("tithe", "peer") if rows <= LARGEST_PEER else ("tithe",):
            words = [sys.executable, __file__, "--one", name, "--rows", str(rows), "--seed", str(given.seed)]
            words += ["--scenarios", str(given.scenarios)]
            found[name] = json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        own = found["tithe"]
        said = ", ".join(f"{key} {value:.1f} s" for key, value in own["seconds"].items())
        print(
            f"{rows} pairs, {own['failing']} failing: {own['whole']:.1f} s ({said}), {own['rows']} rows trained on; "
            f"{own['mib']} MiB, of which {own['before']} before"
        )
        if "peer" in found:
            other = found["peer"]
            print(
                f"  pandas and LGBMClassifier: {other['whole']:.1f} s, {other['mib']} MiB; ratio "
                f"{own['whole'] / other['whole']:.2f} of the time, with the backtest"
            )


def made(rows: int, scenarios: int, seed: int) -> tuple[Config, ScenarioGraph, History]:
    """A history of `rows` pairs: every scenario measured on every change."""
    rng = np.random.default_rng(seed)
    count = max(rows // scenarios, 1)
    specs = tuple(
        Scenario(ScenarioName(f"bench-{at:05d}"), ("python", f"bench/{at}.py"), gate=(MetricName("ttfb"),))
        for at in range(scenarios)
    )
    files = tuple(f"pkg/part{at % 20:02d}/module{at:03d}.py" for at in range(FILES))
    near = rng.random((scenarios, FILES), dtype=np.float32) * (rng.random((scenarios, FILES)) < 0.15)
    graph = ScenarioGraph(
        tuple(s.name for s in specs), files, np.where(near > 0, np.float32(2), np.float32(np.inf)), near
    )
    touched = rng.integers(0, FILES, (count, 4))
    changes = tuple(
        Change(
            Sha(f"{at + 1:040x}"),
            Sha(f"{at:040x}"),
            at,
            f"author {at % 60}",
            1e6 + 3600.0 * at,
            f"Change {files[touched[at, 0]]}",
            tuple(FileEdit(files[f], 1 + int(f) % 40, int(f) % 9) for f in np.unique(touched[at])),
        )
        for at in range(count)
    )
    chance = np.empty((count, scenarios), dtype=np.float32)
    prone = rng.gamma(0.5, 1.0, FILES).astype(np.float32)
    for at in range(count):
        chance[at] = (near[:, touched[at]] * prone[touched[at]]).max(axis=1)
    chance *= FAILING / chance.mean()
    chance[rng.random(count) >= FAULTY] = 0.0
    failing = rng.random((count, scenarios), dtype=np.float32) < chance
    total = count * scenarios
    comparison = np.repeat(np.arange(count, dtype=np.int32), scenarios)
    columns = Columns(
        tuple((change.parent, change.sha) for change in changes),
        comparison,
        np.tile(np.arange(scenarios, dtype=np.int32), count),
        failing.ravel(),
        np.ones(total),
        np.ones(total, dtype=np.int8),
        np.ones(total, dtype=np.bool_),
        1e6 + 3600.0 * comparison + 1800.0,
    )
    seconds = {s.name: float(np.exp(rng.normal(0.0, 0.7))) for s in specs}
    config = Config(root=Path(), path=Path("tithe.toml"), scenarios=specs)
    return config, graph, History(changes, launch_seconds=seconds, columns=columns)


def ours(rows: int, scenarios: int, seed: int) -> dict[str, object]:
    """What `tithe train` does once it has read the store."""
    config, graph, history = made(rows, scenarios, seed)
    before = _mib()
    spent = {"features": 0.0, "trees": 0.0, "scores": 0.0}
    trained = 0

    def clocked(name: str, call: Callable[..., object]) -> Callable[..., object]:
        def timed(*words: object, **more: object) -> object:
            began = time.perf_counter()
            try:
                return call(*words, **more)
            finally:
                spent[name] += time.perf_counter() - began

        return timed

    labelled = training.Rows.labelled

    def counted(self: training.Rows, *words: object) -> object:
        nonlocal trained
        found = labelled(self, *words)  # type: ignore[arg-type]
        trained = len(found[1])
        return found

    setattr(training.Rows, "labelled", counted)  # noqa: B010 - the type of a method is not to be assigned to
    for owner, name, what in (
        (training, "context_of", "features"),
        (training, "fit_trees", "trees"),
        (backtest.Tally, "add", "scores"),
    ):
        setattr(owner, name, clocked(what, getattr(owner, name)))
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        report = training.train(history, config, lambda _: graph, Path(folder), now=1e12, seed=seed)
        whole = time.perf_counter() - began
    if report.evidence.pairs != rows:
        raise SystemExit(f"trained on {report.evidence.pairs} pairs")
    return {
        "whole": whole,
        "seconds": spent,
        "failing": report.evidence.failing_pairs,
        "rows": trained,
        "mib": _mib(),
        "before": before,
    }


def peer(rows: int, scenarios: int, seed: int) -> dict[str, object]:
    """A script of one's own: records in a frame, counted and decayed columns, LGBMClassifier."""
    _, graph, history = made(rows, scenarios, seed)
    columns = history.columns
    if columns is None:
        raise SystemExit("no columns")
    import lightgbm
    import pandas as pd

    began = time.perf_counter()
    frame = pd.DataFrame(
        {"change": columns.comparison, "scenario": columns.cell, "failing": columns.failing.astype(float)}
    )
    by = frame.groupby("scenario")["failing"]
    for life in (5, 20, 80):
        frame[f"rate_{life}"] = by.transform(lambda s, n=life: s.shift().ewm(halflife=n).mean())
    frame["measured"] = by.cumcount()
    frame["failures"] = by.cumsum() - frame["failing"]
    near = np.asarray(graph.proximity)
    sizes = []
    for at, change in enumerate(history.changes):
        paths = [graph.column[edit.path] for edit in change.files]
        sizes.append((at, sum(e.added + e.deleted for e in change.files), len(paths)))
        part = near[:, paths]
        frame.loc[at * scenarios : (at + 1) * scenarios - 1, ["near", "sum", "reached"]] = np.stack(
            [part.max(axis=1), part.sum(axis=1), (part > 0).mean(axis=1)], axis=1
        )
    frame = frame.merge(pd.DataFrame(sizes, columns=["change", "lines", "files"]), on="change")
    features = [name for name in frame if name not in ("failing", "change", "scenario")]
    model = lightgbm.LGBMClassifier(
        n_estimators=300, learning_rate=0.05, num_leaves=16, n_jobs=1, verbosity=-1
    )
    model.fit(frame[features], frame["failing"])
    return {"whole": time.perf_counter() - began, "mib": _mib()}


def _mib() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


if __name__ == "__main__":
    main()
