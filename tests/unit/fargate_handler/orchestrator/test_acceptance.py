from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.orchestrator.incoming_message import (
    IncomingMessage,
    ReceivedRequest,
    WholeRequest,
    single_channel,
)
from evenflow.fargate_handler.orchestrator.orchestrator import Submission
from evenflow.stream_core.base.channel import COMPLETION, Channel, MessageKind
from evenflow.stream_core.base.errors import Conflict, EvenflowError
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.session.conversation import Turn
from evenflow.stream_core.stores.session_store import LedgerEntry, NotAccepted
from tests.unit.fargate_handler.orchestrator.scripted_stores import (
    UNREACHABLE,
)
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import (
    CHANNEL,
    Shared,
    Task,
    two_tasks,
)
from tests.unit.recording_reader import AssembledText, RecordingReader
from tests.unit.settle import settle

# -- acceptance ------------------------------------------------------------------------------------


async def test_a_message_is_on_record_before_it_is_accepted_and_before_its_model_is_asked() -> None:
    task = await Task.join(Shared())
    task.shared.sessions.network.hold("accept")
    sending = asyncio.create_task(task.send("m1", text="one?"))
    await settle()
    assert not sending.done()
    assert task.source.calls == []
    assert await task.shared.ledger() == []
    task.shared.sessions.network.release()
    submission = await sending
    assert not submission.duplicate
    (entry,) = await task.shared.ledger()
    assert entry == LedgerEntry("m1", None, "one?", submission.stream.response_id, "a")
    await task.answer("one.")
    (entry,) = await task.shared.ledger()
    assert (entry.answer, entry.ended) == ("one.", True)
    await task.leave()


async def test_the_first_message_of_a_session_loads_it_once_and_the_following_never() -> None:
    task = await Task.join(Shared())
    await task.send("m1")
    await task.send("m2", "m1")
    assert task.shared.sessions.network.calls == {"load": 1, "accept": 2}
    await task.send("m2", "m1")
    assert task.shared.sessions.network.calls == {"load": 1, "accept": 2, "find_ended": 1}
    await task.leave()


async def test_pipelined_messages_are_accepted_in_the_order_in_which_they_came() -> None:
    task = await Task.join(Shared())
    task.shared.sessions.network.hold("load", "accept")
    sending = [
        asyncio.create_task(task.send(f"m{number}", f"m{number - 1}" if number else None))
        for number in range(4)
    ]
    await settle()
    for _ in range(10):
        task.shared.sessions.network.release()
        await settle()
    assert [(await sent).duplicate for sent in sending] == [False] * 4
    assert [entry.message_id for entry in await task.shared.ledger()] == ["m0", "m1", "m2", "m3"]
    await task.leave()


async def test_the_same_message_twice_at_once_is_accepted_once() -> None:
    task = await Task.join(Shared())
    task.shared.sessions.network.hold("accept")
    sending = [asyncio.create_task(task.send("m1")) for _ in range(5)]
    await settle()
    task.shared.sessions.network.release()
    submissions = await asyncio.gather(*sending)
    assert len({submission.stream.response_id for submission in submissions}) == 1
    assert sorted(submission.duplicate for submission in submissions) == [
        False,
        True,
        True,
        True,
        True,
    ]
    assert task.shared.sessions.network.calls["accept"] == 1
    await task.leave()


async def test_sessions_do_not_wait_for_each_other() -> None:
    task = await Task.join(Shared())
    task.shared.sessions.network.hold("accept")
    slow = asyncio.create_task(task.send("m1", channel=Channel("t", "demo", "slow")))
    await settle()
    task.shared.sessions.network._held.clear()
    assert (await task.send("m1")).stream.state is ResponseState.STREAMING
    assert not slow.done()
    task.shared.sessions.network.release()
    await slow
    await task.leave()


# -- several tasks ---------------------------------------------------------------------------------


async def test_a_message_accepted_elsewhere_is_that_response_and_nothing_is_generated_twice() -> (
    None
):
    a, b = await two_tasks()
    stream = (await a.send("m1")).stream
    copies = [await b.send("m1") for _ in range(2)]
    assert [copy.duplicate for copy in copies] == [True, True]
    assert copies[0].stream is copies[1].stream
    assert copies[0].stream.response_id == stream.response_id
    second = (await a.send("m2", "m1")).stream
    assert (await b.send("m1")).stream is copies[0].stream
    assert (await b.send("m2", "m1")).stream.response_id == second.response_id
    reader = b.read(copies[0].stream)
    await a.answer("one.", 0)
    assert reader.held.text == "one."
    assert b.source.calls == []
    await a.leave()
    b.assert_idle()


async def test_causality_holds_across_tasks_and_whoever_is_late_hears_what_is_expected() -> None:
    a, b = await two_tasks()
    await a.send("m1")
    assert (await b.refusal("m2")).to_object()["expected"] == "m1"
    await b.send("m2", "m1")
    refused = await a.refusal("m2b", "m1")
    assert (refused.code, refused.to_object()["expected"]) == ("causal_violation", "m2")
    await a.send("m3", "m2")
    assert [(entry.message_id, entry.owner) for entry in await a.shared.ledger()] == [
        ("m1", "a"),
        ("m2", "b"),
        ("m3", "a"),
    ]
    await a.leave()
    await b.leave()


@pytest.mark.parametrize("names", [("x", "y"), ("same", "same")])
async def test_of_two_tasks_that_accept_at_once_one_does(names: tuple[str, str]) -> None:
    a, b = await two_tasks()
    await a.send("m1")
    await b.send("m2", "m1")
    await a.send("m3", "m2")
    await b.refusal("nothing", "m2")  # so that b knows m3
    a.shared.sessions.network.hold("accept")
    sending = [
        asyncio.create_task(task.send(name, "m3")) for task, name in zip((a, b), names, strict=True)
    ]
    await settle()
    a.shared.sessions.network.release()
    outcomes = await asyncio.gather(*sending, return_exceptions=True)
    answers = [outcome for outcome in outcomes if isinstance(outcome, Submission)]
    (won,) = [answer for answer in answers if not answer.duplicate]
    if names[0] == names[1]:
        (same,) = [answer for answer in answers if answer.duplicate]
        assert same.stream.response_id == won.stream.response_id
    else:
        (refused,) = [outcome for outcome in outcomes if isinstance(outcome, Conflict)]
        assert refused.to_object()["expected"] == won.stream.message_id
    assert len(await a.shared.ledger()) == 4
    await a.leave()
    await b.leave()


async def test_who_is_never_quick_enough_is_told_to_come_again() -> None:
    task = await Task.join(Shared())
    task.shared.sessions.network.failures["accept"] = NotAccepted("another task was quicker")
    refused = await task.refusal("m1")
    assert (refused.status, refused.code) == (503, "session_contended")
    assert refused.to_object()["retry_after_ms"] > 0
    assert task.shared.sessions.network.calls["accept"] == 3
    task.assert_idle()
    task.shared.sessions.network.failures.clear()
    await task.send("m1")
    await task.leave()


async def test_trying_again_for_other_tasks_sake_does_not_count_against_the_rate() -> None:
    shared = Shared()
    a = await Task.join(shared, "a")
    b = await Task.join(shared, "b", Limits(messages_per_second=0.5))
    await b.send("m1")
    await b.answer("one.")
    shared.clock.turn(10.0)
    await a.send("m2", "m1")
    assert (await b.refusal("m1b", "m1")).code == "causal_violation"
    shared.clock.turn(2.0)
    await b.send("m3", "m2")
    await a.leave()
    await b.leave()


# -- what the model is told ------------------------------------------------------------------------


async def test_a_task_that_takes_a_session_on_tells_the_model_what_was_said_elsewhere() -> None:
    a, b = await two_tasks()
    await a.send("m1", text="one?")
    await a.answer("one.")
    await b.send("m2", "m1", text="two?")
    await b.answer("two.")
    await a.send("m3", "m2", text="three?")
    await settle()
    assert b.source.calls[0].request.turns == (
        Turn("user", "one?"),
        Turn("assistant", "one."),
        Turn("user", "two?"),
    )
    assert a.source.calls[1].request.turns == (
        Turn("user", "one?"),
        Turn("assistant", "one."),
        Turn("user", "two?"),
        Turn("assistant", "two."),
        Turn("user", "three?"),
    )
    await a.leave()


async def test_an_answer_that_was_still_on_its_way_elsewhere_is_told_once_it_is_known() -> None:
    a, b = await two_tasks()
    await a.send("m1", text="one?")
    await settle()
    await b.send("m2", "m1", text="two?")
    await a.answer("one.")
    await b.answer("two.")
    await b.send("m3", "m2", text="three?")
    await settle()
    said = [turn.text for turn in b.source.calls[-1].request.turns]
    assert "one." in said
    assert said[-1] == "three?"
    await b.leave()


async def test_catching_up_forgets_nothing_that_ended_here() -> None:
    """The store learns an answer a little later than this task knows it."""
    a, b = await two_tasks()
    a.shared.sessions.network.hold("answered")
    await a.send("m1", text="one?")
    await a.answer("one.")
    await b.send("m2", "m1", text="two?")
    await a.send("m3", "m2", text="three?")
    await settle()
    assert "one." in [turn.text for turn in a.source.calls[-1].request.turns]
    await a.leave()
    await b.leave()


# -- everything at once ----------------------------------------------------------------------------

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "send",
                "send",
                "send",
                "late",
                "repeat",
                "finish",
                "hold",
                "release",
                "ill",
                "well",
                "loop",
                "abandon",
            ]
        ),
        st.integers(0, 1),
        st.integers(0, 1),
    ),
    max_size=40,
)


class Traffic:
    """Two sessions whose clients use two tasks as they please."""

    def __init__(self, *tasks: Task) -> None:
        self.shared, self.tasks = tasks[0].shared, tasks
        self.channels = [Channel("t", "demo", name) for name in ("s0", "s1")]
        self.sending: list[tuple[Channel, asyncio.Task[Submission]]] = []
        self.sent = 0

    async def do(self, action: str, which_task: int, which_channel: int) -> None:
        task, channel, network = (
            self.tasks[which_task],
            self.channels[which_channel],
            self.shared.sessions.network,
        )
        match action:
            case "send" | "late" | "repeat":
                await self._send(action, task, channel)
            case "finish":
                for call in task.source.calls:
                    call.push("x")
                    call.finish()
            case "hold":
                network.hold("accept", "load")
            case "release":
                network.release()
            case "ill":
                network.failures["load" if which_channel else "accept"] = UNREACHABLE
            case "well":
                network.failures.clear()
            case "abandon" if self.sending:
                self.sending[-1][1].cancel()
            case "loop":
                await settle()

    async def _send(self, action: str, task: Task, channel: Channel) -> None:
        known = [entry.message_id for entry in await self.shared.ledger(channel)]
        if action == "repeat" and known:
            index = len(known) // 2
            sending = task.send(known[index], known[index - 1] if index else None, channel=channel)
        else:
            self.sent += 1
            previous = known[-1] if known else None
            if action == "late":
                previous = known[-2] if len(known) > 1 else None
            sending = task.send(f"m{self.sent}", previous, channel=channel)
        self.sending.append((channel, asyncio.create_task(sending)))

    async def end(self) -> None:
        network = self.shared.sessions.network
        network.failures.clear()
        for _ in range(10):
            network.release()
            await settle()
        for task in self.tasks:
            await task.leave()
        await settle()


@given(ACTIONS)
async def test_whatever_happens_each_accepted_message_is_on_record_once_and_ends(
    actions: list[tuple[str, int, int]],
) -> None:
    shared = Shared()
    limits = Limits(
        messages_in_flight_per_session=100, generations_per_node=3, messages_per_second=1e5
    )
    traffic = Traffic(*[await Task.join(shared, name, limits) for name in ("a", "b")])
    for action, which_task, which_channel in actions:
        await traffic.do(action, which_task, which_channel)
    await traffic.end()
    accepted: dict[Channel, dict[str, str]] = {channel: {} for channel in traffic.channels}
    for channel, sending in traffic.sending:
        if sending.cancelled() or isinstance(sending.exception(), EvenflowError):
            continue
        stream = sending.result().stream
        # A task that follows the other one has a copy of its own.
        assert (
            accepted[channel].setdefault(stream.message_id, stream.response_id)
            == stream.response_id
        )
    for channel in traffic.channels:
        entries = await traffic.shared.ledger(channel)
        on_record = {entry.message_id: entry.response_id for entry in entries}
        assert accepted[channel].items() <= on_record.items()
        previous = None
        for entry in entries:
            assert entry.previous_message_id == previous
            previous = entry.message_id
            # An acceptance that was interrupted in memory has not been done: whatever is on record
            # was begun, and has ended.
            assert entry.ended
    calls = [call for task in traffic.tasks for call in task.source.calls]
    assert len(calls) <= sum(len(responses) for responses in accepted.values())


async def test_the_grace_period_begins_when_a_reader_can_come() -> None:
    task = await Task.join()
    task.shared.sessions.network.hold("accept")
    sending = asyncio.create_task(
        task.orchestrator.submit(
            IncomingMessage(CHANNEL, "m1", None, "hi", kind=MessageKind(grace_seconds=1.0))
        )
    )
    await task.clock.pass_time(3.0)
    task.shared.sessions.network.release()
    stream = (await sending).stream
    await task.clock.pass_time(0.8)
    assert not stream.state.terminal
    await task.clock.pass_time(0.5)
    assert stream.state is ResponseState.CANCELLED
    await task.leave()


async def test_a_busy_loop_is_not_taken_for_a_client_that_left() -> None:
    task = await Task.join()
    event = IncomingMessage.of_request(
        single_channel("acme", "once"),
        "m1",
        ReceivedRequest.of(WholeRequest(())),
        kind=COMPLETION,
    )
    stream = (await task.orchestrator.submit(event)).stream
    # Who asked hasn't had its turn yet: it can't be read, and hasn't left.
    await task.clock.pass_time(5.0)
    assert not stream.state.terminal
    reader = RecordingReader(stream, task.clock, AssembledText())
    stream.attach(reader)
    stream.detach(reader)
    await task.clock.pass_time(1.5)
    assert stream.state is ResponseState.CANCELLED
    await task.leave()


async def test_in_a_burst_who_asked_first_is_answered_while_the_last_ones_wait() -> None:
    task = await Task.join(Shared())
    burst = range(200)
    network = task.shared.sessions.network
    network.hold("accept")
    sending = [
        asyncio.create_task(task.send("m1", channel=CHANNEL._replace(session=f"s{number}")))
        for number in burst
    ]
    await settle()
    waiting = network.calls["accept"]
    assert 1 < waiting < len(burst) / 2
    network.release()
    network.hold("accept")
    await settle()
    assert [sent.done() for sent in sending] == [number < waiting for number in burst]
    assert len(task.source.calls) == waiting, "a single tenant's answers start at once"
    network.release()
    await asyncio.gather(*sending)
    await settle()
    assert [call.request.caller.session for call in task.source.calls] == [
        f"s{number}" for number in burst
    ]
    await task.leave()


async def test_a_request_that_nobody_can_repeat_is_put_on_record_by_one_call() -> None:
    task = await Task.join(Shared())
    channel = single_channel("acme", "once")
    request = ReceivedRequest.of(WholeRequest(()))
    await task.orchestrator.submit(
        IncomingMessage.of_request(channel, "m1", request, kind=COMPLETION)
    )
    assert task.shared.sessions.network.calls == {"accept": 1}
    await task.leave()
