"""Conversations that are longer than their model's context."""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.fargate_handler.token_sources.model_refusals import refusal
from evenflow.stream_core.base.channel import KEYED_COMPLETION, Channel
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.session.conversation import Turn
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Task
from tests.unit.settle import settle

_LONG = "long " * 600
"""1,008 tokens, as they are estimated."""
_STATED = refusal("This model's maximum context length is 3000 tokens.", status=400)


async def _talk(task: Task, messages: int) -> None:
    for number in range(messages):
        await task.send(f"m{number}", f"m{number - 1}" if number else None, _LONG)
        await task.answer(f"{number}.")


async def _ask(task: Task, number: int) -> ResponseStream:
    stream = (await task.send(f"m{number}", f"m{number - 1}", "now?")).stream
    await settle()
    return stream


def _told(task: Task) -> list[str]:
    return [turn.text for turn in task.source.calls[-1].request.turns]


async def test_what_a_server_states_of_its_context_is_kept_to_from_then_on() -> None:
    task = await Task.join()
    await _talk(task, 4)
    stream = await _ask(task, 4)
    assert len(_told(task)) == 9
    task.source.calls[-1].fail(_STATED)
    await settle()
    assert _told(task) == [_LONG, "3.", "now?"]
    assert (stream.history_dropped, stream.history_dropped_by) == (3, "model")
    await task.answer("4.")
    assert stream.state is ResponseState.COMPLETED
    calls = len(task.source.calls)
    stream = await _ask(task, 5)
    assert len(task.source.calls) == calls + 1, "it is not refused again"
    assert _told(task) == [_LONG, "3.", "now?", "4.", "now?"]
    assert (stream.history_dropped, stream.history_dropped_by) == (3, "model")
    await task.answer("5.")
    task.assert_idle()


async def test_it_is_halved_four_times_where_the_server_states_nothing() -> None:
    task = await Task.join()
    for number in range(40):
        await task.send(f"m{number}", f"m{number - 1}" if number else None, "?" * 300)
        await task.answer(".")
        await task.clock.pass_time(1.0)
    stream = await _ask(task, 40)
    asked = []
    while not stream.state.terminal:
        asked.append(len(_told(task)))
        task.source.calls[-1].fail(refusal("prompt is too long", status=400))
        await settle()
    assert asked == [81, 39, 19, 9, 3]
    assert stream.error is not None
    assert stream.error["code"] == "context_length_exceeded"
    task.assert_idle()


async def test_what_is_known_of_the_context_is_kept_to_without_a_refusal() -> None:
    task = await Task.join()
    task.orchestrator._dispatcher._context = 3_000
    await _talk(task, 4)
    stream = await _ask(task, 4)
    assert _told(task) == [_LONG, "3.", "now?"]
    assert (stream.history_dropped, stream.history_dropped_by) == (3, "model")
    await task.answer("4.")
    task.assert_idle()


@pytest.mark.parametrize("text", ["half", ""])
async def test_what_has_a_beginning_or_brings_its_conversation_is_not_shortened(text: str) -> None:
    task = await Task.join()
    if text:
        await _talk(task, 3)
        stream = await _ask(task, 3)
        task.source.calls[-1].push(text)
    else:
        turns = tuple(Turn("user", _LONG) for _ in range(3))
        stream = (
            await task.send(
                "m1",
                text=WholeRequest(turns).to_text(),
                channel=Channel("t", "openai/chat", "key_1"),
                kind=KEYED_COMPLETION,
            )
        ).stream
        await settle()
    calls = len(task.source.calls)
    task.source.calls[-1].fail(_STATED)
    await settle()
    assert len(task.source.calls) == calls
    assert stream.error is not None
    assert stream.error["code"] == "context_length_exceeded"
    task.assert_idle()
