"""A little web site that has nothing to do with the server: an origin of its own, with whatever
pages a test gives it.
"""

from __future__ import annotations

import mimetypes
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

_PAGE = '<!doctype html><html lang="en"><meta charset="utf-8"><title>Another site</title>{}</html>'


class OtherSite:
    """What it serves.

    Args:
        origin: its own.
        folders: path → a folder whose files are served below it.
        upstream: the server and the tenant's key with which the site's own backend opens sessions,
            at `/our/session`.
    """

    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.folders: dict[str, Path] = {}
        self.upstream: tuple[str, str] | None = None
        self._pages: dict[str, str] = {}

    def page(self, content: str) -> str:
        """The address of a new page with this body."""
        path = f"/page-{len(self._pages)}"
        self._pages[path] = _PAGE.format(content)
        return self.origin + path

    def file(self, path: str) -> tuple[str, bytes] | None:
        """Type and bytes of what is at a path."""
        if path in self._pages:
            return "text/html; charset=utf-8", self._pages[path].encode()
        for prefix, folder in self.folders.items():
            found = (folder / path.removeprefix(prefix).lstrip("/")).resolve()
            if (
                path.startswith(f"{prefix}/")
                and found.is_relative_to(folder.resolve())
                and found.is_file()
            ):
                kind = (
                    "text/javascript" if found.suffix == ".mjs" else mimetypes.guess_type(found)[0]
                )
                return kind or "application/octet-stream", found.read_bytes()
        return None

    def opened_session(self, asked: bytes) -> bytes:
        """What the server answers to the backend, which alone knows the key."""
        assert self.upstream is not None
        url, key = self.upstream
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        with urllib.request.urlopen(
            urllib.request.Request(f"{url}/session", asked, headers)
        ) as answer:
            session: bytes = answer.read()
            return session


@contextmanager
def other_site() -> Iterator[OtherSite]:
    """Serve one, on a port of its own."""

    class Requests(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = site.file(self.path)
            self._answer(200 if found else 404, *(found or ("text/plain", b"")))

        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/our/session":
                self._answer(200, "application/json", site.opened_session(asked))
            else:
                self._answer(404, "text/plain", b"")

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Requests) as server:
        site = OtherSite(f"http://localhost:{server.server_address[1]}")
        serving = Thread(target=server.serve_forever)
        serving.start()
        yield site
        server.shutdown()
        serving.join(5)
