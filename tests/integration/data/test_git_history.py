"""Revisions and first-parent history of real repositories."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tithe.data import git_process
from tithe.data.errors import GitError, UsageError
from tithe.data.git import GitRepo
from tithe.data.records import FileEdit, Sha

Make = Callable[..., Any]
LINES = "".join(f"line {number}\n" for number in range(20))


def test_first_parent_history(workshop: Make) -> None:
    shop = workshop()
    shop.git("config", "diff.renames", "false")
    shas = [shop.commit("one", {"a.py": LINES, "b.bin": "\0\1"})]
    shop.git("mv", "a.py", "renamed.py")
    shas.append(shop.commit("two\n\nBecause of\nthis.", {"renamed.py": LINES + "more\n"}))
    shas.append(shop.commit("nothing"))
    shop.git("checkout", "-q", "-b", "side")
    shop.commit("on the side", {"side.py": "1\n2\n"})
    shop.git("checkout", "-q", "main")
    shas.append(shop.commit("on main", {"b.bin": "\0\2"}))
    shop.git("merge", "-q", "--no-edit", "side")
    shas.append(shop.git("rev-parse", "HEAD"))
    repo = GitRepo.open(shop.root)

    changes = list(repo.first_parent(repo.head()))

    assert [change.sha for change in changes] == shas
    assert [change.parent for change in changes] == ["", *shas[:-1]]
    assert [change.index for change in changes] == [0, 1, 2, 3, 4]
    assert [change.merge for change in changes] == [False, False, False, False, True]
    assert [change.subject for change in changes][:4] == ["one", "two", "nothing", "on main"]
    assert changes[1].body == "Because of\nthis."
    assert {change.author for change in changes} == {"ada@example.org"}
    assert changes[0].time == 1_700_000_000
    assert [change.files for change in changes] == [
        (FileEdit("a.py", 20, 0), FileEdit("b.bin", -1, -1)),
        (FileEdit("renamed.py", 1, 0, "a.py"),),
        (),
        (FileEdit("b.bin", -1, -1),),
        (FileEdit("side.py", 2, 0),),
    ]


def test_history_goes_on_where_it_stopped(workshop: Make) -> None:
    shop = workshop()
    for number in range(6):
        shop.commit(f"{number}", {"f": str(number)})
    repo = GitRepo.open(shop.root)
    whole = list(repo.first_parent(repo.head()))
    for cut in range(6):
        assert list(repo.first_parent(repo.head(), after=whole[cut].sha)) == whole[cut + 1 :]


def test_time_never_falls_also_across_a_cut(workshop: Make) -> None:
    shop = workshop()
    for at in (1000, 5000, 2000, 3000, 6000):
        shop.commit(str(at), at=at)
    repo = GitRepo.open(shop.root)
    whole = list(repo.first_parent(repo.head()))
    assert [change.time for change in whole] == [1000, 5000, 5000, 5000, 6000]
    assert [change.time for change in repo.first_parent(repo.head(), after=whole[2].sha)] == [5000, 6000]


def test_what_is_not_on_first_parent_history(workshop: Make) -> None:
    shop = workshop()
    base = shop.commit("base")
    shop.git("checkout", "-q", "-b", "side")
    side = shop.commit("side", {"s": ""})
    shop.git("checkout", "-q", "main")
    shop.commit("main", {"m": ""})
    shop.git("merge", "-q", "--no-edit", "side")
    repo = GitRepo.open(shop.root)
    tip = repo.head()
    assert len(repo.range(Sha(base), tip)) == 2
    for old, new in ((side, tip), (tip, base)):
        with pytest.raises(
            UsageError, match=r"is not on the first-parent history of .*; give two commits of one branch"
        ):
            repo.range(Sha(old), Sha(new))
        with pytest.raises(UsageError, match="is not on the first-parent history"):
            list(repo.first_parent(Sha(new), after=Sha(old)))
    assert repo.range(tip, tip) == ()
    assert list(repo.first_parent(tip, after=tip)) == []


def test_range_is_oldest_first(workshop: Make) -> None:
    shop = workshop()
    shas = [shop.commit(str(number)) for number in range(4)]
    repo = GitRepo.open(shop.root)
    assert repo.range(Sha(shas[0]), Sha(shas[3])) == tuple(shas[1:])


ODD_NAMES = [
    b"sp ace.py",
    b"tab\t.py",
    b"new\nline.py",
    b'quo"te.py',
    b"-dash.py",
    b"\x01mark.py",
    b":colon",
    b"1\t2\tx",
]


def test_odd_names_and_messages(workshop: Make) -> None:
    shop = workshop()
    shop.commit("first")
    for name in ODD_NAMES:
        Path(os.fsdecode(os.fsencode(shop.root) + b"/" + name)).write_bytes(b"x\n")
    shop.git("add", "--all")
    subject = "\x02 evil \x1b[31m :100644 100644 0 0 M"
    shop.git("commit", "-q", "-F", "-", "--cleanup=verbatim", stdin=f"{subject}\n\n1\t1\tbody.py\n\x01abc\n")
    repo = GitRepo.open(shop.root)
    (change,) = list(repo.first_parent(repo.head()))[1:]
    assert change.subject == subject
    assert change.body == "1\t1\tbody.py\n\x01abc"
    assert sorted(edit.path for edit in change.files) == sorted(name.decode() for name in ODD_NAMES)
    assert sorted(repo.files(repo.head())) == sorted(name.decode() for name in ODD_NAMES)


@pytest.mark.skipif(os.uname().sysname == "Darwin", reason="its file system takes UTF-8 only")
def test_names_and_messages_that_are_not_utf8(workshop: Make) -> None:
    shop = workshop()
    for name in (b"caf\xe9.py", b"caf\xea.py"):
        Path(os.fsdecode(os.fsencode(shop.root) + b"/" + name)).write_bytes(b"x\n")
    shop.git("config", "i18n.commitEncoding", "ISO-8859-1")
    shop.git("add", "--all")
    message = shop.root / ".git" / "message"
    message.write_bytes(b"caf\xe9")
    shop.git("commit", "-q", "-F", str(message))
    repo = GitRepo.open(shop.root)
    (change,) = repo.first_parent(repo.head())
    assert change.subject == "café"
    assert [edit.path for edit in change.files] == ["caf\\xe9.py", "caf\\xea.py"]
    change.files[0].path.encode("utf-8")


def test_a_change_against_any_base(workshop: Make) -> None:
    shop = workshop()
    shas = [shop.commit(str(number), {f"{number}.py": LINES}) for number in range(3)]
    shop.git("mv", "0.py", "moved.py")
    shas.append(shop.commit("move"))
    repo = GitRepo.open(shop.root)
    own = repo.change(Sha(shas[3]))
    assert (own.sha, own.parent, own.index, own.subject) == (shas[3], shas[2], -1, "move")
    assert own.files == (FileEdit("moved.py", 0, 0, "0.py"),)
    wide = repo.change(Sha(shas[2]), Sha(shas[0]))
    assert (wide.parent, [edit.path for edit in wide.files]) == (shas[0], ["1.py", "2.py"])
    root = repo.change(Sha(shas[0]))
    assert (root.parent, root.files) == ("", (FileEdit("0.py", 20, 0),))


def test_the_users_configuration_changes_nothing(workshop: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = workshop()
    shop.commit("one", {"ä.py": LINES, "b.txt": "b\n"})
    shop.git("mv", "ä.py", "ö.py")
    shop.commit("two", {"b.txt": "c\n"})
    plain = GitRepo.open(shop.root)
    changes, files = list(plain.first_parent(plain.head())), plain.files(plain.head())
    marker = shop.root.parent / "was-run"
    spy = shop.root.parent / "spy"
    spy.write_text(f"#!/bin/sh\ntouch '{marker}'\n")
    spy.chmod(0o755)
    for key, value in {
        "color.ui": "always",
        "core.pager": str(spy),
        "core.quotePath": "true",
        "core.fsmonitor": str(spy),
        "core.hooksPath": str(spy.parent),
        "diff.external": str(spy),
        "diff.noprefix": "true",
        "diff.renames": "false",
        "diff.orderFile": "b.txt",
        "diff.relative": "true",
        "log.showRoot": "false",
        "log.showSignature": "true",
        "log.diffMerges": "off",
        "log.follow": "true",
        "format.pretty": "raw",
        "status.showUntrackedFiles": "no",
        "diff.spy.textconv": str(spy),
        "diff.spy.command": str(spy),
    }.items():
        shop.git("config", key, value)
    (shop.root / ".git" / "info" / "attributes").write_text("* diff=spy\n")
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(spy))
    monkeypatch.setenv("GIT_LITERAL_PATHSPECS", "1")
    monkeypatch.setenv("GIT_TRACE", "1")
    repo = GitRepo.open(shop.root)
    assert list(repo.first_parent(repo.head())) == changes
    assert repo.files(repo.head()) == files
    assert repo.change(repo.head()).files == changes[1].files
    shop.write("untracked", "")
    assert repo.is_dirty()
    repo.snapshot_worktree()
    assert not marker.exists()


def test_replaced_and_grafted_objects_do_not_count(workshop: Make) -> None:
    shop = workshop()
    shas = [shop.commit(str(number), {"f": str(number)}) for number in range(3)]
    shop.git("replace", shas[2], shas[0])
    repo = GitRepo.open(shop.root)
    assert [change.sha for change in repo.first_parent(Sha(shas[2]))] == shas


def test_revisions(workshop: Make) -> None:
    shop = workshop()
    first = shop.commit("one")
    shop.git("tag", "-a", "-m", "x", "v1")
    second = shop.commit("two")
    repo = GitRepo.open(shop.root)
    for rev in ("main", "HEAD", "@", second[:10], "refs/heads/main", "HEAD^{/two}"):
        assert repo.resolve(rev) == second
    for rev in ("v1", "HEAD~1", first):
        assert repo.resolve(rev) == first


@pytest.mark.parametrize(
    "rev",
    [
        "--upload-pack=touch x",
        "-",
        "--help",
        "",
        " main",
        "main\n",
        "a\x00b",
        "main\x1b[31m",
        "nope",
        "main..main",
        "^main",
        "main^@",
        "main:f",
        "main^{tree}",
        "0" * 40,
        "x" * 5000,
    ],
)
def test_revisions_that_are_none(workshop: Make, rev: str) -> None:
    shop = workshop()
    shop.commit("one", {"f": "x"})
    with pytest.raises(UsageError, match=r"is not a (revision|commit here)") as caught:
        GitRepo.open(shop.root).resolve(rev)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


def test_an_unknown_revision_is_answered_with_a_near_one(workshop: Make) -> None:
    shop = workshop()
    sha = shop.commit("one")
    shop.git("update-ref", "refs/remotes/origin/release", sha)
    repo = GitRepo.open(shop.root)
    with pytest.raises(UsageError, match=r"did you mean main\?"):
        repo.resolve("mian")
    with pytest.raises(UsageError, match=r"did you mean origin/release\?"):
        repo.resolve("release")


def test_an_ambiguous_name(workshop: Make) -> None:
    shop = workshop()
    shop.commit("one")
    shop.git("tag", "twice")
    shop.commit("two")
    shop.git("branch", "twice")
    shop.git("config", "core.warnAmbiguousRefs", "false")
    repo = GitRepo.open(shop.root)
    with pytest.raises(UsageError, match="can mean more than one commit; write refs/heads/"):
        repo.resolve("twice")
    assert repo.resolve("refs/tags/twice") != repo.resolve("refs/heads/twice")


def test_tags_are_those_of_commits(workshop: Make) -> None:
    shop = workshop()
    one = shop.commit("one", {"f": "x"})
    shop.git("tag", "plain")
    shop.git("tag", "-a", "-m", "x", "noted")
    shop.git("tag", "-a", "-m", "x", "nested", "noted")
    shop.git("tag", "of-a-blob", "HEAD:f")
    two = shop.commit("two")
    shop.git("tag", "grün/2")
    assert GitRepo.open(shop.root).tags() == {"plain": one, "noted": one, "nested": one, "grün/2": two}


def test_merge_base(workshop: Make) -> None:
    shop = workshop()
    base = shop.commit("base")
    shop.git("checkout", "-q", "-b", "side")
    side = shop.commit("side")
    shop.git("checkout", "-q", "main")
    main = shop.commit("main")
    shop.git("checkout", "-q", "--orphan", "other")
    other = shop.commit("other")
    repo = GitRepo.open(shop.root)
    assert repo.merge_base(Sha(side), Sha(main)) == base
    with pytest.raises(UsageError, match="have no common ancestor"):
        repo.merge_base(Sha(side), Sha(other))


def test_main_branch(workshop: Make) -> None:
    shop = workshop()
    sha = shop.commit("one")
    shop.git("checkout", "-q", "-b", "topic")
    assert GitRepo.open(shop.root).main_branch() == "main"
    shop.git("branch", "-q", "-m", "main", "stable")
    assert GitRepo.open(shop.root).main_branch() == "topic"
    shop.git("update-ref", "refs/remotes/origin/rel/9", sha)
    shop.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/rel/9")
    assert GitRepo.open(shop.root).main_branch() == "rel/9"


def test_a_shallow_clone(workshop: Make) -> None:
    shop = workshop("origin")
    shas = [shop.commit(str(number), {f"{number}.py": LINES}) for number in range(5)]
    clone = shop.root.parent / "clone"
    shop.git("clone", "-q", "--depth=2", f"file://{shop.root}", str(clone))
    repo = GitRepo.open(clone)
    assert repo.is_shallow()
    changes = list(repo.first_parent(repo.head()))
    assert [change.sha for change in changes] == shas[3:]
    assert [len(change.files) for change in changes] == [0, 1]
    with pytest.raises(UsageError, match=r"is not a commit here; the clone is shallow.*fetch-depth: 0"):
        repo.resolve(shas[0])
    with pytest.raises(UsageError, match=r"the parent of .* is not here; the clone is shallow"):
        repo.change(Sha(shas[3]))
    with pytest.raises(UsageError, match=r"not on the first-parent history.*the clone is shallow"):
        repo.range(Sha(shas[4]), Sha(shas[3]))
    assert not GitRepo.open(shop.root).is_shallow()


def test_where_there_is_no_repository(tmp_path: Path, workshop: Make) -> None:
    with pytest.raises(UsageError, match="is not in a git repository; run tithe inside a git checkout"):
        GitRepo.open(tmp_path)
    with pytest.raises(UsageError, match="there is no such folder"):
        GitRepo.open(tmp_path / "nope")
    shop = workshop()
    with pytest.raises(UsageError, match="there is no work tree"):
        GitRepo.open(shop.root / ".git")
    bare = tmp_path / "bare"
    shop.git("clone", "-q", "--bare", ".", str(bare))
    with pytest.raises(UsageError, match="there is no work tree"):
        GitRepo.open(bare)


def test_a_repository_without_commits(workshop: Make) -> None:
    repo = GitRepo.open(workshop().root)
    with pytest.raises(UsageError, match="there is no commit yet; commit something first"):
        repo.head()
    assert repo.tags() == {}


def test_opened_from_below_and_in_a_linked_worktree(workshop: Make) -> None:
    shop = workshop("odd näme \n with line")
    sha = shop.commit("one", {"a/b/f": "x"})
    assert GitRepo.open(shop.root / "a" / "b").root == shop.root.resolve()
    linked = shop.root.parent / "linked"
    repo = GitRepo.open(shop.root)
    repo.add_worktree(Sha(sha), linked)
    inner = GitRepo.open(linked)
    assert inner.root == linked.resolve()
    (linked / "new").write_text("x")
    snapshot = inner.snapshot_worktree()
    assert [edit.path for edit in inner.change(snapshot).files] == ["new"]
    assert dict(inner.blobs(inner.files(Sha(sha)).values())) == dict(
        repo.blobs(repo.files(Sha(sha)).values())
    )
    assert not repo.is_dirty()


def test_blobs_in_one_go(workshop: Make) -> None:
    shop = workshop()
    contents = {f"{number}.txt": "é\n" * number for number in range(300)}
    shop.commit("one", contents | {"link-target": "x"})
    repo = GitRepo.open(shop.root)
    files = repo.files(repo.head())
    read = dict(repo.blobs([*files.values(), "f" * 40, repo.head()]))
    assert {path: read[blob].decode() for path, blob in files.items() if path in contents} == contents
    assert set(read) == set(files.values())
    with pytest.raises(GitError, match="is not an object id"):
        list(repo.blobs(["--batch-all-objects"]))


def test_links_and_submodules(workshop: Make) -> None:
    shop = workshop()
    sha = shop.commit("one", {"f": "x"})
    (shop.root / "link").symlink_to("f")
    shop.git("update-index", "--add", "--cacheinfo", f"160000,{sha},sub")
    shop.git("add", "link")
    shop.git("commit", "-q", "-m", "two")
    repo = GitRepo.open(shop.root)
    assert sorted(repo.files(repo.head())) == ["f", "link"]
    assert [edit.path for edit in repo.change(repo.head()).files] == ["link", "sub"]


def test_a_reader_that_stops_early_leaves_no_process(workshop: Make) -> None:
    shop = workshop()
    for number in range(50):
        shop.commit(str(number), {"f": LINES * number})
    repo = GitRepo.open(shop.root)
    stream = repo.first_parent(repo.head())
    assert next(stream).subject == "0"
    stream.close()  # type: ignore[attr-defined]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_git_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    git_process.require_git.cache_clear()
    with pytest.raises(GitError, match="git was not found; install git"):
        GitRepo.open(tmp_path)


def test_git_is_too_old(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\necho git version 2.7.4\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    git_process.require_git.cache_clear()
    with pytest.raises(GitError, match=r"git 2\.31 or newer is needed, this is git version 2\.7\.4"):
        GitRepo.open(tmp_path)
    git_process.require_git.cache_clear()


def test_files_that_are_missing_cost_the_counts_of_their_commits_and_no_more(workshop: Make) -> None:
    shop = workshop()
    shas = [shop.commit(str(n), {"big": f"{n}\n" * (n + 1), "small": f"{n}\n"}) for n in range(6)]
    blob = shop.git("rev-parse", f"{shas[3]}:big")
    (shop.root / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    repo = GitRepo.open(shop.root)
    found = list(repo.first_parent(repo.head()))
    assert [change.sha for change in found] == shas
    assert [change.index for change in found] == list(range(6))
    counted = [{edit.path: edit.added for edit in change.files} for change in found]
    assert counted[2]["big"] == 3
    assert counted[3] == counted[4] == {"big": -1, "small": -1}  # what differs from it is not counted either
    assert counted[5]["small"] == 1
    again = list(repo.first_parent(repo.head(), after=shas[1]))
    assert again == found[2:]


def test_a_broken_repository_says_what_git_says(workshop: Make) -> None:
    shop = workshop()
    shop.commit("one", {"f": "x"})
    repo = GitRepo.open(shop.root)
    sha = repo.head()
    tree = shop.git("rev-parse", "HEAD^{tree}")
    (shop.root / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(GitError, match=r"git (log|ls-tree): "):
        list(repo.first_parent(sha))
    with pytest.raises(GitError, match="git ls-tree: "):
        repo.files(sha)


def test_a_command_that_takes_too_long_ends_with_its_helpers(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\nsleep 600 & wait\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(GitError, match=r"did not end within 0\.2 s"):
        git_process.run(tmp_path, "fetch", timeout_s=0.2)
