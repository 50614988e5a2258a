"""Step labels: simulated series whose steps are known, and a real history, beside the labels of others.

scripts/bench/steps                 # false alarms, detection and position error by kind of noise
scripts/bench/steps --history       # ../shared/datasets/asv-numpy: labels in intervals that touch no code
"""

from __future__ import annotations

import argparse
import csv
import io
import lzma
import math
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tithe.data import steps

DATA = Path(__file__).resolve().parents[3] / "shared" / "datasets" / "asv-numpy"
SD = 0.02
LENGTH = 400
KINDS = ("normal", "t3", "outliers", "skewed", "AR .4", "drift", "random walk", "two states")
SURE = 0.5
Floats = NDArray[np.float64]


def noise(kind: str, rng: np.random.Generator) -> Floats:
    values = rng.standard_normal(LENGTH)
    if kind == "t3":
        values = rng.standard_t(3, LENGTH)
    elif kind == "outliers":
        values = np.where(rng.random(LENGTH) < 0.05, values * 8, values)
    elif kind == "skewed":
        values = rng.exponential(1, LENGTH) - 1
    elif kind == "AR .4":
        for at in range(1, LENGTH):
            values[at] = 0.4 * values[at - 1] + 0.92 * values[at]
    elif kind == "drift":
        values = values + np.linspace(0, 8, LENGTH)
    elif kind == "random walk":
        values = values + np.cumsum(rng.standard_normal(LENGTH) * 0.1)
    elif kind == "two states":
        values = values + np.cumsum(rng.random(LENGTH) < 0.05) % 2 * 6
    return np.asarray(values * SD)


def sure(logs: Floats) -> list[steps.Step]:
    return [step for step in steps.detect(logs) if step.confidence >= SURE]


def simulated(series: int) -> None:
    print(f"{series} series of {LENGTH} values for each cell; a step is found within 3 values of where it is")
    for kind in KINDS:
        rng = np.random.default_rng(1)
        false = sum(len(sure(noise(kind, rng))) for _ in range(series))
        cells = []
        for size in (2, 3, 5, 10):
            hits, errors, covered = 0, [], 0
            for _ in range(series):
                at = int(rng.integers(30, LENGTH - 30))
                logs = noise(kind, rng)
                logs[at:] += size * SD
                near = [step for step in sure(logs) if abs(step.at - at) <= 3 and step.effect > 0]
                if near:
                    hits += 1
                    errors.append(abs(near[0].at - at))
                    covered += near[0].low <= at <= near[0].high
            mean = np.mean(errors) if errors else math.nan
            cells.append(
                f"{size}σ {hits / series:.2f} off by {mean:.2f} covered {covered / max(hits, 1):.2f}"
            )
        print(
            f"{kind:12} false alarms per 1000 series {1000 * false / series:5.0f}; {'; '.join(cells)}",
            flush=True,
        )


def table(name: str, delimiter: str = ",") -> Iterator[dict[str, str]]:
    path = DATA / name
    raw = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    text = raw.decode()
    yield from csv.DictReader(io.StringIO(text), delimiter="\t" if "\t" in text[:2000] else delimiter)


def is_code(path: str) -> bool:
    kinds = (".py", ".c", ".h", ".src", ".pyx", ".pxd", ".cpp", ".in", ".toml", ".cfg", ".f")
    elsewhere = ("doc/", "benchmarks/", "tools/", ".github")
    return path.endswith(kinds) and "/tests/" not in path and not path.startswith(elsewhere)


Label = tuple[str, float]
"""Commit and log effect."""


def ours(logs: Floats) -> list[tuple[int, float]]:
    return [(step.at, step.effect) for step in sure(logs)]


def otava(logs: Floats) -> list[tuple[int, float]]:
    from otava.series import AnalysisOptions, Metric, Series

    values = np.exp(logs).tolist()
    series = Series("x", None, list(range(len(values))), {"m": Metric(1, 1.0)}, {"m": values}, {})
    found = series.analyze(AnalysisOptions()).change_points["m"]
    return [
        (one.index, math.log(max(one.stats.mean_2, 1e-300) / max(one.stats.mean_1, 1e-300)))
        for one in found
        if one.stats.mean_1 > 0 and one.stats.mean_2 > 0
    ]


def history() -> None:
    gaps = {
        row["commit"][:12]: int(row["gap_first_parent_commits"] or 99) for row in table("i7-py37.commits.csv")
    }
    code = {row["commit"][:12] for row in table("interval_files.csv.xz") if is_code(row["path"])}
    rows = list(table("i7-py37.values.csv.xz"))
    commits = [name for name in rows[0] if name not in ("benchmark", "params", "version")]
    base = sum(commit not in code for commit in commits) / len(commits)
    print(f"{len(rows)} series, {len(commits)} intervals, {base:.1%} of which touch no code")
    listed = [(row["commit"][:12], float(row["log_ratio"])) for row in table("i7-py37.changes.csv")]
    report("changes.csv", listed, code)
    for name, detect in (("tithe", ours), ("apache-otava", otava)):
        began = time.monotonic()
        try:
            found = list(labels(rows, commits, gaps, detect))
        except ImportError:
            print(f"{name} is not installed")
            continue
        report(f"{name}, {time.monotonic() - began:.0f} s", found, code)


def labels(
    rows: list[dict[str, str]],
    commits: list[str],
    gaps: dict[str, int],
    detect: Callable[[Floats], list[tuple[int, float]]],
) -> Iterator[Label]:
    """As the listed ones are: only where the interval before was measured too, and is short."""
    for row in rows:
        values = np.array([float(row[commit] or "nan") for commit in commits])
        there = np.flatnonzero(np.isfinite(values) & (values > 0))
        if len(there) < 2 * steps.SURROUNDINGS:
            continue
        for at, effect in detect(np.log(values[there])):
            if there[at] - there[at - 1] == 1 and gaps.get(commits[there[at]], 99) <= 10:
                yield commits[there[at]], effect


def report(name: str, found: Iterable[Label], code: set[str]) -> None:
    found = list(found)
    cells = []
    for smallest in (0.05, 0.1, 0.2):
        some = [commit for commit, effect in found if abs(effect) >= math.log1p(smallest)]
        blind = sum(commit not in code for commit in some)
        cells.append(
            f"≥ {smallest:.0%}: {len(some)} labels, {blind / max(len(some), 1):.1%} where no code was touched"
        )
    print(f"{name:20} {'; '.join(cells)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--history", action="store_true")
    options = parser.parse_args()
    if not options.history:
        simulated(options.series)
    elif DATA.is_dir():
        history()
    else:
        raise SystemExit(f"{DATA} is not here: there is nothing to measure")


if __name__ == "__main__":
    main()
