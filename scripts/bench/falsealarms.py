"""How often nothing is called something: recorded A/A blocks, live A/A decisions, and simulated noise.

    scripts/bench/falsealarms record --folder /tmp/pool [--hog]     # A/A blocks of the real scenarios
    scripts/bench/falsealarms replay --folder /tmp/pool             # thousands of decisions drawn from them
    scripts/bench/falsealarms live --folder /tmp/pool --decisions 63   # and keeps them for replay
    scripts/bench/falsealarms simulate                              # error rate and power, kinds of noise side by side

Replaying starts anywhere in a record, keeps its order, and flips the arms of every block by chance. The history that
a decision knows is never part of what it is drawn from.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import trials
from numpy.typing import NDArray
from scipy.special import betaincinv

from tithe.data.config import DecisionPolicy
from tithe.data.noise import LOCATIONS, Noise, choose
from tithe.data.records import RunId
from tithe.runner import engine, stats
from tithe.runner.local import LocalExecutor
from tithe.runner.simulate import confirm, decide, first_stage, looks
from tithe.runner.tune import drawn, poisson_upper

HOG = """\
import random, time
rng = random.Random(1)
while True:
    until = time.time() + rng.uniform(1, 8)
    while time.time() < until:
        sum(range(1000))
    time.sleep(rng.uniform(1, 8))
"""
Floats = NDArray[np.float64]


@contextmanager
def neighbour(on: bool) -> Iterator[None]:
    """A process that is busy for 1 to 8 seconds, then away for as long."""
    if not on:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", HOG]) as process:
        try:
            yield
        finally:
            process.kill()


def bounds(events: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Clopper and Pearson's interval of a rate."""
    tail = (1 - level) / 2
    low = 0.0 if events == 0 else float(betaincinv(events, n - events + 1, tail))
    high = 1.0 if events == n else float(betaincinv(events + 1, n - events, 1 - tail))
    return low, high


def told(events: int, n: int) -> str:
    low, high = bounds(events, n)
    return f"{events}/{n} = {events / n:.2g} ({low:.2g}…{high:.2g})"


def statistics(folder: Path, trial: trials.Trial, kind: str) -> dict[str, Floats]:
    metric = trial.scenario.gate[0]
    blocks = trials.read(folder / f"{kind}-{trial.name}.jsonl")
    return {
        at: np.array([v for block in blocks if (v := stats.block_statistic(block, metric, at)) is not None])
        for at in LOCATIONS
    }


def history(values: dict[str, Floats]) -> Noise:
    return choose({at: values[at].tolist() for at in LOCATIONS})


def record(options: argparse.Namespace) -> None:
    kind = "hog" if options.hog else "quiet"
    with neighbour(options.hog):
        for trial in trials.trials(options.folder, options.mirror, options.only):
            with LocalExecutor(trial.config, trials.GitRepo.open(trial.root)) as executor:
                for made in trials.measure(executor, trial, trial.base, options.blocks, 7, kind):
                    trials.save(options.folder / f"{kind}-{trial.name}.jsonl", made)
            print(kind, trial.name, flush=True)


def replay(options: argparse.Namespace) -> None:
    policy = DecisionPolicy()
    alpha = stats.stage_alpha(policy)
    rng = np.random.default_rng(1)
    found = trials.trials(options.folder, options.mirror, options.only)
    print(f"level asked for: first stage {alpha:.4f}, confirmed {alpha**2:.1e}")
    pairs = (
        "none on fresh",
        "quiet on fresh",
        "hog on fresh",
        "fresh on fresh",
        "quiet on quiet",
        "hog on hog",
        "hog on quiet",
        "quiet on hog",
        "none on quiet",
        "none on hog",
    )
    for pair in pairs:
        known, _, kind = pair.partition(" on ")
        total = suspected = agreed = wrong = 0
        blocks = 0.0
        for trial in found:
            values = statistics(options.folder, trial, kind)
            if len(values["mean"]) < 12:
                continue
            pool = values
            if known == kind:
                middle = len(values["mean"]) // 2
                noise: Noise | None = history({at: some[:middle] for at, some in values.items()})
                pool = {at: some[middle:] for at, some in values.items()}
            else:
                noise = None if known == "none" else history(statistics(options.folder, trial, known))
            own = pool[stats.location(noise)]
            first, again = (drawn(own, options.paths, policy.max_blocks, rng) for _ in range(2))
            candidate, _, plan = first_stage(looks(first, noise), policy)
            rows = np.abs(candidate) == 1
            plans = plan[rows] if rows.any() else np.array([policy.max_blocks // 2])
            sign = np.ones(len(again), dtype=np.int8)
            seen = looks(again, noise, confirming=True)
            agree = confirm(seen, sign, rng.choice(plans, size=len(again)), policy)
            both = decide(first, again, policy, noise)
            total += len(first)
            suspected += int(rows.sum())
            agreed += int((agree.verdict == 1).sum())
            wrong += int(np.isin(both.verdict, (1, -1)).sum())
            blocks += float(both.blocks.sum())
        product = suspected / total * agreed / total
        print(
            f"history {known:5}, decisions {kind:5}: first stage {told(suspected, total)}; "
            f"confirmed {told(wrong, total)}, by the product of the stages {product:.1e}; "
            f"{4 * blocks / total:.1f} launches"
        )


def measured(made: Sequence[trials.Launch]) -> list[trials.Launch]:
    """Without warm-ups."""
    return [launch for launch in made if launch.stage != "warmup"]


def live(options: argparse.Namespace) -> None:
    found = trials.trials(options.folder, options.mirror, options.only)
    decided = suspected = alarms = launches = 0
    words: dict[str, int] = {}
    with neighbour(options.hog):
        for number in range(options.decisions):
            trial = found[number % len(found)]
            metric = trial.scenario.gate[0]
            noise = history(statistics(options.folder, trial, "quiet"))
            seen: list[str] = []
            with LocalExecutor(trial.config, trials.GitRepo.open(trial.root)) as executor:
                one = engine.compare(
                    trial.scenario,
                    trial.base,
                    trial.base,
                    executor,
                    trial.config.decision,
                    run=RunId(f"live-aa-{options.hog}-{number}"),
                    seed=1000 + number,
                    noise={metric: noise},
                    sink=lambda made, name=trial.name: trials.save(  # type: ignore[misc]
                        options.folder / f"fresh-{name}.jsonl", measured(made)
                    ),
                    on_block=lambda stage, *_, seen=seen: seen.append(stage),
                )
            verdict = next(v for v in one.verdicts if v.metric == metric)
            words[verdict.verdict] = words.get(verdict.verdict, 0) + 1
            decided += verdict.verdict != "error"
            suspected += "confirm" in seen
            alarms += verdict.verdict not in ("same", "inconclusive", "error")
            launches += verdict.launches
            print(
                number, trial.name, verdict.verdict, verdict.ratio, verdict.launches, verdict.note, flush=True
            )
    print(
        f"live: first stage {told(suspected, decided)}, confirmed {told(alarms, decided)}, at 5000 decisions a week "
        f"at most {poisson_upper(alarms) / decided * 5000:.0f}; {launches / decided:.1f} launches each; {words}"
    )


SD = 0.02


def noise_of(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Logs of launches (paths, blocks, 4) with scatter SD; scale families are matched at their middle half."""
    full = (*shape, 4)
    normal = rng.standard_normal(full)
    if kind == "t2":
        return rng.standard_t(2, full) * SD * 0.826
    if kind == "outliers":
        return np.where(rng.random(full) < 0.05, normal * 10, normal) * SD
    if kind == "skewed":
        return (rng.exponential(1, full) - 1) * SD
    if kind == "bimodal":
        return (np.where(rng.random(full) < 0.5, -1, 1) * 0.95 + normal * 0.3) * SD
    if kind in ("AR .5", "drift"):
        flat = normal.reshape(shape[0], -1)
        if kind == "drift":
            flat = flat + np.linspace(0, 6, flat.shape[1])
        else:
            for at in range(1, flat.shape[1]):
                flat[:, at] = 0.5 * flat[:, at - 1] + math.sqrt(0.75) * flat[:, at]
        return flat.reshape(full) * SD
    return normal * SD


def simulate(options: argparse.Namespace) -> None:
    # Narrower than the default, so that an effect of one sigma (2 %) is one that is wanted.
    policy = replace(DecisionPolicy(), wanted_effect=0.02, floor=0.005, noise_factor=0.0, alpha=0.02)
    print(
        f"level of each stage {policy.alpha}; one sigma is the scatter of a launch; first stage / confirmed (launches)"
    )
    arms = {"mean": np.mean, "lowest": np.min, "highest": np.max}
    for kind in ("normal", "t2", "outliers", "skewed", "bimodal", "AR .5", "drift"):
        rng = np.random.default_rng(3)

        def at(location: str, launches: Floats, shift: float) -> Floats:
            head, base = launches[..., [1, 2]] + shift, launches[..., [0, 3]]
            return np.asarray(arms[location](head, axis=-1) - arms[location](base, axis=-1))

        past = noise_of(kind, (1, 60), rng)
        noise = choose({where: at(where, past, 0.0)[0].tolist() for where in LOCATIONS})
        cells = []
        for known in (noise, replace(noise, df=0.0)):
            for effect, paths in ((0, options.paths), (1, 4000), (2, 4000)):
                shape = (paths, policy.max_blocks)
                first, again = (
                    at(stats.location(known), noise_of(kind, shape, rng), effect * SD) for _ in range(2)
                )
                out = decide(first, again, policy, known)
                suspected = float((np.abs(out.candidate) == 1).mean())
                cells.append(f"{suspected:.4f}/{out.rate(1, -1):.4f} ({4 * out.blocks.mean():.0f})")
        print(f"{kind:9} history of the {noise.statistic:15}: " + "  ".join(cells[:3]))
        print(f"{'':9} no history{'':20}: " + "  ".join(cells[3:]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("record", "replay", "live", "simulate"))
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--mirror", default="https://github.com/{owner}/{name}")
    parser.add_argument("--only", nargs="*", default=())
    parser.add_argument("--hog", action="store_true", help="with a neighbour that comes and goes")
    parser.add_argument("--blocks", type=int, default=30)
    parser.add_argument("--decisions", type=int, default=63)
    parser.add_argument("--paths", type=int, default=20_000, help="decisions drawn of each scenario")
    options = parser.parse_args()
    if options.what != "simulate" and not trials.SHARED.is_dir():
        raise SystemExit(f"{trials.SHARED} is not here: there is nothing to measure")
    {"record": record, "replay": replay, "live": live, "simulate": simulate}[options.what](options)


if __name__ == "__main__":
    main()
