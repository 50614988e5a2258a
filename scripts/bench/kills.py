"""A run that is killed at random moments, again and again: what is lost, what is launched twice, what is left.

Each trial starts `tithe run` on two scenarios (one slower, one not), kills it with SIGKILL at a random moment, and runs
the same command again to its end. Every launch writes a line of its own, so that launches that came to nothing are
counted too.

    scripts/bench/kills --trials 50
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tithe.data.store import Store

CONFIG = """\
[tithe]
main = "main"

[graph]
packages = []

[[scenario]]
name = "slower"
command = "python job.py work"
metrics = ["wall"]
timeout = "20s"

[[scenario]]
name = "alike"
command = "python job.py rest"
metrics = ["wall"]
timeout = "20s"
"""
JOB = """\
import os, sys
with open({log!r}, "a") as file:
    file.write(f"{{os.getpid()}}\\n")
import work, rest
sum(i * i for i in range((work if sys.argv[1] == "work" else rest).SIZE))
"""
SIZE = 900_000


def git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def repository(root: Path) -> Path:
    root.mkdir()
    log = root.parent / f"{root.name}.launches"
    git(root, "init", "-q", "-b", "main")
    for key, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        git(root, "config", key, value)
    for size, subject in ((SIZE, "one"), (2 * SIZE, "two")):
        (root / "tithe.toml").write_text(CONFIG)
        (root / "job.py").write_text(JOB.format(log=str(log)))
        (root / "work.py").write_text(f"SIZE = {size}\n")
        (root / "rest.py").write_text(f"SIZE = {SIZE}\n")
        git(root, "add", "-A")
        git(root, "commit", "-q", "-m", subject)
    log.touch()
    return log


def alive(log: Path) -> list[int]:
    """Launches that still run."""
    found = []
    for pid in set(map(int, log.read_text().split())):
        try:
            words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if words[0] not in "ZX" and b"job.py" in command:
            found.append(pid)
    return found


def left(root: Path) -> list[str]:
    """What should not be there after a run has ended: scratch folders, marks of open runs, odd worktrees."""
    cache = root / ".tithe" / "cache"
    found = [str(path.relative_to(cache)) for path in (cache / "scratch").glob("*")]
    found += [str(path.relative_to(cache)) for path in (cache / "runs").glob("*")]
    trees = [
        Path(line.split()[1])
        for line in git(root, "worktree", "list", "--porcelain").splitlines()
        if line.startswith("worktree ")
    ]
    found += [str(tree) for tree in trees if tree != root and not tree.with_name(f"{tree.name}.ok").exists()]
    found += [str(path) for path in (cache / "arms").rglob("*.work")]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    words = [sys.executable, "-m", "tithe", "run", "--base", "HEAD~1", "--head", "HEAD", "--format", "json"]
    hit = wasted = survivors = remains = twice = 0
    verdicts: Counter[tuple[str, ...]] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.trials):
            root = Path(folder, f"{number:03d}")
            log = repository(root)
            process = subprocess.Popen(words, cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(dice.uniform(0.1, 7.0))
            running = process.poll() is None
            process.kill() if running else None
            killed = process.wait() == -signal.SIGKILL
            hit += killed
            time.sleep(0.5)
            survivors += len(alive(log))
            done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=False)
            report = json.loads(done.stdout)
            verdicts[tuple(f"{v['scenario']} {v['verdict']}" for v in report["verdicts"])] += 1
            with Store.open(root / ".tithe" / "store.db") as store:
                launches = [launch for launch in store.launches() if launch.run == report["id"]]
            twice += max(Counter(launch.id for launch in launches).values()) - 1
            made = len(log.read_text().splitlines())
            over = made - len(launches)
            wasted += over if killed else 0
            if killed and over > 4:
                print(f"trial {number}: {over} launches came to nothing")
            remains += len(found := left(root))
            if found or done.returncode != 1 or "Traceback" in done.stderr:
                print(f"trial {number}: exit {done.returncode}, left {found} {done.stderr.strip()[-300:]}")
            survivors += len(alive(log))
            print(f"{number + 1}/{options.trials}", end="\r", flush=True, file=sys.stderr)
    print(
        f"{options.trials} trials, {hit} killed while it ran: verdicts {dict(verdicts)}; launches on record twice "
        f"{twice}; launches that came to nothing {wasted} ({wasted / max(hit, 1):.1f} a kill); processes left "
        f"{survivors}; files, worktrees or locks left {remains}"
    )
    os._exit(0 if not (twice or survivors or remains) and wasted <= 4 * hit else 1)


if __name__ == "__main__":
    main()
