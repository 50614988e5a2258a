"""What a job is about, from what GitHub and GitLab say; a stranger cannot make himself trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tithe.ci_job import Job, job_of
from tithe.data.errors import UsageError

A, B, C = "a" * 40, "b" * 40, "c" * 40


def github(tmp_path: Path, event: object, parents: tuple[str, ...] = (), **more: str) -> Job:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event))
    environment = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(path), **more}
    return job_of(environment, lambda: parents)


def pull(**change: Any) -> dict[str, Any]:
    pull = {
        "number": 12,
        "head": {"sha": C, "repo": {"full_name": "o/r"}},
        "base": {"sha": A, "repo": {"full_name": "o/r"}},
        **change,
    }
    return {"pull_request": pull}


def test_no_ci_system() -> None:
    assert job_of({}, tuple) == Job()


def test_a_merge_made_for_the_test_is_compared_with_its_first_parent(tmp_path: Path) -> None:
    assert github(tmp_path, pull(), (B, C)) == Job("github", base=B, change="12")


def test_a_checkout_of_the_branch_itself_is_compared_with_its_base(tmp_path: Path) -> None:
    assert github(tmp_path, pull(), (B,)).base == A
    assert github(tmp_path, pull(), (B, "d" * 40)).base == A


@pytest.mark.parametrize(
    "head", [{"sha": C, "repo": {"full_name": "x/r"}}, {"sha": C, "repo": None}, {"sha": C}, None, "x"]
)
def test_a_fork_is_not_trusted(tmp_path: Path, head: object) -> None:
    assert not github(tmp_path, pull(head=head)).trusted


def test_nobody_is_trusted_where_the_event_says_nothing(tmp_path: Path) -> None:
    assert not github(tmp_path, {"pull_request": {}}).trusted


def test_a_push(tmp_path: Path) -> None:
    assert github(tmp_path, {"before": A}).base == A
    assert github(tmp_path, {"before": "0" * 40}).base == ""
    assert github(tmp_path, {"before": "--upload-pack=x"}).base == ""
    assert github(tmp_path, []).base == ""


def test_the_link_to_the_job(tmp_path: Path) -> None:
    more = {"GITHUB_SERVER_URL": "https://g", "GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "7"}
    assert github(tmp_path, {}, **more).link == "https://g/o/r/actions/runs/7"


def test_an_event_that_cannot_be_read(tmp_path: Path) -> None:
    environment = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(tmp_path / "none")}
    with pytest.raises(UsageError, match="GITHUB_EVENT_PATH"):
        job_of(environment, tuple)
    (tmp_path / "none").write_text("{")
    with pytest.raises(UsageError, match="GITHUB_EVENT_PATH"):
        job_of(environment, tuple)


@pytest.mark.parametrize("number", ["1/../../admin", "-1", True, None, 1.5, "9" * 40])
def test_what_is_no_number_is_none(tmp_path: Path, number: object) -> None:
    assert github(tmp_path, pull(number=number)).change == ""


def gitlab(**variables: str) -> Job:
    return job_of({"GITLAB_CI": "true", **{f"CI_{key}": value for key, value in variables.items()}}, tuple)


def test_a_merge_request() -> None:
    given = {
        "MERGE_REQUEST_IID": "3",
        "MERGE_REQUEST_DIFF_BASE_SHA": A,
        "MERGE_REQUEST_SOURCE_PROJECT_ID": "1",
        "MERGE_REQUEST_PROJECT_ID": "1",
        "JOB_URL": "https://l/1",
    }
    assert gitlab(**given) == Job("gitlab", A, True, "3", "https://l/1")
    assert gitlab(**given, MERGE_REQUEST_TARGET_BRANCH_SHA=B).base == B
    assert not gitlab(**{**given, "MERGE_REQUEST_SOURCE_PROJECT_ID": "2"}).trusted


def test_a_push_at_gitlab() -> None:
    assert gitlab(COMMIT_BEFORE_SHA=A).base == A
    assert gitlab(COMMIT_BEFORE_SHA="0" * 40).base == ""
