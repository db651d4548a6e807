"""A reader that does not read: the others don't notice, and the reader loses nothing.

What it costs: test_memory_of_stalled_readers.py.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from contextlib import AsyncExitStack
from typing import Any

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.stream_core.protocols.evenflow.socket_session import CLOSE_SECONDS
from tests.integration.answer import Answer
from tests.integration.chat_client import ChatSession, Connection, chat_message, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.raw_websocket import CLOSE, TEXT, RawWebSocket, client_frame, text_frame
from tests.integration.server_process import Server

_GAP_MS = 100

pytestmark = pytest.mark.usefixtures("hurry")


async def _stalled(server: Server, session: ChatSession, text: str) -> tuple[RawWebSocket, str]:
    """A connection that has asked for an answer and reads no more than its start."""
    raw = await RawWebSocket.connect(server.port, receive_buffer=2048)
    assert await raw.handshake(session.token) == 101
    raw.write(text_frame({"type": "chat.message", **chat_message("m1", None, text)}))
    start = await raw.next_of("chat.response.start")
    response_id: str = start["response_id"]
    return raw, response_id


async def _read_on(raw: RawWebSocket) -> tuple[Answer, list[str]]:
    """Read again, to the answer's end or the server's close: what came of it, and the types of
    all frames.
    """
    answer, kinds = Answer(), []
    while answer.end is None:
        frame = await raw.frame()
        if frame.opcode == CLOSE:
            kinds.append(f"close {frame.close_code}")
            break
        if frame.opcode == TEXT:
            kinds.append(frame.json["type"])
            if kinds[-1].startswith("chat.response."):
                answer.take(frame.json)
    return answer, kinds


async def _jitter(connection: Connection, response_id: str) -> list[tuple[float, float]]:
    """When each delta of a whole answer came, in seconds, and its |gap - interval| in
    milliseconds, as the client sees them.
    """
    deviations, before = [], None
    while connection.answers[response_id].end is None:
        frame = await connection.receive()
        now = time.monotonic()
        if frame["type"] == "chat.response.delta":
            if before is not None:
                deviations.append((now, abs((now - before) * 1000 - _GAP_MS)))
            before = now
    return deviations


async def one_stalls_among(
    others: int, seconds: float, server: Server, opened: OpenSession
) -> list[tuple[float, float]]:
    """One stalls while the others read answers that last so long; then it reads on.

    Returns the others' jitter.
    """
    sessions = [await opened(server) for _ in range(others)]
    slow = await opened(server)
    tokens = int(seconds * 1000 / _GAP_MS)
    flood_tokens = int(seconds * 1000)
    async with AsyncExitStack() as stack:
        connections = [
            await stack.enter_async_context(session.connect(compression=None))
            for session in sessions
        ]
        raw, response_id = await _stalled(
            server, slow, demo(tokens=flood_tokens, gap_ms=1, seed=81)
        )
        async with raw:
            # Begin spread over the interval, like people do.
            starts = []
            for connection in connections:
                text = demo(tokens=tokens, gap_ms=_GAP_MS, seed=82)
                starts.append((await connection.message("m1", None, text))["response_id"])
                await asyncio.sleep(_GAP_MS / 1000 / others)
            readings = [
                asyncio.create_task(_jitter(connection, start))
                for connection, start in zip(connections, starts, strict=True)
            ]
            await server.until_metric("ws_backpressure_drops_part_total", 1, at_least=True)
            deviations = [value for reading in readings for value in await reading]
            for connection, start in zip(connections, starts, strict=True):
                assert connection.answers[start].text == "".join(demo_tokens(82, tokens))
                assert not [frame for frame in connection.other if frame["type"] == "lag"]
            await server.until_metric("readers_lagging_total", 1)
            # It reads again: what it missed comes joined, each index once.
            answer, kinds = await _read_on(raw)
    assert len(deviations) > tokens / 2 * others
    assert await server.metric("readers_too_slow_total") == 0
    assert "lag" in kinds
    assert answer.joined > 0
    assert answer.text == "".join(demo_tokens(81, flood_tokens))
    assert (await slow.poll(response_id)).json["full_text"] == answer.text
    return deviations


async def test_one_that_stalls_among_others_is_not_noticed_by_them(
    opened: OpenSession, serve: Serve
) -> None:
    """How evenly the others read is measured by `make soak`."""
    server = await serve(write_buffer_bytes=4_096, lag_notice_seconds=0.5, lag_close_seconds=60)
    await one_stalls_among(10, 3.0, server, opened)


async def test_one_that_stays_stalled_is_closed_and_resumes_without_loss(
    opened: OpenSession, serve: Serve
) -> None:
    server = await serve(
        write_buffer_bytes=4_096,
        lag_notice_seconds=0.3,
        lag_close_seconds=2,
        lag_close_bytes=67_108_864,
        grace_seconds=20,
    )
    session = await opened(server)
    raw, response_id = await _stalled(server, session, demo(tokens=16_000, gap_ms=0.15, seed=84))
    async with raw:
        await server.until_metric("readers_too_slow_total", 1)
        answer, kinds = await _read_on(raw)
        assert kinds[-1] == "close 4008"
        assert "lag" in kinds[:-1]
        assert answer.end is None
    await server.until_metric("ws_active_connections", 0)
    async with session.connect() as connection:
        whole = await connection.resume(response_id, answer.last, answer.text)
        await connection.whole(response_id)
    assert whole.text == "".join(demo_tokens(84, 16_000))


async def test_too_many_bytes_behind_closes_as_well(opened: OpenSession, serve: Serve) -> None:
    server = await serve(write_buffer_bytes=4_096, lag_close_bytes=20_000)
    session = await opened(server)
    raw, response_id = await _stalled(server, session, demo(tokens=20_000, gap_ms=0.1, seed=85))
    async with raw:
        await server.until_metric("readers_too_slow_total", 1)
        answer, kinds = await _read_on(raw)
        assert kinds[-1] == "close 4008"
        assert "lag" in kinds
    async with session.connect() as connection:
        whole = await connection.resume(response_id, answer.last, answer.text)
        await connection.whole(response_id)
    assert whole.text == "".join(demo_tokens(85, 20_000))


async def test_a_process_that_stood_still_lets_its_readers_read_before_it_judges_them(
    opened: OpenSession, serve: Serve, hurry: asyncio.Task[None]
) -> None:
    server = await serve(write_buffer_bytes=4_096, lag_close_bytes=67_108_864)
    raw, _ = await _stalled(server, await opened(server), demo(tokens=4_000, gap_ms=1, seed=87))
    async with raw:
        await server.until_metric("ws_backpressure_drops_part_total", 200, at_least=True)
        hurry.cancel()
        serve.time.ahead += 65.0
        server.turn_to_sweep()  # timers come before what sockets have
        answer, kinds = await _read_on(raw)
    assert kinds[-1] == "chat.response.completed"
    assert answer.text == "".join(demo_tokens(87, 4_000))


async def test_one_that_never_reads_again_is_cut_off(opened: OpenSession, serve: Serve) -> None:
    server = await serve(write_buffer_bytes=4_096, lag_notice_seconds=0.2, lag_close_seconds=0.5)
    session = await opened(server)
    raw, _ = await _stalled(server, session, demo(tokens=30_000, gap_ms=0.1, seed=86))
    async with raw:
        await server.until_metric("readers_too_slow_total", 1)
        await server.until_metric("ws_active_connections", 0)


# No other bound ends what these tests look at.
_PATIENT: dict[str, Any] = {
    "write_buffer_bytes": 4_096,
    "grace_seconds": 0.5,
    "response_bytes": 67_108_864,
    "lag_close_bytes": 67_108_864,
    "lag_close_seconds": 3_600,
}
_CLOSES = client_frame(CLOSE, b"\x03\xe8")
_NO_FRAME = client_frame(0x3, b"")


@pytest.mark.parametrize("last_words", [_CLOSES, _NO_FRAME], ids=["close", "no-frame"])
async def test_one_that_takes_nothing_more_is_released_at_once_and_cut_off(
    last_words: bytes, opened: OpenSession, serve: Serve, hurry: asyncio.Task[None]
) -> None:
    server = await serve(**_PATIENT)
    raw, _ = await _stalled(server, await opened(server), demo(tokens=60_000, gap_ms=1))
    async with raw:
        await server.until_metric("ws_backpressure_drops_part_total", 200, at_least=True)
        hurry.cancel()
        sockets = server.sockets
        raw.write(last_words)
        await server.until_metric("ws_active_connections", 0)
        await server.until_metric("generations_running", 0)
        assert server.sockets == sockets
        await serve.time_passes(CLOSE_SECONDS + 1)
        await asyncio.sleep(0)
        assert server.sockets == sockets - 1


@pytest.mark.parametrize("last_words", [_CLOSES, _NO_FRAME], ids=["close", "no-frame"])
async def test_one_that_takes_nothing_more_does_not_hold_up_a_node_that_leaves(
    last_words: bytes, opened: OpenSession, serve: Serve, hurry: asyncio.Task[None]
) -> None:
    server = await serve(**_PATIENT, drain_seconds=100)
    raw, _ = await _stalled(server, await opened(server), demo(tokens=60_000, gap_ms=1))
    async with raw:
        await server.until_metric("ws_backpressure_drops_part_total", 200, at_least=True)
        hurry.cancel()
        server.leave()
        raw.write(last_words)
        await server.ended(10.0)


@pytest.mark.parametrize("path", ["events", "completions"])
async def test_an_http_client_that_takes_nothing_and_ends_its_side_is_released_soon(
    path: str, opened: OpenSession, serve: Serve, hurry: asyncio.Task[None]
) -> None:
    server = await serve(**_PATIENT)
    session = await opened(server)
    text = demo(tokens=60_000, gap_ms=1)
    async with await RawWebSocket.connect(server.port, receive_buffer=2048) as raw:
        if path == "events":
            posted = (await session.post("m1", None, text)).json
            raw.write(
                f"GET /chat/message/{posted['response_id']}/events HTTP/1.1\r\nHost: localhost\r\n"
                f"Authorization: Bearer {session.token}\r\n\r\n".encode()
            )
        else:
            message = {"role": "user", "content": text}
            body = json.dumps({"model": "demo", "stream": True, "messages": [message]})
            raw.write(
                "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
                f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
            )
        await server.until_metric("ws_backpressure_drops_part_total", 200, at_least=True)
        hurry.cancel()
        sockets = server.sockets
        raw.end()
        await serve.time_passes(CLOSE_SECONDS + 1)
        await server.until_metric("generations_running", 0)
        await asyncio.sleep(0)
        assert server.sockets == sockets - 1


async def test_a_stalled_sse_client_is_told_why_and_where_it_resumes(
    opened: OpenSession, serve: Serve
) -> None:
    server = await serve(
        lag_notice_seconds=0.2, lag_close_seconds=0.5, grace_seconds=0.5, response_bytes=67_108_864
    )
    session = await opened(server)
    response_id = (await session.post("m1", None, demo(tokens=100_000, gap_ms=0.01))).json[
        "response_id"
    ]
    async with await RawWebSocket.connect(server.port, receive_buffer=2048) as raw:
        head = (
            f"GET /chat/message/{response_id}/events HTTP/1.1\r\nHost: localhost\r\n"
            f"Authorization: Bearer {session.token}\r\n\r\n"
        )
        raw.write(head.encode())
        await server.until_metric("readers_too_slow_total", 1)
        came = await raw.ended()
    before, _, told = came.partition(b"event: error\n")
    assert b'"code":"too_slow"' in told
    assert told.endswith(b"\r\n0\r\n\r\n"), "the body is whole"
    last = re.findall(rb"\nid: (\d+)\n", before)[-1]
    assert told.startswith(b"id: %b\n" % last)
