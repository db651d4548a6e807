"""An identity provider on the loopback, over real HTTP: it can go down and come back."""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.identity_provider import IdentityProvider
from tests.integration.server_process import free_port

DISCOVERY, KEYS = "/.well-known/openid-configuration", "/jwks?p=policy"
ELSEWHERE, LARGE, SLOW = "/elsewhere", "/large", "/slow"


class IssuerServer(IdentityProvider):
    """Serves what it says of itself, and what an ill or a hostile one might say."""

    def __init__(self) -> None:
        self._port = free_port()
        super().__init__(f"http://127.0.0.1:{self._port}")
        self.asked: list[str] = []
        self._server: ThreadingHTTPServer | None = None
        self.start()

    def environment(self, **more: str) -> dict[str, str]:
        """The variables of who believes it."""
        return self.settings(**more).to_variables()

    def now_token(self, **claims: Any) -> str:
        """A token that is valid now."""
        return self.token(time.time(), **claims)

    def start(self) -> None:
        """Come back, at the same address."""
        issuer = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                issuer.answer(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Answers)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Go down: nobody listens any more."""
        server, self._server = self._server, None
        if server is not None:
            server.shutdown()
            server.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer one request."""
        documents = {
            DISCOVERY: json.dumps({"issuer": self.issuer, "jwks_uri": self.issuer + KEYS}).encode(),
            KEYS: self.jwks(),
            LARGE: b" " * 300_000 + self.jwks(),
            SLOW: b" " * 50 + self.jwks(),
        }
        body = documents.get(request.path)
        request.send_response(302 if request.path == ELSEWHERE else 404 if body is None else 200)
        request.send_header("Location", self.issuer + KEYS)
        request.send_header("Content-Length", str(len(body or b"")))
        request.end_headers()
        if request.path == SLOW:
            self._drip(request, body or b"")
        else:
            request.wfile.write(body or b"")

    def _drip(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        try:
            for byte in body:
                request.wfile.write(bytes([byte]))
                time.sleep(0.05)
        except OSError:
            return  # its reader has had enough
