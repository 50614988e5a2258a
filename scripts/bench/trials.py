"""Real scenarios to try decisions on: the recorded regressions of `../shared/cases`, and a training program.

Each gets a clone and a tithe.toml of its own in a scratch folder. The benchmarks compare where they import from
with PYTHONPATH, which holds tithe's probe too; a driver gives them the one that they expect.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tithe.data import codec
from tithe.data.config import Config, load
from tithe.data.git import GitRepo
from tithe.data.records import Launch, RunId, Scenario, Sha, Stage
from tithe.runner.executor import BlockSpec, Executor

SHARED = Path(__file__).resolve().parents[3] / "shared" / "cases"
DRIVER = """\
import os, runpy, sys
root, below = os.getcwd(), sys.argv[2]
os.environ["PYTHONPATH"] = root if below == "." else os.path.join(root, below)
runpy.run_path(sys.argv[1], run_name="__main__")
"""
TRAINING = """\
[tithe]
main = "HEAD"
python = {python!s}
pythonpath = ["."]

[graph]
packages = ["mingpt"]

[[scenario]]
name = "mingpt"
command = "python adder.py --trainer.max_iters=1501"
metrics = ["ttfb", "wall", "cpu", "rss"]
stop = "first-step"
cwd = "projects/adder"
timeout = "60s"
"""
TRAINING_REPO = "karpathy/minGPT"


@dataclass(frozen=True)
class Trial:
    """One scenario with two revisions that are known to differ, or one revision alone (`head` empty)."""

    name: str
    root: Path
    config: Config
    base: Sha
    head: Sha | str
    direction: str = ""
    """regression or improvement."""

    @property
    def scenario(self) -> Scenario:
        return self.config.scenarios[0]


def trials(folder: Path, mirror: str, only: Sequence[str] = ()) -> list[Trial]:
    """Set up what is missing below `folder`, and say what there is. `mirror`: URL with {owner} and {name}."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "driver.py").write_text(DRIVER, encoding="utf-8")
    found = []
    described = {
        path.parent.name: json.loads(path.read_text()) for path in sorted(SHARED.glob("*/case.json"))
    }
    packages = sorted({name for case in described.values() for name in case["pip"]})
    python = _environment(folder / "v", packages)
    for name, case in described.items():
        if only and name not in only:
            continue
        root = _clone(folder / name, case["repo"], mirror)
        config = folder / f"{name}.toml"
        config.write_text(_case(name, case, folder, python), encoding="utf-8")
        found.append(
            Trial(
                name,
                root,
                load(root, config),
                Sha(case["culprit_parent"]),
                Sha(case["culprit"]),
                case["direction"],
            )
        )
    if not only or "mingpt" in only:
        root = _clone(folder / "mingpt", TRAINING_REPO, mirror)
        config = folder / "mingpt.toml"
        # Where torch is, which the cases do without.
        config.write_text(TRAINING.format(python=json.dumps(sys.executable)), encoding="utf-8")
        found.append(Trial("mingpt", root, load(root, config), GitRepo.open(root).resolve("HEAD"), ""))
    return found


def _case(name: str, case: dict[str, str], folder: Path, python: Path) -> str:
    metric = {"value": '{ name = "value", unit = "s" }'}.get(case["metric"], json.dumps(case["metric"]))
    words = ["python", str(folder / "driver.py"), str(SHARED / name / "bench.py"), case["pythonpath"]]
    return (
        f"[tithe]\nmain = {json.dumps(case['bad_sha'])}\npython = {json.dumps(str(python))}\n"
        f"pythonpath = [{json.dumps(case['pythonpath'])}]\n\n[graph]\npackages = []\n\n"
        f"[[scenario]]\nname = {json.dumps(name)}\ncommand = {json.dumps(words)}\n"
        f'metrics = [{metric}]\ntimeout = "60s"\n'
    )


def _environment(folder: Path, packages: Sequence[str]) -> Path:
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
    return python


def _clone(root: Path, repo: str, mirror: str) -> Path:
    if not (root / ".git").exists():
        owner, name = repo.split("/")
        source = mirror.format(owner=owner, name=name)
        # Without --no-checkout a clone that lacks files fails; --shared takes what there is.
        shared = ["--shared"] if os.path.isdir(source) else []  # noqa: PTH112 - may be a URL
        subprocess.run(["git", "clone", "-q", "--no-checkout", *shared, source, str(root)], check=True)
    return root


def measure(
    executor: Executor,
    trial: Trial,
    head: Sha | str,
    blocks: int,
    seed: int,
    run: str,
    stage: Stage = "record",
) -> Iterator[tuple[Launch, ...]]:
    """A fixed number of blocks, after one of warm-up."""
    for at in range(-1, blocks):
        spec = BlockSpec(
            RunId(run), trial.scenario, trial.base, Sha(head), "warmup" if at < 0 else stage, max(at, 0), seed
        )
        made = executor.run_block(spec)
        if at >= 0:
            yield made


def save(path: Path, made: Sequence[Launch]) -> None:
    with path.open("a", encoding="utf-8") as stream:
        for launch in made:
            stream.write(codec.to_json(launch) + "\n")


def read(path: Path) -> list[list[Launch]]:
    """Blocks of launches, in their order; none where there is no such file."""
    blocks: dict[tuple[str, str, int], list[Launch]] = {}
    if path.exists():
        for line in path.read_bytes().splitlines():
            launch = codec.from_json(line, Launch, where=str(path))
            blocks.setdefault((launch.run, launch.stage, launch.block), []).append(launch)
    return [block for block in blocks.values() if len(block) == 4]


def relabelled(block: Sequence[Launch], heads: Sequence[int]) -> list[Launch]:
    """The block with the launches at these positions as the head's and the others as the base's."""
    return [replace(one, arm="head" if at in heads else "base") for at, one in enumerate(block)]
