"""A snapshot is what was published, or is refused with the reason; a reader sees the old one or the new one."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.http_store import HttpStore, http_store
from tithe.data import locations, snapshot
from tithe.data.errors import LocationError, MissingError, SnapshotError
from tithe.data.locations import Folder, location
from tithe.data.snapshot import POINTER, SUFFIX, Manifest, fetch, pack, publish, unpack

NOW = 1_800_000_000.0
MANIFEST = Manifest(created_at=NOW - 60, tip="a" * 40, changes=3, outcomes=2, scenarios=1)
PARTS = {"state/arrays.npz": os.urandom(3000), "costs.json": b"{}"}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HttpStore]:
    monkeypatch.setattr(locations, "FIRST_PAUSE_S", 0.01)
    with http_store(tmp_path / "served") as held:
        yield held


def published(url: str, created_at: float = NOW - 60, **parts: bytes) -> bytes:
    content = pack(replace(MANIFEST, created_at=created_at), {**PARTS, **parts})
    publish(location(url), content, created_at)
    return content


def test_what_is_published_is_fetched(tmp_path: Path) -> None:
    published(str(tmp_path / "p"))
    found = fetch(str(tmp_path / "p"), now=NOW)
    assert dict(found.parts) == PARTS
    assert (found.manifest.changes, found.manifest.tip) == (3, "a" * 40)
    assert not found.warnings
    (file,) = (tmp_path / "p").glob(f"*{SUFFIX}")
    assert fetch(str(file), now=NOW).parts == found.parts


def test_one_that_is_cached_is_not_fetched_again(store: HttpStore, tmp_path: Path) -> None:
    published(store.url)
    assert not fetch(store.url, tmp_path / "cache", now=NOW).cached
    before = len(store.requests)
    assert fetch(store.url, tmp_path / "cache", now=NOW).cached
    assert not any(SUFFIX in line for line in store.requests[before:])
    published(store.url, NOW, costs=b"new")
    assert not fetch(store.url, tmp_path / "cache", now=NOW).cached


def test_where_nobody_answers_the_last_one_serves(store: HttpStore, tmp_path: Path) -> None:
    published(store.url)
    fetch(store.url, tmp_path / "cache", now=NOW)
    store.fail = 1000
    found = fetch(store.url, tmp_path / "cache", now=NOW)
    assert found.parts == PARTS
    assert "fetched last serves" in found.warnings[0]
    with pytest.raises(LocationError):
        fetch(store.url, tmp_path / "another cache", now=NOW)
    with pytest.raises(LocationError):
        fetch(store.url + "/another", tmp_path / "cache", now=NOW)


@pytest.mark.parametrize("damage", ["404", "truncated", "other", "500", "html pointer", "deep pointer"])
def test_where_the_file_cannot_be_had_the_last_one_serves_too(
    store: HttpStore, tmp_path: Path, damage: str
) -> None:
    published(store.url)
    fetch(store.url, tmp_path / "cache", now=NOW)
    published(store.url, NOW, costs=b"new")
    name = json.loads((store.folder / POINTER).read_text())["snapshot"]
    file = store.folder / name
    if damage == "404":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(file.read_bytes()[:-100])
    elif damage == "other":
        file.write_bytes(b"<html>")
    elif damage == "500":
        store.fail_on = SUFFIX
    else:
        content = b"<html>log in</html>" if damage == "html pointer" else b'{"format":1,"z":' + b"[" * 60_000
        (store.folder / POINTER).write_bytes(content)
    found = fetch(store.url, tmp_path / "cache", now=NOW)
    assert found.parts == PARTS
    (warning,) = found.warnings
    assert "fetched last serves" in warning
    with pytest.raises((SnapshotError, LocationError)):
        fetch(store.url, tmp_path / "another cache", now=NOW)


def test_one_that_moved_on_while_it_was_read_is_kept_under_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(str(tmp_path / "p"))
    real, moved = Folder.read, []

    def read(self: Folder, name: str, *, limit: int) -> bytes:
        if name.endswith(SUFFIX) and self.path == tmp_path / "p" and not moved:
            moved.append(name)
            (tmp_path / "p" / name).unlink()
            publish(Folder(tmp_path / "p"), pack(replace(MANIFEST, changes=4), PARTS), NOW)
        return real(self, name, limit=limit)

    monkeypatch.setattr(Folder, "read", read)
    fetch(str(tmp_path / "p"), tmp_path / "cache", now=NOW)
    found = fetch(str(tmp_path / "p"), tmp_path / "cache", now=NOW)
    assert found.cached
    assert found.manifest.changes == 4


def test_a_pipe_or_a_link_in_the_cache_is_fetched_again(tmp_path: Path) -> None:
    content = published(str(tmp_path / "p"))
    fetch(str(tmp_path / "p"), tmp_path / "cache", now=NOW)
    for path in list((tmp_path / "cache").iterdir()):
        path.unlink()
        os.mkfifo(path)
    assert not fetch(str(tmp_path / "p"), tmp_path / "cache", now=NOW).cached
    (file,) = (tmp_path / "cache").glob(f"*{SUFFIX}")
    (tmp_path / "elsewhere").write_bytes(content)
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    assert not fetch(str(tmp_path / "p"), tmp_path / "cache", now=NOW).cached


def test_one_that_a_person_named_may_be_a_link(tmp_path: Path) -> None:
    published(str(tmp_path / "p"))
    (file,) = (tmp_path / "p").glob(f"*{SUFFIX}")
    (tmp_path / f"current{SUFFIX}").symlink_to(file)
    assert fetch(str(tmp_path / f"current{SUFFIX}"), now=NOW).parts == PARTS


@pytest.mark.parametrize(
    "change",
    [
        {"created_at": 1e300},
        {"created_at": -1e18},
        {"created_at": -1},
        {"created_at": None},
        {"changes": -5},
        {"outcomes": -1},
        {"scenarios": 10**30},
        {"tip": "`@x\x1b[31m"},
        {"tip": "a" * 40 + "\n"},
        {"tip": "\ud800"},
    ],
)
def test_a_manifest_with_numbers_that_cannot_be_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    buffer = io.BytesIO()
    manifest = {
        "format": 1,
        "tip": "a" * 40,
        "created_at": 1.0,
        "changes": 1,
        "outcomes": 1,
        "scenarios": 1,
        **change,
    }
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
    with pytest.raises(SnapshotError, match=r"is damaged: manifest\.json: ") as caught:
        unpack(buffer.getvalue(), "x")
    assert str(caught.value).isprintable()


def test_none_published_says_what_publishes_one(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="tithe snapshot publish"):
        fetch(str(tmp_path / "empty"))


def test_an_old_one_is_a_warning(tmp_path: Path) -> None:
    published(str(tmp_path), NOW - 40 * 86400)
    (warning,) = fetch(str(tmp_path), now=NOW).warnings
    assert "40 days old" in warning


@pytest.mark.parametrize("cut", [0, 10, 500, -30, -1])
def test_a_truncated_one_is_refused(tmp_path: Path, cut: int) -> None:
    content = published(str(tmp_path))
    (file,) = tmp_path.glob(f"*{SUFFIX}")
    file.write_bytes(content[:cut])
    with pytest.raises(SnapshotError, match="truncated or damaged"):
        fetch(str(tmp_path), now=NOW)
    with pytest.raises(SnapshotError):
        fetch(str(file), now=NOW)


def test_every_byte_counts(tmp_path: Path) -> None:
    content = published(str(tmp_path))
    (file,) = tmp_path.glob(f"*{SUFFIX}")
    for at in range(0, len(content), 97):
        file.write_bytes(content[:at] + bytes([content[at] ^ 0x55]) + content[at + 1 :])
        with pytest.raises(SnapshotError):
            fetch(str(tmp_path), now=NOW)


def test_a_damaged_cache_is_fetched_again(tmp_path: Path) -> None:
    published(str(tmp_path / "p"))
    fetch(str(tmp_path / "p"), tmp_path / "cache", now=NOW)
    (file,) = (tmp_path / "cache").glob(f"*{SUFFIX}")
    file.write_bytes(b"damaged")
    assert fetch(str(tmp_path / "p"), tmp_path / "cache", now=NOW).parts == PARTS


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    published(str(tmp_path / "p"))
    (tmp_path / "file").write_text("")
    assert fetch(str(tmp_path / "p"), tmp_path / "file" / "cache", now=NOW).parts == PARTS


@pytest.mark.parametrize("content", [b"", b"<html>log in</html>", b"PK\x03\x04" + b"\0" * 90])
def test_what_is_no_snapshot_is_said(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / f"x{SUFFIX}"
    file.write_bytes(content)
    with pytest.raises(SnapshotError, match="not a snapshot"):
        fetch(str(file))


def test_a_zip_of_something_else(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("wheel.py", "")
    with pytest.raises(SnapshotError, match=r"no manifest\.json"):
        unpack(buffer.getvalue(), "x")


def test_one_of_a_newer_version_says_to_upgrade(tmp_path: Path) -> None:
    published(str(tmp_path))
    (file,) = tmp_path.glob(f"*{SUFFIX}")
    newer = pack(replace(MANIFEST, format=2, tithe="9.9"), PARTS)
    file.write_bytes(newer)
    with pytest.raises(SnapshotError, match=r"format 2, written by tithe 9\.9; .* upgrade"):
        fetch(str(file))
    pointer = json.loads((tmp_path / POINTER).read_text())
    (tmp_path / POINTER).write_text(json.dumps({"format": 2, "tithe": "9.9", "another": pointer}))
    with pytest.raises(SnapshotError, match="upgrade"):
        fetch(str(tmp_path))


@pytest.mark.parametrize(
    "change",
    [
        {"snapshot": "../../etc/passwd"},
        {"snapshot": 3},
        {"sha256": "0" * 64},
        {"format": 0},
        {"bytes": -1},
        {"created_at": 1e300},
    ],
)
def test_a_pointer_to_anything_else_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    published(str(tmp_path))
    pointer = json.loads((tmp_path / POINTER).read_text())
    (tmp_path / POINTER).write_text(json.dumps({**pointer, **change}))
    with pytest.raises(SnapshotError):
        fetch(str(tmp_path))


def test_a_bomb_is_not_unpacked() -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(3):
            archive.writestr(f"{number}", b"\0" * (snapshot.MAX_BYTES // 2 - 1))
    with pytest.raises(SnapshotError, match="unpacks to more"):
        unpack(buffer.getvalue(), "x")


def test_old_ones_go_and_the_newest_stay(tmp_path: Path) -> None:
    place = Folder(tmp_path)
    names = [
        publish(place, pack(replace(MANIFEST, changes=n), PARTS), NOW + n, keep=3).snapshot for n in range(6)
    ]
    assert place.names(SUFFIX) == sorted(names[-3:])
    assert fetch(str(tmp_path), now=NOW).manifest.changes == 5
    # Publishing the same again changes nothing.
    publish(place, pack(replace(MANIFEST, changes=5), PARTS), NOW + 9, keep=3)
    assert place.names(SUFFIX) == sorted(names[-3:])


def test_killed_before_the_pointer_the_old_one_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(str(tmp_path))
    place = Folder(tmp_path)
    real = place.write

    def killed(name: str, content: bytes) -> None:
        if name == POINTER:
            raise KeyboardInterrupt
        real(name, content)

    monkeypatch.setattr(place, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        publish(place, pack(replace(MANIFEST, changes=9), PARTS), NOW)
    assert fetch(str(tmp_path), now=NOW).manifest.changes == 3


def test_a_pointer_that_moves_on_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    published(str(tmp_path))
    real = Folder.read
    moved = []

    def read(self: Folder, name: str, *, limit: int) -> bytes:
        if name.endswith(SUFFIX) and not moved:
            moved.append(name)
            (tmp_path / name).unlink()
            publish(Folder(tmp_path), pack(replace(MANIFEST, changes=4), PARTS), NOW)
        return real(self, name, limit=limit)

    monkeypatch.setattr(Folder, "read", read)
    assert fetch(str(tmp_path), now=NOW).manifest.changes == 4


def test_many_that_publish_at_once_leave_no_more_than_is_kept(tmp_path: Path) -> None:
    def one(number: int) -> None:
        publish(Folder(tmp_path), pack(replace(MANIFEST, changes=number), PARTS), NOW, keep=2)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(one, range(24)))
    assert len(Folder(tmp_path).names(SUFFIX)) == 2


def test_what_killed_publishers_left_goes_and_what_another_one_is_about_to_point_to_stays(
    store: HttpStore, tmp_path: Path
) -> None:
    published(str(tmp_path / "p"))
    left = [
        tmp_path / "p" / name
        for name in ("0" * 32 + SUFFIX, f".{'1' * 32}{SUFFIX}.77.0123abcd.tmp", f".{POINTER}.7.0123abcd.tmp")
    ]
    foreign = [tmp_path / "p" / name for name in ("mine.txt", "sub/" + "2" * 32 + SUFFIX)]
    for path in (*left, *foreign):
        path.parent.mkdir(exist_ok=True)
        path.write_text("half")

    def again(at: float) -> list[Path]:
        publish(Folder(tmp_path / "p"), pack(replace(MANIFEST, created_at=at), PARTS), at)
        return [path for path in left if path.exists()]

    assert again(NOW) == left
    assert again(NOW + 60) == left
    assert again(NOW + snapshot.ORPHAN_S + 1) == []
    assert all(path.exists() for path in foreign)
    assert len(Folder(tmp_path / "p").names(SUFFIX)) == 4 + 1


def test_where_nothing_can_be_removed_it_is_published_all_the_same(store: HttpStore) -> None:
    place = location(store.url)
    for number in range(4):
        done = publish(place, pack(replace(MANIFEST, changes=number), PARTS), NOW + number, keep=2)
    assert "could not be removed" in done.warnings[0]
    assert fetch(store.url, now=NOW).manifest.changes == 3
