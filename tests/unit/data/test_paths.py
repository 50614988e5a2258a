"""`.tithe/` hides itself from git and says so when it cannot be made."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tithe.data import paths
from tithe.data.errors import StoreError
from tithe.data.store import Store


def test_git_never_sees_what_tithe_keeps(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    Store.open(paths.store_path(tmp_path)).close()
    (paths.models_dir(tmp_path) / "001").mkdir()
    (paths.cache_dir(tmp_path) / "x").write_text("x")
    status = subprocess.run(
        ["git", "-C", str(tmp_path), "status", "--porcelain", "--untracked-files=all"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert status.stdout == ""
    assert paths.store_path(tmp_path).is_file()


def test_asking_where_the_store_is_makes_nothing(tmp_path: Path) -> None:
    assert paths.store_path(tmp_path) == tmp_path / ".tithe" / "store.db"
    assert list(tmp_path.iterdir()) == []


def test_a_gitignore_of_the_user_stays(tmp_path: Path) -> None:
    paths.home(tmp_path)
    (tmp_path / ".tithe" / ".gitignore").write_text("*.db\n")
    paths.home(tmp_path)
    assert (tmp_path / ".tithe" / ".gitignore").read_text() == "*.db\n"


@pytest.mark.parametrize("make", [paths.home, paths.models_dir, paths.cache_dir])
def test_a_file_in_the_way_is_one_clear_line(tmp_path: Path, make: object) -> None:
    (tmp_path / ".tithe").write_text("in the way")
    with pytest.raises(StoreError, match=r"\.tithe: cannot be made"):
        make(tmp_path)  # type: ignore[operator]
