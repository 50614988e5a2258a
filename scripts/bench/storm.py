"""Many processes write to one store while one of them is killed every second: is every acknowledged record there once?

    scripts/bench/storm --processes 16 --seconds 60

A writer adds small batches of outcomes, one transaction each, and only then notes the batch in a file of its own,
synced; what is in the note must be in the store, whole, whenever the writer is killed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tithe.data.records import MetricName, Outcome, ScenarioName, Sha
from tithe.data.store import Store

BATCH = 5


def outcomes(writer: str, batch: int) -> list[Outcome]:
    return [
        Outcome(
            Sha("0" * 40),
            Sha(f"{batch * BATCH + at:040x}"),
            ScenarioName(f"s-{writer}"),
            MetricName("wall"),
            "same",
            float(batch),
            "ab",
            "chosen",
        )
        for at in range(BATCH)
    ]


def write(path: Path, notes: Path, writer: str) -> None:
    with Store.open(path) as store, (notes / writer).open("ab", buffering=0) as note:
        for batch in range(1 << 30):
            store.add_outcomes(outcomes(writer, batch))
            note.write(f"{batch}\n".encode())
            os.fsync(note.fileno())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    dice = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        path, notes = Path(folder, "store.db"), Path(folder, "notes")
        notes.mkdir()
        count = kills = 0

        def start() -> multiprocessing.process.BaseProcess:
            nonlocal count
            count += 1
            process = context.Process(target=write, args=(path, notes, f"w{count:04d}"), daemon=True)
            process.start()
            return process

        Store.open(path).close()
        writers = [start() for _ in range(options.processes)]
        time.sleep(3)
        until = time.monotonic() + options.seconds
        while time.monotonic() < until:
            time.sleep(1)
            index = dice.randrange(len(writers))
            writers[index].kill()
            writers[index].join()
            kills += 1
            writers[index] = start()
        for writer in writers:
            writer.kill()
            writer.join()
        with Store.open(path) as store:
            faults = store.check()
            found = Counter((one.scenario, one.change) for one in store.outcomes(superseded=True))
        acknowledged = missing = partial = 0
        for note in sorted(notes.iterdir()):
            batches = [int(line) for line in note.read_text().split()]
            acknowledged += len(batches) * BATCH
            for batch in batches:
                for one in outcomes(note.name, batch):
                    missing += found[one.scenario, one.change] != 1
        by_writer: Counter[str] = Counter()
        for (scenario, _), times in found.items():
            by_writer[scenario] += times
        partial = sum(times % BATCH != 0 for times in by_writer.values())
        total = sum(found.values())
        print(
            f"{options.processes} writers, {kills} killed in {options.seconds:.0f} s: {acknowledged} records "
            f"acknowledged, {total} in the store, {missing} missing or doubled, {partial} writers with half a batch, "
            f"faults {faults or 'none'}"
        )
        sys.exit(bool(missing or partial or faults))


if __name__ == "__main__":
    main()
