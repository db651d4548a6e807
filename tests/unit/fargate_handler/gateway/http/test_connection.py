"""HTTP connections: what they read ahead, and whose they are."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from evenflow.fargate_handler.gateway.connections.deadline import ClientTimer
from evenflow.fargate_handler.gateway.http_endpoints import HttpEndpoints
from evenflow.fargate_handler.gateway.operator_endpoints import OperatorEndpoints
from evenflow.fargate_handler.gateway.websocket_endpoint import WebSocketEndpoint
from evenflow.stream_core.bounds.memory_bound import READ_AHEAD_BYTES
from evenflow.stream_core.bounds.node_load import LoadFigure
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.gateway.socket_in_memory import SocketInMemory
from tests.unit.settle import settle

_HEAD = b"POST /session HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n"
_HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
async def endpoints() -> AsyncIterator[HttpEndpoints]:
    context = Gateway().context
    operators = OperatorEndpoints(context, LoadFigure(context.limits, now=0.0), lambda: None)
    websockets = WebSocketEndpoint(context)
    serving = HttpEndpoints(context, Path("no page here"), operators, websockets)
    await serving.start()
    yield serving
    await serving.stop()


def _take(endpoints: HttpEndpoints, transport: SocketInMemory, received: bytes) -> None:
    timer = ClientTimer(asyncio.get_running_loop(), 10.0, lambda: None)
    endpoints.take(transport, received, timer)


@pytest.mark.parametrize(
    ("came", "reads"), [(READ_AHEAD_BYTES, True), (READ_AHEAD_BYTES + 1, False)]
)
async def test_no_more_of_a_body_is_read_than_may_wait(
    endpoints: HttpEndpoints, came: int, reads: bool
) -> None:
    transport = SocketInMemory()
    _take(endpoints, transport, _HEAD + b" " * came)
    assert transport.reads == reads
    transport.lose()


@pytest.mark.parametrize(("version", "answers"), [("1.0", 1), ("1.1", 2)])
async def test_behind_a_chunked_body_of_http_1_0_no_request_is_answered(
    endpoints: HttpEndpoints, version: str, answers: int
) -> None:
    """Its framing is faulty (RFC 9112, 6.1): a proxy may take what follows for the body."""
    transport = SocketInMemory()
    head = (
        f"POST /session HTTP/{version}\r\nHost: localhost\r\nConnection: keep-alive\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    _take(endpoints, transport, head.encode() + b"2\r\n{}\r\n0\r\n\r\n" + _HEALTH)
    await settle()
    assert transport.sent.count(b"HTTP/1.") == answers
    transport.lose()


async def test_a_connection_that_was_reset_is_served_to_nobody(endpoints: HttpEndpoints) -> None:
    """Its requests would count for an address that all such connections share, and keys that are
    bound to an address would name other answers.
    """
    transport = SocketInMemory(peer=None)
    _take(endpoints, transport, _HEALTH)
    await settle()
    assert (transport.closing, transport.protocol, bytes(transport.sent)) == (True, None, b"")
    transport.known["socket"].close()


async def test_a_websocket_that_was_reset_is_not_opened() -> None:
    transport = SocketInMemory(peer=None)
    assert WebSocketEndpoint(Gateway().context).take(transport, b"GET /ws HTTP/1.1\r\n\r\n") is None
    assert (transport.closing, transport.protocol, bytes(transport.sent)) == (True, None, b"")
    transport.known["socket"].close()


async def test_a_connection_keeps_its_address_when_it_is_reset(endpoints: HttpEndpoints) -> None:
    transport = SocketInMemory()
    _take(endpoints, transport, _HEAD)
    transport.known["peername"] = None
    assert transport.protocol.peername == ("192.0.2.9", 50_000)
    transport.lose()
