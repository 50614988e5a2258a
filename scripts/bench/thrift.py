"""Launches that a decision takes: tithe beside the rules that others decide by, on the same recorded launches.

The mix is that of a working week: 97 of 100 decisions have nothing in them, 3 a slow-down of 2 to 50 % (log-uniform),
planted by shifting the head's launches. Every rule is tuned on one half of the recordings: the smallest number of
launches whose false alarms are no more than tithe is asked for and whose power is no less than tithe's has; what is
printed comes from the other half. Rules that do not interleave get their launches as they would make them: all of one
arm, then all of the other.

    scripts/bench/thrift --folder /tmp/pool         # recordings made by falsealarms record
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import trials
from numpy.typing import NDArray
from scipy import stats as sps

from tithe.data.config import DecisionPolicy
from tithe.data.noise import LOCATIONS, Noise, choose
from tithe.runner import stats
from tithe.runner.simulate import decide

Floats = NDArray[np.float64]
SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 30, 40, 60)
"""Launches of each arm that a fixed rule is tried with."""
QUIET_SHARE = 0.97
SMALLEST, LARGEST = 0.02, 0.5


@dataclass(frozen=True)
class Half:
    """Logs of launches of one scenario, blocks in order: (blocks, 4), base, base, head, head; and in the order
    in which they were made."""

    name: str
    blocks: Floats
    stream: Floats
    noise: Noise


def logs(blocks: Sequence[Sequence[trials.Launch]], metric: str) -> tuple[Floats, Floats]:
    rows, streams = [], []
    for block in blocks:
        values = [launch.values.get(metric) for launch in block]  # type: ignore[call-overload]
        if all(stats.usable(value) for value in values):
            by = {
                arm: [math.log(v) for v, one in zip(values, block, strict=True) if one.arm == arm]
                for arm in ("base", "head")
            }
            rows.append(by["base"] + by["head"])
            streams.append([math.log(value) for value in values])
    return np.array(rows), np.array(streams).ravel()


def statistic(blocks: Floats, location: str) -> Floats:
    reduce = {"mean": np.mean, "lowest": np.min, "highest": np.max}[location]
    return np.asarray(reduce(blocks[..., 2:], axis=-1) - reduce(blocks[..., :2], axis=-1))


def halves(folder: Path, mirror: str, kinds: Sequence[str]) -> tuple[list[Half], list[Half]]:
    """To tune on, and to measure on; each with the other's blocks as its history."""
    tuning, measuring = [], []
    for trial in trials.trials(folder, mirror):
        metric = trial.scenario.gate[0]
        blocks = [block for kind in kinds for block in trials.read(folder / f"{kind}-{trial.name}.jsonl")]
        if len(blocks) < 20:
            continue
        rows, stream = logs(blocks, metric)
        # Every other stretch of six blocks, so that both halves have seen the same days.
        own = (np.arange(len(rows)) // 6) % 2 == 0
        parts = {
            chosen: (rows[own == chosen], stream.reshape(-1, 4)[own == chosen].ravel())
            for chosen in (True, False)
        }
        for into, chosen in ((tuning, True), (measuring, False)):
            past = parts[not chosen][0]
            noise = choose({at: statistic(past, at).tolist() for at in LOCATIONS})
            into.append(Half(trial.name, *parts[chosen], noise))
    return tuning, measuring


def effects(paths: int, quiet: bool, rng: np.random.Generator) -> Floats:
    if quiet:
        return np.zeros(paths)
    return np.log1p(np.exp(rng.uniform(math.log(SMALLEST), math.log(LARGEST), paths)))


def blocks_of(half: Half, paths: int, count: int, effect: Floats, rng: np.random.Generator) -> Floats:
    """Stretches of the record as (paths, count, 4), arms flipped block by block, the head shifted."""
    at = (rng.integers(len(half.blocks), size=(paths, 1)) + np.arange(count)) % len(half.blocks)
    found = half.blocks[at].copy()
    flip = rng.random((paths, count)) < 0.5
    found[flip] = found[flip][:, [2, 3, 0, 1]]
    found[..., 2:] += effect[:, None, None]
    return found


def runs_of(
    half: Half, paths: int, count: int, effect: Floats, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """`count` launches one after the other as the base, and as many after them as the head; or the reverse."""
    at = (rng.integers(len(half.stream), size=(paths, 1)) + np.arange(2 * count)) % len(half.stream)
    found = half.stream[at]
    flip = (rng.random(paths) < 0.5)[:, None]
    base, head = found[:, :count], found[:, count:]
    return np.where(flip, head, base), np.where(flip, base, head) + effect[:, None]


@dataclass(frozen=True)
class Rule:
    """How surely head is slower (larger says more), from `n` launches of each arm; the level is tuned."""

    name: str
    score: Callable[[Half, int, int, Floats, np.random.Generator], Floats]
    sizes: tuple[int, ...] = SIZES


def paired_t(half: Half, n: int, paths: int, effect: Floats, rng: np.random.Generator) -> Floats:
    values = statistic(blocks_of(half, paths, n // 2, effect, rng), "mean")
    return np.asarray(values.mean(1) / (values.std(1, ddof=1) / math.sqrt(n // 2) + 1e-12))


def paired_t_best(half: Half, n: int, paths: int, effect: Floats, rng: np.random.Generator) -> Floats:
    """The same on the statistic that tithe chose: what of the saving is the statistic, and what the rule."""
    values = statistic(blocks_of(half, paths, n // 2, effect, rng), half.noise.location)
    values = stats.settled(values, half.noise)
    return np.asarray(values.mean(1) / (values.std(1, ddof=1) / math.sqrt(n // 2) + 1e-12))


def student(half: Half, n: int, paths: int, effect: Floats, rng: np.random.Generator) -> Floats:
    base, head = (np.exp(some) for some in runs_of(half, paths, n, effect, rng))
    return np.asarray(-sps.ttest_ind(base, head, axis=1).statistic)


def welch(half: Half, n: int, paths: int, effect: Floats, rng: np.random.Generator) -> Floats:
    base, head = (np.exp(some) for some in runs_of(half, paths, n, effect, rng))
    return np.asarray(-sps.ttest_ind(base, head, axis=1, equal_var=False).statistic)


def mann_whitney(base: Floats, head: Floats) -> Floats:
    """z of the U statistic, larger where head is larger."""
    n = base.shape[1]
    ranks = sps.rankdata(np.concatenate([base, head], axis=1), axis=1)
    u = ranks[:, n:].sum(1) - n * (n + 1) / 2
    return np.asarray((u - n * n / 2) / math.sqrt(n * n * (2 * n + 1) / 12))


def asv(half: Half, n: int, paths: int, effect: Floats, rng: np.random.Generator) -> Floats:
    """The ratio of medians, where Mann and Whitney agree at .002; the factor is tuned."""
    base, head = runs_of(half, paths, n, effect, rng)
    agree = np.abs(mann_whitney(base, head)) >= sps.norm.isf(0.001)
    return np.where(agree, np.median(head, axis=1) - np.median(base, axis=1), -9.0)


RULES = (
    Rule("fixed n, paired t", paired_t, tuple(n for n in SIZES if n % 2 == 0 and n >= 4)),
    Rule("  on tithe's statistic", paired_t_best, tuple(n for n in SIZES if n % 2 == 0 and n >= 4)),
    Rule("pyperf (Student)", student),
    Rule("hyperfine's script (Welch)", welch),
    Rule("asv (factor, U test)", asv, tuple(n for n in SIZES if n >= 6)),
)


def tuned(
    rule: Rule, tuning: Sequence[Half], alarms: float, power: float, paths: int
) -> tuple[int, float, bool]:
    """The fewest launches of each arm that reach the power, their level, and whether any did."""
    best, level = rule.sizes[-1], math.inf
    for n in rule.sizes:
        rng = np.random.default_rng(n)
        none = np.concatenate([rule.score(half, n, paths, effects(paths, True, rng), rng) for half in tuning])
        level = float(np.quantile(none, 1 - alarms / 2))  # slower heads are half of the false alarms
        some = [rule.score(half, n, paths // 20, effects(paths // 20, False, rng), rng) for half in tuning]
        best = n
        if np.mean(np.concatenate(some) > level) >= power:
            return n, level, True
    return best, level, False


def pinpoint(
    half: Half, paths: int, effect: Floats, rng: np.random.Generator, level: float, most: int
) -> tuple[float, float]:
    """Ten attempts more as long as neither the tests agree at `level` nor say that there is nothing; ours
    stops for nothing where p is above what simulation says for .6 of quiet ones, as the original's bound does."""
    base, head = runs_of(half, paths, most, effect, rng)
    found, used, open_ = np.zeros(paths, bool), np.full(paths, most), np.ones(paths, bool)
    for n in range(10, most + 1, 10):
        # All of both arms up to now: the original adds attempts to both.
        z = mann_whitney(base[:, :n], head[:, :n])
        p = 2 * sps.norm.sf(np.abs(z))
        different = open_ & (p <= level)
        nothing = open_ & ~different & (p > 0.4)
        found |= different & (z > 0)
        used[different | nothing] = n
        open_ &= ~(different | nothing)
    return float(found.mean()), float(2 * used.mean())


def tithe(
    halves_: Sequence[Half], policy: DecisionPolicy, paths: int, quiet: bool, seed: int
) -> tuple[float, float]:
    """Share called slower (or, where there is nothing, called anything), and launches."""
    rng = np.random.default_rng(seed)
    called, launches = [], []
    for half in halves_:
        effect = effects(paths, quiet, rng)
        at = stats.location(half.noise)
        first, again = (
            statistic(blocks_of(half, paths, policy.max_blocks, effect, rng), at) for _ in range(2)
        )
        out = decide(first, again, policy, half.noise)
        called.append(out.rate(1, -1) if quiet else out.rate(1))
        launches.append(4 * float(out.blocks.mean()))
    return float(np.mean(called)), float(np.mean(launches))


def five_percent(paths: int) -> None:
    """A slow-down of 5 % at 2 % launch noise, confirmed within 12 blocks."""
    rng, policy, sd = np.random.default_rng(1), DecisionPolicy(), 0.02
    for noise, what in ((Noise(sd, 60.0), "with a history"), (None, "without")):
        shape = (paths, policy.max_blocks)
        first, again = (rng.normal(math.log1p(0.05), sd, shape) for _ in range(2))
        out = decide(first, again, policy, noise)
        within = np.isin(out.verdict, (1,)) & (out.blocks <= 12)
        threshold = math.expm1(float(stats.threshold_log(policy, sd)))
        print(
            f"5 % at 2 % launch noise, threshold {threshold:.1%}, {what}: confirmed {out.rate(1):.1%}, within 12 "
            f"blocks {within.mean():.1%}, {4 * out.blocks.mean():.1f} launches (simulated)"
        )


def check_tools() -> None:
    """The rules above against the tools' own code, where that is installed."""
    rng = np.random.default_rng(2)
    pairs = [
        (np.exp(rng.normal(0, 0.02, 12)), np.exp(rng.normal(shift, 0.02, 12)))
        for shift in rng.uniform(-0.05, 0.05, 300)
    ]
    try:
        from pyperf._utils import is_significant

        agree = sum(
            is_significant(list(base), list(head))[0] == (sps.ttest_ind(base, head).pvalue <= 0.05)
            for base, head in pairs
        )
        print(f"pyperf's own is_significant agrees with ours on {agree} of {len(pairs)} samples")
    except ImportError:
        print("pyperf is not installed: its rule is ours alone")
    try:
        from asv._stats import mann_whitney_u

        agree = sum(
            (mann_whitney_u(list(base), list(head))[1] < 0.002)
            == bool(np.abs(mann_whitney(base[None], head[None]))[0] >= sps.norm.isf(0.001))
            for base, head in pairs
        )
        print(f"asv's own U test agrees with ours on {agree} of {len(pairs)} samples")
    except ImportError:
        print("asv is not installed: its rule is ours alone")


def main() -> None:
    warnings.simplefilter("ignore", RuntimeWarning)  # memory that does not scatter at all
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--mirror", default="https://github.com/{owner}/{name}")
    parser.add_argument("--kinds", nargs="*", default=("quiet", "hog", "aa"))
    parser.add_argument("--paths", type=int, default=20_000)
    options = parser.parse_args()
    if not trials.SHARED.is_dir():
        raise SystemExit(f"{trials.SHARED} is not here: there is nothing to measure")
    tuning, measuring = halves(options.folder, options.mirror, options.kinds)
    policy, paths = DecisionPolicy(), options.paths
    print(
        "recordings:",
        ", ".join(f"{half.name} {len(half.blocks)} ({half.noise.statistic})" for half in measuring),
    )
    asked = stats.stage_alpha(policy) ** 2
    power, _ = tithe(tuning, policy, paths // 4, False, 1)
    wrong, quiet = tithe(measuring, policy, paths, True, 2)
    right, moved = tithe(measuring, policy, paths // 4, False, 3)
    mixed = QUIET_SHARE * quiet + (1 - QUIET_SHARE) * moved
    print(f"{'rule':28} {'n':>3} {'false':>8} {'power':>6} {'quiet':>6} {'moved':>6} {'mix':>6}  tithe takes")
    print(f"{'tithe':28} {'–':>3} {wrong:8.1e} {right:6.3f} {quiet:6.1f} {moved:6.1f} {mixed:6.1f}")
    for rule in RULES:
        n, level, reached = tuned(rule, tuning, asked, power, paths)
        rng = np.random.default_rng(9)
        none = [rule.score(half, n, paths, effects(paths, True, rng), rng) for half in measuring]
        some = [rule.score(half, n, paths // 4, effects(paths // 4, False, rng), rng) for half in measuring]
        false = 2 * float(np.mean(np.concatenate(none) > level))
        found = float(np.mean(np.concatenate(some) > level))
        print(
            f"{rule.name:28} {n:3} {false:8.1e} {found:6.3f} {2 * n:6.1f} {2 * n:6.1f} {2 * n:6.1f}  "
            f"{quiet / (2 * n):.2f} of quiet, {mixed / (2 * n):.2f} of the mix"
            + ("" if reached else "; never reaches the power")
        )
    for level in (0.01, 1e-3, 2e-4, 1e-5):
        rng = np.random.default_rng(9)
        none = [pinpoint(half, paths, effects(paths, True, rng), rng, level, 60) for half in measuring]
        some = [
            pinpoint(half, paths // 4, effects(paths // 4, False, rng), rng, level, 60) for half in measuring
        ]
        still, gone = float(np.mean([n for _, n in none])), float(np.mean([n for _, n in some]))
        both = QUIET_SHARE * still + (1 - QUIET_SHARE) * gone
        false, found = 2 * np.mean([rate for rate, _ in none]), np.mean([rate for rate, _ in some])
        print(
            f"{f'Pinpoint, level {level:g}':28} {'–':>3} {false:8.1e} {found:6.3f} {still:6.1f} {gone:6.1f} "
            f"{both:6.1f}  {quiet / still:.2f} of quiet, {mixed / both:.2f} of the mix"
        )
    five_percent(20_000)
    check_tools()


if __name__ == "__main__":
    main()
