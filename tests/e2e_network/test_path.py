"""The network does what it says, without a browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import cast

import pytest

from tests.e2e.rough_network import Line, RoughNetwork
from tests.integration.server_process import Server

_HEAD = b"GET /echo HTTP/1.1\r\nHost: echo\r\n\r\n"
_UPGRADE = _HEAD.replace(b"\r\n\r\n", b"\r\nUpgrade: websocket\r\n\r\n")
_ANSWER = b"HTTP/1.1 200 OK\r\n\r\n"
_SOON, _NEVER_WITHIN = 5.0, 0.15


@pytest.fixture
def heads() -> list[bytes]:
    """Those that have reached the server."""
    return []


@pytest.fixture
async def echo(heads: list[bytes]) -> AsyncIterator[Server]:
    """It answers a head, and then with what it is sent."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(_ANSWER)
            while data := await reader.read(65_536):
                writer.write(data)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        yield cast("Server", SimpleNamespace(port=port))


@pytest.fixture
def network(echo: Server) -> Iterator[RoughNetwork]:
    with RoughNetwork() as running:
        running.lead_to(echo)
        yield running


class _Connection:
    """A client's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer

    @classmethod
    async def open(cls, network: RoughNetwork, head: bytes) -> _Connection:
        """Connect, and send a head."""
        port = int(network.url.rpartition(":")[2])
        opened = cls(*await asyncio.open_connection("127.0.0.1", port))
        opened.writer.write(head)
        return opened

    async def read(self, size: int, seconds: float = _SOON) -> bytes:
        """So many bytes."""
        return await asyncio.wait_for(self._reader.readexactly(size), seconds)

    async def rest(self) -> bytes:
        """All, to the end."""
        return await asyncio.wait_for(self._reader.read(), _SOON)

    async def echoes(self, data: bytes = b"hello") -> bool:
        """Whether it is alive."""
        self.writer.write(data)
        return await self.read(len(data)) == data


Connect = Callable[..., Awaitable[_Connection]]


@pytest.fixture
async def connect(network: RoughNetwork) -> AsyncIterator[Connect]:
    """Connects, and sends a head."""
    opened = list[_Connection]()

    async def connect(head: bytes = _HEAD) -> _Connection:
        opened.append(await _Connection.open(network, head))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.writer.transport.abort()


@pytest.fixture
def connect_alive(connect: Connect) -> Connect:
    """The same, to the server."""

    async def connected() -> _Connection:
        connection = await connect()
        assert await connection.read(len(_ANSWER)) == _ANSWER
        return connection

    return connected


async def test_a_reset_ends_what_is_open_and_what_is_new(
    network: RoughNetwork, connect: Connect, connect_alive: Connect
) -> None:
    connection = await connect_alive()
    network.go_away()
    with pytest.raises(ConnectionResetError):
        await connection.rest()
    with pytest.raises(ConnectionResetError):
        await (await connect()).rest()
    network.come_back()
    assert await (await connect_alive()).echoes()


async def test_a_black_hole_is_not_noticed_and_lets_go_what_is_sent_again(
    network: RoughNetwork,
    connect: Connect,
    connect_alive: Connect,
) -> None:
    connection = await connect_alive()
    network.swallow()
    connection.writer.write(b"lost")
    late = await connect()
    with pytest.raises(TimeoutError):
        await connection.read(1, _NEVER_WITHIN)
    with pytest.raises(TimeoutError):
        await late.read(1, _NEVER_WITHIN)
    network.let_flow()
    assert await connection.read(4) == b"lost"
    assert await late.read(len(_ANSWER)) == _ANSWER


async def test_what_is_given_up_in_a_black_hole_was_never_connected(
    network: RoughNetwork, connect: Connect, connect_alive: Connect, heads: list[bytes]
) -> None:
    network.swallow()
    early = await connect(_HEAD.replace(b"echo", b"early"))
    late = await connect()
    early.writer.close()
    # Meanwhile the network has taken both connections, and seen the end of one.
    with pytest.raises(TimeoutError):
        await late.read(1, _NEVER_WITHIN)
    network.let_flow()
    assert await late.read(len(_ANSWER)) == _ANSWER
    assert heads == [_HEAD]


async def test_half_open_connections_are_dead_and_new_ones_live(
    network: RoughNetwork, connect: Connect, connect_alive: Connect
) -> None:
    connection = await connect_alive()
    network.forget()
    connection.writer.write(b"lost")
    with pytest.raises(TimeoutError):
        await connection.read(1, _NEVER_WITHIN)
    assert await (await connect_alive()).echoes()


async def test_a_slow_line_that_gets_quick_gives_at_once_what_is_underway(
    network: RoughNetwork,
    connect: Connect,
    connect_alive: Connect,
) -> None:
    connection = await connect_alive()
    network.line = Line(bytes_per_second=1024)
    data = bytes(20_000)
    connection.writer.write(data)
    with pytest.raises(TimeoutError):
        await connection.read(len(data), _NEVER_WITHIN)
    network.line = Line()
    # It would have taken twenty seconds each way.
    assert await connection.read(len(data)) == data


@pytest.mark.parametrize("head", [_HEAD, _UPGRADE])
async def test_a_portal_answers_everything_with_its_login(
    network: RoughNetwork, connect: Connect, connect_alive: Connect, head: bytes
) -> None:
    network.portal = True
    answers = [await (await connect(head)).rest() for _ in range(3)]
    statuses = [answer.split(b" ", 2)[1] for answer in answers]
    assert statuses == [b"302", b"200", b"302"]
    assert all(b"Content-Type: text/html" in answer for answer in answers)
    login = head.replace(b"/echo", b"/login")
    assert (await (await connect(login)).rest()).startswith(b"HTTP/1.1 200")
    network.portal = False
    assert await (await connect_alive()).echoes()
