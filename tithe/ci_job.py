"""What a CI job is about: which change, against what, and whether its author may be trusted with the policy.

Read from the environment and the event that GitHub and GitLab give to every job. Both check out a commit and say
what it came from; where that commit is a merge that the forge made for the test, its first parent is the base.

Trust fails closed: a job whose event is missing, or of a kind that is not known to come from somebody who may
write to the repository, is a stranger's.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tithe.data.errors import UsageError
from tithe.data.text import safe_line

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_NONE = re.compile(r"0+")
EVENT_BYTES = 25 * 2**20
"""GitHub's payloads are smaller."""
GITHUB_OWN = frozenset(
    {"push", "merge_group", "schedule", "workflow_dispatch", "repository_dispatch", "release"}
)
"""Events that only those cause who may write to the repository, or its rules."""
GITLAB_OWN = frozenset(
    {
        "push",
        "merge_request_event",
        "schedule",
        "web",
        "api",
        "trigger",
        "pipeline",
        "parent_pipeline",
        "chat",
    }
)
SECRETLESS = frozenset({"dependabot[bot]"})
"""Accounts whose jobs GitHub gives neither secrets nor a token that may write, as those of forks."""


@dataclass(frozen=True)
class Job:
    """A job of a CI system; empty strings where it does not say."""

    forge: str = ""
    """github, gitlab, or none of them."""
    base: str = ""
    """Commit to compare with."""
    moving: bool = False
    """Whether `base` is the tip of the target branch: the change is compared with where it left that."""
    forced: bool = False
    """Whether `base` may be gone, since the branch was pushed with force."""
    trusted: bool = True
    """Whether the change comes from the repository itself and not from a stranger."""
    absent: bool = False
    """Whether the checked-out commit is not the change that the event is about."""
    change: str = ""
    """Number of the pull or merge request."""
    link: str = ""
    """Where the whole job is shown."""


@dataclass(frozen=True)
class Head:
    """The commit that is checked out, and the parents that it names, also those that a shallow clone lacks."""

    sha: str = ""
    parents: tuple[str, ...] = ()


def job_of(environment: Mapping[str, str], head: Callable[[], Head]) -> Job:
    """The job that runs in this environment.

    Raises:
        UsageError: The event's file cannot be read.
    """
    if environment.get("GITHUB_ACTIONS") == "true":
        return _github(environment, head)
    if environment.get("GITLAB_CI") == "true":
        return _gitlab(environment)
    return Job()


def link_of(environment: Mapping[str, str]) -> str:
    """Where the CI system shows the job; empty where it does not say."""
    if environment.get("GITHUB_ACTIONS") != "true":
        return environment.get("CI_JOB_URL", "") if environment.get("GITLAB_CI") == "true" else ""
    server, repository, run = (
        environment.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")
    )
    return f"{server}/{repository}/actions/runs/{run}" if server and repository and run.isdecimal() else ""


def _github(environment: Mapping[str, str], head: Callable[[], Head]) -> Job:
    event = _event(environment.get("GITHUB_EVENT_PATH", ""))
    name = environment.get("GITHUB_EVENT_NAME", "")
    link = link_of(environment)
    if "pull_request" in event and isinstance(event["pull_request"], dict):
        return _pull(event["pull_request"], environment, head(), link)
    if name == "merge_group":
        base = _commit(_part(event, "merge_group").get("base_sha"))
        return Job("github", base=base, trusted=bool(base), link=link)
    return Job(
        "github",
        base=_commit(event.get("before")),
        forced=True,  # also a push without force may be of a commit that a later one has thrown away
        trusted=name in GITHUB_OWN and bool(event),
        link=link,
    )


def _pull(pull: Mapping[str, Any], environment: Mapping[str, str], head: Head, link: str) -> Job:
    tip, target = _part(pull, "head"), _part(pull, "base")
    source, own = _part(tip, "repo").get("full_name"), _part(target, "repo").get("full_name")
    merged = len(head.parents) == 2 and (
        head.parents[1] == tip.get("sha")
        # The forge may have made its merge again, of a later state of both branches.
        or (
            environment.get("GITHUB_EVENT_NAME") == "pull_request"
            and head.sha == environment.get("GITHUB_SHA")
        )
    )
    return Job(
        "github",
        base=_commit(head.parents[0]) if merged else _commit(target.get("sha")),
        moving=not merged,
        # A fork that was deleted meanwhile has no name any more.
        trusted=isinstance(source, str)
        and source == own
        and environment.get("GITHUB_ACTOR", "") not in SECRETLESS,
        absent=not merged and head.sha != tip.get("sha"),
        change=_number(pull.get("number")),
        link=link,
    )


def _gitlab(environment: Mapping[str, str]) -> Job:
    def said(name: str) -> str:
        return environment.get(f"CI_{name}", "")

    link = link_of(environment)
    own = said("PIPELINE_SOURCE") in GITLAB_OWN
    if said("EXTERNAL_PULL_REQUEST_IID"):
        base = _commit(said("EXTERNAL_PULL_REQUEST_TARGET_BRANCH_SHA"))
        return Job("gitlab", base=base, moving=True, trusted=False, link=link)
    change = _number(said("MERGE_REQUEST_IID"))
    if not change:
        return Job("gitlab", base=_commit(said("COMMIT_BEFORE_SHA")), forced=True, trusted=own, link=link)
    # Set only where GitLab tests the merged result, which the target branch is a parent of.
    merged = _commit(said("MERGE_REQUEST_TARGET_BRANCH_SHA"))
    source = said("MERGE_REQUEST_SOURCE_PROJECT_ID")
    return Job(
        "gitlab",
        base=merged or _commit(said("MERGE_REQUEST_DIFF_BASE_SHA")),
        trusted=own and bool(source) and source == said("MERGE_REQUEST_PROJECT_ID"),
        change=change,
        link=link,
    )


def _event(path: str) -> dict[str, Any]:
    where = f"GITHUB_EVENT_PATH={safe_line(path)}"
    mend = "GitHub sets it; elsewhere unset GITHUB_ACTIONS and give --base"
    if not path:
        return {}
    try:
        with Path(path).open("rb") as file:
            found = json.loads(file.read(EVENT_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(
            f"the event cannot be read: {safe_line(str(error))}", where=where, mend=mend
        ) from None
    if not isinstance(found, dict):
        raise UsageError("the event is no JSON object", where=where, mend=mend)
    return found


def _part(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = data.get(key)
    return found if isinstance(found, dict) else {}


def _commit(value: object) -> str:
    return value if isinstance(value, str) and _SHA.fullmatch(value) and not _NONE.fullmatch(value) else ""


def _number(value: object) -> str:
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    return text if text.isascii() and text.isdecimal() and len(text) < 20 else ""


def add_lines(variable: str, text: str) -> str:
    """Appends to the file that the CI system names in `variable`, if it names one; why it could not, if so."""
    path = os.environ.get(variable, "")
    if not path:
        return ""
    try:
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(text if text.endswith("\n") else text + "\n")
    except OSError as error:
        return f"{variable}={safe_line(path)}: cannot be written: {error.strerror}"
    return ""
