"""The queue between accepted messages and the model: bounded, fair, and one may leave it."""

from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.chat_client import ChatSession, checked_error, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.deployment import LocalDeployment
from tests.integration.local_server import LocalServer

_LONG = demo(tokens=3000, gap_ms=20)


async def _cancel(session: ChatSession, response_id: str) -> None:
    assert (await session.call("POST", f"/chat/message/{response_id}/cancel")).json[
        "status"
    ] == "cancelled"


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    """A server that generates one answer at a time and lets one wait."""
    return await serve(generations_per_node=1, queue_depth=1)


async def test_one_runs_one_waits_and_the_third_is_refused(
    opened: OpenSession, server: LocalServer
) -> None:
    running, waiting, third = await opened(server), await opened(server), await opened(server)
    first = (await running.post("m1", None, _LONG)).json
    async with waiting.connect() as connection:
        second = await connection.message("m1", None, demo(tokens=20, gap_ms=5, seed=61))
        assert second["status"] == "queued"
        assert await server.metric("queue_depth") == 1
        polled = (await waiting.poll(second["response_id"], 0, 100)).json
        assert (polled["status"], polled["chunk_index"]) == ("queued", -1)
        refused = await third.post("m1", None, _LONG)
        assert (refused.status, refused.error["type"], refused.error["code"]) == (
            429,
            "rate_limit_error",
            "queue_full",
        )
        assert int(refused.headers["Retry-After"]) >= 1
        async with third.connect() as hopeful:
            await hopeful.send(
                "chat.message", message_id="m1", previous_message_id=None, payload={"text": _LONG}
            )
            busy = await hopeful.next_of("system.busy")
            assert busy["message_id"] == "m1"
            assert busy["retry_after_ms"] > 0
            assert checked_error(busy)["code"] == "queue_full"
            assert await server.metric("queue_refused_total") == 2
            # What was accepted before keeps its answer, also for one who asks again.
            again = await running.post("m1", None, _LONG)
            assert (again.status, again.json["response_id"]) == (202, first["response_id"])
            await _cancel(running, first["response_id"])
            assert (await connection.whole(second["response_id"])).text == "".join(
                demo_tokens(61, 20)
            )
            # The refused message was not accepted: now it may come.
            assert (await hopeful.ask("m1", None, demo(tokens=3, gap_ms=1))).finish_reason == "stop"


async def test_a_waiting_message_can_be_cancelled(opened: OpenSession, server: LocalServer) -> None:
    running, waiting, third = await opened(server), await opened(server), await opened(server)
    first = (await running.post("m1", None, _LONG)).json
    async with waiting.connect() as connection:
        second = await connection.message("m1", None, _LONG)
        await connection.send("response.cancel", response_id=second["response_id"])
        answer = await connection.whole(second["response_id"])
        assert (answer.finish_reason, answer.text) == ("cancelled", "")
        assert await server.metric("queue_depth") == 0
        # Its place is free.
        accepted = await third.post("m1", None, demo(tokens=3, gap_ms=1))
        assert (accepted.status, accepted.json["status"]) == (202, "queued")
        await _cancel(running, first["response_id"])
        assert (await third.poll_whole(accepted.json["response_id"]))[0]["status"] == "completed"
    await server.until_metric("generations_running", 0)


async def test_who_reads_at_another_task_hears_the_place_too(
    opened: OpenSession, deployment: LocalDeployment
) -> None:
    owner, other = await deployment.handlers(2, generations_per_node=1)
    running, waiting = await opened(owner), await opened(owner)
    first = (await running.post("m1", None, _LONG)).json
    response_id = (await waiting.post("m1", None, demo(tokens=20, gap_ms=5, seed=61))).json[
        "response_id"
    ]
    there = waiting.at(other)
    async with there.connect() as connection, there.events(response_id) as events:
        await connection.resume(response_id, -1)
        assert (await connection.next_of("chat.response.queued"))["position"] == 1
        assert events.headers["Evenflow-Via"] == "peer"
        assert b'"position":1' in await events.content.readuntil(b"\n\n")
        polled = (await there.poll(response_id, 0, 100)).json
        assert polled["metadata"]["queued"]["position"] == 1
        await _cancel(running, first["response_id"])
        assert (await connection.whole(response_id)).text == "".join(demo_tokens(61, 20))
        assert "queued" not in (await there.poll(response_id, 0, 100)).json["metadata"]


async def test_cancelling_in_the_moment_it_starts(opened: OpenSession, server: LocalServer) -> None:
    """The running one and the waiting one are cancelled in one segment: nothing may leak."""
    session = await opened(server)
    async with session.connect() as connection:
        previous = None
        for number in range(5):
            one = await connection.message(f"a{number}", previous, _LONG)
            two = await connection.message(f"b{number}", f"a{number}", _LONG)
            previous = f"b{number}"
            await asyncio.gather(
                connection.send("response.cancel", response_id=one["response_id"]),
                connection.send("response.cancel", response_id=two["response_id"]),
            )
            assert (await connection.whole(one["response_id"])).finish_reason == "cancelled"
            assert (await connection.whole(two["response_id"])).finish_reason == "cancelled"
        await server.until_metric("generations_running", 0)
        await server.until_metric("queue_depth", 0)
        assert (
            await connection.ask("last", previous, demo(tokens=3, gap_ms=1))
        ).finish_reason == "stop"


async def test_a_queue_of_no_depth(opened: OpenSession, serve: Serve) -> None:
    server = await serve(generations_per_node=1, queue_depth=0)
    running, other = await opened(server), await opened(server)
    first = (await running.post("m1", None, _LONG)).json
    assert first["status"] == "streaming"
    assert (await other.post("m1", None, _LONG)).status == 429
    await _cancel(running, first["response_id"])
    await server.until_metric("generations_running", 0)
    assert (await other.post("m1", None, _LONG)).json["status"] == "streaming"


async def test_a_waiting_message_that_nobody_reads_leaves_the_queue(
    opened: OpenSession, serve: Serve
) -> None:
    server = await serve(generations_per_node=1, queue_depth=5, grace_seconds=0.5)
    running, waiting = await opened(server), await opened(server)
    async with running.connect() as connection:
        await connection.message("m1", None, _LONG)
        await waiting.post("m1", None, _LONG)
        assert await server.metric("queue_depth") == 1
        await server.until_metric("queue_depth", 0)
        assert await server.metric("generations_running") == 1


@pytest.mark.parametrize("tenants", [("public", "public"), ("greedy", "modest")])
async def test_a_busy_address_does_not_hold_up_another(
    opened: OpenSession, serve: Serve, tenants: tuple[str, str]
) -> None:
    server = await serve(generations_per_node=1, queue_depth=100)
    greedy_sender = {"tenant": tenants[0], "address": "203.0.113.1"}
    greedy = [await opened(server, **greedy_sender) for _ in range(12)]
    modest = await opened(server, tenant=tenants[1], address="203.0.113.2")
    text = demo(tokens=5, gap_ms=10, first_token_ms=10)
    blocking = await opened(server, **greedy_sender)
    blocker = (await blocking.post("m1", None, _LONG)).json["response_id"]
    ended: list[str] = []

    async def follow(name: str, session: ChatSession, response_id: str) -> None:
        await session.poll_whole(response_id)
        ended.append(name)

    following = []
    for number, session in enumerate(greedy):
        response_id = (await session.post("m1", None, text)).json["response_id"]
        following.append(asyncio.create_task(follow(f"greedy {number}", session, response_id)))
    response_id = (await modest.post("m1", None, text)).json["response_id"]
    following.append(asyncio.create_task(follow("modest", modest, response_id)))
    await _cancel(blocking, blocker)
    await asyncio.gather(*following)
    assert ended.index("modest") <= 1
    assert [name for name in ended if name != "modest"] == [
        f"greedy {number}" for number in range(12)
    ]


async def test_made_up_tenants_are_one_sender_who_makes_room_for_others(
    opened: OpenSession, serve: Serve
) -> None:
    """Where no tenant has a key."""
    server = await serve(generations_per_node=8, queue_depth=12)
    made_up = [await opened(server, tenant=f"t{n}", address="203.0.113.1") for n in range(21)]
    accepted = [(await session.post("m1", None, _LONG)).status for session in made_up]
    assert accepted == [202] * 20 + [429], "one address alone may have all"
    honest = [await opened(server, address=f"198.51.100.{number}") for number in range(5)]
    posted = [await session.post("m1", None, _LONG) for session in honest]
    assert [answer.json["status"] for answer in posted] == ["streaming"] * 2 + ["queued"] * 3
    assert (await made_up[0].post("m2", "m1", _LONG)).error["code"] == "queue_full"
    for session in made_up[15:20]:
        again = await session.post("m1", None, _LONG)
        error = (await session.poll(again.json["response_id"])).json["metadata"]["error"]
        assert error["code"] == "queue_displaced"
        assert error["retry_after_ms"] > 0
