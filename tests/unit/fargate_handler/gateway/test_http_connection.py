"""What a connection reads ahead of a body that isn't taken yet."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from fargate_handler.gateway.http_endpoints import HttpEndpoints
from fargate_handler.gateway.websocket_endpoint import WebSocketEndpoint
from stream_core.policy.memory_bound import READ_AHEAD_BYTES
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.gateway.socket_in_memory import SocketInMemory

_HEAD = b"POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"


@pytest.mark.parametrize(
    ("came", "reads"), [(READ_AHEAD_BYTES, True), (READ_AHEAD_BYTES + 1, False)]
)
async def test_no_more_of_a_body_is_read_than_may_wait(came: int, reads: bool) -> None:
    context = Gateway().context
    endpoints = HttpEndpoints(
        context, Path("no page here"), lambda: None, WebSocketEndpoint(context)
    )
    await endpoints.start()
    transport = SocketInMemory()
    context.accepted.accept(transport)
    endpoints.take(transport, _HEAD + b" " * came, asyncio.get_running_loop().time() + 10)
    assert transport.reads == reads
    transport.protocol.connection_lost(None)
    await endpoints.stop()
    transport.get_extra_info("socket").close()
