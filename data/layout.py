"""Where the importable code of a checkout lies: the `src` folder and the packages in it.

A package here is a folder with an `__init__.py`. Namespace packages cannot be told from folders of scripts
without importing something, so they have to be named in the configuration.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

NOT_PRODUCT = frozenset(
    {"build", "dist", "doc", "docs", "node_modules", "site-packages", "test", "tests", "venv"}
)
"""Folders whose packages are nobody's dependency at run time."""


def packages_in(folder: Path) -> tuple[str, ...]:
    """Names of the packages right inside `folder`, sorted; none if it cannot be read."""
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return ()
    return tuple(
        entry.name
        for entry in entries
        if entry.name.isidentifier() and entry.name not in NOT_PRODUCT and (entry / "__init__.py").is_file()
    )


def default_pythonpath(root: Path) -> tuple[str, ...]:
    """`("src",)` where that folder holds a package, else `(".",)`."""
    return ("src",) if packages_in(root / "src") else (".",)


def default_pythonpath_of(files: Collection[str]) -> tuple[str, ...]:
    """`default_pythonpath` of a revision that is not checked out, from the paths of its files."""
    inside = {
        path.split("/")[1] for path in files if path.startswith("src/") and path.endswith("/__init__.py")
    }
    named = {name for name in inside if name.isidentifier() and name not in NOT_PRODUCT}
    return ("src",) if any(f"src/{name}/__init__.py" in files for name in named) else (".",)


def find_packages(root: Path, pythonpath: tuple[str, ...]) -> tuple[str, ...]:
    """Names of the packages that the entries of `pythonpath` hold, sorted, each once."""
    return tuple(sorted({name for entry in pythonpath for name in packages_in(root / entry)}))
