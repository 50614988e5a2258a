"""Real regressions by real launches: the culprit's parent against the culprit, and whether the word is right.

For each case: A/A blocks as its history, then the decision as `tithe run` makes it (three times, with other seeds),
then a fresh fixed reference of many blocks. The interval of a verdict should hold what the reference says, with the
same statistic, and be narrow beside the effect.

    scripts/bench/cases --folder /tmp/cases --mirror https://github.com/{owner}/{name}
"""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import trials
from scipy.special import stdtrit

from tithe.data.noise import LOCATIONS, Noise, choose
from tithe.data.records import Launch, RunId, Verdict
from tithe.runner import engine, stats
from tithe.runner.local import LocalExecutor


@dataclass(frozen=True)
class Row:
    name: str
    verdicts: tuple[str, ...]
    right: int
    launches: tuple[int, ...]
    intervals: tuple[tuple[float, float, float], ...]
    statistic: str
    reference: float
    reference_low: float
    reference_high: float
    reference_of_means: float
    covered: int
    met: int
    """Intervals that overlap the reference's own, which is uncertain itself."""
    narrow: int
    """Intervals whose half-width is at most half the effect (both on the log scale)."""


def history(blocks: list[list[Launch]], trial: trials.Trial) -> Noise:
    metric = trial.scenario.gate[0]
    return choose(
        {
            at: [v for block in blocks if (v := stats.block_statistic(block, metric, at)) is not None]
            for at in LOCATIONS
        }
    )


def reference(values: list[float]) -> tuple[float, float, float]:
    mean, n = float(np.mean(values)), len(values)
    half = float(stdtrit(n - 1, 0.975)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def one(trial: trials.Trial, folder: Path, blocks: int, repeats: int) -> Row:
    metric = trial.scenario.gate[0]
    repo = trials.GitRepo.open(trial.root)
    aa, ab = folder / f"aa-{trial.name}.jsonl", folder / f"ab-{trial.name}.jsonl"
    with LocalExecutor(trial.config, repo) as executor:
        known = trials.read(aa)
        if len(known) < 24:
            for made in trials.measure(executor, trial, trial.base, 24 - len(known), 1, f"aa{len(known)}"):
                trials.save(aa, made)
        noise = history(trials.read(aa)[:24], trial)
        verdicts: list[Verdict] = []
        for seed in range(repeats):
            found = engine.compare(
                trial.scenario,
                trial.base,
                trials.Sha(trial.head),
                executor,
                trial.config.decision,
                run=RunId(f"live{seed}"),
                seed=seed,
                noise={metric: noise},
                sink=lambda made: trials.save(folder / f"live-{trial.name}.jsonl", made),
            )
            verdicts.append(next(v for v in found.verdicts if v.metric == metric))
        have = len(trials.read(ab))
        if have < blocks:
            for made in trials.measure(executor, trial, trial.head, blocks - have, 100 + have, f"ab{have}"):
                trials.save(ab, made)
    fresh = trials.read(ab)

    def of(location: str) -> list[float]:
        found = (stats.block_statistic(block, metric, location) for block in fresh)  # type: ignore[arg-type]
        return [value for value in found if value is not None]

    own = stats.settled(of(noise.location), noise).tolist()
    mean, low, high = reference(own)
    wanted = "regressed" if trial.direction == "regression" else "improved"
    told = [(v.ratio or math.nan, v.low or math.nan, v.high or math.nan) for v in verdicts]
    return Row(
        trial.name,
        tuple(v.verdict for v in verdicts),
        sum(v.verdict == wanted for v in verdicts),
        tuple(v.launches for v in verdicts),
        tuple(told),
        noise.statistic,
        mean,
        low,
        high,
        reference(of("mean"))[0],
        sum(bottom <= mean <= top for _, bottom, top in told),
        sum(bottom <= high and top >= low for _, bottom, top in told),
        sum(math.log(top / bottom) / 2 <= abs(math.log(ratio)) / 2 for ratio, bottom, top in told),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True, help="scratch: clones, environments, launches")
    parser.add_argument("--mirror", default="https://github.com/{owner}/{name}")
    parser.add_argument("--blocks", type=int, default=100, help="of the reference")
    parser.add_argument("--repeats", type=int, default=3, help="decisions for each case")
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if not trials.SHARED.is_dir():
        raise SystemExit(f"{trials.SHARED} is not here: there is nothing to measure")
    rows = []
    for trial in trials.trials(options.folder, options.mirror, options.only):
        if not trial.head:
            continue
        row = one(trial, options.folder, options.blocks, options.repeats)
        rows.append(row)
        print(
            f"{row.name}: {', '.join(row.verdicts)}; launches {row.launches}; "
            + "; ".join(f"{r:.3f} ({lo:.3f}…{hi:.3f})" for r, lo, hi in row.intervals)
            + f"; reference {row.reference:.3f} ({row.reference_low:.3f}…{row.reference_high:.3f}) of the "
            f"{row.statistic}, of means {row.reference_of_means:.3f}; "
            f"covered {row.covered}, met {row.met}, narrow {row.narrow} of {len(row.verdicts)}",
            flush=True,
        )
    total = sum(len(row.verdicts) for row in rows)
    print(
        f"right {sum(r.right for r in rows)}, covered {sum(r.covered for r in rows)}, "
        f"met {sum(r.met for r in rows)}, "
        f"narrow {sum(r.narrow for r in rows)} of {total}"
    )
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
