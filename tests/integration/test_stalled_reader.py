"""A reader that does not read: the others don't notice, and the reader loses nothing.

What it costs: test_memory_of_stalled_readers.py.
"""

from __future__ import annotations

import asyncio
import math
import statistics
import time
from collections import defaultdict
from contextlib import AsyncExitStack

import pytest

from fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Answer
from tests.integration.chat_client import ChatSession, Connection, chat_message, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.raw_websocket import CLOSE, TEXT, RawWebSocket, text_frame

_OTHERS = 199
_STALL_SECONDS = 20.0

# A token every millisecond: about 8 KB/s, 100 in each delta; kernel and write buffers are full within seconds.
_FLOOD_TOKENS = 20_000
_FLOOD = demo(tokens=_FLOOD_TOKENS, gap_ms=1, seed=81)
_GAP_MS = 100


async def _stalled(server: LocalServer, session: ChatSession, text: str) -> tuple[RawWebSocket, str]:
    """A connection that has asked for an answer and reads no more than its start."""
    raw = await RawWebSocket.connect(server.ws_port, receive_buffer=2048)
    assert await raw.handshake(session.token) == 101
    raw.write(text_frame({"type": "chat.message", **chat_message("m1", None, text)}))
    start = await raw.next_of("chat.response.start")
    response_id: str = start["response_id"]
    return raw, response_id


async def _read_on(raw: RawWebSocket) -> tuple[Answer, list[str]]:
    """Read again, to the answer's end or the server's close: what came of it, and the types of all frames."""
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
    """When each delta of a whole answer came, in seconds, and its |gap - interval| in milliseconds, as the client sees them."""
    deviations, before = [], None
    while connection.answers[response_id].end is None:
        frame = await connection.receive()
        now = time.monotonic()
        if frame["type"] == "chat.response.delta":
            if before is not None:
                deviations.append((now, abs((now - before) * 1000 - _GAP_MS)))
            before = now
    return deviations


def _percentile(values: list[float], p: float) -> float:
    return sorted(values)[max(0, math.ceil(len(values) * p / 100) - 1)]


def _usual_p95(deviations: list[tuple[float, float]]) -> float:
    """The median of the 95th percentiles of the seconds: what a busy machine holds up for a moment spoils a few of them, and one
    reader that holds up the others would spoil each.
    """
    seconds = defaultdict[int, list[float]](list)
    for at, deviation in deviations:
        seconds[int(at)].append(deviation)
    return statistics.median(_percentile(values, 95) for values in seconds.values())


@pytest.mark.timeout(150)
async def test_one_stalls_for_twenty_seconds_among_two_hundred(opened: OpenSession, serve: Serve) -> None:
    # The interval is not stretched, which a busy machine would have it be, and which is no lateness.
    server = await serve(
        write_buffer_bytes=16_384,
        lag_notice_seconds=5,
        lag_close_seconds=60,
        model_deadline_seconds=100,
        batch_window_max_ms=50,
    )
    sessions = [await opened(server) for _ in range(_OTHERS)]
    slow = await opened(server)
    text = demo(tokens=int(_STALL_SECONDS * 1000 / _GAP_MS), gap_ms=_GAP_MS, seed=82)
    async with AsyncExitStack() as stack:
        connections = [await stack.enter_async_context(session.connect(compression=None)) for session in sessions]
        raw, response_id = await _stalled(server, slow, _FLOOD)
        async with raw:
            began = time.monotonic()
            # Begin spread over the interval, like people do.
            starts = []
            for connection in connections:
                starts.append((await connection.message("m1", None, text))["response_id"])
                await asyncio.sleep(_GAP_MS / 1000 / _OTHERS)
            readings = [
                asyncio.create_task(_jitter(connection, start))
                for connection, start in zip(connections, starts, strict=True)
            ]
            before = await server.metrics()
            await server.until_metric("ws_backpressure_drops_part_total", 1, at_least=True)
            await asyncio.sleep(max(0.0, began + _STALL_SECONDS - time.monotonic()))
            after = await server.metrics()
            deviations = [value for reading in readings for value in await reading]
            for connection, start in zip(connections, starts, strict=True):
                assert connection.answers[start].text == "".join(demo_tokens(82, 200))
                assert not [frame for frame in connection.other if frame["type"] == "lag"]
            # It reads again: what it missed comes joined, each index once.
            answer, kinds = await _read_on(raw)
    assert len(deviations) > 100 * _OTHERS
    assert _usual_p95(deviations) < 50
    assert after["evenflow_ws_backpressure_drops_part_total"] > before["evenflow_ws_backpressure_drops_part_total"]
    assert after["evenflow_readers_lagging_total"] == 1
    assert after["evenflow_readers_too_slow_total"] == 0
    assert "lag" in kinds
    assert answer.joined > 0
    assert answer.text == "".join(demo_tokens(81, _FLOOD_TOKENS))
    assert (await slow.poll(response_id)).json["full_text"] == answer.text


async def test_one_that_stays_stalled_is_closed_and_resumes_without_loss(opened: OpenSession, serve: Serve) -> None:
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


async def test_one_that_never_reads_again_is_cut_off(opened: OpenSession, serve: Serve) -> None:
    server = await serve(write_buffer_bytes=4_096, lag_notice_seconds=0.2, lag_close_seconds=0.5)
    session = await opened(server)
    raw, _ = await _stalled(server, session, demo(tokens=30_000, gap_ms=0.1, seed=86))
    async with raw:
        await server.until_metric("readers_too_slow_total", 1)
        await server.until_metric("ws_active_connections", 0)


async def test_a_stalled_sse_client_is_let_go(opened: OpenSession, serve: Serve) -> None:
    server = await serve(lag_notice_seconds=0.2, lag_close_seconds=0.5, grace_seconds=0.5, response_bytes=67_108_864)
    session = await opened(server)
    response_id = (await session.post("m1", None, demo(tokens=100_000, gap_ms=0.01))).json["response_id"]
    async with await RawWebSocket.connect(server.http_port, receive_buffer=2048) as raw:
        head = f"GET /chat/message/{response_id}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {session.token}\r\n\r\n"
        raw.write(head.encode())
        await server.until_metric("readers_too_slow_total", 1)
        await raw.ended()
