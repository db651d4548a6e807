from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import aiohttp
import pytest

from evenflow.fargate_handler.token_sources.guarded_connector import GuardedConnector
from evenflow.fargate_handler.token_sources.pushed_body import Arrivals, PushedBody
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink

_HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
_END = b"0\r\n\r\n"


class PiecewiseServer:
    """Answers every request with `head`. The test sends the body."""

    def __init__(self) -> None:
        self.connections = 0
        self.head = _HEAD
        self.asked = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        self.connections += 1
        self._writer = writer
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(self.head)
                self.asked.set()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def send(self, *pieces: bytes) -> None:
        """Send pieces of the body, each as a chunk."""
        assert self._writer is not None
        for piece in pieces:
            self._writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))

    def send_raw(self, data: bytes) -> None:
        """Send something that is no chunk."""
        assert self._writer is not None
        self._writer.write(data)

    def break_off(self) -> None:
        """Disconnect."""
        assert self._writer is not None
        self._writer.close()


class Taken:
    """What the body gave. `told` is set with each piece."""

    def __init__(self, then: Callable[[bytes], bool] = lambda _piece: True) -> None:
        self.whole = b""
        self._told = asyncio.Event()
        self._then = then

    def take(self, piece: bytes) -> bool:
        """Take a piece."""
        self.whole += piece
        self._told.set()
        return self._then(piece)

    async def until(self, whole: bytes) -> None:
        """Return when all of that has come."""
        while self.whole != whole:
            self._told.clear()
            await self._told.wait()


@asynccontextmanager
async def piecewise() -> AsyncIterator[tuple[PiecewiseServer, aiohttp.ClientSession, str]]:
    piecewise_server = PiecewiseServer()
    server = await asyncio.start_server(piecewise_server.answer, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    connector = GuardedConnector(10, lambda: None)
    async with server, aiohttp.ClientSession(connector=connector) as http:
        yield piecewise_server, http, f"http://127.0.0.1:{port}/"


@pytest.mark.timeout(10)
async def test_each_piece_is_taken_when_it_comes_and_the_connection_is_used_again() -> None:
    async with piecewise() as (server, http, url):
        for _ in range(3):
            async with http.get(url) as answer:
                taken = Taken()
                reading = asyncio.create_task(
                    PushedBody(answer, taken.take, RecordingSink(), Arrivals()).read()
                )
                server.send(b"ab")
                await taken.until(b"ab")
                server.send(b"cd", b"ef")
                await taken.until(b"abcdef")
                assert not reading.done()
                server.send_raw(_END)
                await reading
        assert server.connections == 1


@pytest.mark.timeout(10)
async def test_what_has_come_with_the_head_is_taken() -> None:
    async with piecewise() as (server, http, url):
        server.head += b"2\r\nab\r\n" + _END
        async with http.get(url) as answer:
            taken = Taken()
            await PushedBody(answer, taken.take, RecordingSink(), Arrivals()).read()
        assert taken.whole == b"ab"


@pytest.mark.timeout(10)
async def test_who_pauses_is_asked_for_what_waits_also_behind_the_last_piece() -> None:
    async with piecewise() as (server, http, url), http.get(url) as answer:
        sink, pieces, taken = RecordingSink(), list[bytes](), asyncio.Event()

        def take(piece: bytes) -> bool:
            pieces.append(piece)
            sink.paused = len(pieces) == 1
            taken.set()
            return True

        reading = asyncio.create_task(PushedBody(answer, take, sink, Arrivals()).read())
        server.send(b"ab")
        server.send_raw(_END)
        await answer.content.wait_eof()
        await taken.wait()
        assert pieces == [b"ab"]
        sink.paused = False
        await reading
        assert pieces == [b"ab", b""]


@pytest.mark.timeout(10)
async def test_chunks_may_be_cut_anywhere_and_have_extensions_and_trailers() -> None:
    wire = b"2\r\nab\r\n00003\r\ncde\r\n1;name=x\r\nf\r\n1\r\ng\r\n0\r\nTrailer: x\r\n\r\n"
    async with piecewise() as (server, http, url):
        for cut in range(len(wire)):
            async with http.get(url) as answer:
                taken = Taken()
                reading = asyncio.create_task(
                    PushedBody(answer, taken.take, RecordingSink(), Arrivals()).read()
                )
                server.send_raw(wire[:cut])
                for _ in range(3):
                    await asyncio.sleep(0)  # both are received in turns of their own, mostly
                server.send_raw(wire[cut:])
                await reading
                assert taken.whole == b"abcdefg"
        assert server.connections == 1


@pytest.mark.timeout(10)
async def test_who_has_enough_leaves_the_rest() -> None:
    async with piecewise() as (server, http, url), http.get(url) as answer:
        taken = Taken(lambda piece: piece != b"cd")
        reading = asyncio.create_task(
            PushedBody(answer, taken.take, RecordingSink(), Arrivals()).read()
        )
        server.send(b"ab")
        await taken.until(b"ab")
        server.send(b"cd")
        await reading
        server.send(b"ef")
        server.send_raw(_END)
        assert await answer.content.read() == b"ef"
        assert taken.whole == b"abcd"


@pytest.mark.timeout(10)
async def test_who_has_enough_before_the_end_of_a_chunk_leaves_the_rest() -> None:
    async with piecewise() as (server, http, url):
        for _ in range(2):
            async with http.get(url) as answer:
                taken = Taken(lambda _piece: False)
                reading = asyncio.create_task(
                    PushedBody(answer, taken.take, RecordingSink(), Arrivals()).read()
                )
                server.send_raw(b"2\r\nab")
                await reading
                server.send_raw(b"\r\n2\r\ncd\r\n" + _END)
                assert await answer.content.read() == b"cd"
                assert taken.whole == b"ab"
        assert server.connections == 1


@pytest.mark.timeout(10)
async def test_a_pause_before_the_end_of_a_chunk_loses_nothing() -> None:
    async with piecewise() as (server, http, url), http.get(url) as answer:
        sink = RecordingSink()
        sink.paused = True
        taken = Taken()
        reading = asyncio.create_task(PushedBody(answer, taken.take, sink, Arrivals()).read())
        server.send_raw(b"2\r\nab")
        await taken.until(b"ab")
        server.send_raw(b"\r\n2\r\ncd\r\n" + _END)
        await answer.content.wait_eof()
        assert taken.whole == b"ab"
        sink.paused = False
        await reading
        assert taken.whole == b"abcd"


@pytest.mark.timeout(10)
async def test_the_rest_of_a_paused_answer_is_not_the_next_one_on_its_connection() -> None:
    async with piecewise() as (server, http, url):
        sink, first, second = RecordingSink(), Taken(), Taken()
        sink.paused = True
        async with http.get(url) as paused_answer:
            pausing = asyncio.create_task(
                PushedBody(paused_answer, first.take, sink, Arrivals()).read()
            )
            server.send(b"ab")
            await first.until(b"ab")
            server.send(b"cd")
            server.send_raw(_END)
            await paused_answer.content.wait_eof()
            async with http.get(url) as answer:
                reading = asyncio.create_task(
                    PushedBody(answer, second.take, RecordingSink(), Arrivals()).read()
                )
                server.send(b"ef")
                await second.until(b"ef")
                server.send(b"gh")
                sink.paused = False
                await pausing
                server.send_raw(_END)
                await reading
        assert server.connections == 1
        assert (first.whole, second.whole) == (b"abcd", b"efgh")


@pytest.mark.timeout(10)
async def test_the_next_answer_may_come_before_the_first_bytes_of_a_whole_one_are_read() -> None:
    async with piecewise() as (server, http, url):
        server.head += b"2\r\nab\r\n2\r\ncd\r\n"
        large = b"x" * 10_000
        async with http.get(url) as first_answer:
            taken, next_taken = Taken(), Taken()
            body = PushedBody(first_answer, taken.take, RecordingSink(), Arrivals())
            server.send(large, large)
            server.send_raw(_END)
            await first_answer.content.wait_eof()
            async with http.get(url) as answer:
                next_body = PushedBody(answer, next_taken.take, RecordingSink(), Arrivals())
                await asyncio.wait_for(body.read(), 5)
                server.send_raw(_END)
                await next_body.read()
        assert server.connections == 1
        assert taken.whole == b"abcd" + 2 * large
        assert next_taken.whole == b"abcd"


@pytest.mark.timeout(10)
async def test_what_the_taker_raises_is_raised_by_read() -> None:
    def refuse(_piece: bytes) -> bool:
        raise ValueError("not this")

    async with piecewise() as (server, http, url), http.get(url) as answer:
        server.send(b"ab")
        with pytest.raises(ValueError, match="not this"):
            await PushedBody(answer, refuse, RecordingSink(), Arrivals()).read()


@pytest.mark.timeout(10)
async def test_a_body_that_breaks_off_is_an_error_behind_what_came() -> None:
    async with piecewise() as (server, http, url), http.get(url) as answer:
        taken = Taken()
        server.send(b"ab")
        server.break_off()
        with pytest.raises(aiohttp.ClientPayloadError):
            await PushedBody(answer, taken.take, RecordingSink(), Arrivals()).read()
        assert taken.whole == b"ab"


@pytest.mark.timeout(10)
@pytest.mark.parametrize("broken", [b"4\r\ntoo much\r\n", b"more\r\n"])
async def test_a_body_that_can_not_be_parsed_is_an_error_at_once(broken: bytes) -> None:
    async with piecewise() as (server, http, url), http.get(url) as answer:
        taken = Taken()
        reading = asyncio.create_task(
            PushedBody(answer, taken.take, RecordingSink(), Arrivals()).read()
        )
        server.send(b"a")
        await taken.until(b"a")
        server.send_raw(broken)  # and the server keeps the connection open
        with pytest.raises(aiohttp.ClientError):
            await reading


async def test_a_paused_sink_is_given_nothing_until_it_goes_on() -> None:
    async with piecewise() as (server, http, url), http.get(url) as answer:
        sink = RecordingSink()
        taken = Taken()

        def take_and_pause(piece: bytes) -> bool:
            sink.paused = piece == b"ab"
            return taken.take(piece)

        reading = asyncio.create_task(PushedBody(answer, take_and_pause, sink, Arrivals()).read())
        server.send(b"ab")
        await taken.until(b"ab")
        server.send(b"cd")
        server.send_raw(_END)
        await answer.content.wait_eof()
        assert taken.whole == b"ab"
        sink.paused = False
        await reading
        assert taken.whole == b"abcd"


@pytest.mark.timeout(10)
async def test_a_cancelled_read_takes_no_more() -> None:
    async with piecewise() as (server, http, url), http.get(url) as answer:
        taken = Taken()
        reading = asyncio.create_task(
            PushedBody(answer, taken.take, RecordingSink(), Arrivals()).read()
        )
        server.send(b"ab")
        await taken.until(b"ab")
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        server.send(b"cd")
        server.send_raw(_END)
        assert await answer.content.read() == b"cd"
        assert taken.whole == b"ab"


@pytest.mark.timeout(10)
async def test_a_flood_is_taken_in_turns_with_everybody_else() -> None:
    async with piecewise() as (server, http, url), http.get(url) as answer:
        turn, taken = 0, dict[int, int]()

        def count_turns() -> None:
            nonlocal turn
            turn += 1
            asyncio.get_running_loop().call_soon(count_turns)

        def take(piece: bytes) -> bool:
            taken[turn] = taken.get(turn, 0) + len(piece)
            return sum(taken.values()) < 8_000_000

        count_turns()
        reading = asyncio.create_task(PushedBody(answer, take, RecordingSink(), Arrivals()).read())
        server.send(*[b"x" * 8_000] * 1_000)
        server.send_raw(_END)
        await reading
        assert sum(taken.values()) == 8_000_000
        assert max(taken.values()) <= 2 * 32_768


async def test_of_many_bodies_in_one_turn_the_first_are_taken_at_once_and_the_rest_after() -> None:
    arrivals, taken = Arrivals(), list[int]()
    for number in range(1_000):
        arrivals.take(partial(taken.append, number))
    at_once = len(taken)
    assert 0 < at_once < 1_000
    await asyncio.sleep(0)
    assert taken == [*range(1_000)]
    arrivals.take(partial(taken.append, 1_000))
    assert taken[-1] == 1_000, "the next turn begins anew"
