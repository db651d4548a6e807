"""What a task knows of the ends of sessions, and when it looks for them."""

from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import (
    IncomingMessage,
    ReceivedRequest,
    WholeRequest,
    response_channel,
    single_channel,
)
from evenflow.stream_core.base.agents import NO_TERMS
from evenflow.stream_core.base.channel import BACKGROUND, Channel
from evenflow.stream_core.base.errors import EvenflowError, Gone
from evenflow.stream_core.session.conversation import Turn
from evenflow.stream_core.tenants.tenant import ApiKey, Tenant
from tests.unit.fargate_handler.orchestrator.scripted_stores import UNREACHABLE
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import (
    CHANNEL,
    Shared,
    Task,
    two_tasks,
)
from tests.unit.settle import settle

FRESH_SECONDS = 5.0
OF_SESSION = response_channel(CHANNEL.tenant, "d" * 40, CHANNEL)


async def is_ended(task: Task, channel: Channel = CHANNEL) -> bool:
    try:
        await task.orchestrator.ended_sessions.check_in_store(channel)
    except Gone:
        return True
    return False


def event(session: Channel | None = CHANNEL, key: str = "") -> IncomingMessage:
    """A background answer over `/v1`, with a session's token or without."""
    return IncomingMessage.of_request(
        response_channel(CHANNEL.tenant, "d" * 40, session),
        "m1",
        ReceivedRequest.of(WholeRequest((Turn("user", "hi"),))),
        kind=BACKGROUND.sent_with(session),
        terms=NO_TERMS.model_copy(update={"key": key}),
    )


def test_a_request_s_channel_names_the_session_whose_token_it_came_with() -> None:
    assert CHANNEL.own_session == CHANNEL
    for made in (response_channel, single_channel):
        assert made("t", "digest", CHANNEL).own_session == CHANNEL
        assert made("t", "digest").own_session is None


async def test_after_a_message_was_stored_the_store_is_asked_seconds_later() -> None:
    a, b = await two_tasks()
    sessions = b.orchestrator.ended_sessions
    began_at = b.clock.now
    await b.clock.pass_time(0.1)
    sessions.note_stored(CHANNEL, began_at)
    assert not await is_ended(b)
    assert not b.sessions.network.calls["find_ended"]
    await a.orchestrator.end_session(CHANNEL)
    await b.clock.pass_time(FRESH_SECONDS)
    assert await is_ended(b)
    sessions.note_stored(CHANNEL, began_at)
    assert await is_ended(b), "it was ended since that message was sent"


async def test_an_end_at_another_task_is_known_in_seconds_and_looked_for_as_seldom() -> None:
    a, b = await two_tasks()
    calls = b.sessions.network.calls
    for _ in range(10):
        assert not await is_ended(b)
    assert calls["find_ended"] == 1
    await a.orchestrator.end_session(CHANNEL)
    assert await is_ended(a), "it was ended here"
    await b.clock.pass_time(FRESH_SECONDS)
    assert await is_ended(b)
    with pytest.raises(Gone):
        b.orchestrator.ended_sessions.check(CHANNEL)
    other = Channel("t", "demo", "other")
    assert not await is_ended(b, other)
    assert calls["find_ended"] == 3


async def test_a_store_that_fails_or_hangs_keeps_nobody_waiting_and_undoes_no_end() -> None:
    a, b = await two_tasks()
    await a.orchestrator.end_session(CHANNEL)
    b.sessions.network.failures["find_ended"] = UNREACHABLE
    assert not await is_ended(b)
    await b.clock.pass_time(FRESH_SECONDS)
    del b.sessions.network.failures["find_ended"]
    assert await is_ended(b)
    await b.clock.pass_time(FRESH_SECONDS)
    b.sessions.network.hold("find_ended")
    looking = asyncio.create_task(is_ended(b))
    await b.clock.pass_time(1.1)
    assert looking.done()
    assert await looking


async def test_of_many_sessions_few_reads_find_the_ended_ones() -> None:
    task = await Task.join()
    channels = [Channel("t", "demo", f"s{number}") for number in range(250)]
    await task.sessions.end(channels[7], task.clock.now)
    await task.orchestrator.ended_sessions.refresh(channels)
    assert task.sessions.network.calls["find_ended"] == 3
    known = task.orchestrator.ended_sessions
    for channel in channels:
        if channel is channels[7]:
            with pytest.raises(Gone):
                known.check(channel)
        else:
            known.check(channel)


async def test_the_end_of_a_session_ends_what_was_asked_with_its_token_at_every_task() -> None:
    a, b = await two_tasks()
    answer = (await b.orchestrator.submit(event())).stream
    of_key = (await b.orchestrator.submit(event(None))).stream
    await settle()
    await a.orchestrator.end_session(CHANNEL)
    await b.clock.pass_time(FRESH_SECONDS)
    await b.orchestrator.cancel_revoked()
    assert (answer.state, of_key.state) == ("cancelled", "streaming")
    for refused in (
        b.find(answer.response_id, OF_SESSION),
        b.orchestrator.submit(event()),
    ):
        with pytest.raises(Gone) as gone:
            await refused
        assert gone.value.code == "session_ended"
    await b.leave()


async def test_the_end_of_a_session_ends_what_runs_of_it_here_at_once() -> None:
    task = await Task.join()
    answer = (await task.orchestrator.submit(event())).stream
    await settle()
    await task.orchestrator.end_session(CHANNEL)
    assert answer.state == "cancelled"


@pytest.mark.parametrize("gone", ["tenant", "key"])
async def test_what_runs_for_a_key_ends_with_it_and_with_its_tenant(gone: str) -> None:
    shared = Shared()
    keys = (ApiKey.of_text("k1", "1"), ApiKey.of_text("k2", "2"))
    shared.tenants.replace([Tenant(id=CHANNEL.tenant, keys=keys)])
    task = await Task.join(shared)
    answer = (await task.orchestrator.submit(event(key="k1"))).stream
    await settle()
    await task.orchestrator.cancel_revoked()
    assert answer.state == "streaming"
    if gone == "tenant":
        shared.tenants.replace([], removed={CHANNEL.tenant}, closed=True)
    else:
        shared.tenants.replace([Tenant(id=CHANNEL.tenant, keys=keys[1:])])
    with pytest.raises(EvenflowError) as refused:
        await task.orchestrator.submit(event(None, "k1"))
    assert refused.value.code == {"tenant": "tenant_removed", "key": "token_revoked"}[gone]
    await task.orchestrator.cancel_revoked()
    assert answer.state == "cancelled"
