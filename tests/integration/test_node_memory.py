"""A node whose memory is full accepts nothing, says so, and keeps nothing of it."""

from __future__ import annotations

import aiohttp
import pytest

from tests.integration.chat_client import call, chat_message, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.openai.completions import Completions

_QUICK = demo(tokens=2)


def fill(server: LocalServer) -> int:
    """Fill what messages may take; returns what there was before."""
    requests = server.handler._orchestrator.memory.requests
    before, requests.bytes = requests.bytes, requests.most
    return before


async def test_a_full_node_refuses_messages_and_sessions_until_there_is_room(
    serve: Serve, opened: OpenSession, http: aiohttp.ClientSession
) -> None:
    server = await serve()
    session = await opened(server)
    async with session.connect() as connection:
        before = fill(server)
        posted = await session.post("m1", None, _QUICK)
        another = await call(http, "POST", f"{server.http_url}/session", json={})
        asked = await Completions(http, server).ask(_QUICK)
        for refused in (posted, another, asked):
            assert (refused.status, refused.error["code"]) == (503, "node_memory")
            assert int(refused.headers["Retry-After"]) >= 1
        await connection.send("chat.message", **chat_message("m1", None, _QUICK))
        busy = await connection.receive()
        assert (busy["type"], busy["error"]["code"]) == ("system.busy", "node_memory")
        assert busy["retry_after_ms"] > 0
        assert await server.metric("memory_refused_total") == 4
        assert await server.metric("responses_held") == 0
        server.handler._orchestrator.memory.requests.bytes = before
        assert (await session.post("m1", None, _QUICK)).status == 202


async def test_what_the_process_has_and_what_it_keeps_are_on_the_metrics_page(
    serve: Serve,
) -> None:
    server = await serve()
    assert await server.metric("memory_resident_bytes") > 20_000_000
    assert await server.metric("memory_held_bytes") == pytest.approx(0, abs=10_000)
