"""Requests that came with a session's token are under that session's limits; those of a tenant's
key are not.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import (
    WholeRequest,
    repeatable_channel,
    single_channel,
)
from evenflow.stream_core.base.channel import COMPLETION, KEYED_COMPLETION, Channel, MessageKind
from evenflow.stream_core.base.errors import Overloaded, RateLimited
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.session.conversation import Turn
from tests.unit.fargate_handler.orchestrator.scripted_stores import UNREACHABLE
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Shared, Task
from tests.unit.settle import settle

_TEXT = WholeRequest((Turn("user", "x"),)).to_text()
_OTHER = CHANNEL._replace(session="other")


class Request(NamedTuple):
    channel: Channel
    kind: MessageKind


def of(session: Channel | None, number: int) -> Request:
    """Without a key."""
    return Request(
        single_channel(CHANNEL.tenant, f"{number}", session), COMPLETION.sent_with(session)
    )


def keyed(session: Channel) -> Request:
    """With a key, always the same one."""
    return Request(
        repeatable_channel(session.tenant, "key", session), KEYED_COMPLETION.sent_with(session)
    )


async def ask(task: Task, request: Request) -> ResponseStream:
    return (await task.send("m", text=_TEXT, channel=request.channel, kind=request.kind)).stream


async def refused(task: Task, request: Request) -> str:
    with pytest.raises(RateLimited) as refusal:
        await ask(task, request)
    assert refusal.value.retry_after_ms
    return refusal.value.code


async def test_a_session_s_requests_and_its_messages_are_in_flight_together() -> None:
    task = await Task.join(limits=Limits(messages_in_flight_per_session=2))
    await task.send("m1")
    await ask(task, of(CHANNEL, 1))
    assert await refused(task, of(CHANNEL, 2)) == "session_in_flight"
    assert await refused(task, keyed(CHANNEL)) == "session_in_flight"
    assert (await task.refusal("m2", "m1")).code == "session_in_flight"
    await ask(task, of(_OTHER, 3))
    await task.answer("one.", 1)
    await ask(task, of(CHANNEL, 2))
    assert await refused(task, of(CHANNEL, 4)) == "session_in_flight"
    await task.leave()


async def test_they_come_at_one_rate() -> None:
    task = await Task.join(limits=Limits(messages_per_second=1, messages_in_flight_per_session=9))
    await task.send("m1")
    await ask(task, of(CHANNEL, 1))
    assert await refused(task, of(CHANNEL, 2)) == "rate_limited"
    assert (await task.refusal("m2", "m1")).code == "rate_limited"
    await ask(task, of(_OTHER, 3))
    await task.clock.pass_time(1.1)
    await ask(task, of(CHANNEL, 2))
    await task.leave()


async def test_an_answer_that_there_is_costs_its_sender_nothing() -> None:
    task = await Task.join(limits=Limits(messages_per_second=0.1, messages_in_flight_per_session=1))
    for _ in range(3):
        await ask(task, keyed(CHANNEL))
    await settle()
    assert len(task.source.calls) == 1
    await task.leave()


async def test_a_tenant_s_key_has_the_limits_of_the_tenant_alone() -> None:
    task = await Task.join(limits=Limits(messages_per_second=0.1, messages_in_flight_per_session=1))
    for number in range(5):
        await ask(task, of(None, number))
    await task.leave()


async def test_requests_that_are_on_their_way_into_the_ledger_are_in_flight() -> None:
    task = await Task.join(limits=Limits(messages_in_flight_per_session=2))
    task.shared.sessions.network.hold("accept")
    asking = [asyncio.create_task(ask(task, of(CHANNEL, number))) for number in range(3)]
    await settle()
    task.shared.sessions.network.release()
    outcomes = await asyncio.gather(*asking, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ResponseStream, ResponseStream, RateLimited]
    await task.leave()


async def test_a_request_that_could_not_be_put_on_record_is_not_in_flight() -> None:
    task = await Task.join(limits=Limits(messages_in_flight_per_session=1))
    task.shared.sessions.network.failures["accept"] = UNREACHABLE
    with pytest.raises(Overloaded):
        await ask(task, of(CHANNEL, 1))
    del task.shared.sessions.network.failures["accept"]
    await ask(task, of(CHANNEL, 2))
    await task.leave()


async def test_whoever_takes_an_answer_over_counts_it() -> None:
    shared, limits = Shared(), Limits(messages_in_flight_per_session=1)
    a = await Task.join(shared, "a", limits)
    stream = await ask(a, keyed(CHANNEL))
    a.read(stream)
    await settle()
    a.cut_off()
    b = await Task.join(shared, "b", limits)
    await b.clock.pass_time(4.0, step=0.05)
    assert await refused(b, of(CHANNEL, 2)) == "session_in_flight"
    await b.answer("one.")
    await ask(b, of(CHANNEL, 2))
    await b.leave()


async def test_a_session_that_is_known_by_its_requests_still_learns_what_it_said_elsewhere() -> (
    None
):
    shared = Shared()
    a, b = await Task.join(shared, "a"), await Task.join(shared, "b")
    await a.send("m1", text="m1?")
    await a.answer("m1.")
    await ask(b, of(CHANNEL, 1))
    assert (await b.send("m1", text="m1?")).duplicate
    await b.send("m2", "m1", text="m2?")
    await settle()
    assert [turn.text for turn in b.source.calls[-1].request.turns] == ["m1?", "m1.", "m2?"]
    assert shared.sessions.network.calls["accept"] == 3, "it looked before it wrote"
    await a.leave()
    await b.leave()
