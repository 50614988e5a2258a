"""Made-up repositories with a planted truth, and fakes of what the selector reads.

A truth is a set of (scenario, file) pairs in which the scenario really uses the file; the import graph says
only which pairs are possible. A faulty change breaks one of its files, and some of the scenarios that use
that file show it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from tithe.data.graph import GraphBuilder, ScenarioGraph
from tithe.data.records import Change, FileEdit, MetricName, Outcome, Scenario, ScenarioName, Sha
from tithe.selector.history import History


@dataclass
class FakeRepo:
    """`files` and `blobs` of a repository that is a dictionary of revisions to path to content."""

    revisions: dict[str, dict[str, str]]
    reads: list[str] = field(default_factory=list)

    def files(self, sha: Sha) -> dict[str, str]:
        return {path: self._id(content) for path, content in self.revisions[sha].items()}

    def blobs(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        wanted = set(ids)
        for content in sorted({c for files in self.revisions.values() for c in files.values()}):
            if self._id(content) in wanted:
                self.reads.append(self._id(content))
                yield self._id(content), content.encode()

    @staticmethod
    def _id(content: str) -> str:
        return hashlib.sha1(content.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True)
class Rule:
    files: tuple[str, ...]
    scenarios: tuple[str, ...]


@dataclass(frozen=True)
class FakeConfig:
    """The part of the configuration that the selector and the graph read."""

    scenarios: tuple[Scenario, ...]
    pythonpath: tuple[str, ...] = (".",)
    rules: tuple[Rule, ...] = ()
    packages: tuple[str, ...] = ()
    edge_files: tuple[str, ...] = ()
    setup: str = ""
    setup_key: tuple[str, ...] = ()


FOLDERS = ("config", "data", "models", "launch", "logs", "metrics")
THEMES = ("mlp", "wide", "token", "image", "sparse", "cache", "stream", "batch")


@dataclass(frozen=True)
class World:
    """A made-up repository with the whole truth: `fails[change, scenario]`."""

    config: FakeConfig
    graph: ScenarioGraph
    changes: tuple[Change, ...]
    fails: np.ndarray
    seconds: dict[ScenarioName, float]

    def history(self, measured: int, *, known: float = 1800.0) -> History:
        """The first `measured` changes, each measured on everything `known` seconds after it came."""
        outcomes = []
        for at, change in enumerate(self.changes[:measured]):
            for index, scenario in enumerate(self.config.scenarios):
                verdict = "regressed" if self.fails[at, index] else "same"
                outcomes.append(
                    Outcome(
                        change.parent,
                        change.sha,
                        scenario.name,
                        scenario.gate[0],
                        verdict,
                        change.time + known,
                        "ab",
                        "swept",
                    )
                )
        return History(self.changes, tuple(outcomes), self.seconds)


def make_world(seed: int, *, changes: int = 100, scenarios: int = 16, modules: int = 32) -> World:
    """A package, its scenarios, and changes of which a quarter are faulty."""
    rng = np.random.default_rng(seed)
    files, names = _package(rng, modules)
    specs = []
    for at in range(scenarios):
        theme = THEMES[at % len(THEMES)]
        name = f"{theme}-{('small', 'large')[at // len(THEMES) % 2]}"
        used = rng.choice(len(names), size=int(rng.integers(1, 4)), replace=False)
        listed = ", ".join(f'"pkg.{names[index]}"' for index in sorted(used))
        files[f"configs/{name}.toml"] = f"name = '{name}'\nparts = [{listed}]\n"
        script = f"scripts/train{at % 4}.py"
        specs.append(
            Scenario(
                ScenarioName(name),
                ("python", script, "--config", f"configs/{name}.toml"),
                gate=(MetricName("ttfb"),),
            )
        )
    config = FakeConfig(tuple(sorted(specs, key=lambda s: s.name)))
    graph = GraphBuilder(FakeRepo({"r": files}), config).build(Sha("r"))
    # Some scenarios run a file and still show little of what is wrong with it.
    shows = rng.choice([1.0, 0.5, 0.15], p=[0.3, 0.4, 0.3], size=scenarios)
    uses = _uses(rng, graph) * shows[:, None]
    made, fails = _changes(rng, graph, uses, sorted(files), changes)
    seconds = {s.name: float(np.exp(rng.normal(0.0, 0.5))) for s in config.scenarios}
    return World(config, graph, made, fails, seconds)


def _package(rng: np.random.Generator, modules: int) -> tuple[dict[str, str], list[str]]:
    files = {f"pkg/{folder}/__init__.py": "" for folder in FOLDERS} | {"pkg/__init__.py": ""}
    names: list[str] = []
    for at in range(modules):
        folder = FOLDERS[at % len(FOLDERS)]
        theme = THEMES[int(rng.integers(len(THEMES)))]
        lines = []
        for _ in range(int(rng.integers(0, 4)) if names else 0):
            # Early modules are imported by many: hubs.
            other = names[int(len(names) * rng.beta(0.7, 1.3))]
            lines.append(f"import pkg.{other}" if rng.random() < 0.8 else f"def f():\n    import pkg.{other}")
        files[f"pkg/{folder}/{theme}{at}.py"] = "\n".join(lines) + f"\nNUMBER_{at} = {at}\n"
        names.append(f"{folder}.{theme}{at}")
    for script in range(4):
        used = rng.choice(len(names), size=4, replace=False)
        files[f"scripts/train{script}.py"] = (
            "\n".join(f"import pkg.{names[i]}" for i in used) + f"\n# {script}\n"
        )
    files |= {"README.md": "text", "tests/test_all.py": "import pkg", "requirements.txt": "numpy"}
    return files, names


def _uses(rng: np.random.Generator, graph: ScenarioGraph) -> np.ndarray:
    """(scenarios, files): the nearer, the likelier it is that an imported file is really used."""
    chance = np.select([graph.distance < hops for hops in (1, 2, 3, 4, 21)], [0.95, 0.8, 0.5, 0.3, 0.15], 0.0)
    return rng.random(chance.shape) < chance


def _changes(
    rng: np.random.Generator, graph: ScenarioGraph, uses: np.ndarray, files: list[str], count: int
) -> tuple[tuple[Change, ...], np.ndarray]:
    code = [path for path in files if path.endswith((".py", ".toml")) and not path.startswith("tests/")]
    prone = rng.gamma(0.6, 1.0, size=len(code)) + 0.1
    wanted = rng.permutation(len(code))
    made = []
    fails = np.zeros((count, len(graph.scenarios)), dtype=bool)
    for at in range(count):
        kind = rng.random()
        chance = np.zeros(len(graph.scenarios))
        if kind < 0.08:
            touched = [("README.md", "tests/test_all.py")[int(rng.integers(2))]]
        elif kind < 0.12:
            touched = ["requirements.txt"]
            chance[:] = 0.3 * (rng.random() < 0.3)
        else:
            first = int(wanted[int(len(code) * rng.beta(0.8, 1.6))])
            folder = code[first].rsplit("/", 1)[0]
            beside = [i for i, path in enumerate(code) if path.rsplit("/", 1)[0] == folder]
            more = rng.choice(beside, size=min(int(rng.integers(0, 4)), len(beside)), replace=False)
            chosen = sorted({first, *(int(i) for i in more)})
            touched = [code[i] for i in chosen]
            cause = chosen[int(rng.choice(len(chosen), p=prone[chosen] / prone[chosen].sum()))]
            if rng.random() < min(0.33 * prone[cause], 0.8) and code[cause] in graph.column:
                chance = 0.9 * uses[:, graph.column[code[cause]]]
        fails[at] = rng.random(len(chance)) < chance
        fails[at] |= rng.random(len(chance)) < 0.002
        edits = tuple(FileEdit(path, int(rng.integers(1, 60)), int(rng.integers(0, 30))) for path in touched)
        made.append(
            Change(
                Sha(f"{at + 1:040x}"),
                Sha(f"{at:040x}"),
                at,
                f"author{int(rng.integers(5))}",
                1e6 + 3600.0 * at,
                f"Change {touched[0].rsplit('/', 1)[-1]}",
                edits,
            )
        )
    return tuple(made), fails


@pytest.fixture(scope="session")
def worlds():
    """Worlds by seed, made once."""
    kept: dict[int, World] = {}

    def get(seed: int) -> World:
        if seed not in kept:
            kept[seed] = make_world(seed)
        return kept[seed]

    return get


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    return tmp_path / "models"
