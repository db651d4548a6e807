"""The endpoint of the transport with a JSON object a line."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

import orjson

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.evenflow.client_admission import admit_client
from evenflow.fargate_handler.gateway.evenflow.client_connection import ClientConnection
from evenflow.stream_core.protocols.evenflow.dialect import Dialect
from tests.unit.fargate_handler.gateway.transports.line_transport import LineTransport


class LineEndpoint:
    """Accepts clients that say in their first line who they are: `{"token": …, "replaces": …}`."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._servers: list[asyncio.Server] = []

    async def start(self, sockets: Iterable[socket.socket]) -> None:
        """Listen on these sockets, which are bound."""
        loop, most = asyncio.get_running_loop(), self._context.limits.message_bytes
        for listening in sockets:
            self._servers.append(
                await loop.create_server(lambda: LineTransport(self._admit, most), sock=listening)
            )

    def stop_accepting(self) -> None:
        """New connections are refused from now on; those that are open stay."""
        for server in self._servers:
            server.close()

    def _admit(self, line: bytes) -> ClientConnection:
        context, hello = self._context, orjson.loads(line)
        claims = context.access.tokens.verify(hello["token"], context.wall_time())
        return admit_client(
            context,
            claims,
            Dialect(),
            address="127.0.0.1",
            replaces=hello["replaces"],
            asked_at=context.monotonic(),
        )
