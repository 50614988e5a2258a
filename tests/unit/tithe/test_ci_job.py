"""What a job is about, from what GitHub and GitLab say; a stranger cannot make himself trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tithe.ci_job import Head, Job, job_of
from tithe.data.errors import UsageError

A, B, C = "a" * 40, "b" * 40, "c" * 40


def github(
    tmp_path: Path, event: object, parents: tuple[str, ...] = (), sha: str = C, name: str = "", **more: str
) -> Job:
    path = tmp_path / "event.json"
    path.write_text(json.dumps(event))
    environment = {
        "GITHUB_ACTIONS": "true",
        "GITHUB_EVENT_PATH": str(path),
        "GITHUB_EVENT_NAME": name,
        **more,
    }
    return job_of(environment, lambda: Head(sha, parents))


def pull(**change: Any) -> dict[str, Any]:
    pull = {
        "number": 12,
        "head": {"sha": C, "repo": {"full_name": "o/r"}},
        "base": {"sha": A, "repo": {"full_name": "o/r"}},
        **change,
    }
    return {"pull_request": pull}


def test_no_ci_system() -> None:
    assert job_of({}, Head) == Job()


def test_a_merge_made_for_the_test_is_compared_with_its_first_parent(tmp_path: Path) -> None:
    assert github(tmp_path, pull(), (B, C), sha="e" * 40) == Job("github", base=B, change="12")


def test_a_merge_that_was_made_again_is_the_change_too(tmp_path: Path) -> None:
    more = {"name": "pull_request", "GITHUB_SHA": "e" * 40}
    assert github(tmp_path, pull(), (B, "d" * 40), sha="e" * 40, **more) == Job("github", B, change="12")


def test_a_checkout_of_the_branch_itself_is_compared_with_where_it_left_its_base(tmp_path: Path) -> None:
    found = github(tmp_path, pull(), (B,))
    assert (found.base, found.moving, found.absent) == (A, True, False)


@pytest.mark.parametrize("parents", [(), (B,), (B, "d" * 40)])
def test_a_checkout_of_something_else_is_not_the_change(tmp_path: Path, parents: tuple[str, ...]) -> None:
    """As under pull_request_target, where the base is checked out."""
    more = {"name": "pull_request_target", "GITHUB_SHA": A}
    assert github(tmp_path, pull(), parents, sha=A, **more).absent


@pytest.mark.parametrize(
    "head", [{"sha": C, "repo": {"full_name": "x/r"}}, {"sha": C, "repo": None}, {"sha": C}, None, "x"]
)
def test_a_fork_is_not_trusted(tmp_path: Path, head: object) -> None:
    assert not github(tmp_path, pull(head=head)).trusted


def test_nobody_is_trusted_where_the_event_says_nothing(tmp_path: Path) -> None:
    assert not github(tmp_path, {"pull_request": {}}).trusted


def test_a_push(tmp_path: Path) -> None:
    assert github(tmp_path, {"before": A}, name="push") == Job("github", base=A, forced=True)
    assert github(tmp_path, {"before": "0" * 40}, name="push").base == ""
    assert github(tmp_path, {"before": "--upload-pack=x"}, name="push").base == ""


def test_a_merge_queue(tmp_path: Path) -> None:
    event = {"merge_group": {"base_sha": A, "head_sha": C}}
    assert github(tmp_path, event, name="merge_group") == Job("github", base=A)
    assert not github(tmp_path, {"merge_group": None}, name="merge_group").trusted


@pytest.mark.parametrize("name", ["workflow_run", "issue_comment", "pull_request", "pull_request_target", ""])
def test_who_causes_other_events_is_a_stranger(tmp_path: Path, name: str) -> None:
    assert not github(tmp_path, {"pull_request": None, "workflow_run": {}}, name=name).trusted


def test_a_job_that_gets_no_secrets_is_a_strangers(tmp_path: Path) -> None:
    assert not github(tmp_path, pull(), (B, C), GITHUB_ACTOR="dependabot[bot]").trusted


def test_no_event_at_all_is_a_strangers() -> None:
    assert not job_of({"GITHUB_ACTIONS": "true"}, Head).trusted
    assert not job_of({"GITHUB_ACTIONS": "true", "GITHUB_EVENT_NAME": "push"}, Head).trusted


def test_the_link_to_the_job(tmp_path: Path) -> None:
    more = {"GITHUB_SERVER_URL": "https://g", "GITHUB_REPOSITORY": "o/r", "GITHUB_RUN_ID": "7"}
    assert github(tmp_path, {}, **more).link == "https://g/o/r/actions/runs/7"


def test_an_event_that_cannot_be_read(tmp_path: Path) -> None:
    environment = {"GITHUB_ACTIONS": "true", "GITHUB_EVENT_PATH": str(tmp_path / "none")}
    with pytest.raises(UsageError, match="GITHUB_EVENT_PATH"):
        job_of(environment, Head)
    for content in ("{", "[]", "null", "7", "[" * 100_000, "1" * 5000):
        (tmp_path / "none").write_text(content)
        with pytest.raises(UsageError, match=r"GITHUB_EVENT_PATH.*unset GITHUB_ACTIONS"):
            job_of(environment, Head)


@pytest.mark.parametrize("number", ["1/../../admin", "-1", True, None, 1.5, "9" * 40])
def test_what_is_no_number_is_none(tmp_path: Path, number: object) -> None:
    assert github(tmp_path, pull(number=number)).change == ""


def gitlab(**variables: str) -> Job:
    return job_of({"GITLAB_CI": "true", **{f"CI_{key}": value for key, value in variables.items()}}, Head)


def test_a_merge_request() -> None:
    given = {
        "PIPELINE_SOURCE": "merge_request_event",
        "MERGE_REQUEST_IID": "3",
        "MERGE_REQUEST_DIFF_BASE_SHA": A,
        "MERGE_REQUEST_SOURCE_PROJECT_ID": "1",
        "MERGE_REQUEST_PROJECT_ID": "1",
        "JOB_URL": "https://l/1",
    }
    assert gitlab(**given) == Job("gitlab", A, change="3", link="https://l/1")
    assert gitlab(**given, MERGE_REQUEST_TARGET_BRANCH_SHA=B).base == B
    assert not gitlab(**{**given, "MERGE_REQUEST_SOURCE_PROJECT_ID": "2"}).trusted
    del given["MERGE_REQUEST_SOURCE_PROJECT_ID"], given["MERGE_REQUEST_PROJECT_ID"]
    assert not gitlab(**given).trusted


def test_a_request_of_another_forge_at_gitlab_is_a_strangers() -> None:
    given = {"EXTERNAL_PULL_REQUEST_IID": "3", "EXTERNAL_PULL_REQUEST_TARGET_BRANCH_SHA": A}
    found = gitlab(PIPELINE_SOURCE="external_pull_request_event", **given)
    assert (found.base, found.moving, found.trusted, found.change) == (A, True, False, "")


def test_a_push_at_gitlab() -> None:
    assert gitlab(COMMIT_BEFORE_SHA=A, PIPELINE_SOURCE="push") == Job("gitlab", base=A, forced=True)
    assert gitlab(COMMIT_BEFORE_SHA="0" * 40).base == ""
    assert not gitlab(COMMIT_BEFORE_SHA=A).trusted
