"""Who reads a response, told over sockets by the tasks that share a store."""

from __future__ import annotations

import asyncio

import aiohttp

from tests.integration.chat_client import ChatSession, Connection, demo
from tests.integration.conftest import OpenSession
from tests.integration.deployment import Deployment, LocalDeployment

_LONG = demo(tokens=3000, gap_ms=50, seed=3)
# A change is told within two seconds; a machine that is busy with other tests gets more.
_SECONDS = 10.0


async def _until_told(listener: Connection, transports: list[str]) -> None:
    async with asyncio.timeout(_SECONDS):
        while True:
            told = await listener.next_of("presence", seconds=_SECONDS)
            assert told["count"] == len(told["readers"])
            if sorted(each["transport"] for each in told["readers"]) == transports:
                return


async def _asked(session: ChatSession) -> str:
    response_id: str = (await session.post("m1", None, _LONG)).json["response_id"]
    return response_id


async def test_readers_of_all_tasks_are_told_at_each(
    http: aiohttp.ClientSession, opened: OpenSession, deployment: LocalDeployment
) -> None:
    tasks = await deployment.handlers(3)
    session = await opened(tasks[0])
    response_id = await _asked(session)
    shared = (await session.call("POST", f"/session/{session.session_id}/share", {})).json
    colleague = ChatSession(http, {**shared, "session_id": session.session_id}).at(tasks[1])
    async with session.connect() as own, colleague.connect() as watching:
        for each in (own, watching):
            await each.resume(response_id, -1)
            await each.send("presence.subscribe", response_id=response_id)
        both = ["websocket", "websocket"]
        await asyncio.gather(_until_told(own, both), _until_told(watching, both))
        async with session.at(tasks[2]).events(response_id):
            all_three = ["sse", *both]
            await asyncio.gather(_until_told(own, all_three), _until_told(watching, all_three))
        await asyncio.gather(_until_told(own, both), _until_told(watching, both))
    await session.call("POST", f"/chat/message/{response_id}/cancel")


async def test_the_readers_of_a_task_that_says_nothing_are_forgotten(
    opened: OpenSession, process_deployment: Deployment
) -> None:
    owner, other = await process_deployment.handlers(2)
    session = await opened(owner)
    response_id = await _asked(session)
    async with (
        session.connect() as own,
        session.at(other).events(response_id),
    ):
        await own.resume(response_id, -1)
        await own.send("presence.subscribe", response_id=response_id)
        await _until_told(own, ["sse", "websocket"])
        with other.suspended():
            await _until_told(own, ["websocket"])
    await session.call("POST", f"/chat/message/{response_id}/cancel")
