"""The endpoint of the transport with a JSON object a line."""

from __future__ import annotations

import asyncio

import orjson

from fargate_handler.gateway.client_admission import admit_client
from fargate_handler.gateway.client_connection import ClientConnection
from fargate_handler.gateway.context import GatewayContext
from fargate_handler.gateway.listening_socket import listening_socket
from stream_core.protocol.dialect import Dialect
from tests.unit.fargate_handler.gateway.transports.line_connection import LineConnection


class LineEndpoint:
    """Accepts clients that say in their first line who they are: `{"token": …, "replaces": …}`."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> None:
        """Listen.

        Raises:
            OSError: the address can't be had.
        """
        limits, loop = self._context.limits, asyncio.get_running_loop()
        listening = listening_socket(host, port, limits)
        most = limits.message_bytes
        self._server = await loop.create_server(
            lambda: LineConnection(self._admit, most), sock=listening
        )

    def stop_accepting(self) -> None:
        """New connections are refused from now on; those that are open stay."""
        if self._server is not None:
            self._server.close()

    def _admit(self, line: bytes) -> ClientConnection:
        context, hello = self._context, orjson.loads(line)
        claims = context.tokens.verify(hello["token"], context.wall_time())
        return admit_client(
            context, claims, Dialect(), replaces=hello["replaces"], asked_at=context.monotonic()
        )
