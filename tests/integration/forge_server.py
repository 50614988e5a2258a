"""A small server that answers as GitHub's and GitLab's comment interfaces do, and keeps what it is told."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from urllib.parse import parse_qs, urlsplit

from tests.http_store import serving


@dataclass
class Forge:
    """What the server holds. `deny` answers every request with that status."""

    url: str = ""
    comments: list[dict[str, object]] = field(default_factory=list)
    requests: list[tuple[str, str]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    deny: int = 0
    redirect: tuple[object, ...] = ()
    """Status, target, and the methods that are redirected (every one if none is given); "once" ends it."""
    raw: bytes = b""
    """What every request is answered with, if given."""

    def bodies(self) -> list[str]:
        return [str(comment["body"]) for comment in self.comments]


@contextmanager
def forge() -> Iterator[Forge]:
    """A server on a port of its own."""
    held = Forge()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if self._redirected():
                return None
            if parts.path.endswith("/user"):
                return self._answer({"id": 7})
            page = int(parse_qs(parts.query).get("page", ["1"])[0])
            return self._answer(held.comments[(page - 1) * 100 : page * 100])

        def do_POST(self) -> None:
            body = self._body()
            if self._redirected():
                return
            made = {
                "id": 100 + len(held.comments),
                "body": body["body"],
                "user": {"type": "Bot"},
                "author": {"id": 7},
            }
            held.comments.append(made)
            self._answer(made)

        def _change(self) -> None:
            body, number = self._body(), int(urlsplit(self.path).path.rpartition("/")[2])
            (found,) = [comment for comment in held.comments if comment["id"] == number]
            found["body"] = body["body"]
            self._answer(found)

        do_PATCH = do_PUT = _change

        def _redirected(self) -> bool:
            status, target, *methods = held.redirect or (0, "")
            if not status or (methods and self.command not in methods):
                return False
            if "once" in methods:
                held.redirect = ()
            self.send_response(int(str(status)))
            self.send_header("Location", str(target))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return True

        def _body(self) -> dict[str, object]:
            return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, document: object) -> None:
            held.requests.append((self.command, urlsplit(self.path).path))
            held.tokens.add(self.headers.get("Authorization") or self.headers.get("PRIVATE-TOKEN") or "")
            raw = held.raw or json.dumps(document).encode()
            self.send_response(held.deny or 200)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            return

    with serving(Handler) as held.url:
        yield held
