"""Calls of the HTTP endpoints as aiohttp would make them, without sockets: routes, middleware
and all.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import orjson
from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.streams import EMPTY_PAYLOAD
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.http_endpoints import HttpEndpoints
from evenflow.fargate_handler.gateway.operator_endpoints import OperatorEndpoints
from evenflow.fargate_handler.gateway.websocket_endpoint import WebSocketEndpoint
from evenflow.stream_core.auth.session_token import for_peers
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.bounds.node_load import LoadFigure


class RecordingWriter(AbstractStreamWriter):
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written = b""

    async def write(self, chunk: Any) -> None:
        self.written += bytes(chunk)

    async def write_eof(self, chunk: bytes = b"") -> None:
        self.written += chunk

    async def drain(self) -> None:
        """Everything has left."""

    def enable_compression(self, *_how: Any, **_more: Any) -> None:
        """Nothing is compressed."""

    def enable_chunking(self) -> None:
        """Chunks are not told apart here."""

    async def write_headers(self, status_line: str, headers: CIMultiDict[str]) -> None:
        """The answer says them itself."""


def _protocol(remote: str | None, port: int, writer: RecordingWriter) -> Mock:
    """A protocol whose transport keeps what is written straight to it."""

    def write(chunk: bytes) -> None:
        size, _, rest = chunk.partition(b"\r\n")
        body = rest.removesuffix(b"\r\n")
        assert int(size, 16) == len(body), "one chunk a write"
        writer.written += body

    transport = Mock(spec=asyncio.Transport)
    transport.write = write
    peer = (remote, 50_000)
    known = {"peername": peer, "sockname": ("127.0.0.1", port)}
    transport.get_extra_info = known.get
    return Mock(transport=transport, peername=peer, ssl_context=None, writing_paused=False)


class Calls:
    """The HTTP side of a gateway.

    Args:
        routes: besides those of the gateway.
        drain_key: what `POST /drain` needs.
    """

    def __init__(
        self,
        context: GatewayContext,
        channel: Channel,
        *routes: web.RouteDef,
        drain_key: str | None = None,
    ) -> None:
        self.left = 0
        """How often it was asked to leave."""
        self._context = context
        websockets = WebSocketEndpoint(context)
        self.load = LoadFigure(context.limits, now=0.0)
        operators = OperatorEndpoints(context, self.load, self._leave, drain_key=drain_key)
        app = HttpEndpoints(context, Path("no page here"), operators, websockets)._runner.app
        assert isinstance(app, web.Application)
        app.add_routes(routes)
        app.freeze()
        self._app = app
        self._channel = channel
        self._headers = self._bearer(None)

    def _leave(self) -> None:
        self.left += 1

    def _bearer(self, only_for: str | None) -> dict[str, str]:
        token, _ = self._context.access.tokens.issue(
            self._channel, self._context.wall_time(), 3_600, only_for=only_for
        )
        return {"Authorization": f"Bearer {token}"}

    def as_peer(self, response_id: str) -> dict[str, str]:
        """The headers of a task that copies a response."""
        return self._bearer(for_peers(response_id))

    async def call(
        self,
        method: str,
        path: str,
        headers: dict[str, str] | None = None,
        *,
        remote: str | None = "127.0.0.1",
        port: int = 8080,
        writer: RecordingWriter | None = None,
    ) -> web.StreamResponse:
        """The answer; of a stream, when it has ended."""
        writer = writer or RecordingWriter()
        protocol = _protocol(remote, port, writer)
        request = make_mocked_request(
            method,
            path,
            headers=self._headers | (headers or {}),
            transport=protocol.transport,
            protocol=protocol,
            writer=writer,
            payload=EMPTY_PAYLOAD,
            app=self._app,
        )
        return await self._app._handle(request)

    async def json(
        self, method: str, path: str, headers: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """The body of an answer."""
        return body_of(await self.call(method, path, headers))


class EventStream:
    """What an EventSource hears on one connection."""

    def __init__(self, calls: Calls, path: str, headers: dict[str, str] | None = None) -> None:
        self._writer = RecordingWriter()
        self.answering = asyncio.create_task(calls.call("GET", path, headers, writer=self._writer))

    @property
    def events(self) -> list[tuple[str, str, dict[str, Any]]]:
        """Kind, id and data of each."""
        found = []
        for block in self._writer.written.decode().split("\n\n"):
            lines = dict(
                line.split(": ", 1)
                for line in block.splitlines()
                if ": " in line and line[0] != ":"
            )
            if "event" in lines:
                found.append((lines["event"], lines.get("id", ""), orjson.loads(lines["data"])))
        return found

    @property
    def heard(self) -> list[tuple[str, str]]:
        """The id of each event, and what it brought."""
        heard = []
        for kind, event_id, data in self.events:
            name = kind.rpartition(".")[2]
            heard.append((event_id, data["delta"] if name == "delta" else name))
        return heard


def body_of(answer: web.StreamResponse) -> dict[str, Any]:
    """Its JSON."""
    assert isinstance(answer, web.Response)
    assert isinstance(answer.body, bytes)
    body: dict[str, Any] = orjson.loads(answer.body)
    return body
