"""A first `tithe.toml` for a repository, from what can be seen in it without running anything.

It is meant to be edited, so it says why each line is there, and what it only suspects stands in comments.
Whatever the repository looks like, the text loads: a first command that ends in an error of our own making
would be the last one.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path, PurePosixPath

from tithe.data import git_process
from tithe.data.errors import TitheError
from tithe.data.git import GitRepo
from tithe.data.layout import NOT_PRODUCT, default_pythonpath, find_packages, packages_in

MOST_SCENARIOS = 6
"""More candidates than these are only listed."""

_MOST_FILES = 20_000
_MOST_READ = 400
_MOST_BYTES = 200_000
_ODD_HOMES = ("python", "lib", "py")
"""Folders that hold the packages in some repositories, beside `src` and the top."""
_BENCHMARKS = frozenset({"bench", "benches", "benchmark", "benchmarks", "perf"})
_EXAMPLES = frozenset({"example", "examples", "scripts", "tools", "bin", "demo", "demos"})
_GUARD = re.compile(r"""^if\s+__name__\s*==\s*["']__main__["']""", re.MULTILINE)
_TORCH = re.compile(
    r"^\s*(import|from)\s+(torch|lightning|pytorch_lightning|transformers|accelerate)\b", re.MULTILINE
)
_WANTS = re.compile(r"""add_argument\(\s*["'](?!-)|required\s*=\s*True|sys\.argv\[1\]|@click\.argument""")
_COMPILED = re.compile(
    r"ext_modules|Extension\(|cythonize|mesonpy|maturin|scikit_build_core|scikit-build|setuptools[-_]rust|pybind11"
)


@dataclass(frozen=True)
class _Candidate:
    rank: int
    path: str
    command: str
    torch: bool
    marks: bool
    wants: bool


def describe(root: Path) -> str:
    """The text of a commented `tithe.toml` for the checkout at `root`; `config.load` accepts it as it is."""
    pythonpath = _pythonpath(root)
    packages = find_packages(root, pythonpath)
    candidates = _candidates(root, pythonpath)
    parts = [_head(root, pythonpath), _graph(packages), _DECISION]
    names: set[str] = set()
    parts += [_scenario(candidate, names) for candidate in candidates[:MOST_SCENARIOS]]
    if len(candidates) > MOST_SCENARIOS:
        rest = "\n".join(
            f"#   {candidate.command}" for candidate in candidates[MOST_SCENARIOS : MOST_SCENARIOS + 20]
        )
        parts.append(f"# More that could be measured:\n{rest}\n")
    if not candidates:
        parts.append(_EXAMPLE)
    if (root / "asv.conf.json").is_file():
        parts.append(_ASV)
    return "\n".join(parts)


def _head(root: Path, pythonpath: tuple[str, ...]) -> str:
    installable = [name for name in ("pyproject.toml", "setup.py") if (root / name).is_file()]
    compiled = any(_COMPILED.search(_read(root / name)) for name in installable)
    lines = [
        "# What tithe measures in this repository, and how a checkout of it is made runnable.",
        "# `tithe scenarios` checks this file and lists what is in it.",
        "",
        "[tithe]",
        f"main = {_quote(_main(root))}  # changes are the first-parent history of this branch",
        "",
        "# Both versions under test are plain checkouts that import from here:",
        f"pythonpath = {_list(pythonpath)}",
    ]
    setup = 'setup = "pip install -e ."'
    keys = [
        name
        for name in ("pyproject.toml", "setup.py", "setup.cfg", "requirements.txt")
        if (root / name).is_file()
    ]
    key = f"setup_key = {_list(keys or ['pyproject.toml'])}"
    if compiled:
        lines += ["", "# It has parts to compile, so each version is installed in an environment of its own,"]
        lines += ["# which is built anew when one of these files changes:", setup, key]
    else:
        lines += [
            "",
            "# Where versions differ in what they need installed, give each an environment of its own,",
        ]
        lines += ["# which is built anew when one of these files changes:", f"# {setup}", f"# {key}"]
    lines += [
        "",
        "# Environment variables that launches may see beside the usual few:",
        '# env = ["DATA_DIR"]',
        "",
    ]
    return "\n".join(lines)


def _graph(packages: tuple[str, ...]) -> str:
    lines = ["[graph]", "# Imports within these packages say which scenarios a change can reach."]
    lines.append(f"packages = {_list(packages)}" if packages else '# packages = ["mypackage"]')
    lines += [
        "",
        "# What imports do not show can be said by rules:",
        "# [[graph.rule]]",
        '# files = ["configs/*.yaml"]',
        '# scenarios = ["train*"]',
        "",
    ]
    return "\n".join(lines)


_DECISION = """\
# [decision]
# wanted_effect = 0.05        # a relative effect of this size must be seen
# floor = 0.02                # below this nothing is reported
# false_alarms_per_week = 1   # how many can be borne
"""

_EXAMPLE = """\
# No training script or benchmark was found. A scenario looks like this:
#
# [[scenario]]
# name = "train-small"                       # unique; history hangs on it
# command = "python train.py --steps 20"     # no shell reads it; keep it short and representative
# metrics = ["ttfb", "wall", "cpu", "rss"]   # the first decides, unless gate = [...] says more
# stop = "first-step"                        # or "first-batch", or "none" to run to its end
# timeout = "5m"
"""

_ASV = """\
# There is an asv suite (asv.conf.json). Its benchmarks run in the current environment with asv installed:
#
# [[scenario]]
# name = "asv-example"
# command = "asv run --python=same --quick --bench NAME"
# metrics = ["wall", "cpu", "rss"]
"""


def _scenario(candidate: _Candidate, names: set[str]) -> str:
    stem = re.sub(
        r"[^A-Za-z0-9_.-]+", "-", candidate.path.removesuffix(".py").removesuffix("/__main__")
    ).strip("-.")
    name = stem[:100] or "scenario"
    number = 1
    while name in names:
        number += 1
        name = f"{stem[:100] or 'scenario'}-{number}"
    names.add(name)
    training = candidate.rank == 0 and candidate.torch
    metrics = ["ttfb", "wall", "cpu", "rss"] if training or candidate.marks else ["wall", "cpu", "rss"]
    lines = ["[[scenario]]", f"name = {_quote(name)}"]
    if candidate.wants:
        lines.append("# it reads arguments: add those of a short, representative run")
    lines += [f"command = {_quote(candidate.command)}", f"metrics = {_list(metrics)}  # the first decides"]
    if training:
        lines.append('stop = "first-step"  # ends as soon as it has trained one step; "none" runs to its end')
    lines += ['timeout = "5m"', ""]
    return "\n".join(lines)


def _candidates(root: Path, pythonpath: tuple[str, ...]) -> list[_Candidate]:
    """Scripts that look like a training run or a benchmark, best first."""
    ranked: list[tuple[int, int, str]] = []
    for path in _python_files(root):
        rank = _rank(PurePosixPath(path))
        if rank is not None:
            ranked.append((rank, path.count("/"), path))
    found = []
    for rank, _, path in sorted(ranked)[:_MOST_READ]:
        text = _read(root / path)
        guarded = bool(_GUARD.search(text))
        command = _command(root, path, pythonpath)
        if (
            command
            and text
            and (guarded or path.endswith("/__main__.py") or (rank == 0 and "-m" not in command))
        ):
            wants = bool(_WANTS.search(text))
            found.append(
                _Candidate(
                    rank, path, shlex.join(command), bool(_TORCH.search(text)), "first_batch" in text, wants
                )
            )
    return found


def _rank(path: PurePosixPath) -> int | None:
    """0 for training, 1 for benchmarks, 2 for examples and scripts, 3 for packages that can be run."""
    folders = path.parts[:-1]
    if len(folders) > 4 or any(folder in NOT_PRODUCT or folder.startswith((".", "_")) for folder in folders):
        return None
    if path.name == "__main__.py":
        return 3
    if path.name.startswith(("test_", "_", "conftest", "setup")):
        return None
    if re.search(r"(^|_)train(er)?(_|\.|ing)", path.name):
        return 0
    if _BENCHMARKS & set(folders) or path.stem.startswith("bench"):
        return 1
    return 2 if _EXAMPLES & set(folders) else None


def _command(root: Path, path: str, pythonpath: tuple[str, ...]) -> list[str]:
    """How the file is started: as a module where it lies in a package on the path, else as a script."""
    parts = PurePosixPath(path).with_suffix("").parts
    if (root / path).parent.joinpath("__init__.py").is_file():
        for home in pythonpath:
            base = PurePosixPath(home).parts
            module = parts[len(base) :]
            if parts[: len(base)] == base and module and (root / home / module[0] / "__init__.py").is_file():
                named = module[:-1] if module[-1] == "__main__" else module
                return ["python", "-m", ".".join(named)] if all(part.isidentifier() for part in named) else []
    return [] if parts[-1] == "__main__" else ["python", path]


def _python_files(root: Path) -> Iterator[str]:
    """Paths of Python files that git knows or would add; of all below `root` where there is no repository."""
    try:
        listed = git_process.run(
            root, "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", "*.py"
        )
        paths = [git_process.decode_path(raw) for raw in listed.stdout.split(b"\x00") if raw]
    except TitheError:
        paths = [path.relative_to(root).as_posix() for path in islice(root.rglob("*.py"), _MOST_FILES)]
    return (path for path in sorted(set(paths)) if path.isprintable() and (root / path).is_file())


def _pythonpath(root: Path) -> tuple[str, ...]:
    usual = default_pythonpath(root)
    if find_packages(root, usual):
        return usual
    return next(((home,) for home in _ODD_HOMES if packages_in(root / home)), usual)


def _main(root: Path) -> str:
    try:
        name = GitRepo.open(root).main_branch()
    except TitheError:
        return "main"
    return name if name.isprintable() and not name.startswith("-") else "main"


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _quote(text: str) -> str:
    """`text`, which is printable, as a TOML string: those of JSON are, but for pairs of surrogates."""
    return json.dumps(text, ensure_ascii=False)


def _list(words: list[str] | tuple[str, ...]) -> str:
    return "[" + ", ".join(_quote(word) for word in words) + "]"
