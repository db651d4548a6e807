"""The same comparison through a real server: OpenAI's client for Python on both sides of it."""

from __future__ import annotations

import json
import tempfile
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from openai import OpenAI

from tests.differential.comparison import readings_differ
from tests.differential.reading import Reading, read_chunks
from tests.differential.streams import UpstreamStream
from tests.integration.server_process import ServerProcess


class _Model(ThreadingHTTPServer):
    """A model's server that sends the pieces of the stream whose number the question is."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.streams: list[UpstreamStream] = []

    def handle_error(self, request: object, client_address: object) -> None:
        """Nothing: Evenflow resets the connection of an answer that it can't read."""

    @property
    def url(self) -> str:
        """Its base."""
        return f"http://127.0.0.1:{self.server_port}/v1"


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Model

    def do_POST(self) -> None:
        """Answer a request."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        stream = self.server.streams[int(asked["messages"][-1]["content"])]
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in stream.pieces:
            if piece:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece))
        self.wfile.write(b"0\r\n\r\n")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Nothing."""


@contextmanager
def _served() -> Iterator[tuple[_Model, OpenAI, OpenAI]]:
    """A model's server, and clients: of that, and of Evenflow before it."""
    model = _Model()
    threading.Thread(target=model.serve_forever, daemon=True).start()
    settings = {
        "EVENFLOW_MODEL": "openai",
        "EVENFLOW_MODEL_URL": model.url,
        "EVENFLOW_MODEL_NAME": "m",
        "EVENFLOW_MODEL_RETRIES": "0",
    }
    with tempfile.TemporaryDirectory() as folder:
        server = ServerProcess(Path(folder) / "server.log", settings)
        try:
            server.wait_until_serving()
            urls = (model.url, f"{server.http_url}/v1")
            clients = [OpenAI(api_key="sk-none", base_url=url, max_retries=0) for url in urls]
            yield model, clients[0], clients[1]
        finally:
            server.stop()
            model.shutdown()


def _read(client: OpenAI, number: int, choices: int) -> Reading:
    try:
        chunks = client.chat.completions.create(
            model="m",
            messages=[{"role": "user", "content": str(number)}],
            stream=True,
            stream_options={"include_usage": True},
            n=choices,
        )
    except Exception as error:  # an answer of which nothing came is a status
        return Reading(error=str(error)[:200])
    return read_chunks(chunks)


def compared_over_http(streams: Iterable[UpstreamStream], seen: Counter[str]) -> list[str]:
    """The differences that are not wanted. Notes in `seen` what was compared."""
    with _served() as (model, direct, through):
        for number, stream in enumerate(streams):
            model.streams.append(stream)
            readings = [_read(client, number, stream.choices) for client in (direct, through)]
            seen["streams over HTTP"] += 1
            if found := readings_differ("over HTTP", stream, *readings):
                return [*found, f"number {number}", stream.body.decode("utf-8", "replace")[:6_000]]
    return []
