"""Readers that never read: the handler stays within the bound of docs/limits.md, lets them go, and
the others don't notice.

Sixty of them here, and what each socket may keep; two thousand, and answers that grow, in
`make soak`.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_bound import ASKING_BYTES, PROCESS_BYTES, memory_bound
from tests.integration.chat_client import COMPACT, V1, ChatSession, demo
from tests.integration.conftest import OpenSession, Serve, ServeProcess
from tests.integration.raw_websocket import RawWebSocket, text_frame
from tests.integration.scripted_model import END, Reply, chunk, scripted_model
from tests.integration.server_process import Server, ServerProcess

_READING = 5
_RECEIVE_BUFFER = 2_048
_AT_ONCE = 50
_SAMPLE = 20
# As many as a client may send at once.
_QUESTIONS = 38

# The kernel's buffers are full at once, and then small frames come, each of which would cost more
# memory than it has bytes.
_GROWING = ["x" * 160_000] + [" token"] * 400
_GAP_SECONDS = 0.05
_SMALL = 1_024
_SMALL_FRAMES = {"frame_characters": _SMALL}
# A socket that takes nothing may have one frame waiting; a library's own limit is 64 KiB.
_WAITING_BYTES = 8_192
# As large as a response may be, and JSON makes six bytes of each of its characters.
_LARGE = ["\x01" * 4_000] * 262

# On a machine that others use the handler may be stopped for moments, and then more waits in it.
_ROUNDS = 3

_POLLS_BYTES = 33_554_432

Ask = Callable[[Server, ChatSession, str, int], Awaitable[RawWebSocket]]
"""Ask for a response, and read no more than the head of the answer; the number tells readers
apart.
"""


async def websocket(
    server: Server, session: ChatSession, response_id: str, number: int
) -> RawWebSocket:
    raw = await RawWebSocket.connect(server.port, receive_buffer=_RECEIVE_BUFFER)
    assert await raw.handshake(session.token, protocol=(V1, COMPACT)[number % 2]) == 101
    raw.write(text_frame({"type": "response.resume", "response_id": response_id, "after": -1}))
    return raw


async def asking_websocket(
    server: Server, session: ChatSession, response_id: str, number: int
) -> RawWebSocket:
    """It reads no answers to these frames either."""
    raw = await websocket(server, session, response_id, number)
    raw.write(_question() * _QUESTIONS)
    return raw


def _question() -> bytes:
    return text_frame({"type": "response.pause", "response_id": "rsp_" + "x" * 100})


async def events(
    server: Server, session: ChatSession, response_id: str, _number: int
) -> RawWebSocket:
    raw = await RawWebSocket.connect(server.port, receive_buffer=_RECEIVE_BUFFER)
    path = f"/chat/message/{response_id}/events"
    raw.write(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {session.token}\r\n\r\n".encode()
    )
    await raw.read_head()
    assert raw.status == 200
    return raw


@asynccontextmanager
async def _silent(
    server: Server, sessions: Sequence[ChatSession], asks: Sequence[Ask], readers_of_each: int
) -> AsyncIterator[list[RawWebSocket]]:
    """So many that ask for the answers of these sessions, one way after the other, and never
    read.
    """
    posted = [(await session.post("m1", None, "hi")).json["response_id"] for session in sessions]
    slots = asyncio.Semaphore(_AT_ONCE)
    readers: list[RawWebSocket] = []

    async def in_turn(session: ChatSession, response_id: str, number: int) -> None:
        async with slots:
            readers.append(await asks[number % len(asks)](server, session, response_id, number))

    try:
        await asyncio.gather(
            *(
                in_turn(session, response_id, number)
                for number in range(readers_of_each)
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


class OverBoundError(AssertionError):
    """What readers took is more than the documented bound has for them."""


def _check(
    memory: Sequence[int],
    silent: Counter[Ask],
    responses: int,
    pieces: Sequence[str],
    **settings: int,
) -> None:
    """Hold the sizes, of which the first is the idle handler's, to the bound; `silent` is how
    many asked in which way.
    """
    idle, peak = memory[0], max(memory)
    readers = {"event_streams": silent[events], "websockets": silent.total() - silent[events]}
    asking = silent[asking_websocket] * ASKING_BYTES
    logs = {
        "deltas": responses * len(pieces),
        "text_bytes": responses * sum(len(piece) for piece in pieces),
    }
    bound = memory_bound(Limits(**settings), **readers, **logs) + asking
    assert idle < PROCESS_BYTES
    assert peak < bound
    if peak - idle >= bound - PROCESS_BYTES:
        raise OverBoundError(f"{peak - idle:,} bytes more than idle, not {bound - PROCESS_BYTES:,}")


def _room(readers_of_each: int) -> dict[str, int]:
    limits = ("connections_per_session", "readers_per_response", "streams_per_session")
    return dict.fromkeys(limits, readers_of_each) | {"calls_per_second": 100_000}


async def growing_answers(
    ask: Ask,
    responses: int,
    readers_of_each: int,
    lag_seconds: float,
    opened: OpenSession,
    serve_process: ServeProcess,
) -> None:
    """Some read answers that grow, and many don't."""
    silent_readers = responses * readers_of_each
    async with scripted_model() as model:
        model.will(Reply([*map(chunk, _GROWING), END], gap=_GAP_SECONDS))
        served = {"model": "openai", "model_url": model.url, "lag_close_seconds": lag_seconds}
        server = serve_process(
            lag_notice_seconds=1, **served, **_SMALL_FRAMES, **_room(readers_of_each)
        )
        async with _memory_of(server) as memory:
            sessions = [await opened(server) for _ in range(responses + _READING)]
            reading = [asyncio.create_task(_read(session)) for session in sessions[:_READING]]
            async with _silent(server, sessions[_READING:], [ask], readers_of_each) as silent:
                await server.until_metric("readers_too_slow_total", silent_readers, 60)
                if ask is websocket:
                    await _check_close_codes(silent[-_SAMPLE:])
            for text, gaps in [await each for each in reading]:
                assert text == "".join(_GROWING)
                assert sorted(gaps)[math.ceil(0.95 * len(gaps)) - 1] < 1.0
            await server.until_metric("ws_active_connections", 0)
    _check(memory, Counter({ask: silent_readers}), len(sessions), _GROWING, **_SMALL_FRAMES)


async def large_answers(
    asks: Sequence[Ask],
    responses: int,
    readers_of_each: int,
    lag_seconds: float,
    opened: OpenSession,
    serve_process: ServeProcess,
) -> None:
    """Nobody reads answers that are as large as they may be."""
    silent = Counter(
        {
            ask: responses * len(range(place, readers_of_each, len(asks)))
            for place, ask in enumerate(asks)
        }
    )
    async with scripted_model() as model:
        model.will(Reply([*map(chunk, _LARGE), END]))
        served = {"model": "openai", "model_url": model.url, "lag_close_seconds": lag_seconds}
        server = serve_process(lag_notice_seconds=1, **served, **_room(readers_of_each))
        async with _memory_of(server) as memory:
            sessions = [await opened(server) for _ in range(responses)]
            for session in sessions:
                await session.post("m1", None, "hi")
            await server.until_metric("responses_completed_total", responses, 60)
            async with _silent(server, sessions, asks, readers_of_each):
                await server.until_metric("readers_too_slow_total", silent.total(), 60)
                await server.until_metric("ws_active_connections", 0)
    _check(memory, silent, responses, _LARGE)


async def test_readers_of_large_answers(opened: OpenSession, serve_process: ServeProcess) -> None:
    asks = [websocket, asking_websocket, events]
    for left in reversed(range(_ROUNDS)):
        try:
            await large_answers(asks, 2, 30, 1.5, opened, serve_process)
        except OverBoundError:
            if not left:
                raise
        else:
            return


async def test_those_with_the_most_are_let_go_when_all_together_have_not_taken_too_much(
    opened: OpenSession, serve_process: ServeProcess
) -> None:
    async with scripted_model() as model:
        model.will(Reply([*map(chunk, _LARGE), END]))
        server = serve_process(
            model="openai", model_url=model.url, unsent_held_bytes=1_048_576, **_room(30)
        )
        session = await opened(server)
        await session.post("m1", None, "hi")
        await server.until_metric("responses_completed_total", 1, 60)
        held = await server.metric("memory_held_bytes")
        # Each has a frame of up to 96 KB waiting, and the lag allows it for 30 s.
        async with _silent(server, [session], [websocket, events], 30):
            await server.until_metric("readers_too_slow_total", 5, 10, at_least=True)
            assert await server.metric("memory_held_bytes") - held < 1_048_576 + 65_536
            assert await server.metric("readers_too_slow_total") < 25, "the others stay"


async def poll(
    server: Server, session: ChatSession, response_id: str, _number: int
) -> RawWebSocket:
    raw = await RawWebSocket.connect(server.port, receive_buffer=_RECEIVE_BUFFER)
    path = f"/chat/message/{response_id}?from_index=0"
    raw.write(
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Bearer {session.token}\r\n\r\n".encode()
    )
    await raw.read_head()
    return raw


async def test_answers_to_polls_count_and_one_too_many_is_refused(
    opened: OpenSession, serve_process: ServeProcess
) -> None:
    async with scripted_model() as model:
        model.will(Reply([*map(chunk, _LARGE), END]))
        server = serve_process(
            model="openai",
            model_url=model.url,
            unsent_held_bytes=_POLLS_BYTES,
            calls_per_second=100_000,
            calls_per_sender_per_second=100_000,
        )
        session = await opened(server)
        await session.post("m1", None, "hi")
        await server.until_metric("responses_completed_total", 1, 60)
        held, resident = await server.metric("memory_held_bytes"), server.resident_bytes
        # Each answer has 12 MB: its text twice, six bytes a character.
        async with _silent(server, [session], [poll], 20):
            await server.until_metric("memory_held_bytes", held + 8_000_000, 10, at_least=True)
            assert await server.metric("memory_held_bytes") - held < _POLLS_BYTES
            assert await server.metric("memory_refused_total") > 5
        # Allocators keep some, and one answer is being made.
        peak = server.peak_resident_bytes
        assert peak - resident < _POLLS_BYTES + 80_000_000, peak - resident


@pytest.mark.parametrize("ask", [websocket, events])
async def test_what_a_socket_does_not_take_of_a_growing_answer_is_one_frame(
    ask: Ask, opened: OpenSession, serve: Serve
) -> None:
    server = await serve(
        write_buffer_bytes=4_096,
        lag_notice_seconds=0.5,
        lag_close_seconds=1,
        frame_characters=_SMALL,
    )
    session = await opened(server)
    async with session.connect(compression=None) as connection:
        response_id = (
            await connection.message("m1", None, demo(tokens=10_000, gap_ms=0.5, seed=87))
        )["response_id"]
        reading = asyncio.create_task(connection.whole(response_id))
        async with await ask(server, session, response_id, 0) as silent:
            waiting = []
            for _ in range(100):
                await serve.time_passes(0.05)
                waiting.append(max(server.unsent_bytes))
            assert 0 < max(waiting) < _WAITING_BYTES
            # The sockets' own patience is in real time.
            await server.until_metric("readers_too_slow_total", 1)
            if ask is websocket:
                await _check_close_codes([silent])
        assert (await reading).text == "".join(demo_tokens(87, 10_000))
        assert not connection.other[1:], "only session.ready belongs to no response"


async def test_one_that_asks_on_without_reading_is_let_go(
    opened: OpenSession, serve: Serve
) -> None:
    server = await serve(write_buffer_bytes=4_096, messages_per_second=1_000)
    session = await opened(server)
    response_id = (await session.post("m1", None, demo(tokens=10_000, gap_ms=0.5))).json[
        "response_id"
    ]
    async with await websocket(server, session, response_id, 0) as raw:
        await server.until_metric("ws_backpressure_drops_part_total", 1, 20, at_least=True)
        raw.write(_question() * 30)
        # Its answers wait. The server acts on a frame before it looks at the next one, so this one
        # tells that it has.
        raw.write(text_frame({"type": "response.ack", "response_id": response_id, "index": 0}))
        await server.until_metric("deltas_acknowledged_total", 1)
        assert await server.metric("ws_active_connections") == 1
        raw.write(_question() * 60)
        await server.until_metric("ws_active_connections", 0)
