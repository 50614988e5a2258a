"""Snapshots of dirty work trees, and checkouts: whole, many at once, and out of partial clones."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tithe.data import git_process, git_snapshot
from tithe.data.errors import GitError, UsageError
from tithe.data.git import GitRepo
from tithe.data.records import FileEdit, Sha

Make = Callable[..., Any]


def state(root: Path) -> dict[str, tuple[int, bytes]]:
    """Every file of the work tree and the index, with time stamp and content."""
    files = [
        path for path in root.rglob("*") if path.is_file() and ".git/" not in str(path.relative_to(root))
    ]
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in [*files, root / ".git" / "index"]
    }


def content(root: Path) -> dict[str, str]:
    """Files of a checkout by path, without git's own."""
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for path in root.rglob("*")
        if path.is_file() and path.name != ".git"
    }


def test_a_clean_work_tree_is_head(workshop: Make) -> None:
    shop = workshop()
    sha = shop.commit("one", {"f": "x", ".gitignore": "ignored\n"})
    shop.write("ignored", "x")
    repo = GitRepo.open(shop.root)
    assert not repo.is_dirty()
    assert repo.snapshot_worktree() == sha
    (shop.root / "f").touch()
    assert repo.snapshot_worktree() == sha


def test_a_commit_with_other_contents_touches_nothing_else(workshop: Make) -> None:
    shop = workshop()
    sha = shop.commit("one", {"run.sh": "1\n", "a*b [x]": "1\n", "same": "1\n"})
    (shop.root / "run.sh").chmod(0o755)
    sha = shop.commit("two", {"run.sh": "2\n"})
    shop.write("same", "edited\n")
    repo = GitRepo.open(shop.root)
    status = shop.git("status", "--porcelain")
    before = state(shop.root)

    made = repo.changed(sha, {"run.sh": b"3\n", "a*b [x]": b"4\n", "sub/new": b"\xff\n"}, "planted")

    assert state(shop.root) == before
    assert shop.git("status", "--porcelain") == status
    assert repo.changed(sha, {"run.sh": b"3\n", "a*b [x]": b"4\n", "sub/new": b"\xff\n"}, "planted") == made
    assert repo.changed(sha, {"run.sh": b"2\n"}, "planted") == sha
    assert shop.git("ls-tree", "-r", "--format=%(objectmode) %(path)", made).splitlines() == [
        "100644 a*b [x]",
        "100755 run.sh",
        "100644 same",
        "100644 sub/new",
    ]
    assert repo.content(made, "sub/new") == b"\xff\n"
    assert repo.change(made).parent == sha


def test_a_snapshot_has_all_that_is_there(workshop: Make) -> None:
    shop = workshop()
    sha = shop.commit(
        "one", {"kept": "1\n", "edited": "1\n", "deleted": "1\n", "staged": "1\n", ".gitignore": "*.log\n"}
    )
    shop.write("edited", "2\n")
    (shop.root / "deleted").unlink()
    shop.write("staged", "2\n")
    shop.git("add", "staged")
    shop.write("staged", "3\n")
    shop.write("sub/untracked", "new\n")
    shop.write("x.log", "ignored")
    shop.write(".tithe/store.db", "ours")
    (shop.root / "link").symlink_to("kept")
    repo = GitRepo.open(shop.root)
    status = shop.git("status", "--porcelain")
    before = state(shop.root)

    snapshot = repo.snapshot_worktree()

    assert state(shop.root) == before
    assert shop.git("status", "--porcelain") == status
    assert repo.head() == sha
    assert set(repo.files(snapshot)) == {
        ".gitignore",
        "edited",
        "kept",
        "link",
        "staged",
        "sub/untracked",
    }
    change = repo.change(snapshot)
    assert change.parent == sha
    assert change.time == 1_700_000_000
    assert FileEdit("staged", 1, 1) in change.files
    blobs = dict(repo.blobs(repo.files(snapshot).values()))
    assert blobs[repo.files(snapshot)["staged"]] == b"3\n"
    assert repo.snapshot_worktree() == snapshot
    assert not shop.git("for-each-ref", "--contains", snapshot)


def test_same_content_same_snapshot_in_another_clone(workshop: Make) -> None:
    shop = workshop()
    shop.commit("one", {"f": "x"})
    other = shop.root.parent / "other"
    shop.git("clone", "-q", str(shop.root), str(other))
    for root in (shop.root, other):
        (root / "f").write_text("y")
        (root / "new").write_text("z")
    first, second = (GitRepo.open(root).snapshot_worktree() for root in (shop.root, other))
    assert first == second
    (other / "new").write_text("zz")
    assert GitRepo.open(other).snapshot_worktree() != first


def test_the_folder_of_tithe_is_no_change(workshop: Make) -> None:
    shop = workshop()
    sha = shop.commit("one", {"f": "x"})
    shop.write(".tithe/store.db", "ours")
    repo = GitRepo.open(shop.root)
    assert not repo.is_dirty()
    shop.write(".tithe/.gitignore", "*\n")
    assert repo.snapshot_worktree() == sha
    shop.write(".gitignore", ".tithe/\n")
    assert [edit.path for edit in repo.change(repo.snapshot_worktree()).files] == [".gitignore"]


def test_an_edit_within_the_tick_of_the_index_is_seen(workshop: Make) -> None:
    shop = workshop()
    shop.commit("one", {"f": "aaaa"})
    path, index = shop.root / "f", shop.root / ".git" / "index"
    stamp = path.stat().st_mtime_ns
    path.write_text("bbbb")
    os.utime(path, ns=(stamp, stamp))
    os.utime(index, ns=(stamp, stamp))
    shop.write("other", "makes it dirty for certain")
    repo = GitRepo.open(shop.root)
    assert {edit.path for edit in repo.change(repo.snapshot_worktree()).files} == {"f", "other"}


def test_a_snapshot_from_below_and_in_the_middle_of_a_merge(workshop: Make) -> None:
    shop = workshop()
    shop.commit("base", {"f": "base\n", "sub/g": ""})
    shop.git("checkout", "-q", "-b", "side")
    shop.commit("side", {"f": "side\n"})
    shop.git("checkout", "-q", "main")
    shop.commit("main", {"f": "main\n"})
    with pytest.raises(AssertionError):
        shop.git("merge", "side")
    repo = GitRepo.open(shop.root / "sub")
    status = shop.git("status", "--porcelain")
    snapshot = repo.snapshot_worktree()
    (blob,) = (body for _, body in repo.blobs([repo.files(snapshot)["f"]]))
    assert b"<<<<<<<" in blob
    assert shop.git("status", "--porcelain") == status == "UU f"


def test_files_that_became_folders_and_the_reverse(workshop: Make) -> None:
    shop = workshop()
    shop.commit("one", {"file": "x", "folder/a": "x", "run": "x"})
    (shop.root / "file").unlink()
    shop.write("file/inner", "y")
    shutil.rmtree(shop.root / "folder")
    shop.write("folder", "y")
    (shop.root / "run").chmod(0o755)
    repo = GitRepo.open(shop.root)
    snapshot = repo.snapshot_worktree()
    assert sorted(repo.files(snapshot)) == ["file/inner", "folder", "run"]
    assert "100755" in shop.git("ls-tree", snapshot, "run")


def test_a_repository_within_the_work_tree_stays_out(workshop: Make) -> None:
    shop = workshop()
    sha = shop.commit("one", {"f": "x"})
    workshop("repository/with-commits").commit("inner", {"g": "x"})
    workshop("repository/without")
    repo = GitRepo.open(shop.root)
    assert repo.snapshot_worktree() == sha
    shop.write("f", "y")
    assert list(repo.files(repo.snapshot_worktree())) == ["f"]


def test_line_ends_go_in_as_git_would_commit_them(workshop: Make) -> None:
    shop = workshop()
    shop.commit("one", {".gitattributes": "*.txt text eol=crlf\n", "a.txt": "a\r\n"})
    shop.write("a.txt", "b\r\n")
    repo = GitRepo.open(shop.root)
    snapshot = repo.snapshot_worktree()
    assert [body for _, body in repo.blobs([repo.files(snapshot)["a.txt"]])] == [b"b\n"]


def test_no_index_yet(workshop: Make) -> None:
    shop = workshop()
    shop.commit("one", {"f": "x"})
    bare = shop.root.parent / "no-index"
    shop.git("clone", "-q", "--no-checkout", str(shop.root), str(bare))
    (bare / "f").write_text("y")
    repo = GitRepo.open(bare)
    assert list(repo.files(repo.snapshot_worktree())) == ["f"]
    assert not (bare / ".git" / "index").exists()


def test_a_huge_untracked_file_is_refused(workshop: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git_snapshot, "UNTRACKED_LIMIT_BYTES", 1 << 20)
    shop = workshop()
    shop.commit("one", {"tracked.bin": "x" * (3 << 20)})
    shop.write("tracked.bin", "y" * (3 << 20))
    repo = GitRepo.open(shop.root)
    assert repo.snapshot_worktree() != repo.head()
    shop.write("runs/check\npoint.pt", "x" * (3 << 20))
    with pytest.raises(
        UsageError, match=r"runs/check point\.pt: is not tracked and has 3 MiB.*add it to \.gitignore"
    ):
        repo.snapshot_worktree()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_cannot_be_read(workshop: Make) -> None:
    shop = workshop()
    shop.commit("one", {"f": "x"})
    shop.write("secret", "x").chmod(0)
    with pytest.raises(GitError, match="secret"):
        GitRepo.open(shop.root).snapshot_worktree()


def test_hooks_do_not_run(workshop: Make) -> None:
    shop = workshop()
    sha = shop.commit("one", {"f": "x"})
    marker = shop.root.parent / "hook-ran"
    for hook in ("post-checkout", "post-index-change", "pre-commit", "reference-transaction"):
        path = shop.root / ".git" / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\ntouch '{marker}'\n")
        path.chmod(0o755)
    shop.write("f", "y")
    repo = GitRepo.open(shop.root)
    repo.snapshot_worktree()
    repo.add_worktree(Sha(sha), shop.root.parent / "tree")
    assert not marker.exists()


def test_worktrees_come_and_go(workshop: Make) -> None:
    shop = workshop()
    one = shop.commit("one", {"f": "1", "d/g": "g"})
    shop.commit("two", {"f": "2"})
    shop.write("f", "dirty")
    repo = GitRepo.open(shop.root)
    path = shop.root.parent / "-odd näme"
    assert repo.add_worktree(Sha(one), path) == ()
    assert content(path) == {"f": "1", "d/g": "g"}
    assert (shop.root / "f").read_text() == "dirty"
    (path / "left-over").write_text("x")
    (path / "f").write_text("edited")
    repo.remove_worktree(path)
    assert not path.exists()
    repo.remove_worktree(path)
    repo.add_worktree(repo.snapshot_worktree(), path)
    assert content(path)["f"] == "dirty"
    shutil.rmtree(path)
    repo.add_worktree(Sha(one), path)
    assert content(path)["f"] == "1"
    shutil.rmtree(path)
    repo.remove_worktree(path)
    assert str(path) not in shop.git("worktree", "list", "--porcelain")


def test_what_is_not_a_worktree_is_left_alone(workshop: Make) -> None:
    shop = workshop()
    sha = shop.commit("one", {"f": "1"})
    repo = GitRepo.open(shop.root)
    precious = shop.root.parent / "precious"
    precious.mkdir()
    (precious / "file").write_text("x")
    with pytest.raises(GitError, match="is not a worktree of this repository"):
        repo.remove_worktree(precious)
    with pytest.raises(GitError, match="already exists"):
        repo.add_worktree(Sha(sha), precious)
    with pytest.raises(GitError, match="main working tree"):
        repo.remove_worktree(shop.root)
    stranger = workshop("stranger")
    stranger.commit("one", {"f": "1"})
    with pytest.raises(GitError, match="is not a working tree"):
        repo.remove_worktree(stranger.root)
    assert content(precious) == {"file": "x"}
    assert (shop.root / "f").exists()
    assert (stranger.root / "f").exists()


def _add_and_remove(root: str, sha: str, folder: str, number: int) -> list[str]:
    repo = GitRepo.open(Path(root))
    seen = []
    for turn in range(3):
        path = Path(folder, f"{number}-{turn}", "a")
        repo.add_worktree(Sha(sha), path)
        seen.append((path / "f").read_text())
        repo.remove_worktree(path)
    return seen


def test_many_processes_at_once(workshop: Make) -> None:
    shop = workshop()
    sha = shop.commit("one", {"f": "1", "g": "2"})
    fixed = (str(shop.root), sha, str(shop.root.parent / "trees"))
    # Not multiprocessing.Pool, which waits for ever where a worker cannot start.
    with ProcessPoolExecutor(6, multiprocessing.get_context("spawn")) as pool:
        found = [pool.submit(_add_and_remove, *fixed, number) for number in range(6)]
        assert [each.result(timeout=120) for each in found] == [["1", "1", "1"]] * 6
    assert shop.git("worktree", "list", "--porcelain").count("worktree ") == 1


def test_a_lock_of_another_process_is_waited_for(workshop: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = workshop()
    shop.commit("one", {"f": "1"})
    lock = shop.root / ".git" / "index.lock"
    lock.touch()
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            lock.unlink()

    monkeypatch.setattr(git_process.time, "sleep", sleep)
    git_process.run(shop.root, "read-tree", "HEAD")
    assert waits == [0.02, 0.04, 0.08]
    lock.touch()
    monkeypatch.setattr(git_process, "LOCK_PATIENCE_S", 0.0)
    with pytest.raises(GitError, match=r"index\.lock.*; if no git is running there, remove the lock file"):
        git_process.run(shop.root, "read-tree", "HEAD")


# Partial clones


@pytest.fixture
def origin(workshop: Make) -> Any:
    """Three commits; in a blobless clone of it without the last checked out, most contents are elsewhere."""
    shop = workshop("origin")
    shop.git("config", "uploadpack.allowFilter", "true")
    shop.git("config", "uploadpack.allowAnySHA1InWant", "true")
    shop.commit("one", {"pkg/__init__.py": "", "old.py": "old = 1\n" * 9, "same.py": "same\n"})
    shop.git("tag", "one")
    shop.git("mv", "old.py", "new.py")
    shop.commit("two", {"sub/.gitattributes": "*.txt text\n", "sub/ä.txt": "a\n", "new.py": "new = 2\n" * 9})
    shop.git("tag", "two")
    (shop.root / "sub" / ".gitattributes").unlink()
    (shop.root / "sub" / "ä.txt").unlink()
    shop.commit("three", {"new.py": "new = 3\n"})
    return shop


def partial(origin: Any, *, checkout: bool = True) -> Path:
    """A blobless clone; with its `HEAD` checked out it has the contents of that commit alone."""
    clone = Path(origin.root.parent, "partial")
    flags = [] if checkout else ["--no-checkout"]
    origin.git("clone", "-q", "--filter=blob:none", *flags, f"file://{origin.root}", str(clone))
    return clone


def test_a_partial_clone_out_of_reach_gives_what_it_has(origin: Any) -> None:
    clone = partial(origin)
    shutil.rmtree(origin.root)
    repo = GitRepo.open(clone)
    tree = clone.parent / "tree"

    missing = repo.add_worktree(repo.resolve("two"), tree)

    assert missing == ("new.py", "sub/.gitattributes", "sub/ä.txt")
    assert content(tree) == {"pkg/__init__.py": "", "same.py": "same\n"}
    head = clone.parent / "head"
    assert repo.add_worktree(repo.head(), head) == ()
    assert content(head)["new.py"] == "new = 3\n"
    repo.remove_worktree(tree)
    repo.remove_worktree(head)
    assert not tree.exists()


def test_a_copy_of_a_partial_clone_that_says_nothing_of_it_gives_what_it_has(origin: Any) -> None:
    clone = partial(origin)
    shutil.rmtree(origin.root)
    for key in ("remote.origin.promisor", "remote.origin.partialclonefilter", "extensions.partialclone"):
        subprocess.run(["git", "config", "--unset", key], cwd=clone, check=False)
    repo = GitRepo.open(clone)
    tree = clone.parent / "tree"

    missing = repo.add_worktree(repo.resolve("two"), tree)

    assert missing == ("new.py", "sub/.gitattributes", "sub/ä.txt")
    assert content(tree) == {"pkg/__init__.py": "", "same.py": "same\n"}


def test_a_checkout_with_gaps_does_not_look_edited(origin: Any) -> None:
    clone = partial(origin)
    shutil.rmtree(origin.root)
    repo = GitRepo.open(clone)
    tree = clone.parent / "tree"
    assert repo.add_worktree(repo.resolve("one"), tree) == ("old.py",)
    assert not GitRepo.open(tree).is_dirty()
    (tree / "same.py").write_text("edited")
    assert GitRepo.open(tree).is_dirty()


def test_a_partial_clone_within_reach_is_completed(origin: Any) -> None:
    clone = partial(origin)
    repo = GitRepo.open(clone)
    tree = clone.parent / "tree"
    assert repo.add_worktree(repo.resolve("two"), tree) == ()
    assert content(tree)["sub/ä.txt"] == "a\n"
    files = repo.files(repo.resolve("one"))
    read = dict(repo.blobs(files.values()))
    assert read[files["old.py"]] == b"old = 1\n" * 9


def test_the_history_of_a_partial_clone_needs_no_contents(origin: Any) -> None:
    clone = partial(origin, checkout=False)
    shutil.rmtree(origin.root)
    repo = GitRepo.open(clone)
    changes = list(repo.first_parent(repo.head()))
    assert [change.subject for change in changes] == ["one", "two", "three"]
    assert changes[2].files == (
        FileEdit("new.py", -1, -1),
        FileEdit("sub/.gitattributes", -1, -1),
        FileEdit("sub/ä.txt", -1, -1),
    )
    assert repo.change(repo.head()).files == changes[2].files
    assert len(repo.range(changes[0].sha, changes[2].sha)) == 2
    assert list(repo.blobs(repo.files(repo.head()).values())) == []


def test_a_remote_that_does_not_answer_is_asked_once(origin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    clone = partial(origin, checkout=False)
    shutil.rmtree(origin.root)
    repo = GitRepo.open(clone)
    asked = []
    real = git_process.run

    def run(where: Path | None, *words: str, **options: Any) -> Any:
        asked.append(words[0])
        return real(where, *words, **options)

    monkeypatch.setattr(git_process, "run", run)
    for _ in range(3):
        assert list(repo.blobs(repo.files(repo.head()).values())) == []
    assert asked.count("fetch") == 1


def test_a_dirty_partial_clone(origin: Any) -> None:
    clone = partial(origin)
    shutil.rmtree(origin.root)
    (clone / "new.py").write_text("edited\n")
    repo = GitRepo.open(clone)
    assert [edit.path for edit in repo.change(repo.snapshot_worktree()).files] == ["new.py"]


def test_another_hash(workshop: Make, tmp_path: Path) -> None:
    shop = workshop("sha256")
    shutil.rmtree(shop.root / ".git")
    shop.git("init", "-q", "--object-format=sha256", "--initial-branch=main")
    sha = shop.commit("one", {"f": "x\n"})
    repo = GitRepo.open(shop.root)
    assert len(sha) == 64
    assert [change.files for change in repo.first_parent(repo.head())] == [(FileEdit("f", 1, 0),)]
    assert [body for _, body in repo.blobs(repo.files(repo.head()).values())] == [b"x\n"]
