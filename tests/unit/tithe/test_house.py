"""The layout holds: packages, links, layers and what importing costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[3]
ROOMS = ("attribution", "data", "runner", "selector", "shrinker")


def _project() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_packages_listed_are_the_packages_there() -> None:
    listed = set(_project()["tool"]["setuptools"]["packages"])  # type: ignore[index]
    found = set()
    for top in (*ROOMS, "tithe"):
        for init in (ROOT / top).rglob("__init__.py"):
            parts = init.parent.relative_to(ROOT).parts
            if any((ROOT.joinpath(*parts[: i + 1])).is_symlink() for i in range(len(parts))):
                continue
            name = ".".join(parts)
            found.add(name if name.startswith("tithe") else f"tithe.{name}")
    assert listed == found


@pytest.mark.parametrize("room", ROOMS)
def test_room_is_linked_and_mapped(room: str) -> None:
    link = ROOT / "tithe" / room
    assert link.is_symlink()
    assert link.resolve() == ROOT / room
    mapping = _project()["tool"]["setuptools"]["package-dir"]  # type: ignore[index]
    assert mapping[f"tithe.{room}"] == room


HEAVY = (
    "numpy",
    "scipy",
    "pandas",
    "sklearn",
    "lightgbm",
    "networkx",
    "sqlite_utils",
    "torch",
    "click",
    "msgspec",
)


@pytest.mark.parametrize(
    ("statement", "allowed"),
    [
        ("import tithe; tithe.first_batch()", set()),
        ("import tithe.cli", {"click"}),
        ("import tithe.data.config, tithe.data.git, tithe.data.codec", {"msgspec"}),
    ],
)
def test_what_an_import_pulls_in(statement: str, allowed: set[str]) -> None:
    code = f"{statement}\nimport sys\nprint(' '.join(m for m in {HEAVY!r} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) <= allowed


def test_every_module_says_what_it_is_for() -> None:
    import ast

    silent = [
        str(path.relative_to(ROOT))
        for top in (*ROOMS, "tithe", "scripts")
        for path in (ROOT / top).rglob("*.py")
        if not any(parent.is_symlink() for parent in path.parents)
        and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_tithe_measures_itself() -> None:
    from tithe.data.config import load

    names = [scenario.name for scenario in load(ROOT).scenarios]
    assert "select-start" in names
