"""The same bundles, in whatever order, by however many processes at once, some of them killed: the same store."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

from tests.properties.test_store_properties import content
from tithe.data.records import (
    STRENGTH,
    Change,
    FileEdit,
    Launch,
    MetricName,
    Outcome,
    RunRecord,
    ScenarioName,
    Sha,
)
from tithe.data.spool import Record, ingest, write_bundle
from tithe.data.store import Store

SHAS = [Sha(f"{n:040x}") for n in range(12)]
TAKE = """
import random, sys
from tithe.data.spool import ingest
from tithe.data.store import Store
paths = sys.argv[2:]
with Store.open(__import__("pathlib").Path(sys.argv[1])) as store:
    for path in paths:
        ingest(store, path)
"""


def records(dice: random.Random, number: int) -> list[Record]:
    """What a job sends; jobs repeat one another in part, and contradict each other now and then."""
    at = dice.randrange(1, len(SHAS))
    run = f"run-{dice.randrange(30)}"
    found: list[Record] = [
        RunRecord(
            run,
            "check",
            SHAS[at - 1],
            SHAS[at],
            float(dice.randrange(9)),
            f"host {dice.randrange(3)}",
            "chosen",
            "",
        ),
        Change(
            SHAS[at], SHAS[at - 1], -1, "Ada", float(at), "x" * dice.randrange(3), (FileEdit("a.py", at, 1),)
        ),
    ]  # type: ignore[list-item]
    for position in range(8):
        found.append(
            Launch(
                f"{run}-{position}",
                run,
                ScenarioName("lm"),
                "base",
                SHAS[at - 1],
                "first",
                position,
                0,
                "a",
                float(position),
                1.0 + dice.randrange(3),
                "ok",
                0,
                {MetricName("wall"): 1.0 + dice.randrange(2)},
            )
        )
        source = dice.choice(sorted(STRENGTH))
        found.append(
            Outcome(
                SHAS[at - 1],
                SHAS[at],
                ScenarioName(f"s{dice.randrange(4)}"),
                MetricName("wall"),
                dice.choice(["same", "regressed"]),
                float(dice.randrange(20)),
                source,
                "chosen",
            )
        )
    return found


def test_interleaved_killed_and_repeated_they_make_one_store(tmp_path: Path) -> None:
    dice = random.Random(5)
    paths = [str(write_bundle(tmp_path / "spool", records(dice, n))) for n in range(60)]
    with Store.open(tmp_path / "one.db") as store:
        for path in paths:
            ingest(store, path)
        said = (store.outcomes(), store.noise(), store.launch_seconds(), store.runs())
    running = []
    for _ in range(4):
        order = dice.sample(paths, len(paths)) + dice.sample(paths, 10)
        running.append(subprocess.Popen([sys.executable, "-c", TAKE, str(tmp_path / "many.db"), *order]))
    time.sleep(0.6)
    for one in running[:2]:
        one.kill()
    assert [one.wait(timeout=60) for one in running[2:]] == [0, 0]
    for one in running[:2]:
        one.wait(timeout=60)
    assert content(tmp_path / "many.db") == content(tmp_path / "one.db")
    with Store.open(tmp_path / "many.db") as store:
        assert (store.outcomes(), store.noise(), store.launch_seconds(), store.runs()) == said
        assert store.check() == []
