"""Responses that one handler generates and another one gives, on the tables and with the keys
that were deployed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial

import aiohttp
import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.aws.running_system import RunningSystem
from tests.integration.answer import Answer
from tests.integration.chat_client import V1, ChatSession, demo, open_session
from tests.integration.server_process import ServerProcess
from tests.integration.transports import (
    Transport,
    over_events,
    over_polls,
    over_websocket,
    read_whole,
)

# The first test starts the system, on a machine that others may be using.
pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def doomed(system: RunningSystem) -> Iterator[ServerProcess]:
    """A third handler, to which the load balancer sends nobody."""
    handler = ServerProcess(system.folder / "doomed.log", system.handler_environment)
    try:
        yield handler.wait_until_serving()
    finally:
        handler.stop()


async def _ask(session: ChatSession, text: str) -> str:
    posted = await session.post("m1", None, text)
    assert posted.status == 202, posted.body
    response_id: str = posted.json["response_id"]
    return response_id


async def test_an_answer_begun_at_one_handler_is_resumed_at_the_other(
    system: RunningSystem, http: aiohttp.ClientSession
) -> None:
    session = await open_session(http, system.url)
    owner, other = (session.at(handler) for handler in system.handlers.values())
    response_id = await _ask(owner, demo(tokens=150, gap_ms=20, seed=31))
    resumed = Answer(), Answer()
    transports: tuple[Transport, ...] = (partial(over_websocket, V1), over_events)
    for transport, answer in zip(transports, resumed, strict=True):
        await transport(owner, response_id, answer, answer.last + 5)
    assert await _via(other, response_id) == {"peer"}
    polled = Answer()
    await asyncio.gather(
        *(
            transport(other, response_id, answer, None)
            for transport, answer in zip(transports, resumed, strict=True)
        ),
        over_polls(session, response_id, polled, None),
    )
    for answer in (*resumed, polled):
        assert answer.text == "".join(demo_tokens(31, 150))
        assert (answer.finish_reason, answer.epoch, answer.restarts) == ("stop", 1, [])


async def _via(session: ChatSession, response_id: str) -> set[str]:
    """Where this session's handler says that it has the response from."""
    async with session.connect() as connection:
        await connection.send("response.resume", response_id=response_id, after=-1)
        start = await connection.next_of("chat.response.start")
    async with session.events(response_id) as stream:
        return {start["via"], stream.headers["Evenflow-Via"]}


async def test_a_handler_that_is_killed_is_succeeded_by_another(
    system: RunningSystem, http: aiohttp.ClientSession, doomed: ServerProcess
) -> None:
    successors = system.handlers.values()
    before = sum([await handler.metric("lease_take_overs_total") for handler in successors])
    session = await open_session(http, system.url)
    response_id = await _ask(session.at(doomed), demo(tokens=300, gap_ms=40, seed=32))
    had_more, followed, polled = Answer(), Answer(), Answer()
    # One has what only the lost handler had; the others read elsewhere all the time.
    async with asyncio.TaskGroup() as readers:
        readers.create_task(_read(partial(over_websocket, V1), session, response_id, followed))
        readers.create_task(_read(over_polls, session, response_id, polled))
        await over_events(session.at(doomed), response_id, had_more, 20)
        doomed.kill()
        readers.create_task(_read(over_events, session, response_id, had_more))
    for answer in (had_more, followed, polled):
        assert answer.text == "".join(demo_tokens(32, 300))
        assert (answer.finish_reason, answer.epoch) == ("stop", 2)
    assert (
        sum([await handler.metric("lease_take_overs_total") for handler in successors])
        == before + 1
    )


async def _read(
    transport: Transport, session: ChatSession, response_id: str, answer: Answer
) -> None:
    """At the entry, to the end; cut off, the client comes again."""
    await read_whole(transport, [session] * 3, response_id, answer)
