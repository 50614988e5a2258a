"""Dependency graphs of real packages: size and time beside grimp's, and what importing their modules really loads.

    scripts/bench/graph CHECKOUT=PACKAGE... [--modules N] [--seed S] [--show K]

A checkout is a clean clone whose package imports with this interpreter; a package in a folder of its own is given by
its path (`src/package`). Three things are measured, in one run:

- *Time.* The graph of HEAD from the checkout's git objects, for a scenario per test file: all read anew, after a
  change of one file, and from the cache. Beside it grimp's graph of the same package, without and with its cache.
- *Truth.* A process imports N modules of the package (all, if it has fewer), each in a fork of its own, and notes
  which files of the package were loaded, and from which line each was asked for. *Recall* is the share of the loaded
  (module, file) pairs that the graph's import edges lead to, *precision* the share of what they lead to that was
  loaded. What was loaded and not foreseen is put down to the line that asked for it; what was foreseen and not loaded
  to the statement that would have.
- *Difference from grimp.* Direct imports that one has and the other has not.
"""

from __future__ import annotations

import argparse
import ast
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tithe.data.config import Config
from tithe.data.git import GitRepo
from tithe.data.graph import Dependencies, GraphBuilder
from tithe.data.records import Scenario, ScenarioName, Sha

RUNS_ON_IMPORT = ("import", "package")
MAY_RUN = (*RUNS_ON_IMPORT, "lazy", "dynamic")

IMPORT = r"""
import importlib, json, os, sys
root, names = sys.argv[1], json.load(sys.stdin)
sys.path.insert(0, sys.argv[2])
root = os.path.realpath(root) + os.sep

def path_of(file):
    file = os.path.realpath(file) if file else ""
    return file[len(root):] if file.startswith(root) and file.endswith(".py") else ""

class Asked:
    def __init__(self):
        self.first = {}
    def find_spec(self, name, path=None, target=None):
        frame = sys._getframe(1)
        while frame is not None and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        inside = frame
        if frame is not None:
            self.first.setdefault(name, (path_of(frame.f_code.co_filename), frame.f_lineno, frame.f_code.co_name))
        return None

for name in names:
    sys.stdout.flush()
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    asked, fault = Asked(), ""
    sys.meta_path.insert(0, asked)
    out = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(1, 2)
    try:
        importlib.import_module(name)
    except BaseException as error:
        fault = f"{type(error).__name__}: {error}"[:200]
    loaded = {}
    for key, module in list(sys.modules.items()):
        file = path_of(getattr(module, "__file__", None))
        if file:
            loaded[file] = asked.first.get(key)
    os.write(out, (json.dumps({"module": name, "fault": fault, "loaded": loaded}) + "\n").encode())
    os._exit(0)
"""

GRIMP = """
import sys, time
sys.path.insert(0, sys.argv[1])
import grimp
began = time.perf_counter()
graph = grimp.build_graph(sys.argv[2], cache_dir=sys.argv[3] or None, exclude_type_checking_imports=True)
took = time.perf_counter() - began
for module in sorted(graph.modules):
    for imported in sorted(graph.find_modules_directly_imported_by(module)):
        print(module, imported)
print(len(graph.modules), took)
"""


@dataclass(frozen=True)
class Package:
    """One package under measurement; `source` is the folder to import from, both relative to the checkout."""

    checkout: Path
    source: str
    name: str

    def module(self, path: str) -> str:
        """The dotted name of a file of the package; empty for any other file."""
        inside = path[len(self.source) + 1 :] if self.source else path
        if not path.endswith(".py") or not inside.startswith(self.name + "/"):
            return ""
        parts = inside[:-3].split("/")
        if parts[-1] == "__init__":
            parts.pop()
        return ".".join(parts) if all(part.isidentifier() for part in parts) else ""


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("packages", nargs="+", metavar="CHECKOUT=PACKAGE")
    parser.add_argument("--modules", type=int, default=300, help="modules to import, drawn at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=8, help="differences to show of each kind")
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    for text in given.packages:
        checkout, _, name = text.partition("=")
        source, _, leaf = name.rpartition("/")
        measure(Package(Path(checkout).resolve(), source, leaf), given)


def measure(package: Package, given: argparse.Namespace) -> None:
    """One package: prints its figures."""
    repo = GitRepo(package.checkout)
    head = repo.resolve("HEAD")
    files = repo.files(head)
    ours = {path: package.module(path) for path in sorted(files) if package.module(path)}
    tests = [path for path in ours if "/tests/" in path or path.rpartition("/")[2].startswith("test_")]
    tests += [p for p in sorted(files) if p.startswith("tests/") and p.rpartition("/")[2].startswith("test_")]
    config = Config(
        root=package.checkout,
        path=package.checkout / "tithe.toml",
        pythonpath=(package.source or ".",),
        packages=(package.name,),
        scenarios=tuple(
            Scenario(name=ScenarioName(path), command=("python", "-m", "pytest", path))
            for path in dict.fromkeys(tests)
        ),
    )
    found = timed(package, repo, head, config, given.times)
    kinds = Counter(kind for _, _, kind in found.edges)
    of_package = sum(source in ours and target in ours for source, target, _ in found.edges)
    print(
        f"  {len(found.files)} files, {len(ours)} modules of {package.name}, {len(config.scenarios)} scenarios; "
        f"{len(found.edges)} edges, {of_package} within the package: "
        + ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    )
    compare_grimp(package, found, ours, given)
    compare_truth(package, found, ours, given)


def timed(package: Package, repo: GitRepo, head: Sha, config: Config, times: int) -> Dependencies:
    """Prints how long the graph takes, in turns; gives the edges of HEAD."""
    cold, changed, cached = [], [], []
    before = repo.resolve("HEAD~1")
    for _ in range(times):
        with tempfile.TemporaryDirectory() as scratch:
            began = time.perf_counter()
            GraphBuilder(repo, config, Path(scratch)).build(before)
            cold.append(time.perf_counter() - began)
            began = time.perf_counter()
            GraphBuilder(repo, config, Path(scratch)).build(head)
            changed.append(time.perf_counter() - began)
            began = time.perf_counter()
            graph = GraphBuilder(repo, config, Path(scratch)).build(head)
            cached.append(time.perf_counter() - began)
    reached = (graph.proximity > 0).sum(1)
    print(f"{package.name} {head[:10]}:")
    print(
        f"  graph {statistics.median(cold):.2f} s cold, {statistics.median(changed):.2f} s for the next commit, "
        f"{statistics.median(cached):.3f} s cached; a scenario reaches {statistics.median(reached):.0f} of "
        f"{len(graph.files)} files (median)"
    )
    return GraphBuilder(repo, config).dependencies(head)


def compare_grimp(
    package: Package, found: Dependencies, ours: dict[str, str], given: argparse.Namespace
) -> None:
    """Prints grimp's time, and the direct imports that one has and the other has not."""
    cold, cached = [], []
    words = [sys.executable, "-c", GRIMP, str(package.checkout / package.source), package.name]
    for _ in range(given.times):
        with tempfile.TemporaryDirectory() as scratch:
            cold.append(_grimp(words, "")[1])
            _grimp(words, scratch)
            theirs, took, size = _grimp(words, scratch)[0], *_grimp(words, scratch)[1:]
            cached.append(took)
    direct = {
        (ours[source], ours[target])
        for source, target, kind in found.edges
        if kind in MAY_RUN and source in ours and target in ours
    }
    passing = {
        (ours[s], ours[t])
        for s, t, k in found.edges
        if k in ("package", "dynamic") and s in ours and t in ours
    }
    only_ours = direct - theirs - passing
    only_theirs = theirs - direct
    print(
        f"  grimp {statistics.median(cold):.2f} s cold, {statistics.median(cached):.2f} s cached, {size} modules, "
        f"{len(theirs)} direct imports: {len(theirs & direct)} in both, {len(only_theirs)} only grimp's, "
        f"{len(only_ours)} only ours"
    )
    _show("only grimp's", (f"{s} -> {t}" for s, t in sorted(only_theirs)), given)
    _show("only ours", (f"{s} -> {t}" for s, t in sorted(only_ours)), given)


def _grimp(words: Sequence[str], cache: str) -> tuple[set[tuple[str, str]], float, int]:
    done = subprocess.run([*words, cache], check=True, capture_output=True, text=True)
    *lines, last = done.stdout.splitlines()
    size, took = last.split()
    pairs = {(source, target) for source, target in (line.split() for line in lines)}
    return pairs, float(took), int(size)


def compare_truth(
    package: Package, found: Dependencies, ours: dict[str, str], given: argparse.Namespace
) -> None:
    """Imports modules for real, and prints how far the edges foresee what that loads."""
    names = sorted(ours.values())
    drawn = sorted(random.Random(given.seed).sample(names, min(given.modules, len(names))))
    began = time.perf_counter()
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            IMPORT,
            str(package.checkout),
            str(package.checkout / package.source),
        ],
        input=json.dumps(drawn),
        check=True,
        capture_output=True,
        text=True,
        cwd=package.checkout,
    )
    launches = [json.loads(line) for line in done.stdout.splitlines()]
    took = time.perf_counter() - began
    failed = [launch for launch in launches if launch["fault"]]
    whole = [launch for launch in launches if not launch["fault"]]
    path_of = {name: path for path, name in ours.items()}
    kind_of = {(source, target): kind for source, target, kind in found.edges}
    strict, wide = _out(kind_of, RUNS_ON_IMPORT, ours), _out(kind_of, MAY_RUN, ours)
    hit = missed = extra = wide_missed = 0
    asked: Counter[str] = Counter()
    unloaded: Counter[tuple[str, str]] = Counter()
    for launch in whole:
        start = path_of[launch["module"]]
        loaded = {path for path in launch["loaded"] if path in ours}
        above = {path_of[name] for name in _parents(launch["module"]) if name in path_of}
        led = _closure({start} | above, strict)
        hit += len(loaded & led)
        missed += len(loaded - led)
        extra += len(led - loaded)
        wide_missed += len(loaded - _closure({start} | above, wide))
        for path in loaded - led:
            where = launch["loaded"][path]
            if where and where[0] in led:
                edge = kind_of.get((where[0], path), "no edge")
                asked[f"{where[0]}:{where[1]} in {where[2]} asks for {path}: {edge}"] += 1
        for source in led & loaded:
            for target in strict.get(source, ()):
                if target not in loaded:
                    unloaded[source, target] += 1
    pairs = hit + missed
    print(
        f"  truth: {len(whole)} of {len(drawn)} modules imported in {took:.0f} s, {pairs} (module, file) pairs: recall "
        f"{hit / max(1, pairs):.4f} ({1 - wide_missed / max(1, pairs):.4f} with lazy and dynamic edges), precision "
        f"{hit / max(1, hit + extra):.4f}"
    )
    faults = Counter(
        launch["fault"].split(":")[0] + ":" + launch["fault"].split(":")[1][:60] for launch in failed
    )
    _show("could not be imported", (f"{count} x {fault}" for fault, count in faults.most_common()), given)
    _show("loaded, not foreseen", (f"{count} x {line}" for line, count in asked.most_common()), given)
    why = Counter(
        _why((package.checkout / source).read_bytes(), target) for source, target in sorted(unloaded)
    )
    print(
        f"  foreseen, not loaded: {len(unloaded)} edges: "
        + ", ".join(f"{n} {w}" for w, n in why.most_common())
    )
    _show("the most", (f"{n} x {s} -> {t}" for (s, t), n in unloaded.most_common()), given)


def _out(
    kind_of: dict[tuple[str, str], str], kinds: Sequence[str], ours: dict[str, str]
) -> dict[str, list[str]]:
    out: dict[str, list[str]] = defaultdict(list)
    for (source, target), kind in kind_of.items():
        if kind in kinds and source in ours and target in ours:
            out[source].append(target)
    return out


def _parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def _closure(starts: set[str], out: dict[str, list[str]]) -> set[str]:
    seen, stack = set(starts), list(starts)
    while stack:
        for target in out.get(stack.pop(), ()):
            if target not in seen:
                seen.add(target)
                stack.append(target)
    return seen


def _why(source: bytes, target: str) -> str:
    """Where the statement stands in `source` that would load `target`, as far as its last name tells."""
    stem = target[:-3].removesuffix("/__init__").rpartition("/")[2]
    stack: list[tuple[ast.AST, str]] = [(ast.parse(source), "at the top")]
    while stack:
        node, where = stack.pop()
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names] + [getattr(node, "module", "") or ""]
            if any(stem == part for name in names for part in name.split(".")):
                return where
        if isinstance(node, ast.If):
            where = "under an if"
        elif isinstance(node, ast.Try):
            where = "in a try"
        stack.extend((child, where) for child in ast.iter_child_nodes(node))
    return "by another name"


def _show(title: str, lines: Iterable[str], given: argparse.Namespace) -> None:
    every = list(lines)
    if every and given.show:
        print(f"  {title} ({len(every)}):")
        for line in every[: given.show]:
            print(f"    {line}")


if __name__ == "__main__":
    main()
