"""Where tithe keeps its things: `.tithe/` at the root of the checkout, and nowhere else.

The folder ignores itself (a `.gitignore` that says `*`), so that neither git nor the snapshot of a dirty
work tree ever sees it, and no user has to be asked to edit a file of theirs.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tithe.data.errors import StoreError

HOME = ".tithe"
STORE = "store.db"
IGNORE = ".gitignore"
OUTPUTS = "outputs"
"""Lists the files in the work tree that tithe wrote for its user: they are no part of a change."""


def home(root: Path) -> Path:
    """`<root>/.tithe`, made with its `.gitignore` when it is not there.

    Raises:
        StoreError: it cannot be made: read-only, full, or something else has its name.
    """
    folder = root / HOME
    ignore = folder / IGNORE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")
    except OSError as error:
        raise StoreError(
            f"cannot be made: {error.strerror}",
            where=str(folder),
            mend="tithe keeps its store and cache there",
        ) from None
    return folder


def store_path(root: Path) -> Path:
    """The store's file; nothing is made, `Store.open` does that."""
    return root / HOME / STORE


def models_dir(root: Path) -> Path:
    """The folder of the models, made when it is not there."""
    return _made(home(root) / "models")


def cache_dir(root: Path) -> Path:
    """The folder of what can be built again, made when it is not there."""
    return _made(home(root) / "cache")


def note_output(path: Path) -> None:
    """Remembers a file that was written into a checkout; does nothing elsewhere, or where that cannot be."""
    root = next((folder for folder in path.parents if (folder / HOME).is_dir()), None)
    if root is None:
        return
    name = path.relative_to(root).as_posix()
    if name in own_outputs(root) or "\n" in name:
        return
    with suppress(OSError), (root / HOME / OUTPUTS).open("ab") as file:
        file.write(os.fsencode(name) + b"\n")


def own_outputs(root: Path) -> frozenset[str]:
    """The files that `note_output` remembers, relative to the checkout."""
    try:
        raw = (root / HOME / OUTPUTS).read_bytes()
    except OSError:
        return frozenset()
    return frozenset(os.fsdecode(line) for line in raw.splitlines())


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot be made: {error.strerror}", where=str(folder)) from None
    return folder
