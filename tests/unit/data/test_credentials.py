"""No message shows what a URL may hold in confidence, however odd the URL and whoever quotes it."""

from __future__ import annotations

import pytest

from tithe.data.credentials import hidden, secrets_of, shown
from tithe.data.errors import LocationError, MissingError

URLS = [
    "s3://key:hunter2@bucket/a",
    "http://us:hunter2@127.0.0.1:1/x?sig=s3cret",
    "http://us:hun/ter2@127.0.0.1:1/x",
    "http://us:hun@ter2@127.0.0.1:1/x",
    "http://us:hun'ter2@127.0.0.1:1/x",
    "http://us:hun ter2@127.0.0.1:1/x",
    "http://us:hun?ter2@127.0.0.1:1/x",
    "http://us:hun#ter2@127.0.0.1:1/x",
    "http://us:hun%40ter2@127.0.0.1:1/x?a=b&token=s3cret#s3cret",
    "http://hunter2@127.0.0.1:1/x",
    "http://us:hunter2",
    "http://us:hunter2@[::1",
    "simplecache::http://us:hunter2@127.0.0.1:1/x",
    "filecache::https://us:hun/ter2@127.0.0.1:1/x?token=s3cret",
    "zip://a.csv::simplecache::s3://key:hunter2@bucket/a.zip",
    "github://us:hunter2@main/x",
    "s3:/key:hunter2@bucket/a",
    "us:hunter2@host/x",
    "https://account.example/x?a=b@c&sig=s3cret",
]
PIECES = ("hunter2", "ter2", "s3cret", "hun/", "hun@", "hun'", "hun ")


@pytest.mark.parametrize("url", URLS)
def test_a_url_is_shown_without_its_secrets(url: str) -> None:
    assert not any(piece in shown(url) for piece in PIECES)


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize(
    "said",
    [
        "cannot connect to {}/latest.json",
        "ClientError('{}', 404)",
        "[Errno 2] <{}>: gone\nnext line",
        'GET "{}" HTTP/1.1',
    ],
)
def test_whoever_quotes_a_known_url_shows_none_of_them(url: str, said: str) -> None:
    assert not any(piece in hidden(said.format(url), secrets_of(url)) for piece in PIECES)
    assert not any(piece in hidden(said.format(repr(url)), secrets_of(url)) for piece in PIECES)


@pytest.mark.parametrize(
    "text",
    [
        "redirected to http://us:hunter2@other/x?sig=s3cret, which is gone",
        "simplecache::http://us:hun/ter2@other/x failed",
        "/bucket/x?X-Amz-Signature=s3cret&X-Amz-Security-Token=hunter2 was refused",
        "AWS_SECRET_ACCESS_KEY=s3cret/hunter2+== is not valid",
        "{'password': 'hunter2', \"token\": \"s3cret\"}",
        "Authorization: Bearer hunter2s3cret",
        "sent header 'Bearer hunter2s3cret'",
        "login with password: hunter2",
    ],
)
def test_text_of_anybody_shows_none_of_them(text: str) -> None:
    assert not any(piece in hidden(text) for piece in PIECES)


@pytest.mark.parametrize(
    "text",
    [
        "s3://bucket/tithe/latest.json",
        "https://host:8443/a/b",
        "http://[::1]:80/x",
        "simplecache::s3://bucket/a",
        "/home/us/.tithe/outbox",
        "C:\\x",
    ],
)
def test_what_holds_no_secret_stays_as_it_is(text: str) -> None:
    assert shown(text) == text
    assert hidden(f"({text}): the key is here; see 'x'") == f"({text}): the key is here; see 'x'"


def test_no_fault_of_a_location_shows_any() -> None:
    for kind in (LocationError, MissingError):
        error = kind(
            "no answer from http://a:hunter2@b", where="s3://k:hunter2@b", mend="try x?token=hunter2"
        )
        assert "hunter2" not in f"{error} {error.what} {error.where} {error.mend}"
