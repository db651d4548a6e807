"""Conversations over a real WebSocket, each of whose frames, in both directions, is as the
AsyncAPI document describes it.
"""

from __future__ import annotations

import pytest

from evenflow.stream_core.tenants.tenant import QuotaLimits, Tenant
from tests.integration.answer import TERMINAL
from tests.integration.asyncapi_frames import AsyncApiFrames
from tests.integration.chat_client import COMPACT, V1, chat_message, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.described_conversation import (
    DescribedConversation,
    conversation,
    described_frames,
)
from tests.integration.local_server import LocalServer

_LONG = demo(tokens=3000, gap_ms=10, seed=92)

pytestmark = pytest.mark.usefixtures("hurry")


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    """It takes little, so that everything that it can say is said."""
    return await serve(
        fallback_text="",
        model_retries=2,
        messages_in_flight_per_session=2,
        generations_per_node=2,
        queue_depth=1,
        write_buffer_bytes=4_096,
        lag_notice_seconds=0.2,
        pause_window_bytes=1_000_000,
    )


async def ask(talk: DescribedConversation, message_id: str, previous: str | None, text: str) -> str:
    """Send a message; returns its response's id."""
    talk.say("chat.message", **chat_message(message_id, previous, text))
    response_id: str = (await talk.hear("chat.response.start"))["response_id"]
    return response_id


async def _an_answer_resumed_acknowledged_and_paused(
    server: LocalServer, opened: OpenSession, frames: AsyncApiFrames, protocol: str
) -> None:
    session = await opened(server)
    async with conversation(server, session, frames, protocol) as talk:
        text = demo(tokens=60, reasoning=10, searches=1, sources=1, gap_ms=10, seed=93)
        response_id = await ask(talk, "m1", None, text)
        talk.say("response.credit", response_id=response_id, n=1000)
        talk.say("response.pause", response_id=response_id)
        talk.say("response.continue", response_id=response_id)
        talk.say("presence.subscribe", response_id=response_id)
        assert (await talk.hear("presence"))["count"] == 1
        talk.say("presence.unsubscribe", response_id=response_id)
        last = (await talk.hear(*TERMINAL))["last_index"]
        talk.say("response.ack", response_id=response_id, index=last)
        await ask(talk, "m1", None, "the same again")
        await talk.hear(*TERMINAL)
        talk.say("ping")
        await talk.hear("pong")
    # The session's first frame tells of what there is; what follows is joined.
    async with (
        conversation(server, session, frames, protocol) as talk,
        conversation(server, session, frames, protocol) as another_tab,
    ):
        for known in ({}, {"epoch": 1}, {"epoch": None}):
            talk.say("response.resume", response_id=response_id, after=-1, **known)
            await talk.hear(*TERMINAL)
        await ask(talk, "m2", "m1", demo(tokens=0))
        assert (await talk.hear(*TERMINAL))["last_index"] == -1
        assert (await another_tab.hear("session.message"))["message_id"] == "m2"


async def _restarts_failures_and_cancelling(
    server: LocalServer, opened: OpenSession, frames: AsyncApiFrames, protocol: str
) -> None:
    async with conversation(server, await opened(server), frames, protocol) as talk:
        await ask(
            talk, "m1", None, demo(tokens=20, gap_ms=5, seed=94, fail_after=5, fail_attempts=2)
        )
        await talk.hear("chat.response.restarted")
        await talk.hear("chat.response.completed")
        await ask(
            talk, "m2", "m1", demo(tokens=20, gap_ms=5, seed=94, fail_after=5, fail_attempts=9)
        )
        await talk.hear("chat.response.error")
        response_id = await ask(talk, "m3", "m2", _LONG)
        talk.say("response.cancel", response_id=response_id)
        assert (await talk.hear("chat.response.completed"))["finish_reason"] == "cancelled"


async def _what_is_refused(
    server: LocalServer, opened: OpenSession, frames: AsyncApiFrames, protocol: str
) -> None:
    session, other = await opened(server), await opened(server)
    async with conversation(server, session, frames, protocol) as talk:
        mumbled: tuple[object, ...] = (
            {"type": "nonsense"},
            {"type": "chat.message", "message_id": "m1"},
            {},
            [],
        )
        for frame in mumbled:
            talk.mumble(frame)
            await talk.hear("error")
        talk.say("response.pause", response_id="rsp_unknown")
        assert (await talk.hear("error"))["response_id"] == "rsp_unknown"
        for kind, said in (("tool.result", {"text": "7"}), ("tool.cancel", {})):
            talk.say(kind, response_id="rsp_unknown", call_id="call_1", **said)
            assert (await talk.hear("error"))["error"]["code"] == "response_not_found"
        talk.say("chat.message", **chat_message("m1", "m0", _LONG))
        assert (await talk.hear("error"))["error"]["expected"] is None
        running = [await ask(talk, "m1", None, _LONG), await ask(talk, "m2", "m1", _LONG)]
        talk.say("chat.message", **chat_message("m3", "m2", _LONG))
        assert (await talk.hear("throttle"))["message_id"] == "m3"
        async with conversation(server, other, frames, protocol) as busy:
            waiting = await ask(busy, "m1", None, _LONG)
            assert (await busy.hear("chat.response.queued"))["position"] == 1
            busy.say("chat.message", **chat_message("m2", "m1", _LONG))
            assert (await busy.hear("system.busy"))["error"]["code"] == "queue_full"
            busy.say("response.cancel", response_id=waiting)
            await busy.hear("chat.response.completed")
        for response_id in running:
            talk.say("response.cancel", response_id=response_id)
            await talk.hear("chat.response.completed")


async def _a_reader_that_lags(
    server: LocalServer, opened: OpenSession, frames: AsyncApiFrames, protocol: str
) -> None:
    async with conversation(server, await opened(server), frames, protocol) as talk:
        before = await server.metric("readers_lagging_total")
        response_id = await ask(talk, "m1", None, demo(tokens=20_000, gap_ms=0.1, seed=95))
        await server.until_metric("readers_lagging_total", before + 1, 20)
        assert (await talk.hear("lag"))["response_id"] == response_id
        talk.say("response.cancel", response_id=response_id)
        await talk.hear("chat.response.completed")


async def _a_bound_that_is_nearly_used(
    server: LocalServer, opened: OpenSession, frames: AsyncApiFrames, protocol: str
) -> None:
    # Of each bound there is one hint a minute.
    bound = "requests_per_minute" if protocol == V1 else "output_tokens_per_minute"
    limits = QuotaLimits.model_validate({bound: 1})
    server.handler._tenants.replace([Tenant(id="public", limits=limits)])
    async with conversation(server, await opened(server), frames, protocol) as talk:
        talk.say("chat.message", **chat_message("m1", None, demo(tokens=0)))
        assert (await talk.hear("near_limit"))["limit"] == f"tenant.{bound}"
        await talk.hear("chat.response.completed")
    server.handler._tenants.replace([])


async def _a_server_that_leaves(opened: OpenSession, serve: Serve, frames: AsyncApiFrames) -> None:
    leaving = await serve(drain_seconds=20)
    session = await opened(leaving)
    async with (
        conversation(leaving, session, frames, V1) as talk,
        conversation(leaving, session, frames, COMPACT) as compact,
    ):
        leaving.leave()
        assert (await talk.hear("reconnect"))["after_ms"] >= 0
        assert (await compact.hear("reconnect"))["after_ms"] >= 0


async def test_every_frame_is_as_described_and_all_that_is_described_is_said(
    server: LocalServer, opened: OpenSession, serve: Serve
) -> None:
    frames = await described_frames(server)
    for protocol in (V1, COMPACT):
        await _an_answer_resumed_acknowledged_and_paused(server, opened, frames, protocol)
        await _restarts_failures_and_cancelling(server, opened, frames, protocol)
        await _what_is_refused(server, opened, frames, protocol)
        await _a_reader_that_lags(server, opened, frames, protocol)
        await _a_bound_that_is_nearly_used(server, opened, frames, protocol)
    await _a_server_that_leaves(opened, serve, frames)
    assert frames.seen == frames.all_of("chat")
