"""The one comment on a change, at GitHub or GitLab: made on the first alert, then updated, never repeated.

Only comments of bots (GitHub) or of the token's own account (GitLab) are taken for tithe's: anybody can write a
comment that begins with its marker.
"""

from __future__ import annotations

import http.client
import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tithe.ci_job import Job
from tithe.data.errors import LocationError, UsageError
from tithe.data.text import safe_line
from tithe.report.summary import MARKER

TIMEOUT_S = 30.0
REDIRECTIONS = 5
_REDIRECTED = frozenset({301, 302, 303, 307, 308})
PAGE = 100
PAGES = 30
MAX_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Api:
    """Where the comments of one change are, and how to speak to it."""

    comments: str
    """URL of the list."""
    one: Callable[[str], str]
    """URL of one, by its id."""
    headers: Mapping[str, str]
    update: str
    """Method that changes one."""
    own: Callable[[Mapping[str, Any]], bool]


def post(job: Job, body: str, *, alert: bool, environment: Mapping[str, str]) -> str:
    """Makes or updates the comment; what was done, in words.

    Without an alert an earlier comment is updated and none is made.

    Raises:
        UsageError: No change, or no token.
        LocationError: The forge cannot be reached or refuses.
    """
    api = _api(job, environment)
    known = _find(api)
    if known is None and not alert:
        return "no alert, and no earlier comment: nothing to say"
    if known is None:
        _ask(api, "POST", api.comments, {"body": body})
        return "made a comment"
    if str(known.get("body", "")).replace("\r\n", "\n").strip() == body.strip():
        return "the comment says so already"
    _ask(api, api.update, api.one(str(known.get("id", ""))), {"body": body})
    return "updated the comment"


def _api(job: Job, environment: Mapping[str, str]) -> Api:
    if not job.change:
        raise UsageError(
            "this job is not about a pull or merge request",
            mend="run it in a job of GitHub or GitLab that is",
        )
    if job.forge == "github":
        token = _needed(
            environment, "GITHUB_TOKEN", "pass it with `env`, and `permissions: pull-requests: write`"
        )
        root = _root(_needed(environment, "GITHUB_API_URL", "GitHub sets it"))
        repository = urllib.parse.quote(_needed(environment, "GITHUB_REPOSITORY", "GitHub sets it"))
        issues = f"{root}/repos/{repository}/issues"
        headers = {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        return Api(
            f"{issues}/{job.change}/comments",
            lambda number: f"{issues}/comments/{urllib.parse.quote(number, safe='')}",
            headers,
            "PATCH",
            lambda comment: _user(comment, "user").get("type") == "Bot",
        )
    token = _needed(environment, "TITHE_GITLAB_TOKEN", "set it to a project access token with scope api")
    root = _root(_needed(environment, "CI_API_V4_URL", "GitLab sets it"))
    project = urllib.parse.quote(_needed(environment, "CI_PROJECT_ID", "GitLab sets it"), safe="")
    notes = f"{root}/projects/{project}/merge_requests/{job.change}/notes"
    headers = {"PRIVATE-TOKEN": token}
    me = _ask(Api("", str, headers, "", bool), "GET", f"{root}/user")
    account = me.get("id") if isinstance(me, dict) else None
    return Api(
        notes,
        lambda number: f"{notes}/{urllib.parse.quote(number, safe='')}",
        headers,
        "PUT",
        lambda comment: account is not None and _user(comment, "author").get("id") == account,
    )


def _user(comment: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = comment.get(key)
    return found if isinstance(found, dict) else {}


def _needed(environment: Mapping[str, str], name: str, mend: str) -> str:
    value = environment.get(name, "").strip()
    if not value:
        raise UsageError("is not set", where=name, mend=mend)
    if not re.fullmatch(r"[!-~]+", value):  # the value itself may be a secret
        raise UsageError("holds white space or characters that are not ASCII", where=name, mend=mend)
    return value


def _root(url: str) -> str:
    try:
        parts = urllib.parse.urlsplit(url)
        fine = parts.scheme in ("https", "http") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fine = False
    if not fine or not re.fullmatch(r"[!-~]+", url) or parts.username or parts.query or parts.fragment:
        raise UsageError(
            f"{safe_line(url.rpartition('@')[2], limit=100)!r} is no address of an API",
            mend="the CI system sets it",
        )
    return url.rstrip("/")


def _find(api: Api) -> Mapping[str, Any] | None:
    for page in range(1, PAGES + 1):
        found = _ask(api, "GET", f"{api.comments}?per_page={PAGE}&page={page}")
        if not isinstance(found, list):
            return None
        for comment in found:
            if (
                isinstance(comment, dict)
                and str(comment.get("body", "")).startswith(MARKER)
                and api.own(comment)
            ):
                return comment
        if len(found) < PAGE:
            return None
    return None


class _Unredirected(urllib.request.HTTPRedirectHandler):
    """Leaves redirections to `_ask`: urllib would take the token along to any host, and make a GET of a POST."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _ask(api: Api, method: str, url: str, body: object = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    headers = {**api.headers, "Content-Type": "application/json", "User-Agent": "tithe"}
    where = _shown(method, url)
    opener = urllib.request.build_opener(_Unredirected)
    for _ in range(REDIRECTIONS):
        request = urllib.request.Request(url, data, headers, method=method)  # noqa: S310 - checked in _root
        try:
            with opener.open(request, timeout=TIMEOUT_S) as answer:
                raw = answer.read(MAX_BYTES)
            break
        except urllib.error.HTTPError as error:
            error.close()
            if error.code in _REDIRECTED:
                url = _redirected(method, url, error, where)
                continue
            mend = "see to the token and its permissions" if error.code in (401, 403, 404) else "try again"
            raise LocationError(
                f"was answered with {error.code} {safe_line(str(error.reason), limit=80)}",
                where=where,
                mend=mend,
            ) from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise LocationError(f"cannot be reached: {safe_line(str(error))}", where=where) from None
    else:
        raise LocationError(f"was redirected {REDIRECTIONS} times", where=where)
    try:
        return json.loads(raw) if raw else None
    except (ValueError, RecursionError):
        raise LocationError("did not answer with JSON", where=where) from None


def _redirected(method: str, url: str, error: urllib.error.HTTPError, where: str) -> str:
    """Where to ask instead: on the same host alone, and only if what was asked for stays the same."""
    try:
        target = urllib.parse.urljoin(url, error.headers.get("Location", ""))
        old, new = urllib.parse.urlsplit(url), urllib.parse.urlsplit(target)
        same = (old.scheme, old.hostname, old.port) == (new.scheme, new.hostname, new.port)
    except ValueError:
        same, target = False, ""
    if not same or not re.fullmatch(r"[!-~]+", target):
        raise LocationError("redirects to another host, which the token is not for", where=where)
    if method != "GET" and error.code not in (307, 308):
        raise LocationError(f"was answered with {error.code}: the comment was not taken", where=where)
    return target


def _shown(method: str, url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return f"{method} {parts.netloc.rpartition('@')[2]}{parts.path}"
