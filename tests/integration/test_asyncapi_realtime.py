"""Conversations over `/realtime`, each of whose frames, in both directions, is as the AsyncAPI
document describes it.
"""

from __future__ import annotations

import pytest

from evenflow.stream_core.tenants.tenant import QuotaLimits, Tenant
from tests.integration.asyncapi_frames import AsyncApiFrames
from tests.integration.chat_client import demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.described_conversation import (
    DescribedConversation,
    conversation,
    described_frames,
)
from tests.integration.local_server import LocalServer
from tests.integration.realtime_client import REALTIME

_LONG = demo(tokens=3000, gap_ms=10, seed=97)

pytestmark = pytest.mark.usefixtures("hurry")


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    """It takes little, so that everything that it can say is said."""
    return await serve(
        fallback_text="",
        model_retries=2,
        messages_in_flight_per_session=1,
        generations_per_node=1,
        write_buffer_bytes=4_096,
        lag_notice_seconds=0.2,
        pause_window_bytes=1_000_000,
    )


async def start(talk: DescribedConversation, message_id: str, text: str, **fields: object) -> str:
    """Ask; returns the response's id."""
    talk.say("start", id=message_id, text=text, **fields)
    response_id: str = (await talk.hear("started"))["response_id"]
    return response_id


async def _an_answer_paced_paused_and_resumed(
    server: LocalServer, opened: OpenSession, frames: AsyncApiFrames
) -> None:
    session = await opened(server)
    async with conversation(server, session, frames, REALTIME) as talk:
        text = demo(tokens=60, reasoning=10, searches=1, sources=1, gap_ms=10, seed=96)
        response_id = await start(talk, "m1", text, credit=5)
        talk.say("presence.subscribe", response_id=response_id)
        assert (await talk.hear("presence"))["count"] == 1
        talk.say("presence.unsubscribe", response_id=response_id)
        talk.say("credit", response_id=response_id, n=200)
        talk.say("pause", response_id=response_id)
        talk.say("resume", response_id=response_id)
        assert (await talk.hear("final"))["usage"]
        await start(talk, "m1", "the same again")
        await talk.hear("final")
        talk.say("ping")
        await talk.hear("pong")
    # What follows is joined.
    async with (
        conversation(server, session, frames, REALTIME) as talk,
        conversation(server, session, frames, REALTIME) as another_tab,
    ):
        for known in ({}, {"epoch": 1}, {"epoch": None, "credit": 100}):
            talk.say("resume", response_id=response_id, after=-1, **known)
            await talk.hear("final")
        await start(talk, "m2", demo(tokens=0), previous="m1")
        assert (await another_tab.hear("session.message"))["message_id"] == "m2"


async def _restarts_failures_and_cancelling(
    server: LocalServer, opened: OpenSession, frames: AsyncApiFrames
) -> None:
    async with conversation(server, await opened(server), frames, REALTIME) as talk:
        await start(talk, "m1", demo(tokens=20, gap_ms=5, seed=94, fail_after=5, fail_attempts=2))
        await talk.hear("restarted")
        assert (await talk.hear("final"))["finish_reason"] == "stop"
        await start(
            talk,
            "m2",
            demo(tokens=20, gap_ms=5, seed=94, fail_after=5, fail_attempts=9),
            previous="m1",
        )
        assert (await talk.hear("final"))["error"]["code"] == "upstream_failed"
        response_id = await start(talk, "m3", _LONG, previous="m2")
        talk.say("cancel", response_id=response_id)
        assert (await talk.hear("final"))["finish_reason"] == "cancelled"


async def _what_is_refused(
    server: LocalServer, opened: OpenSession, frames: AsyncApiFrames
) -> None:
    async with conversation(server, await opened(server), frames, REALTIME) as talk:
        mumbled: tuple[object, ...] = (
            {"type": "nonsense"},
            {"type": "start", "id": "m1"},
            {"type": "token"},
            {},
            [],
        )
        for frame in mumbled:
            talk.mumble(frame)
            await talk.hear("error")
        talk.say("pause", response_id="rsp_unknown")
        assert (await talk.hear("error"))["response_id"] == "rsp_unknown"
        for kind, said in (("tool.result", {"text": "7"}), ("tool.cancel", {})):
            talk.say(kind, response_id="rsp_unknown", call_id="call_1", **said)
            assert (await talk.hear("error"))["error"]["code"] == "response_not_found"
        talk.say("start", id="m1", previous="m0", text=_LONG)
        assert (await talk.hear("error"))["error"]["expected"] is None
        response_id = await start(talk, "m1", _LONG, previous=None)
        async with conversation(server, await opened(server), frames, REALTIME) as other:
            waiting = await start(other, "m1", _LONG)
            assert (await other.hear("queued"))["position"] == 1
            other.say("cancel", response_id=waiting)
            await other.hear("final")
        talk.say("start", id="m2", previous="m1", text=_LONG)
        refused = await talk.hear("error")
        assert (refused["id"], refused["error"]["code"]) == ("m2", "session_in_flight")
        talk.say("cancel", response_id=response_id)
        await talk.hear("final")


async def _a_reader_that_lags(
    server: LocalServer, opened: OpenSession, frames: AsyncApiFrames
) -> None:
    async with conversation(server, await opened(server), frames, REALTIME) as talk:
        before = await server.metric("readers_lagging_total")
        response_id = await start(talk, "m1", demo(tokens=20_000, gap_ms=0.1, seed=95))
        await server.until_metric("readers_lagging_total", before + 1, 20)
        assert (await talk.hear("lag"))["response_id"] == response_id
        talk.say("cancel", response_id=response_id)
        await talk.hear("final")


async def _a_bound_that_is_nearly_used(
    server: LocalServer, opened: OpenSession, frames: AsyncApiFrames
) -> None:
    limits = QuotaLimits(requests_per_minute=1)
    server.handler._tenants.replace([Tenant(id="public", limits=limits)])
    async with conversation(server, await opened(server), frames, REALTIME) as talk:
        talk.say("start", id="m1", text=demo(tokens=0))
        assert (await talk.hear("near_limit"))["limit"] == "tenant.requests_per_minute"
        await talk.hear("final")
    server.handler._tenants.replace([])


async def _a_server_that_leaves(opened: OpenSession, serve: Serve, frames: AsyncApiFrames) -> None:
    leaving = await serve(drain_seconds=20)
    async with conversation(leaving, await opened(leaving), frames, REALTIME) as talk:
        leaving.leave()
        assert (await talk.hear("reconnect"))["after_ms"] >= 0


async def test_every_frame_is_as_described_and_all_that_is_described_is_said(
    server: LocalServer, opened: OpenSession, serve: Serve
) -> None:
    frames = await described_frames(server)
    await _an_answer_paced_paused_and_resumed(server, opened, frames)
    await _restarts_failures_and_cancelling(server, opened, frames)
    await _what_is_refused(server, opened, frames)
    await _a_reader_that_lags(server, opened, frames)
    await _a_bound_that_is_nearly_used(server, opened, frames)
    await _a_server_that_leaves(opened, serve, frames)
    assert frames.seen == frames.all_of("realtime")
