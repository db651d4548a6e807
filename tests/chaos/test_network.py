"""A link passes on what comes, in order; cut, it resets; silent, it holds everything back until
it is open again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from tests.chaos.conftest import Start
from tests.chaos.system import NetworkControl
from tests.integration.server_process import free_port

LINK = "client-a"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass  # which is what some of these tests do to it
    finally:
        writer.close()


class Linked:
    """A link to an echo server."""

    def __init__(self, network: NetworkControl, port: int) -> None:
        self.network = network
        self.writers: list[asyncio.StreamWriter] = []
        self._port = port

    async def connect(self) -> Streams:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self.writers.append(writer)
        return reader, writer


@pytest.fixture
async def linked(start: Start) -> AsyncIterator[Linked]:
    port = free_port()
    network = NetworkControl(*await asyncio.open_connection("127.0.0.1", start("network")))
    async with await asyncio.start_server(_echo, "127.0.0.1", 0) as server:
        await network.link(LINK, port, server.sockets[0].getsockname()[1])
        made = Linked(network, port)
        yield made
        for writer in made.writers:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()
        network.close()


async def _answer(streams: Streams, data: bytes) -> bytes:
    reader, writer = streams
    writer.write(data)
    return await asyncio.wait_for(reader.readexactly(len(data)), 10)


@asynccontextmanager
async def _no_answer(streams: Streams, data: bytes) -> AsyncIterator[None]:
    """`data` is sent, and its answer doesn't come within the block but after it."""
    reader, writer = streams
    writer.write(data)
    coming = asyncio.create_task(reader.readexactly(len(data)))
    await asyncio.sleep(0.3)
    assert not coming.done()
    yield
    assert await asyncio.wait_for(coming, 10) == data


async def test_an_open_link_passes_everything_on(linked: Linked) -> None:
    streams = await linked.connect()
    much = bytes(range(256)) * 20_000
    assert await _answer(streams, much) == much


async def test_a_delayed_link_keeps_the_order(linked: Linked) -> None:
    streams = await linked.connect()
    loop = asyncio.get_running_loop()
    await linked.network.set([LINK], delay_ms=150)
    reader, writer = streams
    sent_at = loop.time()
    for number in range(50):
        writer.write(b"%04d" % number)
        await asyncio.sleep(0.001)
    # Still on their way, they must not be overtaken.
    await linked.network.set([LINK])
    writer.write(b"last")
    assert (
        await reader.readexactly(204)
        == b"".join(b"%04d" % number for number in range(50)) + b"last"
    )
    assert loop.time() - sent_at >= 0.15


async def test_a_silent_link_holds_back_and_then_gives_everything(linked: Linked) -> None:
    streams = await linked.connect()
    await _answer(streams, b"before")
    await linked.network.set([LINK], "silent")
    new = await linked.connect()
    async with _no_answer(streams, b"one"), _no_answer(new, b"two"):
        await linked.network.set([LINK])


async def test_a_reset_ends_what_is_open_and_nothing_else(linked: Linked) -> None:
    streams = await linked.connect()
    await _answer(streams, b"before")
    await linked.network.reset([LINK])
    with pytest.raises(ConnectionResetError):
        await _answer(streams, b"after")
    assert await _answer(await linked.connect(), b"again") == b"again"


async def test_a_reset_of_a_share_leaves_the_others_open(linked: Linked) -> None:
    streams = [await linked.connect() for _ in range(40)]
    for one in streams:
        await _answer(one, b"before")
    await linked.network.reset([LINK], share=0.2)
    answers = await asyncio.gather(
        *(_answer(one, b"after") for one in streams), return_exceptions=True
    )
    assert 0 < answers.count(b"after") < len(streams)


async def test_a_refusing_link_lets_nobody_in(linked: Linked) -> None:
    await linked.network.set([LINK], "refuse")
    with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
        await _answer(await linked.connect(), b"hello")
    await linked.network.set([LINK])
    assert await _answer(await linked.connect(), b"hello") == b"hello"
