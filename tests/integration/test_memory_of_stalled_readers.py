"""Two thousand readers that never read: the handler stays within the bound of docs/limits.md, lets them go, and the others
don't notice.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from stream_core.limits import Limits
from stream_core.memory_bound import ASKING_BYTES, PROCESS_BYTES, memory_bound
from tests.integration.chat_client import COMPACT, V1, ChatSession, demo
from tests.integration.conftest import OpenSession, Serve, ServeProcess
from tests.integration.raw_websocket import RawWebSocket, text_frame
from tests.integration.scripted_model import END, Reply, chunk, scripted_model
from tests.integration.server_process import ServerProcess

_RESPONSES = 20
_READERS_OF_EACH = 100
_SILENT = _RESPONSES * _READERS_OF_EACH
_READING = 5
_RECEIVE_BUFFER = 2_048
_AT_ONCE = 50
_LAG_SECONDS = 10.0
_SAMPLE = 20
# As many as a client may send at once.
_QUESTIONS = 38
_ROOM = {"connections_per_session": _READERS_OF_EACH, "readers_per_response": _READERS_OF_EACH}

# The kernel's buffers are full at once, and then small frames come, each of which would cost more memory than it has bytes.
_GROWING = ["x" * 160_000] + [" token"] * 400
_GAP_SECONDS = 0.05
_SMALL_FRAMES = {"frame_characters": 1_024}
# As large as a response may be, and JSON makes six bytes of each of its characters.
_LARGE = ["\x01" * 4_000] * 262

Ask = Callable[[ServerProcess, ChatSession, str, int], Awaitable[RawWebSocket]]
"""Ask for a response, and read no more than the head of the answer; the number tells readers apart."""


async def _websocket(server: ServerProcess, session: ChatSession, response_id: str, number: int) -> RawWebSocket:
    raw = await RawWebSocket.connect(server.ws_port, receive_buffer=_RECEIVE_BUFFER)
    assert await raw.handshake(session.token, protocol=(V1, COMPACT)[number % 2]) == 101
    raw.write(text_frame({"type": "response.resume", "response_id": response_id, "after": -1}))
    return raw


async def _asking_websocket(server: ServerProcess, session: ChatSession, response_id: str, number: int) -> RawWebSocket:
    """It reads no answers to these frames either."""
    raw = await _websocket(server, session, response_id, number)
    raw.write(_question() * _QUESTIONS)
    return raw


def _question() -> bytes:
    return text_frame({"type": "response.pause", "response_id": "rsp_" + "x" * 100})


async def _events(server: ServerProcess, session: ChatSession, response_id: str, _number: int) -> RawWebSocket:
    raw = await RawWebSocket.connect(server.http_port, receive_buffer=_RECEIVE_BUFFER)
    path = f"/chat/message/{response_id}/events"
    raw.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {session.token}\r\n\r\n".encode())
    await raw.read_head()
    assert raw.status == 200
    return raw


@asynccontextmanager
async def _silent(
    server: ServerProcess, sessions: Sequence[ChatSession], ask: Ask
) -> AsyncIterator[list[RawWebSocket]]:
    """Two thousand that ask for the answers of these sessions, and never read."""
    posted = [(await session.post("m1", None, "hi")).json["response_id"] for session in sessions]
    slots = asyncio.Semaphore(_AT_ONCE)
    readers: list[RawWebSocket] = []

    async def in_turn(session: ChatSession, response_id: str, number: int) -> None:
        async with slots:
            readers.append(await ask(server, session, response_id, number))

    try:
        await asyncio.gather(
            *(
                in_turn(session, response_id, number)
                for number in range(_READERS_OF_EACH)
                for session, response_id in zip(sessions, posted, strict=True)
            )
        )
        yield readers
    finally:
        for reader in readers:
            await reader.__aexit__()


@asynccontextmanager
async def _memory_of(server: ServerProcess) -> AsyncIterator[list[int]]:
    """The server's resident memory, again and again."""
    sizes = [server.resident_bytes]

    async def watch() -> None:
        while True:
            sizes.append(server.resident_bytes)
            await asyncio.sleep(0.1)

    watching = asyncio.create_task(watch())
    try:
        yield sizes
    finally:
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching


async def _read(session: ChatSession) -> tuple[str, list[float]]:
    """Ask and read: the text, and the seconds between two deltas."""
    async with session.connect(compression=None) as connection:
        response_id = (await connection.message("m1", None, "hi"))["response_id"]
        answer, arrivals = connection.answers[response_id], list[float]()
        while answer.end is None:
            if (await connection.receive())["type"] == "chat.response.delta":
                arrivals.append(time.monotonic())
        assert not connection.other[1:], "only session.ready belongs to no response"
    return answer.text, [after - before for before, after in itertools.pairwise(arrivals)]


async def _check_close_codes(let_go: Sequence[RawWebSocket]) -> None:
    codes = await asyncio.gather(*(each.close_code() for each in let_go))
    # Who was let go seconds ago may be cut off by now: it didn't take its close frame either.
    assert set(codes) <= {4008, 1006}
    assert codes.count(4008) > len(codes) / 2


def _check(memory: Sequence[int], ask: Ask, responses: int, pieces: Sequence[str], **settings: int) -> None:
    """Hold the sizes, of which the first is the idle handler's, to the bound."""
    idle, peak = memory[0], max(memory)
    silent = {"event_streams": _SILENT} if ask is _events else {"websockets": _SILENT}
    asking = _SILENT * ASKING_BYTES if ask is _asking_websocket else 0
    logs = {"deltas": responses * len(pieces), "text_bytes": responses * sum(len(piece) for piece in pieces)}
    assert idle < PROCESS_BYTES
    assert peak - idle < memory_bound(Limits(**settings), **silent, **logs) - PROCESS_BYTES + asking


@pytest.mark.timeout(150)
@pytest.mark.parametrize("ask", [_websocket, _events])
async def test_readers_of_growing_answers(ask: Ask, opened: OpenSession, serve_process: ServeProcess) -> None:
    async with scripted_model() as model:
        model.will(Reply([*map(chunk, _GROWING), END], gap=_GAP_SECONDS))
        server = serve_process(
            model="openai", model_url=model.url, lag_close_seconds=_LAG_SECONDS, **_SMALL_FRAMES, **_ROOM
        )
        async with _memory_of(server) as memory:
            sessions = [await opened(server) for _ in range(_RESPONSES + _READING)]
            reading = [asyncio.create_task(_read(session)) for session in sessions[:_READING]]
            async with _silent(server, sessions[_READING:], ask) as silent:
                await server.until_metric("readers_too_slow_total", _SILENT, 60)
                if ask is _websocket:
                    await _check_close_codes(silent[-_SAMPLE:])
            for text, gaps in [await each for each in reading]:
                assert text == "".join(_GROWING)
                assert sorted(gaps)[math.ceil(0.95 * len(gaps)) - 1] < 1.0
            await server.until_metric("ws_active_connections", 0)
    _check(memory, ask, len(sessions), _GROWING, **_SMALL_FRAMES)


@pytest.mark.timeout(150)
@pytest.mark.parametrize("ask", [_websocket, _asking_websocket, _events])
async def test_readers_of_large_answers(ask: Ask, opened: OpenSession, serve_process: ServeProcess) -> None:
    async with scripted_model() as model:
        model.will(Reply([*map(chunk, _LARGE), END]))
        server = serve_process(model="openai", model_url=model.url, lag_close_seconds=_LAG_SECONDS, **_ROOM)
        async with _memory_of(server) as memory:
            sessions = [await opened(server) for _ in range(_RESPONSES)]
            for session in sessions:
                await session.post("m1", None, "hi")
            await server.until_metric("responses_completed_total", _RESPONSES, 60)
            async with _silent(server, sessions, ask):
                await server.until_metric("readers_too_slow_total", _SILENT, 60)
                await server.until_metric("ws_active_connections", 0)
    _check(memory, ask, len(sessions), _LARGE)


async def test_one_that_asks_on_without_reading_is_let_go(opened: OpenSession, serve: Serve) -> None:
    server = await serve(write_buffer_bytes=4_096, messages_per_second=1_000)
    session = await opened(server)
    response_id = (await session.post("m1", None, demo(tokens=10_000, gap_ms=0.5))).json["response_id"]
    async with await _websocket(server, session, response_id, 0) as raw:
        await server.until_metric("ws_backpressure_drops_part_total", 1, 20, at_least=True)
        raw.write(_question() * 30)
        # Its answers wait. The server acts on a frame before it looks at the next one, so this one tells that it has.
        raw.write(text_frame({"type": "response.ack", "response_id": response_id, "index": 0}))
        await server.until_metric("deltas_acknowledged_total", 1)
        assert await server.metric("ws_active_connections") == 1
        raw.write(_question() * 60)
        await server.until_metric("ws_active_connections", 0)
