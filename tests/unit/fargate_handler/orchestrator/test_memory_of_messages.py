"""What messages, conversations and responses take of a node's memory has limits."""

from __future__ import annotations

from typing import Any, NoReturn

import pytest

from evenflow.fargate_handler.orchestrator.agent_settings import AgentSettings
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import Overloaded
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Task
from tests.unit.fargate_handler.orchestrator.test_limits_of_senders import ask, of
from tests.unit.settle import settle

_MIB = 1_048_576
_LONG = "\N{GRINNING FACE}" + "x" * 30_000  # as a `str` four bytes a character
_SESSIONS = 60


def session(number: int) -> Channel:
    return CHANNEL._replace(session=f"s{number}")


async def fill(task: Task) -> tuple[int, Overloaded]:
    """How many long messages, each of another session, are accepted, and how the next one isn't."""
    for number in range(_SESSIONS):
        try:
            await task.send("m1", text=_LONG, channel=session(number))
        except Overloaded as refusal:
            return number, refusal
    raise AssertionError("all were accepted")


# -- conversations ---------------------------------------------------------------------------------


async def test_conversations_have_a_limit_in_bytes_and_the_one_idle_longest_goes() -> None:
    task = await Task.join(limits=Limits(conversations_held_bytes=_MIB))
    memory, conversations = task.workload.memory.conversations, task.workload.conversations
    for number in range(_SESSIONS):
        await task.send("m1", text=_LONG, channel=session(number))
        await task.answer("one.")
        assert 0 < memory.bytes <= _MIB
    known = [conversations.get(session(number)) is not None for number in range(_SESSIONS)]
    assert known == sorted(known), "those that were forgotten are the oldest"
    assert known.count(True) > 25, "as UTF-8, not as four bytes a character"
    forgotten = task.count(catalogue.CONVERSATIONS_FORGOTTEN)
    assert forgotten == known.count(False)
    await task.leave()


async def test_a_conversation_that_was_forgotten_is_read_from_the_store() -> None:
    task = await Task.join(limits=Limits(conversations_held_bytes=_MIB))
    await task.send("m1", text="m1?")
    await task.answer("m1.")
    for number in range(_SESSIONS):
        await task.send("m1", text=_LONG, channel=session(number))
        await task.answer("one.")
    assert task.workload.conversations.get(CHANNEL) is None
    await task.send("m2", "m1", text="m2?")
    await settle()
    turns = task.source.calls[-1].request.turns
    assert [turn.text for turn in turns] == ["m1?", "m1.", "m2?"]
    await task.leave()


async def test_when_all_conversations_are_busy_a_message_is_refused_and_not_kept() -> None:
    task = await Task.join(limits=Limits(conversations_held_bytes=_MIB))
    accepted, refusal = await fill(task)
    assert (refusal.code, refusal.retry_after_ms) == ("node_memory", 1_000)
    assert 25 < accepted < 35
    assert await task.shared.ledger(session(accepted)) == []
    assert task.count(catalogue.MEMORY_REFUSED) == 1
    refused = task.metrics.labelled(catalogue.MESSAGES_REFUSED)
    assert refused.by_labels == {("node_memory",): 1}
    await task.answer("one.", 0)
    assert (await task.send("m1", text=_LONG, channel=session(accepted))).stream
    await task.leave()


# -- messages --------------------------------------------------------------------------------------


async def test_messages_count_until_their_answer_has_ended_and_one_too_many_is_refused() -> None:
    limits = Limits(requests_held_bytes=_MIB, request_bytes=_MIB)
    task = await Task.join(limits=limits)
    memory = task.workload.memory.requests
    accepted, refusal = await fill(task)
    assert refusal.code == "node_memory"
    assert 5 < accepted < 9, "each takes 120 KB"
    assert _MIB / 2 < memory.bytes <= _MIB
    assert await task.shared.ledger(session(accepted)) == []
    for number in range(accepted):
        await task.answer("one.", number)
    assert memory.bytes == 0
    await task.send("m1", text=_LONG, channel=session(accepted))
    await task.leave()


def _out_of_memory(*_: Any) -> NoReturn:
    raise MemoryError


async def test_a_message_that_could_not_be_begun_is_in_flight_nowhere_and_has_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = {"messages_in_flight_per_session": 1, "messages_in_flight_per_tenant": 1}
    task = await Task.join(limits=Limits(**one))
    with monkeypatch.context() as patch:
        patch.setattr(AgentSettings, "limits", _out_of_memory)
        with pytest.raises(MemoryError):
            await task.send("m1")
        with pytest.raises(MemoryError):
            await ask(task, of(CHANNEL, 1))
    again = await task.send("m1")
    assert again.duplicate
    assert again.stream.state is ResponseState.ERROR
    assert task.workload.memory.requests.bytes == 0
    await task.send("m2", "m1")
    await task.answer("two.")
    await ask(task, of(CHANNEL, 2))
    await task.leave()


# -- responses -------------------------------------------------------------------------------------


async def test_what_running_responses_take_has_a_limit_and_the_longest_one_ends() -> None:
    task = await Task.join(limits=Limits(running_held_bytes=_MIB))
    long = (await task.send("m1", channel=session(1))).stream
    short = (await task.send("m1", channel=session(2))).stream
    await settle()
    first, second = task.source.calls
    first.push(*["x" * 30_000] * 33)
    second.push("x" * 30_000)
    task.orchestrator.sweep(task.clock.now)
    assert task.workload.memory.running.bytes < _MIB
    second.push("x" * 30_000)
    for _ in range(2):
        task.orchestrator.sweep(task.clock.now)
    first.push("x")
    second.push("x")
    await settle()
    assert (long.state, long.finish_reason) == (ResponseState.COMPLETED, "length")
    assert short.state is ResponseState.STREAMING
    assert task.count(catalogue.RESPONSES_SHORTENED) == 1
    task.orchestrator.sweep(task.clock.now)
    assert task.workload.memory.running.bytes < _MIB / 4
    assert task.workload.memory.ended.bytes > len(long.log.text)
    await task.leave()


async def test_a_running_response_with_an_emoji_counts_as_what_it_takes() -> None:
    task = await Task.join()
    await task.send("m1")
    await settle()
    task.source.calls[0].push("\N{GRINNING FACE}" + "x" * 4_000)
    task.orchestrator.sweep(task.clock.now)
    assert task.workload.memory.running.bytes > 4 * 4_000
    await task.leave()
