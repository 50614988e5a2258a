"""The north star: regressing changes caught, missed and falsely blamed, against all machine time spent.

Over every change of the new era of demo repositories whose seeds nobody tuned on: `tithe check` within a budget for
each change, a sweep and bisections at releases, training at releases. All machine time counts (both arms, set-up,
confirmation, sweep, bisection), as a share of what running every scenario on every change takes with the same
engine. Beside it, at the same budget: random selection, and selection by the import graph alone.

Fast mode replays decisions from launches that were recorded once for each commit and scenario (`--record`), and
averages over several draws of them. Live mode (`--live N`) runs the first N faulty and N other changes for real.
The answer key of the demo says which changes are faulty; nothing of it reaches the selection. It does reach the
replay: commits between which nothing moves a scenario share their launches of it, since the few that were
recorded for each differ by chance, and to resample that difference for ever would make effects that are not there.

    scripts/bench/northstar --seeds 101 102 --record       # records what is missing, then replays
    scripts/bench/northstar --seeds 101 102 --json out.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

from recording import Recording, new_era, read, record
from replay import Plan, Policy, Walk, World, walk

from tithe.data.config import load
from tithe.data.git import GitRepo
from tithe.data.graph import GraphBuilder
from tithe.data.records import Change, Launch, ScenarioName, Sha
from tithe.data.spool import ingest
from tithe.data.store import Store
from tithe.demo.answers import answers, regressing
from tithe.demo.write import write
from tithe.selector.cost import expected_blocks
from tithe.selector.policies import FREQUENCY, GRAPH_ONLY, PRIOR, RANDOM

ROOT = Path(__file__).resolve().parents[2]
RECORDED_UNTIL = "v0.3"
"""The release that the demo's recorded history ends with."""
POLICIES = (
    Policy("tithe"),
    Policy("prior", PRIOR),
    Policy("random", RANDOM),
    Policy("graph only", GRAPH_ONLY),
    Policy("frequency/cost", FREQUENCY),
)


@dataclass(frozen=True)
class Row:
    """One policy at one budget, averaged over the draws."""

    seed: int
    policy: str
    budget: float
    faulty: int
    at_change: float
    at_release: float
    missed: float
    blamed: float
    unnamed: float
    share: float
    """All machine time, as a share of everything on every change."""
    check_share: float
    sweep_share: float
    bisect_share: float


@cache
def world_of(seed: int, folder: Path) -> World:
    """The demo repository of a seed, with its recording and its answer key."""
    demo = folder / f"demo-{seed}"
    repo, config = GitRepo.open(demo), load(demo)
    everything = tuple(repo.first_parent(repo.resolve(config.main)))
    changes = new_era(repo, config.main, RECORDED_UNTIL)
    past = everything[: len(everything) - len(changes)]
    tags = repo.tags()
    order = {change.sha: at for at, change in enumerate(changes)}
    releases = sorted(
        ((name, sha) for name, sha in tags.items() if sha in order), key=lambda pair: order[pair[1]]
    )
    builder = GraphBuilder(repo, config, folder / f"graphs-{seed}")
    graphs = {change.sha: builder.build(change.sha) for change in everything}
    with tempfile.TemporaryDirectory() as scratch, Store.open(Path(scratch) / "store.db") as store:
        ingest(store, demo / "spool")
        known, seconds, noise = tuple(store.outcomes()), store.launch_seconds(), store.noise()
    recording = read(_recording(folder, seed))
    recording = replace(recording, pool=_pooled(recording, [tags[RECORDED_UNTIL], *order], seed))
    measured = {name for _, name in recording.pool}
    truth = {
        fault.sha: frozenset(ScenarioName(name) for name in fault.scenarios if name in measured)
        for fault in regressing(seed)
    }
    truth = {sha: names for sha, names in truth.items() if sha in order and names}
    return World(
        seed=seed,
        config=replace(config, scenarios=tuple(s for s in config.scenarios if s.name in measured)),
        past=past,
        changes=changes,
        releases=tuple(releases),
        start=tags[RECORDED_UNTIL],
        graph_of=lambda change: graphs[change.sha],
        recording=recording,
        known=known,
        launch_seconds={name: value for name, value in seconds.items() if name in measured},
        blocks=expected_blocks(
            {name: (one.sd, one.df) for (name, metric), one in noise.items() if metric == "ttfb"},
            config.decision.wanted_effect,
            config.decision.max_blocks,
        ),
        noise=noise,
        truth=truth,
    )


def _pooled(
    recording: Recording, commits: list[Sha], seed: int
) -> dict[tuple[Sha, ScenarioName], list[Launch]]:
    """The launches of each commit and scenario, with those of its neighbours up to the next effect on it."""
    moved = {(fault.sha, name) for fault in answers(seed) for name in fault.scenarios}
    pool: dict[tuple[Sha, ScenarioName], list[Launch]] = {}
    for name in sorted({name for _, name in recording.pool}):
        segment: list[Launch] = []
        for sha in commits:
            if (sha, name) in moved:
                segment = []
            segment.extend(recording.pool.get((sha, name), []))
            pool[sha, name] = segment
    return pool


def full_cost(seed: int, folder: Path, draw: int) -> tuple[float, Walk]:
    """Machine seconds of everything on every change, and what that catches."""
    found = walk(world_of(seed, folder), Policy("everything", everything=True), plan=None, draw=draw)
    return found.total, found


def one(seed: int, folder: Path, policy: Policy, budget: float, draw: int, full: float) -> Walk:
    """One walk within `budget` of the full cost: half of it for checks, the rest for sweeps and bisections."""
    world = world_of(seed, folder)
    # A sweep after many changes finds a lot and confirms it: twice what all scenarios take on one change.
    whole = 2 * full / len(world.changes)
    releases = len(world.releases)
    affordable = max(1, int(0.3 * budget * full / whole))
    every = -(-releases // affordable)
    sweeps = -(-releases // every)
    plan = Plan(
        check_s=0.5 * budget * full / len(world.changes),
        sweep_s=0.3 * budget * full / sweeps,
        bisect_s=0.2 * budget * full / sweeps,
        every=every,
    )
    return walk(world, policy, plan=plan, draw=draw)


def _job(arguments: tuple[int, Path, int, float, int, float]) -> Walk:
    seed, folder, policy, budget, draw, full = arguments
    return one(seed, folder, POLICIES[policy], budget, draw, full)


def _full_job(arguments: tuple[int, Path, int]) -> tuple[float, Walk]:
    return full_cost(*arguments)


def replay(seed: int, folder: Path, budgets: list[float], draws: int, workers: int) -> tuple[list[Row], Row]:
    """All policies at all budgets, and everything on every change."""
    with ProcessPoolExecutor(workers) as pool:
        fulls = list(pool.map(_full_job, [(seed, folder, draw) for draw in range(draws)]))
        full = statistics.fmean(total for total, _ in fulls)
        keys = [(at, budget) for budget in budgets for at in range(len(POLICIES))]
        jobs = [(seed, folder, at, budget, draw, full) for at, budget in keys for draw in range(draws)]
        walks = list(pool.map(_job, jobs))
    faulty = len(world_of(seed, folder).truth)
    rows = [
        _row(seed, POLICIES[at].name, budget, faulty, walks[number * draws : (number + 1) * draws], full)
        for number, (at, budget) in enumerate(keys)
    ]
    return rows, _row(seed, "everything", 1.0, faulty, [found for _, found in fulls], full)


def _row(seed: int, policy: str, budget: float, faulty: int, walks: list[Walk], full: float) -> Row:
    def mean(values: list[float]) -> float:
        return statistics.fmean(values)

    return Row(
        seed,
        policy,
        budget,
        faulty,
        mean([len(w.at_change) for w in walks]),
        mean([len(w.at_release - w.at_change) for w in walks]),
        mean([faulty - len(w.at_change | w.at_release) for w in walks]),
        mean([len(w.blamed) for w in walks]),
        mean([w.unnamed for w in walks]),
        mean([w.total / full for w in walks]),
        mean([w.spent["check"] / full for w in walks]),
        mean([w.spent["sweep"] / full for w in walks]),
        mean([w.spent["bisect"] / full for w in walks]),
    )


def live(seed: int, folder: Path, count: int) -> None:
    """`tithe check` for real on the first faulty and the first other changes, at a quarter of a full run."""
    world = world_of(seed, folder)
    demo = folder / f"demo-{seed}"
    full, _ = full_cost(seed, folder, 0)
    budget = 0.25 * full / len(world.changes)
    for command in (["ingest", "git"], ["ingest", "spool", "spool"], ["train"]):
        subprocess.run([sys.executable, "-m", "tithe", *command], cwd=demo, check=True, capture_output=True)
    runnable = [c for c in world.changes if not {c.sha, c.parent} & world.recording.unrunnable.keys()]
    faulty = [c for c in runnable if c.sha in world.truth][:count]
    others = [
        c for c in runnable if c.sha not in world.truth and any(f.path.endswith(".py") for f in c.files)
    ][:count]
    for change in (*faulty, *others):
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tithe",
                "check",
                "--budget",
                f"{budget:.0f}s",
                "--head",
                change.sha,
                "--format",
                "json",
            ],
            cwd=demo,
            capture_output=True,
            text=True,
        )
        report = json.loads(done.stdout)
        named = sorted(
            {
                v["scenario"]
                for v in report["verdicts"]
                if v["verdict"] in ("regressed", "broken") and v["confirmed"]
            }
        )
        right = bool(set(named) & world.truth.get(change.sha, frozenset()))
        print(
            f"live, seed {seed}: {change.sha[:10]} {'faulty' if change in faulty else 'harmless'}: "
            f"exit {done.returncode}, "
            f"{len(report['selection']['selected'])} scenarios, {report['spent_s']:.0f} s of {budget:.0f} s, "
            f"{'caught' if right else 'blamed' if named else 'nothing found'} {' '.join(named)}"
        )


def _recording(folder: Path, seed: int) -> Path:
    return folder / f"launches-{seed}.jsonl"


def prepare(seed: int, folder: Path, rounds: int, *, do_record: bool) -> None:
    """Writes the demo, and records what is missing of its launches."""
    demo = folder / f"demo-{seed}"
    if not demo.exists():
        write(demo, seed=seed)
    path = _recording(folder, seed)
    if not do_record:
        if not path.exists():
            sys.exit(f"northstar: nothing is recorded for seed {seed}; pass --record")
        return
    repo, config = GitRepo.open(demo), load(demo)
    commits: list[Sha] = [repo.resolve(RECORDED_UNTIL)]
    fresh: tuple[Change, ...] = new_era(repo, config.main, RECORDED_UNTIL)
    commits += [change.sha for change in fresh]
    scenarios = [scenario for scenario in config.scenarios if not scenario.requires]
    record(demo, path, commits, scenarios, rounds)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102], help="demo seeds")
    parser.add_argument(
        "--budgets", type=float, nargs="+", default=[0.10, 0.25], help="shares of the full cost"
    )
    parser.add_argument("--draws", type=int, default=5, help="replays to average over")
    parser.add_argument(
        "--record",
        action="store_true",
        help="record the launches that are missing (about half an hour a seed)",
    )
    parser.add_argument(
        "--rounds", type=int, default=2, help="rounds of two launches for each commit and scenario"
    )
    parser.add_argument(
        "--live", type=int, default=0, metavar="N", help="run N faulty and N other changes for real, too"
    )
    parser.add_argument("--workers", type=int, default=2, help="processes to replay with")
    parser.add_argument(
        "--folder", type=Path, default=ROOT / "build" / "northstar", help="demos and recordings"
    )
    parser.add_argument("--json", type=Path, help="write the rows here as well")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for seed in options.seeds:
        prepare(seed, options.folder, options.rounds, do_record=options.record)
        found, everything = replay(seed, options.folder, options.budgets, options.draws, options.workers)
        rows += [everything, *found]
        print(table([everything, *found]), flush=True)
        if options.live:
            live(seed, options.folder, options.live)
    if options.json:
        options.json.write_text(json.dumps([asdict(row) for row in rows], indent=2) + "\n", encoding="utf-8")


def table(rows: list[Row]) -> str:
    """The rows for a person."""
    from tabulate import tabulate

    headers = (
        "seed",
        "policy",
        "budget",
        "faulty",
        "caught at change",
        "at release",
        "missed",
        "falsely blamed",
        "unnamed",
        "cost share",
        "check",
        "sweep",
        "bisect",
    )
    body = [
        (
            row.seed,
            row.policy,
            f"{row.budget:.0%}",
            row.faulty,
            *(
                f"{value:.1f}"
                for value in (row.at_change, row.at_release, row.missed, row.blamed, row.unnamed)
            ),
            *(f"{value:.1%}" for value in (row.share, row.check_share, row.sweep_share, row.bisect_share)),
        )
        for row in rows
    ]
    return str(tabulate(body, headers, disable_numparse=True))


if __name__ == "__main__":
    main()
