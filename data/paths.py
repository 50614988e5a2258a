"""Where tithe keeps its things: `.tithe/` at the root of the checkout, and nowhere else.

The folder ignores itself (a `.gitignore` that says `*`), so that neither git nor the snapshot of a dirty
work tree ever sees it, and no user has to be asked to edit a file of theirs.
"""

from __future__ import annotations

from pathlib import Path

from tithe.data.errors import StoreError

HOME = ".tithe"


def home(root: Path) -> Path:
    """`<root>/.tithe`, made with its `.gitignore` when it is not there.

    Raises:
        StoreError: it cannot be made: read-only, full, or something else has its name.
    """
    folder = root / HOME
    ignore = folder / ".gitignore"
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
    return root / HOME / "store.db"


def models_dir(root: Path) -> Path:
    """The folder of the models, made when it is not there."""
    return _made(home(root) / "models")


def cache_dir(root: Path) -> Path:
    """The folder of what can be built again, made when it is not there."""
    return _made(home(root) / "cache")


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise StoreError(f"cannot be made: {error.strerror}", where=str(folder)) from None
    return folder
