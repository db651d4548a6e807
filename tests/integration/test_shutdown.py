"""Leaving: told by SIGTERM, the server lets its answers finish, sends its clients away, and ends
in order.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Answer
from tests.integration.chat_client import call, checked_error, demo
from tests.integration.conftest import OpenSession, Serve, ServeProcess
from tests.integration.event_stream import read_answer, read_events
from tests.integration.server_process import (
    DEFAULTS,
    HandlerProcess,
    clean_environment,
    free_port,
    server_command,
)


async def test_nothing_runs_and_the_exit_is_quick(
    opened: OpenSession, serve_process: ServeProcess
) -> None:
    server = serve_process(drain_seconds=60)
    session = await opened(server)
    async with session.connect() as idle:
        assert (await idle.ask("m1", None, demo(tokens=3, gap_ms=1))).finish_reason == "stop"
        began = time.monotonic()
        server.send_signal()
        assert await idle.closed() == 1001
        assert [frame["type"] for frame in idle.other if frame["type"] == "reconnect"] == [
            "reconnect"
        ]
        assert await server.ended() == 0
        assert time.monotonic() - began < 20


async def test_running_answers_finish(
    opened: OpenSession, serve: Serve, http: aiohttp.ClientSession
) -> None:
    server = await serve(drain_seconds=60)
    session, other = await opened(server), await opened(server)
    text = demo(tokens=200, gap_ms=5, seed=71)
    async with session.connect() as reading, other.connect() as idle:
        start = await reading.message("m1", None, text)
        posted = (await other.post("m1", None, text)).json["response_id"]
        polling = asyncio.create_task(other.poll_whole(posted))
        over_sse = Answer()

        async def read_sse() -> None:
            async with session.events(start["response_id"]) as stream:
                await read_answer(stream, over_sse)

        streaming = asyncio.create_task(read_sse())
        await reading.reach(start["response_id"], 3)
        server.leave()
        told = await reading.next_of("reconnect")
        assert told["after_ms"] >= 0
        assert isinstance(told["reason"], str)
        health = await call(http, "GET", f"{server.http_url}/health")
        assert (health.status, health.json["status"]) == (503, "draining")
        # Nothing new is taken in.
        await reading.send(
            "chat.message", message_id="m2", previous_message_id="m1", payload={"text": "x"}
        )
        busy = await reading.next_of("system.busy")
        assert busy["message_id"] == "m2"
        assert checked_error(busy)["code"] == "draining"
        refused = await session.post("m2", "m1", "x")
        assert (refused.status, refused.error["type"], refused.error["code"]) == (
            503,
            "overloaded_error",
            "draining",
        )
        assert int(refused.headers["Retry-After"]) >= 1
        # What was accepted is still known.
        again = await session.post("m1", None, text)
        assert (again.status, again.json["response_id"]) == (202, start["response_id"])
        # The connection that has everything goes first; the running answer finishes, and then its
        # connection goes.
        assert await idle.closed() == 1001
        answer = await reading.whole(start["response_id"])
        assert answer.text == "".join(demo_tokens(71, 200))
        assert answer.finish_reason == "stop"
        assert await reading.closed() == 1001
        last, polled, _ = await polling
        assert (last["status"], polled) == ("completed", answer.text)
        await streaming
        assert over_sse.text == answer.text
        await server.ended()


async def test_readers_of_streams_are_told_when_to_move_on(
    opened: OpenSession, serve: Serve
) -> None:
    server = await serve(drain_seconds=60)
    session = await opened(server)
    text = demo(tokens=200, gap_ms=5, seed=73)
    response_id = (await session.post("m1", None, text)).json["response_id"]
    moving = f"/chat/message/{response_id}/events?moving=1"
    async with session.events(response_id) as stream:
        answer, told = Answer(), []
        async for event in read_events(stream):
            if event.comment.startswith("reconnect"):
                told.append(event.comment)
                # There is nothing to move to but what is left.
                refused = await session.call("GET", moving)
                assert (refused.status, refused.error["code"]) == (503, "draining")
            if event.data and event.kind != "chat.response.queued":
                answer.take(event.frame)
                if answer.last == 5 and not told:
                    server.leave()
        assert len(told) == 1
        name, after_ms = told[0].split()
        assert (name, 0 <= int(after_ms) <= 60_000) == ("reconnect", True)
        # One that stays has the answer to its end.
        assert answer.text == "".join(demo_tokens(73, 200))
    await server.ended()


async def test_a_new_connection_is_refused_while_draining(
    opened: OpenSession, serve: Serve
) -> None:
    server = await serve(drain_seconds=60)
    session = await opened(server)
    async with session.connect() as reading:
        start = await reading.message("m1", None, demo(tokens=200, gap_ms=5))
        server.leave()
        await reading.next_of("reconnect")
        with pytest.raises(Exception, match="503"):
            async with session.connect():
                pass
        assert (await reading.whole(start["response_id"])).finish_reason == "stop"
        assert await reading.closed() == 1001
    await server.ended()


async def test_an_answer_that_takes_too_long_ends_with_an_error(
    opened: OpenSession, serve: Serve
) -> None:
    server = await serve(drain_seconds=1, generations_per_node=1)
    session, second = await opened(server), await opened(server)
    async with session.connect() as reading, second.connect() as queued:
        start = await reading.message("m1", None, demo(tokens=5000, gap_ms=20, seed=72))
        waiting = await queued.message("m1", None, demo(tokens=5))
        assert waiting["status"] == "queued"
        polling = asyncio.create_task(session.poll(start["response_id"], 0, 30_000))
        await polling
        server.leave()
        for connection, response_id in (
            (reading, start["response_id"]),
            (queued, waiting["response_id"]),
        ):
            answer = await connection.whole(response_id)
            assert answer.end is not None
            assert answer.end["type"] == "chat.response.error"
            error = checked_error(answer.end)
            assert (error["type"], error["code"]) == ("overloaded_error", "draining")
            assert await connection.closed() == 1001
        assert "".join(demo_tokens(72, 5000)).startswith(reading.answers[start["response_id"]].text)
        await server.ended()


async def test_a_second_signal_ends_at_once(opened: OpenSession, serve: Serve) -> None:
    server = await serve(drain_seconds=60)
    session = await opened(server)
    async with session.connect() as reading:
        start = await reading.message("m1", None, demo(tokens=5000, gap_ms=20))
        await reading.reach(start["response_id"], 2)
        server.leave()
        await reading.next_of("reconnect")
        server.leave()
        await server.ended(20)


def test_signals_that_come_while_the_process_ends_change_nothing(
    serve_process: ServeProcess,
) -> None:
    process = serve_process().process
    status, give_up_at = None, time.monotonic() + 20
    while status is None and time.monotonic() < give_up_at:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            status = process.wait(0.001)
    assert status == 0


async def test_a_paused_reader_does_not_hold_up_the_exit(opened: OpenSession, serve: Serve) -> None:
    server = await serve(drain_seconds=1)
    session = await opened(server)
    async with session.connect() as reading:
        start = await reading.message("m1", None, demo(tokens=5000, gap_ms=20))
        await reading.reach(start["response_id"], 2)
        await reading.send("response.pause", response_id=start["response_id"])
        await asyncio.sleep(0.1)
        server.leave()
        await server.ended()


@pytest.mark.parametrize("closed", ["<&-", ">&-"])
def test_started_without_a_standard_descriptor_it_ends_in_order(
    closed: str, tmp_path: Path
) -> None:
    environment = clean_environment(DEFAULTS | {"EVENFLOW_HTTP_PORT": str(free_port())})
    shell = ["sh", "-c", f'exec "$@" {closed}', "sh", *server_command()]
    server = HandlerProcess(tmp_path / "log", (), environment, "serving http", shell)
    server.wait_until_serving().stop()  # which checks the exit status
