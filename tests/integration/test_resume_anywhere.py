"""A client comes back anywhere: by any transport, to any task, while the answer is generated and
after it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from functools import partial

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.stream_core.log.entries import Part, PartKind
from tests.integration.answer import Answer
from tests.integration.chat_client import COMPACT, V1, ChatSession, demo
from tests.integration.conftest import OpenSession
from tests.integration.deployment import AwsDeployment, LocalDeployment
from tests.integration.dynamodb_emulator import DynamoDBEmulator
from tests.integration.event_stream import event_id
from tests.integration.local_server import LocalServer
from tests.integration.server_process import free_port
from tests.integration.transports import (
    AT_HANDLERS,
    Refused,
    Transport,
    over_events,
    over_function,
    over_polls,
    over_websocket,
)

_CHANGES = 25
_READERS = 100


@pytest.fixture
async def tasks(deployment: LocalDeployment) -> list[LocalServer]:
    """Three tasks; the first one is asked."""
    return await deployment.handlers(3)


@pytest.fixture
async def tasks_on_tables(aws_deployment: AwsDeployment) -> list[LocalServer]:
    """Three tasks whose responses the poll function sees."""
    return await aws_deployment.handlers(3, readers_per_response=300, streams_per_session=300)


@pytest.fixture
def function(aws_deployment: AwsDeployment) -> Transport:
    return partial(over_function, aws_deployment.poll_function())


async def _ask(session: ChatSession, text: str) -> str:
    posted = await session.post("m1", None, text)
    assert posted.status == 202, posted.body
    response_id: str = posted.json["response_id"]
    return response_id


# -- each transport, at each task, at each moment --------------------------------------------------


@pytest.mark.parametrize("place", ["owner", "other task"])
async def test_come_back_while_it_is_generated_and_after_its_end(
    place: str, tasks: list[LocalServer], opened: OpenSession
) -> None:
    await _come_back(AT_HANDLERS.values(), tasks[0], tasks[0 if place == "owner" else 1], opened)


async def test_come_back_by_the_function(
    tasks_on_tables: list[LocalServer], opened: OpenSession, function: Transport
) -> None:
    await _come_back([function], tasks_on_tables[0], tasks_on_tables[1], opened)


async def _come_back(
    transports: Iterable[Transport], owner: LocalServer, task: LocalServer, opened: OpenSession
) -> None:
    session = await opened(owner)
    text = demo(tokens=80, reasoning=10, searches=1, sources=1, gap_ms=15, seed=11)
    response_id = await _ask(session, text)
    there = session.at(task)

    async def with_this(transport: Transport) -> None:
        early, late = Answer(), Answer()
        first = transport(session, response_id, early, 5)
        await asyncio.gather(first, over_websocket(V1, session, response_id, late, 2))
        assert early.end is late.end is None
        await transport(there, response_id, early, None)
        await owner.until_metric("store_backlog_bytes", 0)
        await transport(there, response_id, late, None)
        all_of_it = Answer()
        await transport(there, response_id, all_of_it, None)
        for answer in (early, late, all_of_it):
            assert answer.text == "".join(demo_tokens(11, 80))
            assert answer.contents == all_of_it.contents
            assert [content.kind for content in answer.contents if isinstance(content, Part)] == [
                *(
                    PartKind.REASONING,
                    PartKind.CALL,
                    PartKind.ARGUMENTS,
                    PartKind.CALL_END,
                    PartKind.RESULT,
                ),
                PartKind.DATA,
            ]
            assert (answer.finish_reason, answer.epoch, answer.restarts) == ("stop", 1, [])

    await asyncio.gather(*map(with_this, transports))


async def test_who_has_everything_is_told_not_to_come_again(
    tasks: list[LocalServer], opened: OpenSession
) -> None:
    session = await opened(tasks[0])
    response_id = await _ask(session, demo(tokens=10, gap_ms=5, seed=13))
    answer = Answer()
    await over_events(session.at(tasks[1]), response_id, answer, None)
    for task in tasks:
        async with session.at(task).events(response_id, Last_Event_ID=event_id(answer)) as stream:
            assert stream.status == 204


async def test_after_its_time_it_is_gone_everywhere(
    aws_deployment: AwsDeployment, opened: OpenSession
) -> None:
    owner, other, third = await aws_deployment.handlers(3, response_ttl_seconds=1)
    session = await opened(owner)
    response_id = await _ask(session, demo(tokens=5, gap_ms=1, seed=14))
    function: Transport = partial(over_function, aws_deployment.poll_function())
    # The other task has a copy in its memory, the third one never had.
    await over_polls(session.at(other), response_id, Answer(), None)
    await aws_deployment.serve.time_passes(4)
    await asyncio.sleep(1.2)  # the function has its own time
    for task, code, status in (
        (owner, "response_expired", 410),
        (other, "response_expired", 410),
        (third, "response_not_found", 404),
    ):
        for name, transport in AT_HANDLERS.items():
            with pytest.raises(Refused) as refused:
                await transport(session.at(task), response_id, Answer(), None)
            assert refused.value.args == (
                (code, status) if name in ("events", "polls") else (code,)
            )
    with pytest.raises(Refused) as refused:
        await function(session, response_id, Answer(), None)
    assert refused.value.args == ("response_expired", 410)


# -- several at once -------------------------------------------------------------------------------


async def test_several_tabs_at_different_tasks(
    tasks_on_tables: list[LocalServer], opened: OpenSession, function: Transport
) -> None:
    session = await opened(tasks_on_tables[0])
    response_id = await _ask(session, demo(tokens=100, gap_ms=15, seed=15))

    async def tab(transport: Transport, task: LocalServer, late_by: float) -> str:
        await asyncio.sleep(late_by)
        answer = Answer()
        await transport(session.at(task), response_id, answer, None)
        assert answer.finish_reason == "stop"
        return answer.text

    every = [(transport, task) for transport in AT_HANDLERS.values() for task in tasks_on_tables]
    tabs = [tab(transport, task, place * 0.08) for place, (transport, task) in enumerate(every)]
    texts = await asyncio.gather(*tabs, tab(function, tasks_on_tables[0], 0.5))
    assert set(texts) == {"".join(demo_tokens(15, 100))}


async def test_changes_of_transport_and_task_in_one_answer(
    tasks_on_tables: list[LocalServer], opened: OpenSession, function: Transport
) -> None:
    dice = random.Random(16)
    session = await opened(tasks_on_tables[0])
    # Longer than the changes can take; it is cancelled when they are over.
    response_id = await _ask(session, demo(tokens=5_000, gap_ms=10, seed=16))
    answer = Answer()
    for _ in range(_CHANGES):
        transport = dice.choice([*AT_HANDLERS.values(), function])
        await transport(
            session.at(dice.choice(tasks_on_tables)),
            response_id,
            answer,
            answer.last + dice.randint(1, 3),
        )
        assert answer.end is None
    cancelled = await session.at(tasks_on_tables[2]).call(
        "POST", f"/chat/message/{response_id}/cancel"
    )
    assert (cancelled.status, cancelled.json["status"]) == (200, "cancelled")
    await over_websocket(COMPACT, session.at(tasks_on_tables[1]), response_id, answer, None)
    assert (answer.finish_reason, answer.restarts) == ("cancelled", [])
    whole = Answer()
    await function(session, response_id, whole, None)
    assert answer.text == whole.text
    assert "".join(demo_tokens(16, 5_000)).startswith(whole.text)


# -- messages and cancels at another task ----------------------------------------------------------


async def test_a_message_again_at_another_task_is_the_same_response(
    tasks: list[LocalServer], opened: OpenSession
) -> None:
    owner, other = tasks[:2]
    before = [await task.metric("tokens_generated_total") for task in (owner, other)]
    session = await opened(owner)
    text = demo(tokens=100, gap_ms=10, seed=17)
    response_id = await _ask(session, text)
    there = session.at(other)
    again = await there.post("m1", None, text)
    assert (again.status, again.json["response_id"]) == (202, response_id)
    async with there.connect() as connection:
        start = await connection.message("m1", None, text)
        assert (start["response_id"], start["duplicate"], start["next_index"]) == (
            response_id,
            True,
            0,
        )
        assert (await connection.whole(response_id)).text == "".join(demo_tokens(17, 100))
    after_its_end = await there.post("m1", None, text)
    assert (after_its_end.status, after_its_end.json["response_id"]) == (202, response_id)
    assert after_its_end.json["status"] == "completed"
    after = [await task.metric("tokens_generated_total") for task in (owner, other)]
    assert after == [before[0] + 100, before[1]]
    # The conversation goes on wherever the next message comes.
    assert (await there.post("m2", "m1", demo(tokens=1))).status == 202
    assert (await session.post("m2b", "m1", demo(tokens=1))).error["expected"] == "m2"


@pytest.mark.parametrize("over", ["http", "websocket"])
async def test_cancel_at_another_task(
    over: str, tasks: list[LocalServer], opened: OpenSession
) -> None:
    session = await opened(tasks[0])
    there = session.at(tasks[1])
    async with session.connect() as reading:
        start = await reading.message("m1", None, demo(tokens=5_000, gap_ms=20, seed=18))
        response_id = start["response_id"]
        await reading.reach(response_id, 3)
        if over == "http":
            answered = await there.call("POST", f"/chat/message/{response_id}/cancel")
            assert (answered.status, answered.json["status"]) == (200, "cancelled")
        else:
            async with there.connect() as connection:
                await connection.resume(response_id, -1)
                await connection.send("response.cancel", response_id=response_id)
                assert (await connection.whole(response_id)).finish_reason == "cancelled"
        assert (await reading.whole(response_id)).finish_reason == "cancelled"
    await tasks[0].until_metric("generations_running", 0)


# -- where it comes from ---------------------------------------------------------------------------


async def test_a_task_says_from_where_it_has_a_response(
    tasks: list[LocalServer], opened: OpenSession
) -> None:
    session = await opened(tasks[0])
    response_id = await _ask(session, demo(tokens=60, gap_ms=20, seed=19))
    assert await _said(session, response_id) == {"owner"}
    assert await _said(session.at(tasks[1]), response_id) == {"peer"}


async def test_an_owner_that_cannot_be_reached_is_read_from_the_store(
    tasks: list[LocalServer], deployment: LocalDeployment, opened: OpenSession
) -> None:
    owner = await deployment.handler(peer_url=_nowhere())
    session = await opened(owner)
    endless = await _ask(session, demo(tokens=10_000, gap_ms=20))
    there = session.at(tasks[0])
    assert await _said(there, endless) == {"store"}
    cancelled = await there.call("POST", f"/chat/message/{endless}/cancel")
    assert (cancelled.status, cancelled.error["code"]) == (503, "owner_unreachable")
    assert int(cancelled.headers["Retry-After"]) >= 1
    session = await opened(owner)
    response_id = await _ask(session, demo(tokens=80, gap_ms=20, seed=20))
    there = session.at(tasks[0])
    answers = [Answer() for _ in AT_HANDLERS]
    await asyncio.gather(
        *(
            transport(there, response_id, answer, None)
            for transport, answer in zip(AT_HANDLERS.values(), answers, strict=True)
        )
    )
    for answer in answers:
        assert (answer.text, answer.finish_reason) == ("".join(demo_tokens(20, 80)), "stop")


def _nowhere() -> str:
    """An address that nobody has, asked for when it is needed: a later server may be given it."""
    return f"http://127.0.0.1:{free_port()}"


async def _said(session: ChatSession, response_id: str) -> set[str]:
    """Where this session's task says that it has the response from, on each transport."""
    async with session.connect() as connection:
        await connection.send("response.resume", response_id=response_id, after=-1)
        start = await connection.next_of("chat.response.start")
        websocket = start.get("via", "owner")
    async with session.events(response_id) as stream:
        events = stream.headers["Evenflow-Via"]
    return {websocket, events, (await session.poll(response_id)).headers["Evenflow-Via"]}


@pytest.mark.parametrize("reachable", [True, False])
async def test_many_readers_cost_the_store_what_one_does(
    reachable: bool,
    aws_deployment: AwsDeployment,
    emulated_dynamodb: DynamoDBEmulator,
    opened: OpenSession,
) -> None:
    owner = await aws_deployment.handler(**({} if reachable else {"peer_url": _nowhere()}))
    other = await aws_deployment.handler(
        readers_per_response=_READERS, streams_per_session=_READERS
    )

    async def reads(readers: int, seed: int) -> int:
        session = await opened(owner)
        response_id = await _ask(session, demo(tokens=80, gap_ms=20, seed=seed))
        answers = [Answer() for _ in range(readers)]
        before = emulated_dynamodb.requests.copy()
        followed = asyncio.create_task(other.until_metric("responses_followed", 1, 20))
        there = session.at(other)
        await asyncio.gather(*(over_events(there, response_id, answer, None) for answer in answers))
        after = emulated_dynamodb.requests.copy()
        await followed
        assert {answer.text for answer in answers} == {"".join(demo_tokens(seed, 80))}
        return sum((after - before)[operation] for operation in ("Query", "GetItem"))

    one, many = await reads(1, 21), await reads(_READERS, 22)
    # The time that it takes decides how often the store is read, and what every task looks for
    # twice a second.
    assert many < 3 * one + 20
