"""`tithe spool` and `tithe snapshot` at their edges: nothing that was not done is called done."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.unit.data.test_outbox import filled
from tithe.cli import main
from tithe.data.errors import GitError
from tithe.data.git_objects import ObjectReader
from tithe.wiring import Project


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "repo"
    root.mkdir()
    (root / "tithe.toml").write_text(
        '[tithe]\nmain = "main"\n\n[[scenario]]\nname = "a"\ncommand = "true"\nmetrics = ["wall"]\n'
    )
    for words in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-qm", "one"]):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b", *words],
            cwd=root,
            check=True,
            capture_output=True,
        )
    monkeypatch.chdir(root)
    return root


def code(*words: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_an_outbox_that_is_a_file_or_is_not_there_is_said(
    repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = str(tmp_path / "spool")
    assert code("spool", "push", spool) == 0  # nothing was measured
    assert code("spool", "push", spool, "--from", str(tmp_path / "nowhere")) == 2
    assert "nowhere: there is no such folder" in capsys.readouterr().err
    (repo / ".tithe").mkdir(exist_ok=True)
    (repo / ".tithe" / "outbox").write_text("")
    assert code("spool", "push", spool) == 2
    assert "is not a folder" in capsys.readouterr().err
    assert not (tmp_path / "spool").exists()


@pytest.mark.parametrize("url", ["s3:/bucket", "memory://x", "http://[::1", "afile"])
def test_where_nothing_would_arrive_nothing_is_sent(
    repo: Path, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(repo / ".tithe" / "outbox").close()
    (repo / "afile").write_text("")
    before = sorted((repo / ".tithe" / "outbox").iterdir())
    assert code("spool", "push", url) == 2
    assert code("snapshot", "publish", url) == 2
    assert "a fault of tithe's own" not in capsys.readouterr().err
    assert sorted((repo / ".tithe" / "outbox").iterdir()) == before
    assert not (repo / "s3:").exists()


def test_a_damaged_line_is_a_fault_once(
    repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(repo / ".tithe" / "outbox").close()
    (journal,) = (repo / ".tithe" / "outbox").iterdir()
    journal.write_bytes(b"garbage\n" + journal.read_bytes())
    assert code("spool", "push", str(tmp_path / "spool")) == 3
    told = capsys.readouterr().out
    assert "sent 1 bundles" in told
    assert "1 of 6 lines are damaged" in told
    assert code("spool", "push", str(tmp_path / "spool")) == 0


def test_fetch_or_none_forgives_only_that_nothing_is_there(
    repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "published"
    assert code("snapshot", "fetch", str(place)) == 3
    assert code("snapshot", "fetch", str(place), "--or-none") == 0
    assert f"nothing has been published at {place} yet" in capsys.readouterr().out
    assert code("snapshot", "fetch", str(place), "--or-none", "--format", "json") == 0
    assert '"published": false' in capsys.readouterr().out
    assert code("snapshot", "fetch", "http://127.0.0.1:9/x", "--or-none") == 3
    place.mkdir()
    (place / "latest.json").write_bytes(b'{"format":1,"z":' + b"[" * 60_000)
    for more in ([], ["--or-none"]):
        assert code("snapshot", "fetch", str(place), *more) == 3
    told = capsys.readouterr().err
    assert "nested too deeply" in told
    assert "a fault of tithe's own" not in told


def test_an_id_that_ends_in_a_newline_is_none(repo: Path) -> None:
    with pytest.raises(GitError, match="not an object id"):
        ObjectReader(repo).missing(["a" * 40 + "\n"])


def test_a_spooling_run_that_is_stopped_does_not_promise_to_go_on(
    repo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(self: Project, *_: object, **__: object) -> None:
        assert self.records is not None
        raise KeyboardInterrupt

    monkeypatch.setattr(Project, "open_run", stopped)
    words = ("run", "--base", "HEAD", "--head", "HEAD")
    assert code(*words, "--spool", str(tmp_path / "spool")) == 130
    told = capsys.readouterr().err
    assert "the same command begins anew" in told
    assert "goes on" not in told
    assert code(*words) == 130
    assert "the same command goes on from there" in capsys.readouterr().err
