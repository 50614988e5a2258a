"""The one comment at GitLab, and what is said where the forge refuses. GitHub's is tested with the Action."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.forge_server import Forge, forge
from tithe.ci_job import Job
from tithe.data.errors import LocationError, UsageError
from tithe.forge import post
from tithe.report.summary import MARKER

LAB = Job("gitlab", change="3")


@pytest.fixture
def server() -> Iterator[Forge]:
    with forge() as held:
        yield held


def at(server: Forge, **more: str) -> dict[str, str]:
    return {"CI_API_V4_URL": server.url, "CI_PROJECT_ID": "5", "TITHE_GITLAB_TOKEN": "t", **more}


def test_made_updated_and_left(server: Forge) -> None:
    server.comments.append({"id": 1, "body": f"{MARKER}\nforged", "author": {"id": 8}})
    assert "nothing to say" in post(LAB, f"{MARKER}\nfine", alert=False, environment=at(server))
    assert post(LAB, f"{MARKER}\nslow", alert=True, environment=at(server)) == "made a comment"
    assert post(LAB, f"{MARKER}\nslow", alert=True, environment=at(server)) == "the comment says so already"
    assert post(LAB, f"{MARKER}\nfine", alert=False, environment=at(server)) == "updated the comment"
    assert server.bodies() == [f"{MARKER}\nforged", f"{MARKER}\nfine"]
    assert server.tokens == {"t"}


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_a_refusal_is_one_line(server: Forge, status: int) -> None:
    server.deny = status
    with pytest.raises(LocationError, match=str(status)) as caught:
        post(LAB, MARKER, alert=True, environment=at(server))
    assert "\n" not in str(caught.value)


def test_nobody_there() -> None:
    environment = {"CI_API_V4_URL": "http://127.0.0.1:1", "CI_PROJECT_ID": "5", "TITHE_GITLAB_TOKEN": "t"}
    with pytest.raises(LocationError, match="cannot be reached"):
        post(LAB, MARKER, alert=True, environment=environment)


@pytest.mark.parametrize(
    ("job", "environment", "said"),
    [
        (Job(), {}, "not about a pull or merge request"),
        (LAB, {}, "TITHE_GITLAB_TOKEN"),
        (Job("github", change="1"), {}, "GITHUB_TOKEN"),
        (LAB, {"TITHE_GITLAB_TOKEN": "t", "CI_API_V4_URL": "file:///etc"}, "no address"),
    ],
)
def test_what_is_missing_is_named(job: Job, environment: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        post(job, MARKER, alert=True, environment=environment)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_token_goes_to_another_host(server: Forge, status: int) -> None:
    with forge() as other:
        server.redirect = (status, f"{other.url}/steal")
        with pytest.raises(LocationError, match="another host"):
            post(LAB, MARKER, alert=True, environment=at(server))
        assert not other.requests


def test_a_redirected_comment_is_not_taken_for_made(server: Forge) -> None:
    """A renamed repository: GitHub redirects, and urllib would ask again without the body."""
    server.redirect = (302, "/elsewhere", "POST")
    with pytest.raises(LocationError, match="was not taken"):
        post(LAB, MARKER, alert=True, environment=at(server))
    assert not server.comments
    server.redirect = (307, "/projects/6/merge_requests/3/notes", "POST", "once")
    assert post(LAB, MARKER, alert=True, environment=at(server)) == "made a comment"
    assert server.bodies() == [MARKER]


def test_an_endless_redirection_ends(server: Forge) -> None:
    server.redirect = (307, "/user")
    with pytest.raises(LocationError, match="redirected 5 times"):
        post(LAB, MARKER, alert=True, environment=at(server))


def test_an_answer_nested_too_deep_is_no_json(server: Forge) -> None:
    server.raw = b"[" * 200_000
    with pytest.raises(LocationError, match="did not answer with JSON"):
        post(LAB, MARKER, alert=True, environment=at(server))


@pytest.mark.parametrize("token", ["abc\ndef", "abc def", "abc\r\nX: y", "ab\u00e9"])
def test_a_token_that_is_none_is_not_shown(server: Forge, token: str) -> None:
    with pytest.raises(UsageError) as caught:
        post(LAB, MARKER, alert=True, environment=at(server, TITHE_GITLAB_TOKEN=token))
    assert "TITHE_GITLAB_TOKEN: holds white space" in str(caught.value)
    assert "abc" not in str(caught.value)


@pytest.mark.parametrize("url", ["http://[::1", "http://", "http://u:secret@h", "http://h:99999", "ftp://h"])
def test_an_address_that_is_none(url: str) -> None:
    environment = {"CI_API_V4_URL": url, "CI_PROJECT_ID": "5", "TITHE_GITLAB_TOKEN": "t"}
    with pytest.raises((UsageError, LocationError)) as caught:
        post(LAB, MARKER, alert=True, environment=environment)
    assert "no address of an API" in str(caught.value)
    assert "secret" not in str(caught.value)
