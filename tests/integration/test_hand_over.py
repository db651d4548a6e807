"""A task leaves: each client is told its moment to go, answers that fit finish, all others go on
at another task.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial
from itertools import pairwise

import aiohttp
import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Answer
from tests.integration.chat_client import V1, ChatSession, call, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.deployment import AwsDeployment, LocalDeployment
from tests.integration.dynamodb_emulator import DynamoDBEmulator, dynamodb_emulator
from tests.integration.ecs_agent import ecs_agent
from tests.integration.transports import (
    AT_HANDLERS,
    WITHOUT_EPOCHS,
    CutOff,
    Transport,
    over_function,
    over_polls,
    over_websocket,
    read_whole,
)

# The machine may be busy.
_BEHIND_THE_DRAIN = 12.0
_DRAIN_KEY = "a key that operators have"


async def _ask(
    session: ChatSession, text: str, message_id: str = "m1", previous: str | None = None
) -> str:
    posted = await session.post(message_id, previous, text)
    assert posted.status == 202, posted.body
    response_id: str = posted.json["response_id"]
    return response_id


async def _over_obedient_websocket(
    session: ChatSession, response_id: str, answer: Answer, until: int | None
) -> None:
    """Goes when it is told to go, in the middle of an answer."""
    async with session.connect() as connection:
        connection.answers[response_id] = answer
        await connection.send(
            "response.resume", response_id=response_id, after=answer.last, epoch=answer.epoch
        )
        while answer.end is None and (until is None or answer.last < until):
            frame = await connection.receive(40)
            if frame["type"] == "reconnect":
                await asyncio.sleep(frame["after_ms"] / 1000)
                raise CutOff("told to reconnect")


# -- running answers -------------------------------------------------------------------------------


async def test_answers_that_do_not_fit_go_on_at_another_task(
    aws_deployment: AwsDeployment, opened: OpenSession, http: aiohttp.ClientSession
) -> None:
    leaving = await aws_deployment.handler(
        drain_seconds=1, drain_key=_DRAIN_KEY, generations_per_node=1
    )
    staying = await aws_deployment.handlers(2)
    session, second = await opened(leaving), await opened(leaving)
    function: Transport = partial(over_function, aws_deployment.poll_function())
    response_id = await _ask(session, demo(tokens=100, gap_ms=30, seed=41))
    # This one still waits for its turn when the task leaves.
    queued_id = await _ask(second, demo(tokens=20, gap_ms=10, seed=42))
    transports: list[Transport] = [
        *AT_HANDLERS.values(),
        *WITHOUT_EPOCHS.values(),
        _over_obedient_websocket,
    ]
    reading = [
        asyncio.create_task(
            read_whole(transport, [session, *map(session.at, staying)], response_id)
        )
        for transport in transports
    ]
    reading += [
        asyncio.create_task(read_whole(transport, [session.at(task)], response_id))
        for transport in AT_HANDLERS.values()
        for task in staying
    ]
    reading.append(asyncio.create_task(read_whole(function, [session], response_id)))
    waiting = asyncio.create_task(
        read_whole(AT_HANDLERS["websocket"], [second, *map(second.at, staying)], queued_id)
    )
    await over_websocket(V1, session, response_id, Answer(), 10)

    began = time.monotonic()
    key = {"Authorization": f"Bearer {_DRAIN_KEY}"}
    told = await call(http, "POST", f"{leaving.http_url}/drain", headers=key)
    assert (told.status, told.json) == (202, {"status": "draining"})
    while (health := await call(http, "GET", f"{leaving.http_url}/health")).status == 200:
        assert time.monotonic() - began < 10
    assert (health.status, health.json["status"]) == (503, "draining")
    refused = await session.post("m2", "m1", "x")
    assert (refused.status, refused.error["code"]) == (503, "draining")
    next_id = await _ask(session.at(staying[0]), demo(tokens=5, gap_ms=1, seed=43), "m2", "m1")
    await leaving.ended(_BEHIND_THE_DRAIN)

    for answer in await asyncio.gather(*reading):
        assert (answer.text, answer.finish_reason) == ("".join(demo_tokens(41, 100)), "stop")
        assert answer.epoch == 2
    assert (await waiting).text == "".join(demo_tokens(42, 20))
    after = await read_whole(over_polls, [session.at(staying[1])], next_id)
    assert after.text == "".join(demo_tokens(43, 5))
    assert sum([await task.metric("lease_take_overs_total") for task in staying]) == 2


async def test_answers_that_fit_finish_where_they_are(
    deployment: LocalDeployment, opened: OpenSession
) -> None:
    leaving = await deployment.handler(drain_seconds=60)
    staying = await deployment.handler()
    session = await opened(leaving)
    response_id = await _ask(session, demo(tokens=100, gap_ms=15, seed=44))
    reading = [
        asyncio.create_task(read_whole(transport, sessions, response_id))
        for transport in AT_HANDLERS.values()
        for sessions in ([session], [session.at(staying)])
    ]
    await over_websocket(V1, session, response_id, Answer(), 5)
    leaving.leave()
    for answer in await deployment.serve.time_passes_until(asyncio.gather(*reading)):
        assert (answer.text, answer.finish_reason) == ("".join(demo_tokens(44, 100)), "stop")
        assert (answer.epoch, answer.restarts) == (1, [])
    await leaving.ended()
    assert await staying.metric("lease_take_overs_total") == 0
    late = await read_whole(over_polls, [session.at(staying)], response_id)
    assert late.text == "".join(demo_tokens(44, 100))


async def test_a_deactivated_task_hands_over_and_the_later_signal_changes_nothing(
    deployment: LocalDeployment, opened: OpenSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "evenflow.fargate_handler.scale_in_protection._DEACTIVATION_LOOK_SECONDS", (0.01, 0.02)
    )
    async with ecs_agent() as agent:
        leaving = await deployment.handler(agent.environment, drain_seconds=0.5)
        staying = await deployment.handler()
        session = await opened(leaving)
        response_id = await _ask(session, demo(tokens=100, gap_ms=20, seed=46))
        reading = [
            asyncio.create_task(read_whole(transport, [session, session.at(staying)], response_id))
            for transport in AT_HANDLERS.values()
        ]
        async with session.connect() as idle:
            agent.last_status = "DEACTIVATING"
            assert (await idle.next_of("reconnect"))["after_ms"] >= 0
            leaving.leave()
            assert await idle.closed() == 1001
        await leaving.ended(_BEHIND_THE_DRAIN)
        for answer in await asyncio.gather(*reading):
            assert (answer.text, answer.finish_reason) == ("".join(demo_tokens(46, 100)), "stop")
            assert answer.epoch == 2


@pytest.fixture
async def line(serve: Serve) -> AsyncIterator[DynamoDBEmulator]:
    """One task's way to the tables. It is closed before the task is stopped."""
    async with dynamodb_emulator() as proxy:
        yield proxy


async def test_a_task_that_cannot_write_leaves_in_time_and_its_answers_go_on(
    aws_deployment: AwsDeployment, line: DynamoDBEmulator, opened: OpenSession
) -> None:
    behind_the_line = replace(
        aws_deployment, environment={**aws_deployment.environment, **line.environment}
    )
    leaving = await behind_the_line.handler(drain_seconds=0.5, lease_seconds=10)
    staying = await aws_deployment.handler(lease_seconds=10)
    session = await opened(leaving)
    response_id = await _ask(session, demo(tokens=100, gap_ms=30, seed=47))
    reading = [
        asyncio.create_task(read_whole(transport, [session, session.at(staying)], response_id))
        for transport in AT_HANDLERS.values()
    ]
    await over_websocket(V1, session, response_id, Answer(), 10)
    await line.refuse_connections()
    leaving.leave()
    # What is still unwritten after the drain has 5 s more.
    await aws_deployment.serve.time_passes(6)
    await leaving.ended(_BEHIND_THE_DRAIN)
    # Its lease could not be released, and runs out.
    await aws_deployment.lease_runs_out()
    for answer in await asyncio.gather(*reading):
        assert (answer.text, answer.finish_reason) == ("".join(demo_tokens(47, 100)), "stop")


# -- connections -----------------------------------------------------------------------------------


@pytest.mark.parametrize("drain_seconds", [30, 4])
async def test_each_connection_has_its_own_moment_to_go(
    drain_seconds: int, serve: Serve, opened: OpenSession
) -> None:
    """Evenly spaced, at the rate at most; closer where three quarters of the drain are too short
    for that.
    """
    leaving = await serve(drain_seconds=drain_seconds, drain_connections_per_second=10)
    async with AsyncExitStack() as open_ones:
        connections = [
            await open_ones.enter_async_context((await opened(leaving)).connect())
            for _ in range(40)
        ]
        asked_at = serve.time.monotonic()
        leaving.leave()
        told = await asyncio.gather(
            *(connection.next_of("reconnect") for connection in connections)
        )
        slots = [frame["after_ms"] for frame in told]
        gaps = [later - earlier for earlier, later in pairwise(sorted(slots))]
        assert max(gaps) - min(gaps) <= 2  # they are cut to whole milliseconds
        assert min(slots) == 0
        assert max(slots) < 0.75 * drain_seconds * 1000
        if drain_seconds == 30:
            assert 99 <= min(gaps) < 150
        # Not in the order in which they came.
        assert slots != sorted(slots)

        async def stays_for(slot_ms: int, place: int) -> None:
            assert await connections[place].closed() == 1001
            assert serve.time.monotonic() - asked_at >= slot_ms / 1000

        staying = asyncio.gather(*(stays_for(slot, place) for place, slot in enumerate(slots)))
        while not staying.done():
            # The drain looks up every 50 ms, in real time.
            await serve.time_passes(0.3)
            await asyncio.sleep(0.05)
        await staying
    await leaving.ended()
