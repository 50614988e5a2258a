"""The store among real processes and real faults: kills, crowds, damage, full disks, read-only places."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tithe.data.errors import StoreError
from tithe.data.records import Launch, LaunchId, MetricName, Outcome, RunId, ScenarioName, Sha
from tithe.data.spool import write_bundle
from tithe.data.store import Store

A, B = Sha("a" * 40), Sha("b" * 40)

WRITER = """
import sys
from pathlib import Path
from tithe.data.records import Launch
from tithe.data.store import Store
path, name, number, wide = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
with Store.open(path) as store:
    for turn in range(number):
        store.add_launches([
            Launch(f"{name}/{turn}/{one}", name, f"scenario-{turn}", "base", "a" * 40, "first", turn, one,
                   "a", float(turn), 1.0, "ok", 0, {"wall": 1.0, f"m{turn}": 2.0}, {"first-batch": 0.5})
            for one in range(wide)
        ])
        print(turn, flush=True)
"""


def writer(path: Path, name: str, number: int, wide: int = 4) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), name, str(number), str(wide)],
        stdout=subprocess.PIPE,
        text=True,
    )


def outcome(number: int) -> Outcome:
    return Outcome(
        A, B, ScenarioName(f"s{number}"), MetricName("wall"), "same", float(number), "ab", "chosen"
    )


def filled(path: Path, rows: int = 3000) -> Path:
    with Store.open(path) as store:
        store.add_outcomes(outcome(number) for number in range(rows))
    return path


def test_many_processes_write_at_once_to_a_store_that_none_of_them_found(tmp_path: Path) -> None:
    path = tmp_path / ".tithe" / "store.db"
    crowd = [writer(path, f"w{number}", 15) for number in range(6)]
    for one in crowd:
        one.communicate(timeout=120)
    assert [one.returncode for one in crowd] == [0] * 6
    with Store.open(path) as store:
        assert store.counts()["launches"] == 6 * 15 * 4
        assert store.counts()["samples"] == 6 * 15 * 4 * 2
        assert len({launch.id for launch in store.launches()}) == 6 * 15 * 4
        assert store.check() == []


def test_kill_loses_nothing_that_was_acknowledged_and_halves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    acknowledged: dict[str, int] = {}
    for turn in range(8):
        one = writer(path, f"w{turn}", 100_000, wide=50)
        assert one.stdout is not None
        for _ in range(1 + turn % 3):
            one.stdout.readline()
        time.sleep(0.002 * turn)  # another moment of the next write each time
        one.send_signal(signal.SIGKILL)
        rest, _ = one.communicate(timeout=60)
        acknowledged[f"w{turn}"] = 1 + turn % 3 + len(rest.splitlines())
    with Store.open(path) as store:
        assert store.check() == []
        for name, turns in acknowledged.items():
            kept = list(store.launches(run=RunId(name)))
            assert len(kept) % 50 == 0
            assert turns <= len(kept) // 50 <= turns + 1  # written, but killed before it could say so
            assert all(len(launch.values) == 2 and len(launch.phases) == 1 for launch in kept)


def test_a_kill_between_opening_and_writing_leaves_a_file_that_opens(tmp_path: Path) -> None:
    (tmp_path / "store.db").touch()
    with pytest.raises(StoreError, match="is empty"):
        Store.open(tmp_path / "store.db", read_only=True)
    with Store.open(tmp_path / "store.db") as store:
        assert store.check() == []


def read_all(path: Path) -> None:
    with Store.open(path) as store:
        store.outcomes()
        store.changes()
        list(store.launches())
        if faults := store.check():
            raise StoreError(f"is corrupt ({faults[0]})")


def overwrite_head(path: Path) -> None:
    path.write_bytes(b"x" * 4096 + path.read_bytes()[4096:])


def overwrite_all(path: Path) -> None:
    path.write_bytes(os.urandom(8192))


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def truncate_to_bytes(path: Path) -> None:
    os.truncate(path, 1000)


def scramble_pages(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    for place in range(4096, len(raw), 4096):
        raw[place : place + 200] = b"\xff" * 200
    path.write_bytes(raw)


@pytest.mark.parametrize(
    "damage", [overwrite_head, overwrite_all, truncate, truncate_to_bytes, scramble_pages]
)
def test_a_damaged_store_says_how_to_mend_it(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    path = filled(tmp_path / "store.db")
    damage(path)
    with pytest.raises(StoreError, match=r"is corrupt \(.*\); move it aside .*tithe ingest spool") as caught:
        read_all(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3


def test_another_programs_file_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "cookies.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE cookie (name)")
    connection.close()
    raw = path.read_bytes()
    with pytest.raises(StoreError, match="not a store of tithe"):
        Store.open(path)
    assert path.read_bytes() == raw


@pytest.mark.parametrize("read_only", [False, True])
def test_a_store_from_a_newer_tithe_is_refused_and_left_alone(tmp_path: Path, read_only: bool) -> None:
    path = filled(tmp_path / "store.db", 1)
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO schema_version VALUES (99, 1.0, '9.9')")
    connection.commit()
    connection.close()
    raw = path.read_bytes()
    with pytest.raises(StoreError, match=r"schema version 99, newer than .*upgrade tithe"):
        Store.open(path, read_only=read_only)
    assert path.read_bytes() == raw


def test_no_store_where_one_is_asked_for(tmp_path: Path) -> None:
    for wish in ({"create": False}, {"read_only": True}):
        with pytest.raises(StoreError, match="no such store"):
            Store.open(tmp_path / "x" / "store.db", **wish)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StoreError, match="cannot be opened"):
        Store.open(tmp_path)


def test_reading_only_never_writes(tmp_path: Path) -> None:
    path = filled(tmp_path / "store.db", 10)
    with Store.open(path, read_only=True) as store:
        assert len(store.outcomes()) == 10
        with pytest.raises(StoreError, match="read only"):
            store.add_outcomes([outcome(99)])


def as_somebody(action: Callable[[], str]) -> str:
    """What `action` answers in a process that is not root, and that has no rights to others' files."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            said = action()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


@pytest.fixture
def locked_folder(tmp_path: Path) -> Path:
    """A folder with a store that others may read and nobody may write."""
    folder = tmp_path / "locked"
    folder.mkdir()
    path = filled(folder / "store.db", 10)
    path.chmod(0o444)
    folder.chmod(0o555)
    for parent in (tmp_path, *tmp_path.parents[:3]):
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    return folder


def test_a_read_only_folder_can_be_read(locked_folder: Path) -> None:
    def read() -> str:
        with Store.open(locked_folder / "store.db", read_only=True) as store:
            return str(len(store.outcomes()))

    assert as_somebody(read) == "10"


def test_a_read_only_folder_cannot_be_written_in_one_line(locked_folder: Path) -> None:
    def write() -> str:
        with Store.open(locked_folder / "store.db") as store:
            store.add_outcomes([outcome(99)])
        return "written"

    def make() -> str:
        Store.open(locked_folder / ".tithe" / "store.db")
        return "made"

    def spool() -> str:
        return str(write_bundle(locked_folder, [outcome(1)]))

    said = [as_somebody(action) for action in (write, make, spool)]
    assert "cannot be written: read-only; see to the permissions" in said[0]
    assert "cannot be made: Permission denied" in said[1]
    assert "cannot be written: Permission denied" in said[2]
    assert all("\n" not in line for line in said)


def with_small_files(limit: int, action: Callable[[], str]) -> str:
    """What `action` answers where no file may grow beyond `limit` bytes: a disk that is full."""

    def small() -> str:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        return action()

    return as_somebody(small)


def test_a_full_disk_is_one_line_and_the_store_stays_whole(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    for parent in tmp_path.parents[:3]:
        if parent.stat().st_uid == os.getuid() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    path = tmp_path / "store.db"
    filled(path, 10)
    path.chmod(0o666)

    def write() -> str:
        with Store.open(path) as store:
            store.add_outcomes(outcome(number) for number in range(100_000))
        return "written"

    def spool() -> str:
        launch = Launch(
            LaunchId("l"), RunId("r"), ScenarioName("s"), "base", A, "first", 0, 0, "a", 1.0, 1.0, "ok", 0,
            {MetricName(os.urandom(16).hex()): 1.0 for _ in range(20_000)},
        )  # fmt: skip
        return str(write_bundle(tmp_path / "spool", [launch]))

    said = with_small_files(1_000_000, write)
    assert said.startswith(f"StoreError: {path}: ")
    assert "full" in said
    assert "\n" not in said
    said = with_small_files(100_000, spool)
    assert said.startswith("LocationError: ")
    assert "cannot be written" in said
    assert list((tmp_path / "spool").iterdir()) == []
    with Store.open(path) as store:
        assert store.counts()["outcomes"] == 10
        assert store.check() == []
        assert store.add_outcomes(outcome(number) for number in range(20)) == 10


def test_a_writer_that_never_ends_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tithe.data.database.BUSY_S", 0.2)
    path = filled(tmp_path / "store.db", 1)
    with Store.open(path) as one, Store.open(path) as other, one.transaction():
        with pytest.raises(StoreError, match="being written by another process"):
            other.add_outcomes([outcome(5)])
        assert len(other.outcomes()) == 1
