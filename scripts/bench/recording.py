"""Records launches of every scenario at every commit of a demo repository's new era, to replay decisions from.

Launches go round by round, and within a round scenario by scenario over all commits, in seconds: a host that drifts
or has a loud neighbour moves all commits alike, and a replay pairs the launches of one round. One line of JSON for each
commit, scenario and round; a recording that was stopped goes on where it stopped.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from tithe.data import codec
from tithe.data.config import load
from tithe.data.git import GitRepo
from tithe.data.records import Change, Launch, RunId, Scenario, ScenarioName, Sha
from tithe.runner.executor import BlockSpec
from tithe.runner.local import LocalExecutor


@dataclass(frozen=True)
class Recording:
    """What was measured: launches by commit and scenario, set-up seconds, commits that cannot be run."""

    pool: dict[tuple[Sha, ScenarioName], list[Launch]]
    setup_s: dict[Sha, float]
    unrunnable: dict[Sha, str]


def new_era(repo: GitRepo, main: str, recorded_until: str) -> tuple[Change, ...]:
    """The changes after the recorded history, oldest first."""
    return tuple(repo.first_parent(repo.resolve(main), after=repo.resolve(recorded_until)))


def record(
    demo: Path,
    path: Path,
    commits: Sequence[Sha],
    scenarios: Sequence[Scenario],
    rounds: int,
) -> None:
    """Makes `rounds` rounds of two launches for each commit and scenario, appended to `path`."""
    config, repo = load(demo, None), GitRepo.open(demo)
    done = {(entry["sha"], entry["scenario"], entry["round"]) for entry in _lines(path)}
    executor = LocalExecutor(config, repo)
    total, start, made = len(commits) * len(scenarios) * rounds, time.monotonic(), 0
    try:
        with path.open("a", encoding="utf-8") as stream:
            setup = {}
            why = {}
            for sha in commits:
                before = executor.spent()
                why[sha] = executor.prepare(sha)
                setup[sha] = executor.spent() - before
            for number in range(rounds):
                for scenario in scenarios:
                    for sha in commits:
                        if (sha, scenario.name, number) in done:
                            continue
                        launches: tuple[Launch, ...] = ()
                        if not why[sha]:
                            if number == 0 and scenario is scenarios[0]:
                                executor.run_block(_spec(scenario, sha, number))
                            # A warm-up block is one launch of each arm: here one commit in its two places.
                            launches = executor.run_block(_spec(scenario, sha, number + 1))
                        entry = {
                            "sha": sha,
                            "scenario": scenario.name,
                            "round": number,
                            "setup_s": setup.pop(sha, 0.0),
                            "why": why[sha],
                            "launches": [codec.to_plain(launch) for launch in launches],
                        }
                        stream.write(json.dumps(entry) + "\n")
                        stream.flush()
                        made += 1
                        if made % 200 == 0:
                            left = (total - len(done) - made) * (time.monotonic() - start) / made
                            print(
                                f"recorded {made + len(done)} of {total}, {left / 60:.0f} min left",
                                flush=True,
                            )
    finally:
        executor.close()


def read(path: Path) -> Recording:
    """The recording in `path`."""
    pool: dict[tuple[Sha, ScenarioName], list[Launch]] = {}
    setup: dict[Sha, float] = {}
    unrunnable: dict[Sha, str] = {}
    for entry in _lines(path):
        sha, name = Sha(entry["sha"]), ScenarioName(entry["scenario"])
        setup[sha] = setup.get(sha, 0.0) + entry["setup_s"]
        if entry["why"]:
            unrunnable[sha] = entry["why"]
        for raw in entry["launches"]:
            launch = msgspec.convert(raw, Launch)
            # The round stands where a block would: launches of one round are paired in a replay.
            pool.setdefault((sha, name), []).append(replace(launch, stage="record", block=entry["round"]))
    return Recording(pool, setup, unrunnable)


def _spec(scenario: Scenario, sha: Sha, block: int) -> BlockSpec:
    return BlockSpec(RunId("recording"), scenario, sha, sha, "warmup", block, 0)


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    if path.exists():
        with path.open(encoding="utf-8") as stream:
            for line in stream:
                if line.endswith("\n"):
                    yield json.loads(line)
