"""Answers whose tools the client runs: the same answer goes on with their results."""

from __future__ import annotations

from typing import Any

import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage, WholeRequest
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelOptions
from evenflow.stream_core.base.agents import MessageTerms
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import Conflict, EvenflowError, UpstreamFailed
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import CALL_EXTRA, Content, Part, PartKind, Restart
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.session.conversation import ToolCall, Turn
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import (
    CHANNEL,
    Shared,
    Task,
    two_tasks,
)
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("no_pause_before_a_retry")

TOOL = {"type": "function", "function": {"name": "f"}}
QUESTION = Turn("user", "hi")


def called(number: int, call_id: str) -> list[Content]:
    """A call of the tool, as sources push it."""
    return [
        Part(PartKind.CALL, call=number, id=call_id, name="f"),
        Part(PartKind.ARGUMENTS, "{}", call=number),
        Part(PartKind.CALL_END, call=number),
    ]


def calls_in(stream: ResponseStream) -> list[tuple[int, str]]:
    """The number and id of each call in a log."""
    return [(p.call, p.id) for _, p in stream.log.read(0).parts if p.kind is PartKind.CALL]


def results_in(stream: ResponseStream) -> list[tuple[str, str]]:
    """The results in a log."""
    return [(p.id, p.text) for _, p in stream.log.read(0).parts if p.kind is PartKind.RESULT]


class Answer:
    """An answer with a tool, at a task."""

    def __init__(self, task: Task, stream: ResponseStream) -> None:
        self.task, self.stream = task, stream
        self.reader = task.read(stream)

    @classmethod
    async def begin(cls, task: Task, **terms: Any) -> Answer:
        """Send a message that brings the tool."""
        said = MessageTerms(tools=[TOOL], **terms)
        event = IncomingMessage(CHANNEL, "m1", None, "hi", terms=said)
        stream = (await task.orchestrator.submit(event)).stream
        answer = cls(task, stream)
        await settle()
        return answer

    async def say(self, *contents: Content, usage: Usage | None = None) -> None:
        """The model says this, and ends."""
        call = self.task.source.calls[-1]
        call.push(*contents)
        calls = any(isinstance(each, Part) for each in contents)
        call.end.set_result(ModelFinish("tool_calls" if calls else "stop", usage))
        await settle()

    async def give(self, call_id: str, text: str = "7") -> None:
        """The client gives a result."""
        await self.task.orchestrator.take_result(self.stream, call_id, text)
        await settle()


async def test_the_same_answer_goes_on_with_the_call_and_its_result() -> None:
    answer = await Answer.begin(Task.alone())
    await answer.say("I look. ", *called(0, "c1"))
    assert not answer.stream.log.closed
    assert len(answer.task.source.calls) == 1
    await answer.give("c1", "42")
    request = answer.task.source.calls[1].request
    assert request.turns == (
        QUESTION,
        Turn("assistant", "I look. ", (ToolCall("c1", "f", "{}"),)),
        Turn("tool", "42", tool_call_id="c1"),
    )
    assert request.options.tools == (TOOL,)
    await answer.say("It is 42.")
    assert answer.stream.state is ResponseState.COMPLETED
    assert answer.stream.finish_reason == "stop"
    assert answer.stream.log.text == "I look. It is 42."
    assert not answer.stream.log.restarts
    assert results_in(answer.stream) == [("c1", "42")]
    answer.task.assert_idle()


async def test_without_tools_an_answer_ends_with_its_calls() -> None:
    task = Task.alone()
    stream = (await task.send("m1")).stream
    await settle()
    await Answer(task, stream).say(*called(0, "c1"))
    assert stream.finish_reason == "tool_calls"
    task.assert_idle()


async def test_the_model_goes_on_when_each_call_has_a_result() -> None:
    answer = await Answer.begin(Task.alone())
    await answer.say(*called(0, "c1"), *called(1, "c2"))
    await answer.give("c2", "two")
    assert len(answer.task.source.calls) == 1
    await answer.give("c1", "one")
    turns = answer.task.source.calls[1].request.turns
    assert [(turn.tool_call_id, turn.text) for turn in turns[2:]] == [("c1", "one"), ("c2", "two")]
    await answer.say("Done.")
    answer.task.assert_idle()


async def test_a_result_that_comes_twice_is_taken_once() -> None:
    answer = await Answer.begin(Task.alone())
    await answer.say(*called(0, "c1"))
    await answer.give("c1", "first")
    await answer.give("c1", "second")
    assert results_in(answer.stream) == [("c1", "first")]
    await answer.say("Done.")
    await answer.give("c1", "after the end")
    assert results_in(answer.stream) == [("c1", "first")]
    assert len(answer.task.source.calls) == 2


async def test_a_result_that_comes_before_the_model_ends_counts_then() -> None:
    answer = await Answer.begin(Task.alone())
    answer.task.source.calls[0].push(*called(0, "c1"))
    await settle()
    await answer.give("c1", "early")
    assert results_in(answer.stream) == [], "the log is the model's until it ends"
    await answer.say(*called(1, "c2"))
    assert results_in(answer.stream) == [("c1", "early")]
    await answer.give("c2")
    assert len(answer.task.source.calls) == 2
    await answer.say("Done.")
    answer.task.assert_idle()


async def refused(answer: Answer, call_id: str) -> EvenflowError:
    with pytest.raises(Conflict) as refusal:
        await answer.give(call_id)
    assert (refusal.value.code, refusal.value.param) == ("call_not_open", "call_id")
    return refusal.value


async def test_a_result_for_no_open_call_is_refused() -> None:
    answer = await Answer.begin(Task.alone())
    await refused(answer, "c1")
    await answer.say(*called(0, "c1"))
    assert "'c2'" in (await refused(answer, "c2")).message
    await answer.give("c1")
    await answer.say("Done.")
    await refused(answer, "c3")


async def test_stopped_the_answer_takes_no_result() -> None:
    answer = await Answer.begin(Task.alone())
    await answer.say(*called(0, "c1"))
    await answer.task.orchestrator.cancel(answer.stream)
    await settle()
    assert answer.stream.state is ResponseState.CANCELLED
    await refused(answer, "c1")
    assert len(answer.task.source.calls) == 1
    answer.task.assert_idle()


async def test_while_tools_run_the_place_is_another_s() -> None:
    answer = await Answer.begin(Task.alone(Limits(generations_per_node=1)))
    second = await answer.task.send("m2", "m1")
    await settle()
    assert answer.task.orchestrator.queued == 1
    await answer.say(*called(0, "c1"))
    assert answer.task.orchestrator.queued == 0
    await answer.give("c1")
    assert len(answer.task.source.calls) == 2, "it waits for a place again"
    await answer.say("Second.")
    assert second.stream.state is ResponseState.COMPLETED
    await answer.say("First.")
    assert answer.stream.log.text == "First."
    answer.task.assert_idle()


async def test_of_too_many_that_wait_for_tools_the_longest_ends() -> None:
    answer = await Answer.begin(Task.alone(Limits(parked_responses=1)))
    await answer.say("I look. ", *called(0, "c1"))
    second = IncomingMessage(CHANNEL, "m2", "m1", "hi", terms=MessageTerms(tools=[TOOL]))
    stream = (await answer.task.orchestrator.submit(second)).stream
    await settle()
    await answer.say(*called(0, "c2"))
    assert answer.stream.error is not None
    assert answer.stream.error["code"] == "queue_displaced"
    assert answer.stream.log.text == "I look. "
    assert not stream.log.closed
    await answer.task.leave()


async def test_a_failed_attempt_of_a_later_step_leaves_the_earlier_ones() -> None:
    answer = await Answer.begin(Task.alone())
    await answer.say("I look. ", *called(0, "c1"))
    await answer.give("c1")
    answer.task.source.calls[1].push("It ")
    answer.task.source.calls[1].fail(UpstreamFailed("it broke", code="upstream_failed"))
    await settle()
    assert answer.task.source.calls[2].request.turns == answer.task.source.calls[1].request.turns
    await answer.say("Seven.")
    assert answer.stream.log.text == "I look. Seven."
    (marker,) = [each for each in answer.stream.log.entries if isinstance(each, Restart)]
    assert marker.from_index == 4
    assert results_in(answer.stream) == [("c1", "7")]


async def test_calls_of_later_steps_have_numbers_and_ids_of_their_own() -> None:
    answer = await Answer.begin(Task.alone())
    await answer.say(*called(0, "call_0"), *called(1, "call_0"))
    assert calls_in(answer.stream) == [(0, "call_0"), (1, "call_0_2")]
    await answer.give("call_0", "a")
    await answer.give("call_0_2", "b")
    signed = Part(PartKind.DATA, '{"extra_content":7}', name=CALL_EXTRA)
    await answer.say(signed, *called(0, "call_0"))
    assert calls_in(answer.stream)[2:] == [(2, "call_0_3")]
    await answer.give("call_0", "again")
    assert results_in(answer.stream) == [("call_0", "a"), ("call_0_2", "b")]
    await answer.give("call_0_3", "c")
    made = [call for turn in answer.task.source.calls[2].request.turns for call in turn.tool_calls]
    assert [call.extra for call in made] == [{}, {}, {"extra_content": 7}]
    await answer.say("Done.")
    answer.task.assert_idle()


async def test_a_required_call_is_required_once() -> None:
    answer = await Answer.begin(Task.alone(), tool_choice="required")
    await answer.say(*called(0, "c1"))
    await answer.give("c1")
    choices = [call.request.options.tool_choice for call in answer.task.source.calls]
    assert choices == ["required", None]
    await answer.say("Done.")


async def test_the_usage_is_that_of_all_steps() -> None:
    answer = await Answer.begin(Task.alone())
    await answer.say(*called(0, "c1"), usage=Usage(10, 2, cached_tokens=4))
    await answer.give("c1")
    await answer.say("Done.", usage=Usage(20, 3))
    assert answer.stream.usage == Usage(30, 5)


async def test_results_that_never_come_end_the_answer_at_its_deadline() -> None:
    task = await Task.join(limits=Limits(store_interval_ms=150))
    answer = await Answer.begin(task, timeout_ms=5_000)
    await answer.say("I look. ", *called(0, "c1"))
    await task.clock.pass_time(10.0, step=0.05)
    assert (answer.stream.state, answer.stream.finish_reason) == (
        ResponseState.COMPLETED,
        "tool_calls",
    )
    assert answer.stream.log.text == "I look. "
    await refused(answer, "c1")
    task.assert_idle()


async def test_the_wait_for_a_tool_is_no_gap_between_tokens() -> None:
    task = await Task.join()
    answer = await Answer.begin(task)
    await answer.say("I look. ", *called(0, "c1"))
    await task.clock.pass_time(20.0, step=0.05)
    await answer.give("c1")
    await task.clock.pass_time(1.0)
    await answer.say("Done.")
    gaps = answer.stream.figures.gaps
    assert gaps is None or gaps.longest < 1.0
    assert answer.reader.held.text == "I look. Done."
    assert all((delivery.jitter or 0) < 0.1 for delivery in answer.reader.deliveries)


# -- several tasks ---------------------------------------------------------------------------------


async def test_a_result_that_comes_to_another_task_reaches_the_owner() -> None:
    a, b = await two_tasks()
    answer = await Answer.begin(a)
    await answer.say(*called(0, "c1"))
    await a.clock.pass_time(0.5)
    copy = await b.find(answer.stream.response_id)
    b.read(copy)
    await b.orchestrator.take_result(copy, "c1", "42")
    await settle()
    assert a.source.calls[1].request.turns[-1] == Turn("tool", "42", tool_call_id="c1")
    with pytest.raises(Conflict, match="waits for no result"):
        await b.orchestrator.take_result(copy, "c9", "42")
    await answer.say("Done.")
    await a.clock.pass_time(0.5)
    await b.orchestrator.take_result(copy, "c1", "42")
    assert results_in(copy) == [("c1", "42")]


async def lost_and_taken_over(answer: Answer, shared: Shared) -> Answer:
    """The answer at the task that has taken it over."""
    await answer.task.clock.pass_time(0.5)
    answer.task.cut_off()
    b = await Task.join(shared, "b")
    await b.clock.pass_time(4.0, step=0.05)
    return Answer(b, await b.find(answer.stream.response_id))


async def test_taken_over_an_answer_still_waits_for_its_result() -> None:
    shared = Shared()
    answer = await Answer.begin(await Task.join(shared, "a"))
    await answer.say("I look. ", *called(0, "c1"))
    later = await lost_and_taken_over(answer, shared)
    assert later.task.source.calls == []
    await later.give("c1", "42")
    assert [turn.text for turn in later.task.source.calls[0].request.turns] == [
        "hi",
        "I look. ",
        "42",
    ]
    await later.say("Done.")
    assert later.stream.log.text == "I look. Done."
    await later.task.leave()


async def test_taken_over_within_a_later_step_that_step_begins_again() -> None:
    shared = Shared()
    answer = await Answer.begin(await Task.join(shared, "a"))
    await answer.say("I look. ", *called(0, "c1"))
    await answer.give("c1", "42")
    answer.task.source.calls[1].push("It ")
    later = await lost_and_taken_over(answer, shared)
    assert later.task.source.calls[0].request.turns[-1].text == "42"
    await later.say("Seven.")
    assert later.stream.log.text == "I look. Seven."
    await later.task.leave()


# -- a conversation that the message brings --------------------------------------------------------


async def test_a_conversation_that_a_message_brings_is_in_the_place_of_the_session_s() -> None:
    task = Task.alone()
    await task.send("m1")
    await task.answer("Hello.")
    brought = WholeRequest((Turn("system", "Be brief."), QUESTION), ModelOptions())
    terms = MessageTerms(**brought.as_terms())
    await task.orchestrator.submit(IncomingMessage(CHANNEL, "m2", "m1", "hi", terms=terms))
    await settle()
    assert task.source.calls[1].request.turns == (Turn("system", "Be brief."), QUESTION)
    await task.answer("Hi.")
    await task.send("m3", "m2", text="And?")
    await settle()
    turns = task.source.calls[2].request.turns
    assert [turn.text for turn in turns] == ["hi", "Hello.", "hi", "Hi.", "And?"]
    await task.leave()
