"""A store behind a URL: an HTTP server that takes PUT and lists its folders, as simple object stores do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class HttpStore:
    """`fail` is how many of the next requests are answered with 503; `fail_on` is in the path of those that are."""

    url: str
    folder: Path
    fail: int = 0
    fail_on: str = ""
    requests: list[str] = field(default_factory=list)


@contextmanager
def http_store(folder: Path) -> Iterator[HttpStore]:
    """Serves `folder` on a port of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    held = HttpStore("", folder)

    class Handler(SimpleHTTPRequestHandler):
        def send_head(self):
            held.requests.append(f"{self.command} {self.path}")
            if held.fail > 0:
                held.fail -= 1
                self.send_error(503)
                return None
            if held.fail_on and held.fail_on in self.path:
                self.send_error(500)
                return None
            return super().send_head()

        def do_PUT(self) -> None:
            held.requests.append(f"PUT {self.path}")
            content = self.rfile.read(int(self.headers["Content-Length"]))
            target = Path(self.translate_path(self.path))
            target.parent.mkdir(parents=True, exist_ok=True)
            unfinished = target.with_name(f".{target.name}.{threading.get_ident()}")
            unfinished.write_bytes(content)
            unfinished.replace(target)
            self.send_response(201)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    with serving(partial(Handler, directory=str(folder))) as held.url:
        yield held


@contextmanager
def serving(handler: Callable[..., BaseHTTPRequestHandler]) -> Iterator[str]:
    """The URL of a server on a port of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
