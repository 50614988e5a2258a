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
