"""Leaving is no cancel: the model goes on for the grace period, and no longer."""

from __future__ import annotations

import asyncio
import time

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.chat_client import ChatSession, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer

_GRACE_SECONDS = 0.5
_LONG = demo(tokens=5000, gap_ms=20)


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    """A server with a short grace period."""
    return await serve(grace_seconds=_GRACE_SECONDS)


async def _status(session: ChatSession) -> str:
    async with session.connect() as connection:
        status: str = connection.ready["responses"][-1]["status"]
        return status


async def test_a_closed_socket_keeps_the_model_running(opened: OpenSession) -> None:
    session = await opened()
    async with session.connect() as connection:
        start = await connection.message("m1", None, demo(tokens=80, gap_ms=10, seed=41))
        held = await connection.reach(start["response_id"], 2)
    async with asyncio.timeout(20):
        # The server is asked.
        while (status := await _status(session)) == "streaming":  # noqa: ASYNC110
            await asyncio.sleep(0.1)
    assert status == "completed"
    async with session.connect() as connection:
        answer = await connection.resume(start["response_id"], held.last, held.text)
        await connection.whole(start["response_id"])
    assert answer.text == "".join(demo_tokens(41, 80))


async def test_without_a_reader_the_model_is_cancelled(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    async with session.connect() as connection:
        start = await connection.message("m1", None, _LONG)
        await connection.reach(start["response_id"], 2)
        await asyncio.sleep(0.8)
        assert await server.metric("generations_running") == 1
        left_at = time.monotonic()
    await server.until_metric("generations_running", 0)
    assert time.monotonic() - left_at > _GRACE_SECONDS
    ended = (await session.poll(start["response_id"])).json
    assert (ended["status"], ended["metadata"]["finish_reason"]) == ("cancelled", "abandoned")


async def test_a_message_that_nobody_reads_is_cancelled(
    opened: OpenSession, server: LocalServer
) -> None:
    session = await opened(server)
    await session.post("m1", None, _LONG)
    await server.until_metric("generations_running", 0)
    assert await _status(session) == "cancelled"


async def test_a_reader_that_comes_back_in_time_saves_it(opened: OpenSession, serve: Serve) -> None:
    session = await opened(await serve(grace_seconds=2))
    text = demo(tokens=150, gap_ms=25, seed=42)
    async with session.connect() as connection:
        response_id = (await connection.message("m1", None, text))["response_id"]
        await connection.reach(response_id, 1)
    for _ in range(4):
        await serve.time_passes(0.7)
        async with session.connect() as connection:
            await connection.resume(response_id, -1)
            await connection.reach(response_id, 2)
    async with session.connect() as connection:
        answer = await connection.resume(response_id, -1)
        await serve.time_passes_until(connection.whole(response_id))
    assert answer.text == "".join(demo_tokens(42, 150))
    assert answer.finish_reason == "stop"


async def test_polls_are_readers(opened: OpenSession, server: LocalServer) -> None:
    session = await opened(server)
    response_id = (
        await session.post("m1", None, demo(first_token_ms=1200, tokens=100, gap_ms=10, seed=43))
    ).json["response_id"]
    last, text, polls = await session.poll_whole(response_id)
    assert last["status"] == "completed"
    assert text == "".join(demo_tokens(43, 100))
    assert polls < 5


@pytest.mark.parametrize("how", ["poll", "events"])
async def test_a_request_that_is_given_up_is_no_reader_any_more(
    opened: OpenSession, serve: Serve, server: LocalServer, how: str
) -> None:
    """The model is silent, so nothing is written that would show that the client has gone."""
    session = await opened(server)
    response_id = (await session.post("m1", None, demo(hang_after=0))).json["response_id"]

    async def read() -> None:
        if how == "poll":
            await session.poll(response_id, 0, 30_000)
        else:
            async with session.events(response_id) as stream:
                await stream.content.read()

    reading = asyncio.create_task(read())
    await serve.time_passes(1)
    assert await server.metric("generations_running") == 1
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    await server.until_metric("generations_running", 0)
