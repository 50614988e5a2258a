"""A folder and a URL are the same to whoever writes to them, also in how they fail."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tests.http_store import HttpStore, http_store, serving
from tithe.data import locations
from tithe.data.errors import LocationError, MissingError, UsageError
from tithe.data.locations import Folder, Location, destination, identity, location, shown, split


@pytest.fixture
def store(tmp_path: Path) -> Iterator[HttpStore]:
    with http_store(tmp_path / "served") as held:
        yield held


@pytest.fixture(params=["folder", "file", "local", "http"])
def place(request: pytest.FixtureRequest, tmp_path: Path, store: HttpStore) -> Location:
    urls = {
        "folder": str(tmp_path / "a folder"),
        "file": f"file://{tmp_path}/another%20folder",
        "local": f"local://{tmp_path}/x",
        "http": f"{store.url}/bundles",
    }
    return location(urls[request.param])


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locations, "FIRST_PAUSE_S", 0.01)


def test_what_is_written_is_read_and_listed(place: Location) -> None:
    assert place.names(".gz") == []
    place.write("b.gz", b"two")
    place.write("a.gz", b"one")
    place.write("a.txt", b"")
    place.write("a.gz", b"one again")
    assert place.names(".gz") == ["a.gz", "b.gz"]
    assert place.read("a.gz", limit=100) == b"one again"


def test_what_is_not_there_is_said(place: Location) -> None:
    with pytest.raises(MissingError, match="no such file"):
        place.read("nothing", limit=100)


def test_a_read_has_a_limit(place: Location) -> None:
    place.write("large", b"x" * 101)
    with pytest.raises(LocationError, match="larger than 100 bytes"):
        place.read("large", limit=100)


def test_removing_twice_is_no_error(tmp_path: Path) -> None:
    for url in (str(tmp_path / "f"), f"local://{tmp_path}/y"):
        place = location(url)
        place.write("a", b"1")
        place.remove("a")
        place.remove("a")
        assert place.names("a") == []


def test_a_failing_server_is_asked_again(store: HttpStore) -> None:
    place = location(store.url)
    place.write("a", b"1")
    store.fail = 1
    assert place.read("a", limit=10) == b"1"


def test_a_server_that_fails_for_ever_is_one_line(store: HttpStore) -> None:
    store.fail = 1000
    with pytest.raises(LocationError, match="cannot be read") as caught:
        location(store.url).read("a", limit=10)
    assert "\n" not in str(caught.value)


def test_nobody_there_is_one_line_without_the_credentials() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(LocationError, match="cannot be written") as caught:
        location(f"http://user:hunter2@127.0.0.1:{port}/x?sig=s3cret").write("a", b"1")
    assert "hunter2" not in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert f"127.0.0.1:{port}" in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "  ",
        "nonsense://x/y",
        "a\x00b",
        "s3:/bucket/x",
        "s3:bucket",
        "us:hunter2@host/x",
        "nonsense://us:hunter2@x/y",
        "memory://x",
        "simplecache::memory://x",
        "http://[::1",
        "http://",
        "http:///x",
        "http://a b/",
        "http://127.0.0.1:99999/x",
        "http://us:hun/ter2@127.0.0.1:1/x",
        "simplecache::http://us:hun/ter2@127.0.0.1:1/x",
        "filecache::https://us:hunter2@127.0.0.1:1/x?tok=hunter2",
        "s3://",
        "file://",
        "file://host/x",
    ],
)
def test_what_is_no_location_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        location(url)
    assert "ter2" not in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_file_is_no_place_to_write_to(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "loop").symlink_to("loop")
    for name in ("file", "loop"):
        with pytest.raises(UsageError, match="is a file, not a folder"):
            destination(str(tmp_path / name))
    assert isinstance(destination(str(tmp_path / "new")), Folder)


def test_a_server_that_is_down_is_no_empty_place_and_shows_no_credentials() -> None:
    place = location("http://user:hunter2@127.0.0.1:9/x?token=s3cret")
    assert place.shown == "http://127.0.0.1:9/x"
    for what in (lambda: place.read("a", limit=10), lambda: place.write("a", b""), lambda: place.names("")):
        with pytest.raises(LocationError) as caught:
            what()
        assert "hunter2" not in str(caught.value)
        assert "s3cret" not in str(caught.value)


def test_what_a_backend_quotes_of_the_url_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    place = location("http://key:hunt%2Fer2@bucket/x")
    assert isinstance(place, locations.Remote)

    def fails(*_: object) -> None:
        raise OSError(
            "cannot sign with hunt/er2 (of 'key:hunt%2Fer2') for https://elsewhere/x?X-Amz-Signature=abcdef"
        )

    monkeypatch.setattr(place._files, "pipe_file", fails)
    with pytest.raises(LocationError, match="cannot sign") as caught:
        place.write("a", b"")
    assert not any(piece in str(caught.value) for piece in ("hunt", "er2", "abcdef"))


def test_one_location_is_one_whoever_asks() -> None:
    assert identity("s3://k:s@b/x?t=1") == identity("s3://b/x")
    assert identity("http://h/a@v1/x") != identity("http://h/b@v1/x")


def test_a_bucket_that_is_not_there_is_not_an_empty_one(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs")
    place = location("s3://bucket/x")
    assert isinstance(place, locations.Remote)

    def absent(*_: object) -> None:
        raise FileNotFoundError("The specified bucket does not exist")

    monkeypatch.setattr(place._files, "info", absent)
    with pytest.raises(LocationError, match="no such bucket") as caught:
        place.read("a", limit=10)
    assert not isinstance(caught.value, MissingError)


def test_a_missing_extra_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiohttp", None)
    with pytest.raises(LocationError, match=r"pip install 'tithe\[http\]'"):
        location("http://127.0.0.1:1/x")


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LocationError, match="cannot be written"):
        Folder(tmp_path / "file").write("a", b"1")
    assert Folder(tmp_path / "file").names("") == []


def test_nothing_unfinished_is_left_or_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(LocationError, match="No space left"):
        Folder(tmp_path).write("a", b"1")
    assert list(tmp_path.iterdir()) == []


def test_urls_are_shown_without_what_may_be_secret() -> None:
    assert shown("s3://key:secret@bucket/a/b?token=1#x") == "s3://bucket/a/b"
    assert split("s3://bucket/a/b.x") == ("s3://bucket/a", "b.x")
    assert split("b.x") == (".", "b.x")
    assert split("/b.x") == ("/", "b.x")


class Lying(BaseHTTPRequestHandler):
    """A server that never ends, says nothing, or sends one elsewhere for ever."""

    def do_GET(self) -> None:
        if self.path.startswith("/endless"):
            self.send_response(200)
            self.end_headers()
            with suppress(OSError):
                while True:
                    self.wfile.write(b"x" * 65536)
        elif self.path.startswith("/silent"):
            time.sleep(3)
        elif self.path.startswith("/short"):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b"{")
        else:
            self.send_response(302)
            self.send_header(
                "Location", f"http://u:hunter2@127.0.0.1:{self.server.server_address[1]}{self.path}x"
            )
            self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("endless", "larger than 100000 bytes"),
        ("silent", "cannot be read"),
        ("short", "cannot be read"),
        ("loop", "cannot be read"),
    ],
)
def test_a_server_that_lies_is_bounded(path: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locations, "SILENCE_S", 0.5)
    began = time.monotonic()
    with serving(Lying) as url:
        with pytest.raises(LocationError, match=said) as caught:
            location(f"{url}/{path}").read("a", limit=100_000)
        assert time.monotonic() - began < 30
    assert "hunter2" not in str(caught.value)
    assert "\n" not in str(caught.value)
