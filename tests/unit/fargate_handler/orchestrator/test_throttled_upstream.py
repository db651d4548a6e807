"""A model's server that throttles is asked no more than it takes; who waits hears the place."""

from __future__ import annotations

import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import (
    IncomingMessage,
    ReceivedRequest,
    WholeRequest,
    single_channel,
)
from evenflow.stream_core.base.channel import COMPLETION
from evenflow.stream_core.base.errors import RateLimited, UpstreamAnswered
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.upstream.calls_on_other_nodes import CallsOnOtherNodes
from tests.unit.fargate_handler.orchestrator.controlled_source import SourceCall
from tests.unit.fargate_handler.orchestrator.test_orchestrator import Node
from tests.unit.recording_reader import AssembledText, RecordingReader
from tests.unit.settle import settle

LIMITS = Limits(messages_per_second=1000, model_retries=0)


def throttled(seconds: float) -> UpstreamAnswered:
    return UpstreamAnswered(
        "busy",
        code="upstream_throttled",
        status=429,
        type=RateLimited.type,
        retry_after_ms=int(seconds * 1000),
    )


async def ask(node: Node, count: int) -> list[ResponseStream]:
    streams = [(await node.send("m1", session=f"s{number}")).stream for number in range(count)]
    await settle()
    return streams


def reader_of(node: Node, stream: ResponseStream) -> RecordingReader:
    reader = RecordingReader(stream, node.clock, AssembledText())
    reader.user = ""
    stream.attach(reader)
    return reader


def running(node: Node) -> list[SourceCall]:
    return [call for call in node.source.calls if call.opened > call.closed]


async def throttle(node: Node, count: int, seconds: float) -> None:
    for call in running(node)[:count]:
        call.fail(throttled(seconds))
    await settle()


async def test_after_a_throttle_as_many_run_as_the_server_took_and_nobody_is_told_an_error() -> (
    None
):
    node = Node(LIMITS)
    streams = await ask(node, 8)
    await throttle(node, 5, seconds=1)
    assert (len(running(node)), node.orchestrator.queued) == (3, 5)
    await node.clock.pass_time(0.9)
    assert len(running(node)) == 3
    await node.clock.pass_time(1.0)
    assert (len(running(node)), node.orchestrator.queued) == (3, 5)
    at_once = list[int]()
    while calls := running(node):
        at_once.append(len(calls))
        for call in calls:
            call.push("Here.")
            call.finish()
        await settle()
    # One more each time that as many as it took were answered.
    assert at_once == [3, 4, 1]
    assert [stream.log.text for stream in streams] == ["Here."] * 8
    assert node.count(catalogue.UPSTREAM_THROTTLES) == 5
    assert node.count(catalogue.GENERATION_RETRIES) == 0


async def test_when_the_server_takes_calls_again_those_that_wait_begin_though_nothing_ends() -> (
    None
):
    node = Node(LIMITS)
    await ask(node, 1)
    await throttle(node, 1, seconds=2)
    assert (len(running(node)), node.orchestrator.queued) == (0, 1)
    await node.clock.pass_time(1.9)
    assert len(running(node)) == 0
    await node.clock.pass_time(0.6)
    assert (len(running(node)), node.orchestrator.queued) == (1, 0)


async def test_a_reader_is_told_the_place_and_what_is_expected() -> None:
    node = Node(LIMITS)
    streams = await ask(node, 3)
    readers = [reader_of(node, stream) for stream in streams]
    await throttle(node, 2, seconds=8)
    node.orchestrator.sweep(node.clock.now)
    told = [reader.places for reader in readers]
    assert [[place.position for place in places] for places in told] == [[1], [2], []]
    first = told[0][0].expected_seconds
    assert first is not None
    assert 7 <= first <= 10
    node.orchestrator.sweep(node.clock.now)
    assert [len(places) for places in told] == [1, 1, 0], "only what is new is told"
    late = reader_of(node, streams[1])
    assert late.places == [streams[1].place]


async def test_who_waits_for_a_place_of_the_node_hears_it_too() -> None:
    node = Node(Limits(generations_per_node=1))
    streams = await ask(node, 2)
    reader = reader_of(node, streams[1])
    node.orchestrator.sweep(node.clock.now)
    assert [place.position for place in reader.places] == [1]
    running(node)[0].finish()
    await settle()
    assert streams[1].place is None


async def test_a_long_queue_is_told_its_places_a_few_at_a_time() -> None:
    node = Node(LIMITS.model_copy(update={"generations_per_node": 1}))
    streams = (await ask(node, 101))[1:]
    readers = [reader_of(node, stream) for stream in streams]

    def told() -> list[int]:
        return [len(reader.places) for reader in readers]

    node.orchestrator.sweep(node.clock.now)
    told_at_once = sum(told())
    waiting = node.task.workload.generations
    cancelled = waiting.of(streams[-1].response_id)
    assert cancelled is not None
    cancelled.cancel()
    await node.clock.pass_time(0.1)
    await node.leave()
    assert 0 < told_at_once < 50
    assert [place.position for reader in readers for place in reader.places] == [*range(1, 100)]
    assert told() == [1] * 99 + [0]


async def test_while_the_server_is_closed_for_long_messages_are_refused_with_the_time() -> None:
    node = Node(LIMITS)
    await ask(node, 2)
    await throttle(node, 2, seconds=90)
    with pytest.raises(RateLimited) as refused:
        await node.send("m1", session="next")
    assert refused.value.code == "upstream_throttled"
    assert 90 <= (refused.value.retry_after_seconds or 0) <= 90 * 1.2 + 1


async def test_a_question_that_is_refused_alone_stops_nobody_else() -> None:
    node = Node(LIMITS)
    await ask(node, 1)
    await throttle(node, 1, seconds=5)
    other = (await node.send("m1", session="other")).stream
    await settle()
    (call,) = running(node)
    call.push("Here.")
    call.finish()
    await settle()
    assert (other.state, node.orchestrator.queued) == (ResponseState.COMPLETED, 1)
    await node.clock.pass_time(5.4)
    assert running(node) == []
    await node.clock.pass_time(0.3)
    assert (len(running(node)), node.orchestrator.queued) == (1, 0)
    await node.leave()


async def test_all_wait_once_a_question_of_another_sender_is_refused_too() -> None:
    node = Node(LIMITS)
    await ask(node, 2)
    await throttle(node, 2, seconds=5)
    await node.send("m1", session="other")
    await settle()
    assert (running(node), node.orchestrator.queued) == ([], 3)
    await node.leave()


async def test_a_server_that_says_its_quota_is_used_up_is_asked_nothing_until_then() -> None:
    node = Node(LIMITS)
    await ask(node, 1)
    used_up = running(node)[0].request.on_quota_used
    assert used_up is not None
    used_up(3.0)
    await node.send("m1", session="next")
    await settle()
    assert (len(running(node)), node.orchestrator.queued) == (1, 1)
    await node.clock.pass_time(3.1)
    assert (len(running(node)), node.orchestrator.queued) == (2, 0)


async def ask_once(node: Node) -> ResponseStream:
    """As a program that sends no key, and reads."""
    request, channel = ReceivedRequest.of(WholeRequest(())), single_channel("t", "once")
    event = IncomingMessage.of_request(channel, "m1", request, kind=COMPLETION)
    stream = (await node.orchestrator.submit(event)).stream
    reader_of(node, stream)
    await settle()
    return stream


async def test_a_request_without_a_key_waits_where_the_server_answers_others() -> None:
    node = Node(LIMITS)
    await ask(node, 1)
    stream = await ask_once(node)
    answered, refused = running(node)
    answered.push("Here.")
    refused.fail(throttled(0))
    await settle()
    assert (len(running(node)), node.orchestrator.queued) == (1, 1)
    answered.finish()
    await settle()
    (again,) = running(node)
    again.push("Here, too.")
    again.finish()
    await settle()
    assert (stream.state, stream.log.text) == (ResponseState.COMPLETED, "Here, too.")


async def test_it_waits_too_where_other_tasks_are_answered() -> None:
    node = Node(LIMITS)
    await ask_once(node)
    (upstream,) = node.orchestrator._dispatcher.upstreams.by_name.values()
    upstream.limiter.limit.on_other_nodes = CallsOnOtherNodes(running=1, answered=1)
    running(node)[0].fail(throttled(0))
    await settle()
    waits = node.orchestrator.answering
    await node.leave()
    assert waits == 1


async def test_where_others_take_each_place_it_is_asked_ever_less_often_and_then_told() -> None:
    node = Node(LIMITS)
    stream = await ask_once(node)
    (upstream,) = node.orchestrator._dispatcher.upstreams.by_name.values()
    upstream.limiter.limit.on_other_nodes = CallsOnOtherNodes(running=1, answered=1)
    no_time = UpstreamAnswered("busy", code="upstream_throttled", status=429)
    while stream.error is None:
        for call in running(node):
            call.fail(no_time)
        await node.clock.pass_time(0.01)
    assert len(node.source.calls) == 12
    assert node.clock.now - stream.created_at > 3


async def test_a_request_without_a_key_is_told_where_the_server_answers_nobody() -> None:
    node = Node(LIMITS)
    await ask(node, 1)
    stream = await ask_once(node)
    running(node)[1].fail(throttled(0))
    await settle()
    assert stream.error is not None
    assert (stream.state, stream.error["code"]) == (ResponseState.ERROR, "upstream_throttled")


async def test_who_was_refused_comes_before_all_that_the_sender_has_asked_since() -> None:
    node = Node(LIMITS.model_copy(update={"generations_per_node": 2}))
    streams = await ask(node, 4)
    await throttle(node, 1, seconds=0)
    running(node)[0].finish()
    await settle()
    running(node)[0].finish()
    await settle()
    completed = [stream.state is ResponseState.COMPLETED for stream in streams]
    await node.leave()
    assert completed == [True, True, False, False]


async def test_where_the_server_refuses_everybody_nobody_waits_for_long() -> None:
    node = Node(LIMITS)
    streams = await ask(node, 5)
    for _ in range(140):
        await throttle(node, 5, seconds=3)
        await node.clock.pass_time(0.1)
    assert [stream.state for stream in streams] == [ResponseState.ERROR] * 5
    assert {stream.error["code"] for stream in streams if stream.error} == {"upstream_throttled"}
    assert len(node.source.calls) <= 10
