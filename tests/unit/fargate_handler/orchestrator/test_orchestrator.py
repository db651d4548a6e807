from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.fargate_handler.orchestrator.orchestrator import Submission
from evenflow.fargate_handler.token_sources.port import TokenSource
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import (
    Conflict,
    EvenflowError,
    Gone,
    RateLimited,
    UpstreamFailed,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.metrics.metric_catalogue import Metric
from evenflow.stream_core.session.conversation import Turn
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import LEAVING, Task
from tests.unit.settle import settle

BROKEN = UpstreamFailed("it broke", code="upstream_failed")


pytestmark = pytest.mark.usefixtures("no_pause_before_a_retry")


class Node:
    """A task on its own, with a model and a clock in the test's hand."""

    def __init__(
        self,
        limits: Limits | None = None,
        fallback_text: str = "",
        source: TokenSource | None = None,
    ) -> None:
        self.task = Task.alone(limits, source, fallback_text)
        self.clock, self.source, self.metrics = self.task.clock, self.task.source, self.task.metrics
        self.orchestrator = self.task.orchestrator

    async def send(
        self,
        message_id: str,
        previous: str | None = None,
        *,
        session: str = "s",
        tenant: str = "t",
        text: str = "hi",
        replaces: str | None = None,
    ) -> Submission:
        channel = Channel(tenant, "demo", session)
        event = IncomingMessage(channel, message_id, previous, text, replaces=replaces)
        return await self.orchestrator.submit(event)

    async def refusal(
        self, message_id: str, previous: str | None = None, *, session: str = "s", tenant: str = "t"
    ) -> str:
        with pytest.raises(EvenflowError) as refused:
            await self.send(message_id, previous, session=session, tenant=tenant)
        return refused.value.code

    async def leave(self) -> None:
        """End what runs, with an error."""
        self.task.workload.generations.fail_all(LEAVING)
        await settle()

    def count(self, metric: Metric) -> int:
        return self.metrics.counter(metric).value

    @property
    def page(self) -> dict[str, float]:
        """The gauges that the orchestrator registered."""
        names = (
            catalogue.QUEUE_DEPTH,
            catalogue.GENERATIONS_RUNNING,
            catalogue.RESPONSES_IN_MEMORY,
        )
        return {metric.name: self.metrics._gauges[metric.name]() for metric in names}


# -- one message -----------------------------------------------------------------------------------


async def test_a_message_is_answered_and_counted() -> None:
    node = Node()
    submission = await node.send("m1")
    assert not submission.duplicate
    assert submission.stream.state is ResponseState.STREAMING
    assert node.orchestrator.busy
    await settle()
    node.source.calls[0].push("Hello", " you")
    node.clock.turn(0.5)
    node.source.calls[0].finish()
    await settle()
    assert not node.orchestrator.busy
    assert submission.stream.log.text == "Hello you"
    assert node.count(catalogue.RESPONSES_COMPLETED) == 1
    assert node.count(catalogue.TOKENS_GENERATED) == 2
    assert node.metrics.distribution(catalogue.FIRST_TOKEN).count == 1
    assert node.metrics.distribution(catalogue.TOKEN_GAP).count == 1
    assert node.metrics.distribution(catalogue.QUEUE_WAIT).count == 1


async def test_submitting_returns_before_the_model_was_even_asked() -> None:
    node = Node()
    await node.send("m1")
    assert node.source.calls == []


async def test_responses_have_ids_that_nobody_guesses() -> None:
    node = Node(Limits(messages_in_flight_per_session=100, messages_per_second=1000))
    ids = {
        (await node.send(f"m{n}", f"m{n - 1}" if n else None)).stream.response_id for n in range(50)
    }
    assert len(ids) == 50
    assert all(len(response_id) == len("rsp_") + 32 for response_id in ids)
    await node.leave()


async def test_failures_retries_and_degraded_answers_are_counted() -> None:
    node = Node(fallback_text="Later, please.")
    stream = (await node.send("m1")).stream
    for number in range(2):
        await settle()
        node.source.calls[number].fail(BROKEN)
    await settle()
    assert (stream.state, stream.degraded) == (ResponseState.COMPLETED, True)
    assert node.count(catalogue.GENERATION_RETRIES) == 1
    assert node.count(catalogue.GENERATIONS_DEGRADED) == 1
    assert node.count(catalogue.RESPONSES_COMPLETED) == 1
    assert node.count(catalogue.TOKENS_GENERATED) == 0


# -- idempotency and causality ---------------------------------------------------------------------


async def test_the_same_message_again_is_the_same_response_and_nothing_is_generated_twice() -> None:
    node = Node()
    first = await node.send("m1")
    assert await node.send("m1") == Submission(first.stream, duplicate=True)
    await settle()
    assert await node.send("m1", "something else") == Submission(first.stream, duplicate=True)
    node.source.calls[0].finish()
    await settle()
    assert await node.send("m1") == Submission(first.stream, duplicate=True)
    assert len(node.source.calls) == 1


async def test_the_same_message_id_in_another_session_is_another_message() -> None:
    node = Node()
    assert (await node.send("m1", session="a")).stream is not (
        await node.send("m1", session="b")
    ).stream
    await node.leave()


async def test_a_session_that_is_forgotten_here_is_read_from_the_ledger() -> None:
    node = Node(Limits(sessions_per_node=1))
    first = (await node.send("m1", session="s")).stream
    await settle()
    node.source.calls[0].finish()
    await settle()
    await node.orchestrator.cancel((await node.send("m1", session="other")).stream)
    await settle()
    assert node.orchestrator.last_message_id(first.channel) is None
    assert await node.send("m1", session="s") == Submission(first, duplicate=True)
    assert not (await node.send("m2", "m1", session="s")).duplicate
    await node.leave()


async def test_a_message_known_for_too_long_is_gone() -> None:
    node = Node(Limits(response_ttl_seconds=20))
    await node.send("m1")
    await settle()
    node.source.calls[0].finish()
    await settle()
    node.clock.now += 21.0
    node.orchestrator.sweep(node.clock.now)
    with pytest.raises(Gone):
        await node.send("m1")


async def test_a_message_out_of_order_is_refused_with_what_is_expected() -> None:
    node = Node()
    await node.send("m1")
    with pytest.raises(Conflict) as refusal:
        await node.send("m3", "m2")
    assert refusal.value.to_object()["expected"] == "m1"
    assert node.orchestrator.last_message_id(Channel("t", "demo", "s")) == "m1"
    assert node.orchestrator.last_message_id(Channel("t", "demo", "nobody")) is None
    await node.leave()


async def test_the_model_is_told_what_was_said_before_but_not_what_stood_in_for_it() -> None:
    node = Node(Limits(model_retries=0), fallback_text="Later, please.")
    await node.send("m1", text="one?")
    await settle()
    node.source.calls[0].push("one.")
    node.source.calls[0].finish()
    await settle()
    await node.send("m2", "m1", text="two?")
    await settle()
    node.source.calls[1].fail(BROKEN)
    await settle()
    await node.send("m3", "m2", text="three?")
    await settle()
    assert node.source.calls[2].request.turns == (
        Turn("user", "one?"),
        Turn("assistant", "one."),
        Turn("user", "two?"),
        Turn("user", "three?"),
    )
    await node.leave()


async def test_what_was_delivered_before_an_answer_failed_is_remembered_for_the_model() -> None:
    node = Node(Limits(model_retries=0))
    await node.send("m1", text="Tell me a story.")
    await settle()
    node.source.calls[0].push("Once upon")
    node.source.calls[0].fail(BROKEN)
    await settle()
    await node.send("m2", "m1", text="Go on.")
    await settle()
    assert [turn.text for turn in node.source.calls[1].request.turns] == [
        "Tell me a story.",
        "Once upon",
        "Go on.",
    ]
    await node.leave()


async def test_refusals_are_counted_by_their_code() -> None:
    node = Node(Limits(generations_per_node=1, queue_depth=1, messages_in_flight_per_tenant=1))
    await node.send("m1", session="a")
    await node.refusal("m1", session="b")
    await node.refusal("m1", session="c")
    await node.send("m1", session="a", tenant="other")
    await node.refusal("m1", session="b", tenant="third")
    refused = node.metrics.labelled(catalogue.MESSAGES_REFUSED)
    assert (refused.value, refused.by_labels) == (3, {("tenant_in_flight",): 2, ("queue_full",): 1})
    await node.leave()


async def test_of_a_message_that_replaces_the_last_one_the_model_sees_one_question() -> None:
    node = Node(Limits(model_retries=0))
    await node.send("m1", text="one?")
    await settle()
    node.source.calls[0].push("half of")
    node.source.calls[0].fail(BROKEN)
    await settle()
    await node.send("m2", "m1", text="one?", replaces="m1")
    await settle()
    assert node.source.calls[1].request.turns == (Turn("user", "one?"),)
    await node.leave()


async def test_a_tenant_has_all_that_the_node_takes_unless_it_is_given_a_cap() -> None:
    node = Node(Limits(generations_per_node=300, queue_depth=100))
    for number in range(400):
        await node.send("m1", session=f"s{number}")
    assert await node.refusal("m1", session="one more") == "queue_full"
    await node.leave()


# -- quotas and queue ------------------------------------------------------------------------------


async def test_a_tenant_has_so_many_messages_in_flight_and_others_are_not_affected() -> None:
    node = Node(Limits(messages_in_flight_per_tenant=2))
    streams = [(await node.send("m1", session=f"s{n}")).stream for n in range(2)]
    assert await node.refusal("m1", session="s2") == "tenant_in_flight"
    assert (await node.send("m1", session="s2", tenant="other")).stream
    await node.orchestrator.cancel(streams[0])
    await settle()
    assert (await node.send("m1", session="s2")).stream
    await node.leave()


async def test_beyond_the_generations_messages_wait_and_beyond_the_queue_they_are_refused() -> None:
    node = Node(Limits(generations_per_node=1, queue_depth=2))
    running = (await node.send("m1", session="a")).stream
    waiting = [(await node.send("m1", session=name)).stream for name in ("b", "c")]
    assert [stream.state for stream in waiting] == [ResponseState.QUEUED] * 2
    assert node.page["queue.depth"] == 2
    assert await node.refusal("m1", session="d") == "queue_full"
    assert node.count(catalogue.QUEUE_REFUSED) == 1
    await settle()
    node.clock.turn(1.5)
    node.source.calls[0].finish()
    await settle()
    assert running.state is ResponseState.COMPLETED
    assert [stream.state for stream in waiting] == [ResponseState.STREAMING, ResponseState.QUEUED]
    assert node.metrics.distribution(catalogue.QUEUE_WAIT).total == pytest.approx(1500, abs=30)
    await node.leave()


async def test_a_refused_message_leaves_nothing_behind_and_can_come_again() -> None:
    node = Node(Limits(generations_per_node=1, queue_depth=0))
    await node.send("m1", session="a")
    assert await node.refusal("m1", session="b") == "queue_full"
    await settle()
    node.source.calls[0].finish()
    await settle()
    assert not (await node.send("m1", session="b")).duplicate
    await node.leave()


async def fill(node: Node, count: int) -> list[ResponseStream]:
    """One tenant sends so many messages."""
    return [
        (await node.send("m1", session=f"s{number}", tenant="loud")).stream
        for number in range(count)
    ]


async def test_who_fills_the_queue_makes_room_for_others_until_they_have_as_much() -> None:
    node = Node(Limits(generations_per_node=1, queue_depth=4))
    loud = await fill(node, 5)
    quiet = [
        (await node.send("m1", session=f"s{number}", tenant="quiet")).stream for number in range(2)
    ]
    assert await node.refusal("m1", session="s2", tenant="quiet") == "queue_full"
    assert await node.refusal("m1", session="s5", tenant="loud") == "queue_full"
    assert [stream.state for stream in quiet] == [ResponseState.QUEUED] * 2
    states = [ResponseState.STREAMING] + [ResponseState.QUEUED] * 2 + [ResponseState.ERROR] * 2
    assert [stream.state for stream in loud] == states
    assert [stream.error["code"] for stream in loud[3:] if stream.error] == ["queue_displaced"] * 2
    assert node.count(catalogue.QUEUE_REFUSED) == 4
    await node.leave()


async def test_while_one_has_most_places_others_have_a_quarter_more_of_them() -> None:
    node = Node(Limits(generations_per_node=8, queue_depth=10))
    loud = await fill(node, 10)
    assert [stream.state for stream in loud[7:]] == [
        ResponseState.STREAMING,
        ResponseState.QUEUED,
        ResponseState.QUEUED,
    ]
    await node.clock.pass_time(1.0)  # a model that is silent may be sent twice as many
    quiet = [
        (await node.send("m1", session=f"s{number}", tenant="quiet")).stream for number in range(3)
    ]
    streaming, queued = ResponseState.STREAMING, ResponseState.QUEUED
    assert [stream.state for stream in quiet] == [streaming, streaming, queued]
    await settle()
    node.source.calls[8].finish()
    await settle()
    assert quiet[2].state is ResponseState.STREAMING
    assert loud[8].state is ResponseState.QUEUED, "it came before, and has no place"
    await node.leave()


async def test_waiting_messages_of_several_tenants_take_turns() -> None:
    node = Node(Limits(generations_per_node=1))
    await node.send("m1", session="first", text="first")
    for number in range(3):
        await node.send("m1", session=f"loud{number}", tenant="loud", text=f"loud{number}")
    await node.send("m1", session="quiet", tenant="quiet", text="quiet")
    begun = []
    for _ in range(5):
        await settle()
        call = node.source.calls[-1]
        begun.append(call.request.turns[-1].text)
        call.finish()
    await settle()
    assert begun == ["first", "loud0", "quiet", "loud1", "loud2"]
    assert not node.orchestrator.busy


async def test_a_waiting_message_can_be_cancelled_and_frees_its_place() -> None:
    node = Node(Limits(generations_per_node=1, queue_depth=1))
    await node.send("m1", session="a")
    waiting = (await node.send("m1", session="b")).stream
    await node.orchestrator.cancel(waiting)
    assert waiting.state is ResponseState.CANCELLED
    assert node.page["queue.depth"] == 0
    assert (await node.send("m1", session="c")).stream.state is ResponseState.QUEUED
    await node.leave()


async def test_a_waiting_message_that_nobody_reads_leaves_the_queue() -> None:
    node = Node(
        Limits(
            generations_per_node=1,
            grace_seconds=30,
            model_deadline_seconds=3600,
            model_first_sign_seconds=3600,
            model_silence_seconds=3600,
        )
    )
    await node.send("m1", session="a")
    waiting = (await node.send("m1", session="b")).stream
    for _ in range(31):  # the lease is renewed meanwhile
        node.clock.turn(1.0)
        await settle()
    assert (waiting.state, waiting.finish_reason) == (ResponseState.CANCELLED, "abandoned")
    assert not node.orchestrator.busy
    assert node.page["queue.depth"] == 0


async def test_a_response_begun_and_cancelled_in_the_same_moment_frees_its_place() -> None:
    node = Node(Limits(generations_per_node=1))
    await node.orchestrator.cancel((await node.send("m1", session="a")).stream)
    await settle()
    assert not node.orchestrator.busy
    assert (await node.send("m1", session="b")).stream.state is ResponseState.STREAMING
    await node.leave()
    assert not node.orchestrator.busy


async def test_cancelling_what_has_ended_changes_nothing() -> None:
    node = Node()
    stream = (await node.send("m1")).stream
    await settle()
    node.source.calls[0].finish()
    await settle()
    await node.orchestrator.cancel(stream)
    assert stream.state is ResponseState.COMPLETED
    assert node.count(catalogue.RESPONSES_CANCELLED) == 0


# -- drain -----------------------------------------------------------------------------------------


async def test_while_draining_new_messages_are_refused_and_known_ones_answered() -> None:
    node = Node()
    known = await node.send("m1")
    node.orchestrator.stop_accepting()
    assert await node.refusal("m2", "m1") == "draining"
    assert await node.send("m1") == Submission(known.stream, duplicate=True)
    await settle()
    node.source.calls[0].push("goes on")
    node.source.calls[0].finish()
    await settle()
    assert known.stream.state is ResponseState.COMPLETED
    assert not node.orchestrator.busy


async def test_when_the_drain_is_over_everything_ends_with_its_error() -> None:
    node = Node(Limits(generations_per_node=1))
    streams = [(await node.send("m1", session=name)).stream for name in ("a", "b", "c")]
    await settle()
    await node.leave()
    assert [stream.state for stream in streams] == [ResponseState.ERROR] * 3
    assert all(
        stream.error is not None and stream.error["code"] == "draining" for stream in streams
    )
    assert not node.orchestrator.busy
    assert node.source.open_calls == 0
    assert len(node.source.calls) == 1, "what waited was not begun any more"


# -- everything at once ----------------------------------------------------------------------------

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["send", "send", "send", "push", "finish", "fail", "cancel", "repeat", "loop", "time"]
        ),
        st.integers(0, 11),
    ),
    max_size=50,
)


class Traffic:
    """What clients and models do to a node, one thing after another."""

    def __init__(self, limits: Limits) -> None:
        self.node = Node(limits)
        self.accepted: list[Submission] = []
        self._last: dict[str, str] = {}

    async def do(self, action: str, which: int) -> None:
        match action:
            case "send":
                await self._send(which)
            case "push" | "finish" | "fail":
                self._model(action, which)
            case "cancel" | "repeat" if self.accepted:
                await self._ask_again(action, self.accepted[which % len(self.accepted)].stream)
            case "loop":
                await settle()
            case "time":
                self.node.clock.turn(0.1 * which)

    async def _send(self, which: int) -> None:
        session, tenant, message_id = f"s{which % 4}", f"t{which % 3}", f"m{len(self.accepted)}"
        line = tenant + session
        try:
            submission = await self.node.send(
                message_id, self._last.get(line), session=session, tenant=tenant
            )
        except RateLimited:
            return
        self.accepted.append(submission)
        self._last[line] = message_id

    def _model(self, action: str, which: int) -> None:
        running = [call for call in self.node.source.calls if call.opened > call.closed]
        if not running:
            return
        call = running[which % len(running)]
        match action:
            case "push":
                call.push("x", "y")
            case "finish":
                call.finish()
            case _:
                call.fail(BROKEN)

    async def _ask_again(self, action: str, stream: ResponseStream) -> None:
        if action == "cancel":
            await self.node.orchestrator.cancel(stream)
            return
        again = await self.node.orchestrator.submit(
            IncomingMessage(stream.channel, stream.message_id, None, "hi")
        )
        assert again == Submission(stream, duplicate=True)


@given(ACTIONS, st.integers(1, 3), st.integers(0, 4), st.integers(1, 5))
async def test_whatever_happens_every_accepted_message_ends_once_and_nothing_is_left_over(
    actions: list[tuple[str, int]], at_once: int, depth: int, per_tenant: int
) -> None:
    cap = min(per_tenant, at_once + depth)  # one above what the node takes is refused
    traffic = Traffic(
        Limits(
            generations_per_node=at_once,
            queue_depth=depth,
            messages_in_flight_per_tenant=cap,
            messages_in_flight_per_session=min(2, cap),
        )
    )
    node = traffic.node
    for action, which in actions:
        await traffic.do(action, which)
        assert node.page["generations.running"] <= at_once
        assert node.page["queue.depth"] <= depth
    await node.leave()
    assert not node.orchestrator.busy
    assert node.source.open_calls == 0
    assert node.page["queue.depth"] == node.page["generations.running"] == 0
    assert all(submission.stream.state.terminal for submission in traffic.accepted)
    ended = (
        catalogue.RESPONSES_COMPLETED,
        catalogue.RESPONSES_FAILED,
        catalogue.RESPONSES_CANCELLED,
    )
    assert sum(node.count(metric) for metric in ended) == len(traffic.accepted)
    node.task.assert_idle()
    node.orchestrator.sweep(node.clock.now + 1e6)
    assert node.page["responses.held"] == 0


async def test_after_a_cancel_no_task_is_left() -> None:
    node = Node()
    await node.send("m1")
    await settle()
    await node.orchestrator.cancel(node.orchestrator.responses.of(Channel("t", "demo", "s"))[0])
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_ended_responses_are_counted_by_agent_model_state_and_reason() -> None:
    node = Node(Limits(model_retries=0))
    for session, end in (("a", None), ("b", BROKEN)):
        await node.send("m1", session=session)
        await settle()
        call = node.source.calls[-1]
        call.finish() if end is None else call.fail(end)
        await settle()
    assert node.metrics.labelled(catalogue.RESPONSES_ENDED).by_labels == {
        ("demo", "default", "none", "completed", "stop"): 1,
        ("demo", "default", "none", "error", "upstream_failed"): 1,
    }


async def test_the_share_of_messages_for_which_there_is_no_room() -> None:
    node = Node(Limits(generations_per_node=1, queue_depth=1, messages_in_flight_per_session=1))
    await node.send("m1")
    # A limit of its own sender, and a node that leaves, are no want of room.
    assert await node.refusal("m2", "m1") == "session_in_flight"
    await node.send("m1", session="waits")
    assert await node.refusal("m1", session="too many") == "queue_full"
    node.orchestrator.stop_accepting()
    assert await node.refusal("m1", session="late") == "draining"
    rate = node.metrics.ratio(catalogue.REFUSAL_RATE)
    assert (rate.part, rate.whole) == (1, 5)
    await node.leave()


async def test_the_time_between_tokens_is_counted_for_each_token_of_each_answer() -> None:
    node = Node()
    await node.send("m1")
    await settle()
    call = node.source.calls[0]
    call.push("a")
    node.clock.turn(0.4)
    call.push("b", "c", "d", "e")  # the first of them goes out at once
    node.clock.turn(0.2)
    gaps = node.metrics.distribution(catalogue.TOKEN_GAP)
    assert gaps.count == 0, "the answer has not ended"
    call.finish()
    await settle()
    assert gaps.count == 4
    assert gaps.percentile(99) == pytest.approx(400, rel=0.2)
    assert gaps.percentile(50) == pytest.approx(50 / 3, rel=0.2)
