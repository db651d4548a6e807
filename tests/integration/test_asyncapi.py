"""Conversations over a real WebSocket, each of whose frames, in both directions, is as the AsyncAPI document describes it."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.integration.answer import TERMINAL
from tests.integration.asyncapi_frames import AsyncApiFrames
from tests.integration.chat_client import COMPACT, V1, ChatSession, chat_message, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.raw_websocket import CLOSE, TEXT, RawWebSocket, text_frame
from tests.integration.server_process import ServerProcess

_SENDS = {V1: "chat.sendV1", COMPACT: "chat.sendCompact"}
_QUICK = demo(tokens=20, gap_ms=2, seed=91)
_LONG = demo(tokens=3000, gap_ms=10, seed=92)
_BOTH = pytest.mark.parametrize("protocol", [V1, COMPACT])


@pytest.fixture(scope="module")
def server(serve_module: Serve) -> ServerProcess:
    """It takes little, so that everything that it can say is said."""
    return serve_module(
        fallback_text="",
        model_retries=1,
        messages_in_flight_per_session=2,
        generations_per_node=3,
        queue_depth=0,
        write_buffer_bytes=4_096,
        lag_notice_seconds=0.2,
        pause_window_bytes=1_000_000,
    )


@pytest.fixture(scope="module")
def frames(server: ServerProcess) -> AsyncApiFrames:
    """As the server describes them."""
    with urllib.request.urlopen(f"{server.http_url}/asyncapi.json", timeout=10) as answer:
        return AsyncApiFrames(json.load(answer))


class Conversation:
    """A connection whose frames are checked as they come and go."""

    def __init__(self, raw: RawWebSocket, frames: AsyncApiFrames, protocol: str) -> None:
        self._raw = raw
        self._frames = frames
        self._sends = _SENDS[protocol]

    def say(self, kind: str, **fields: object) -> None:
        """Send a frame that is described."""
        frame = {"type": kind, **fields}
        self._frames.check("chat.receive", frame)
        self._raw.write(text_frame(frame))

    def mumble(self, frame: object) -> None:
        """Send one that isn't."""
        with pytest.raises((AssertionError, KeyError)):
            self._frames.check("chat.receive", frame)
        self._raw.write(text_frame(frame))

    async def hear(self, *kinds: str) -> dict[str, Any]:
        """The next frame of one of these types; deltas of the compact subprotocol have none."""
        while True:
            came = await self._raw.frame()
            assert came.opcode != CLOSE, f"closed with {came.close_code} instead of {kinds}"
            if came.opcode != TEXT:
                continue
            frame: Any = came.json
            self._frames.check(self._sends, frame)
            if isinstance(frame, dict) and frame["type"] in kinds:
                return frame

    async def ask(self, message_id: str, previous: str | None, text: str) -> str:
        """Send a message; returns its response's id."""
        self.say("chat.message", **chat_message(message_id, previous, text))
        response_id: str = (await self.hear("chat.response.start"))["response_id"]
        return response_id


@asynccontextmanager
async def conversation(
    server: ServerProcess, session: ChatSession, frames: AsyncApiFrames, protocol: str
) -> AsyncIterator[Conversation]:
    async with await RawWebSocket.connect(server.ws_port, receive_buffer=2048) as raw:
        assert await raw.handshake(session.token, protocol=protocol) == 101
        talk = Conversation(raw, frames, protocol)
        await talk.hear("session.ready")
        yield talk


@_BOTH
async def test_an_answer_resumed_acknowledged_and_paused(
    server: ServerProcess, opened: OpenSession, frames: AsyncApiFrames, protocol: str
) -> None:
    session = await opened(server)
    async with conversation(server, session, frames, protocol) as talk:
        response_id = await talk.ask("m1", None, demo(tokens=60, gap_ms=10, seed=93))
        talk.say("response.pause", response_id=response_id)
        talk.say("response.continue", response_id=response_id)
        last = (await talk.hear(*TERMINAL))["last_index"]
        talk.say("response.ack", response_id=response_id, index=last)
        await talk.ask("m1", None, "the same again")
        await talk.hear(*TERMINAL)
    # The session's first frame tells of what there is; what follows is joined.
    async with conversation(server, session, frames, protocol) as talk:
        for known in ({}, {"epoch": 1}, {"epoch": None}):
            talk.say("response.resume", response_id=response_id, after=-1, **known)
            await talk.hear(*TERMINAL)
        await talk.ask("m2", "m1", demo(tokens=0))
        assert (await talk.hear(*TERMINAL))["last_index"] == -1


@_BOTH
async def test_restarts_failures_and_cancelling(
    server: ServerProcess, opened: OpenSession, frames: AsyncApiFrames, protocol: str
) -> None:
    async with conversation(server, await opened(server), frames, protocol) as talk:
        await talk.ask("m1", None, demo(tokens=20, gap_ms=5, seed=94, fail_after=5))
        await talk.hear("chat.response.restarted")
        await talk.hear("chat.response.completed")
        await talk.ask("m2", "m1", demo(tokens=20, gap_ms=5, seed=94, fail_after=5, fail_attempts=9))
        await talk.hear("chat.response.error")
        response_id = await talk.ask("m3", "m2", _LONG)
        talk.say("response.cancel", response_id=response_id)
        assert (await talk.hear("chat.response.completed"))["finish_reason"] == "cancelled"


@_BOTH
async def test_what_is_refused(
    server: ServerProcess, opened: OpenSession, frames: AsyncApiFrames, protocol: str
) -> None:
    session, other = await opened(server), await opened(server)
    async with conversation(server, session, frames, protocol) as talk:
        mumbled: tuple[object, ...] = ({"type": "nonsense"}, {"type": "chat.message", "message_id": "m1"}, {}, [])
        for frame in mumbled:
            talk.mumble(frame)
            await talk.hear("error")
        talk.say("response.pause", response_id="rsp_unknown")
        assert (await talk.hear("error"))["response_id"] == "rsp_unknown"
        talk.say("chat.message", **chat_message("m1", "m0", _LONG))
        assert (await talk.hear("error"))["error"]["expected"] is None
        running = [await talk.ask("m1", None, _LONG), await talk.ask("m2", "m1", _LONG)]
        talk.say("chat.message", **chat_message("m3", "m2", _LONG))
        assert (await talk.hear("throttle"))["message_id"] == "m3"
        async with conversation(server, other, frames, protocol) as busy:
            running_there = await busy.ask("m1", None, _LONG)
            busy.say("chat.message", **chat_message("m2", "m1", _LONG))
            assert (await busy.hear("system.busy"))["error"]["code"] == "queue_full"
            busy.say("response.cancel", response_id=running_there)
            await busy.hear("chat.response.completed")
        for response_id in running:
            talk.say("response.cancel", response_id=response_id)
            await talk.hear("chat.response.completed")


@_BOTH
async def test_a_reader_that_lags(
    server: ServerProcess, opened: OpenSession, frames: AsyncApiFrames, protocol: str
) -> None:
    async with conversation(server, await opened(server), frames, protocol) as talk:
        before = await server.metric("readers_lagging_total")
        response_id = await talk.ask("m1", None, demo(tokens=20_000, gap_ms=0.1, seed=95))
        await server.until_metric("readers_lagging_total", before + 1, 20)
        assert (await talk.hear("lag"))["response_id"] == response_id
        talk.say("response.cancel", response_id=response_id)
        await talk.hear("chat.response.completed")


async def test_a_server_that_leaves_and_then_everything_described_was_said(
    server: ServerProcess, opened: OpenSession, serve: Serve, frames: AsyncApiFrames
) -> None:
    """Last in this file: what the tests above have heard counts too."""
    leaving = serve(drain_seconds=20)
    session = await opened(leaving)
    async with (
        conversation(leaving, session, frames, V1) as talk,
        conversation(leaving, session, frames, COMPACT) as compact,
    ):
        leaving.send_signal()
        assert (await talk.hear("reconnect"))["after_ms"] >= 0
        assert (await compact.hear("reconnect"))["after_ms"] >= 0
    assert frames.seen == frames.all
