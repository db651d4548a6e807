"""`ws.backpressure_drops` says what readers felt: compared with what each of them got, counted
by the readers themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import pytest

from tests.integration.answer import TERMINAL, Frame
from tests.integration.chat_client import ChatSession, chat_message
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.raw_websocket import CLOSE, TEXT, RawWebSocket, text_frame
from tests.integration.scripted_model import END, Reply, chunk, scripted_model

_PIECES = 20
# So long that a busy machine's late delivery doesn't join two of them, which is nobody's slowness.
_GAP_SECONDS = 0.15
# A few of them fill the buffers of a client that doesn't read.
_PIECE = "x" * 1_500
_QUICK, _RETURNING, _GONE = 5, 4, 3
# Less than a client may take to answer a ping.
_LAG_SECONDS = 30.0
# Much more than the buffers hold, at once.
_HISTORY = "x" * 120_000


@dataclass
class _Experience:
    """What became of one reader."""

    frames: list[Frame]
    """Its deltas."""
    last: int
    """The last index of the whole response."""
    ended: bool
    """Whether it got the response's end."""

    @property
    def given(self) -> int:
        """The last index that it got."""
        last: int = self.frames[-1]["index"]
        return last

    @property
    def late(self) -> int:
        """How many deltas it didn't get in their own interval: the first that came joined, or
        never came, and all behind it.
        """
        joined = (frame["from"] - 1 for frame in self.frames if "from" in frame)
        return self.last - int(next(joined, self.given))


async def _stalled(server: LocalServer, session: ChatSession) -> RawWebSocket:
    """A connection that has asked for an answer and reads no more than its start."""
    raw = await RawWebSocket.connect(server.port, receive_buffer=2048)
    assert await raw.handshake(session.token) == 101
    raw.write(text_frame({"type": "chat.message", **chat_message("m1", None, "hi")}))
    await raw.next_of("chat.response.start")
    return raw


async def _read_on(session: ChatSession, raw: RawWebSocket) -> _Experience:
    """Read again, to the answer's end or the server's close."""
    frames: list[Frame] = []
    while True:
        frame = await raw.frame()
        if frame.opcode == CLOSE:
            assert frame.close_code == 4008
            assert frame.payload.endswith(f"after {frames[-1]['index']}".encode())
            break
        if frame.opcode == TEXT and frame.json["type"] == "chat.response.delta":
            frames.append(frame.json)
        elif frame.opcode == TEXT and frame.json["type"] in TERMINAL:
            break
    return _Experience(
        frames, await _last_index(session, frames[0]["response_id"]), frame.opcode == TEXT
    )


async def _quick(session: ChatSession) -> _Experience:
    async with session.connect(compression=None) as connection:
        response_id = (await connection.message("m1", None, "hi"))["response_id"]
        frames = (await connection.whole(response_id)).frames
    deltas = [frame for frame in frames if "delta" in frame]
    return _Experience(deltas, await _last_index(session, response_id), ended=True)


async def _last_index(session: ChatSession, response_id: str) -> int:
    last: int = (await session.poll(response_id)).json["chunk_index"]
    return last


async def _closed(serve: Serve, server: LocalServer) -> None:
    """Turn time until the server closes those that are left, and no further: it waits five
    seconds for their answer.
    """
    for _ in range(round(_LAG_SECONDS) + 5):
        await serve.time_passes(1.0)
        if await server.metric("readers_too_slow_total") == _GONE:
            return
    raise AssertionError(f"not closed after {_LAG_SECONDS} s")


async def _experiences(
    serve: Serve, server: LocalServer, sessions: Sequence[ChatSession]
) -> tuple[list[_Experience], ...]:
    """Of those that read at once, those that stall until the answer has ended, and those that
    stall until they are closed.
    """
    async with AsyncExitStack() as stack:
        stalled = [
            await stack.enter_async_context(await _stalled(server, session))
            for session in sessions[_QUICK:]
        ]
        quick = await asyncio.gather(*(_quick(session) for session in sessions[:_QUICK]))
        await server.until_metric("responses_completed_total", len(sessions))
        slow = list(zip(sessions[_QUICK:], stalled, strict=True))
        returning = await asyncio.gather(*(_read_on(*reader) for reader in slow[:_RETURNING]))
        await _closed(serve, server)
        gone = await asyncio.gather(*(_read_on(*reader) for reader in slow[_RETURNING:]))
    return quick, returning, gone


@pytest.mark.timeout(180)
async def test_drops_are_what_slow_readers_experienced(opened: OpenSession, serve: Serve) -> None:
    async with scripted_model() as model:
        model.will(Reply([chunk(_PIECE)] * _PIECES + [END], gap=_GAP_SECONDS))
        server = await serve(
            model="openai",
            model_url=model.url,
            batch_window_max_ms=50,
            write_buffer_bytes=4_096,
            lag_notice_seconds=1,
            lag_close_seconds=_LAG_SECONDS,
        )
        sessions = [await opened(server) for _ in range(_QUICK + _RETURNING + _GONE)]
        quick, returning, gone = await _experiences(serve, server, sessions)
        metrics = await server.metrics()
    everybody = quick + returning + gone
    assert [reader.ended for reader in everybody] == [True] * (_QUICK + _RETURNING) + [
        False
    ] * _GONE
    assert [reader.late for reader in quick] == [0] * _QUICK
    # The others stalled early: most of what was due to them came late or never.
    assert all(reader.late > reader.last / 2 for reader in returning + gone)
    assert metrics["evenflow_ws_backpressure_drops_part_total"] == sum(
        reader.late for reader in everybody
    )
    assert metrics["evenflow_ws_backpressure_drops_whole_total"] == sum(
        reader.last + 1 for reader in everybody
    )


async def test_what_came_before_a_reader_was_not_due_to_it(
    opened: OpenSession, serve: Serve
) -> None:
    async with scripted_model() as model:
        model.will(Reply([chunk(_HISTORY), *[chunk(_PIECE)] * _PIECES, END], gap=_GAP_SECONDS))
        server = await serve(
            model="openai", model_url=model.url, batch_window_max_ms=50, write_buffer_bytes=4_096
        )
        session = await opened(server)
        response_id = (await session.post("m1", None, "hi")).json["response_id"]
        async with await RawWebSocket.connect(server.port, receive_buffer=2048) as raw:
            assert await raw.handshake(session.token) == 101
            before = await _last_index(session, response_id)
            raw.write(
                text_frame({"type": "response.resume", "response_id": response_id, "after": -1})
            )
            await raw.next_of("chat.response.start")
            after = await _last_index(session, response_id)
            await server.until_metric("responses_completed_total", 1)
            reader = await _read_on(session, raw)
        metrics = await server.metrics()
    assert reader.ended
    assert reader.frames[-1]["index"] == reader.last >= after >= before > 20
    # It stalled on the history: everything that was due since came late.
    due = metrics["evenflow_ws_backpressure_drops_whole_total"]
    assert reader.last - after <= due <= reader.last - before
    assert metrics["evenflow_ws_backpressure_drops_part_total"] == due
