"""What a CI job is about: which change, against what, and whether its author may be trusted with the policy.

Read from the environment and the event that GitHub and GitLab give to every job. Both check out a commit and say
what it came from; where that commit is a merge that the forge made for the test, its first parent is the base.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tithe.data.errors import UsageError
from tithe.data.text import safe_line

_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_NONE = re.compile(r"0+")
EVENT_BYTES = 25 * 2**20
"""GitHub's payloads are smaller."""


@dataclass(frozen=True)
class Job:
    """A job of a CI system; empty strings where it does not say."""

    forge: str = ""
    """github, gitlab, or none of them."""
    base: str = ""
    """Commit to compare with."""
    trusted: bool = True
    """Whether the change comes from the repository itself and not from a fork."""
    change: str = ""
    """Number of the pull or merge request."""
    link: str = ""
    """Where the whole job is shown."""


Parents = Callable[[], Sequence[str]]
"""The parents that the checked-out commit names, also where a shallow clone does not have them."""


def job_of(environment: Mapping[str, str], parents: Parents) -> Job:
    """The job that runs in this environment.

    Raises:
        UsageError: The event's file cannot be read.
    """
    if environment.get("GITHUB_ACTIONS") == "true":
        return _github(environment, parents)
    if environment.get("GITLAB_CI") == "true":
        return _gitlab(environment)
    return Job()


def _github(environment: Mapping[str, str], parents: Parents) -> Job:
    link = ""
    server, repository, run = (
        environment.get(f"GITHUB_{name}", "") for name in ("SERVER_URL", "REPOSITORY", "RUN_ID")
    )
    if server and repository and run.isdecimal():
        link = f"{server}/{repository}/actions/runs/{run}"
    event = _event(environment.get("GITHUB_EVENT_PATH", ""))
    pull = event.get("pull_request")
    if not isinstance(pull, dict):
        return Job("github", base=_commit(event.get("before")), link=link)
    head, base = _part(pull, "head"), _part(pull, "base")
    source, target = _part(head, "repo").get("full_name"), _part(base, "repo").get("full_name")
    found = list(parents())
    merged = len(found) == 2 and found[1] == head.get("sha")
    return Job(
        "github",
        base=_commit(found[0]) if merged else _commit(base.get("sha")),
        # A fork that was deleted meanwhile has no name any more.
        trusted=isinstance(source, str) and source == target,
        change=_number(pull.get("number")),
        link=link,
    )


def _gitlab(environment: Mapping[str, str]) -> Job:
    def said(name: str) -> str:
        return environment.get(f"CI_{name}", "")

    link = said("JOB_URL")
    change = _number(said("MERGE_REQUEST_IID"))
    if not change:
        return Job("gitlab", base=_commit(said("COMMIT_BEFORE_SHA")), link=link)
    # Set only where GitLab tests the merged result, which the target branch is a parent of.
    merged = _commit(said("MERGE_REQUEST_TARGET_BRANCH_SHA"))
    return Job(
        "gitlab",
        base=merged or _commit(said("MERGE_REQUEST_DIFF_BASE_SHA")),
        trusted=said("MERGE_REQUEST_SOURCE_PROJECT_ID") == said("MERGE_REQUEST_PROJECT_ID"),
        change=change,
        link=link,
    )


def _event(path: str) -> dict[str, Any]:
    if not path:
        return {}
    try:
        with Path(path).open("rb") as file:
            found = json.loads(file.read(EVENT_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise UsageError(f"the event cannot be read: {error}", where=f"GITHUB_EVENT_PATH={path}") from None
    return found if isinstance(found, dict) else {}


def _part(data: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = data.get(key)
    return found if isinstance(found, dict) else {}


def _commit(value: object) -> str:
    return value if isinstance(value, str) and _SHA.fullmatch(value) and not _NONE.fullmatch(value) else ""


def _number(value: object) -> str:
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    return text if text.isdecimal() and len(text) < 20 else ""


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
