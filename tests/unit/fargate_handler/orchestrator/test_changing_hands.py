"""Responses that come to this task from another one, or leave it for one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.fargate_handler.orchestrator.orchestrator import Submission
from evenflow.stream_core.base.channel import (
    BACKGROUND,
    COMPLETION,
    KEYED_COMPLETION,
    RESPONSE,
    Channel,
    MessageKind,
)
from evenflow.stream_core.base.errors import EvenflowError, Gone, NotFound, RateLimited
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import ResponseState, slice_of
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource
from tests.unit.fargate_handler.orchestrator.scripted_stores import UNREACHABLE
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import (
    CHANNEL,
    Shared,
    Task,
    two_tasks,
)
from tests.unit.settle import settle

OTHER = Channel("t", "demo", "other")


async def lose_lease(task: Task) -> None:
    """Another task has declared it lost; the next renewal hears so."""
    leases = task.shared.memory._leases
    leases[task.keeper.owner] = replace(leases[task.keeper.owner], lost=True)
    await task.clock.pass_time(3.1)


# -- lost and inherited by the same task -----------------------------------------------------------


async def test_a_model_that_takes_its_time_to_stop_does_not_keep_the_response_from_going_on() -> (
    None
):
    """The task lost its lease and gets the response back under its new name, while its first
    model is still closing.
    """
    task = await Task.join()
    task.source.may_close.clear()
    stream = (await task.send("m1")).stream
    task.read(stream)
    await settle()
    await lose_lease(task)
    await task.clock.pass_time(1.0)
    assert [call.closed for call in task.source.calls] == [0, 0], "the first one is still closing"
    again = await task.find(stream.response_id)
    assert (again.via, again.epoch) == ("owner", 2)
    assert again is not stream
    task.source.may_close.set()
    await settle()
    assert [call.closed for call in task.source.calls] == [1, 0]
    assert await task.find(stream.response_id) is again
    reader = task.read(again)
    await task.answer("b")
    assert reader.held.text == "b"
    assert again.state is ResponseState.COMPLETED
    assert not stream.log.closed
    task.assert_idle()


@pytest.mark.parametrize("then", ["cancelled", "lost"])
async def test_what_waits_for_the_place_of_its_own_predecessor_can_be_cancelled_and_lost(
    then: str,
) -> None:
    task = await Task.join(limits=Limits(generations_per_node=1, queue_depth=5))
    task.source.may_close.clear()
    stream = (await task.send("m1")).stream
    task.read(stream)
    await settle()
    await lose_lease(task)
    await task.clock.pass_time(1.0)
    again = await task.find(stream.response_id)
    assert (again.via, again.state) == ("owner", ResponseState.QUEUED)
    if then == "cancelled":
        assert await task.orchestrator.cancel(again) is ResponseState.CANCELLED
    else:
        await lose_lease(task)
        await task.clock.pass_time(1.0)
    task.source.may_close.set()
    await task.clock.pass_time(1.0)
    # The one that waited never asked the model; what was lost again has begun under the third name.
    assert [call.request.attempt for call in task.source.calls] == (
        [1] if then == "cancelled" else [1, 3]
    )
    if then == "lost":
        await task.answer("c")
    (entry,) = await task.shared.ledger()
    assert entry.ended
    task.assert_idle()


async def test_an_old_copy_cannot_cancel_the_new_one() -> None:
    task = await Task.join()
    stream = (await task.send("m1")).stream
    task.read(stream)
    await settle()
    await lose_lease(task)
    await task.clock.pass_time(1.0)
    again = await task.find(stream.response_id)
    await task.orchestrator.cancel(stream)
    assert not again.log.closed
    assert await task.orchestrator.cancel(again) is ResponseState.CANCELLED
    await settle()
    task.assert_idle()


async def test_what_nobody_has_lost_is_not_begun_again() -> None:
    task = await Task.join()
    stream = (await task.send("m1")).stream
    await settle()
    assert await task.failover.take_over(stream.response_id), "it is this task's"
    assert len(task.source.calls) == 1
    assert task.orchestrator.responses.of(CHANNEL) == [stream]
    assert task.count(catalogue.TAKE_OVERS) == 0
    await task.answer("a")
    task.assert_idle()


@pytest.mark.parametrize("held_up", ["before it asks", "after it asked"])
async def test_what_has_ended_here_and_is_not_on_record_yet_is_not_begun_again(
    held_up: str,
) -> None:
    task = await Task.join()
    stream = (await task.send("m1")).stream
    task.responses.network.hold("finish", "take_over")
    if held_up == "after it asked":
        taking = asyncio.create_task(task.failover.take_over(stream.response_id))
        await settle()
        await task.answer("a")
    else:
        await task.answer("a")
        taking = asyncio.create_task(task.failover.take_over(stream.response_id))
        await settle()
    task.responses.network.release()
    await settle()
    assert taking.result(), "it is this task's"
    assert len(task.source.calls) == 1
    assert await task.find(stream.response_id) is stream
    assert (await task.shared.stored(stream.response_id), stream.log.text) == (["a"], "a")
    assert task.failover._claimed == set()
    task.assert_idle()


async def test_without_room_nothing_of_an_inheritance_stays() -> None:
    a, b = await two_tasks()
    a.read((await a.send("m1")).stream)
    await settle()
    a.cut_off()
    begun = b.failover._resume
    refused: list[EvenflowError] = []

    def full_when_it_begins(left: object) -> bool:
        b.orchestrator.stop_accepting()
        try:
            return begun(left)  # type: ignore[arg-type]
        except RateLimited as error:
            refused.append(error)
            raise
        finally:
            b.workload.draining = False

    b.failover._resume = full_when_it_begins
    await b.clock.pass_time(12.0, step=0.05)
    assert refused
    assert b.source.calls == []
    assert len(b.orchestrator.responses) == 0
    assert not b.recorder.busy
    b.assert_idle()
    b.failover._resume = begun
    await b.clock.pass_time(1.0)
    assert len(b.source.calls) == 1


# -- lost ------------------------------------------------------------------------------------------


async def test_a_task_that_lost_a_response_learns_from_the_ledger_how_it_ended() -> None:
    a, b = await two_tasks()
    stream = (await a.send("m1", text="one?")).stream
    reader = a.read(stream)
    await settle()
    a.source.calls[0].push("never finished")
    a.cut_off()
    await a.clock.pass_time(12.0, step=0.05)
    b.read(await b.find(stream.response_id))
    await b.answer("one.")
    a.reconnect()
    await a.clock.pass_time(4.0)
    assert reader.left_behind
    assert a.source.open_calls == 0
    assert a.keeper.owner == "a-2"
    assert (await a.find(stream.response_id)).log.text == "one."
    await a.send("m2", "m1", text="two?")
    await settle()
    assert [turn.text for turn in a.source.calls[-1].request.turns] == ["one?", "one.", "two?"]
    await a.answer("two.")
    a.assert_idle()


async def test_the_model_is_told_the_answer_on_record_and_not_the_one_that_was_lost() -> None:
    a, b = await two_tasks()
    stream = (await a.send("m1", text="one?")).stream
    a.read(stream)
    a.cut_off()
    await a.answer("never on record.")
    assert stream.state is ResponseState.COMPLETED
    await a.clock.pass_time(12.0, step=0.05)
    await b.answer("one.")
    a.reconnect()
    await a.clock.pass_time(4.0)
    await a.send("m2", "m1", text="two?")
    await settle()
    assert [turn.text for turn in a.source.calls[-1].request.turns] == ["one?", "one.", "two?"]
    await a.leave()


async def test_what_ended_here_and_was_taken_over_all_the_same_is_the_successor_s() -> None:
    """Its last words here never got on record."""
    a, b = await two_tasks()
    stream = (await a.send("m1")).stream
    a.read(stream)
    await settle()
    a.cut_off()
    await a.orchestrator.cancel(stream)
    assert stream.state is ResponseState.CANCELLED
    await a.clock.pass_time(12.0, step=0.05)
    await b.answer("b")
    a.reconnect()
    await a.clock.pass_time(4.0)
    found = await a.find(stream.response_id)
    assert found is not stream
    assert (found.state, found.log.text) == (ResponseState.COMPLETED, "b")
    assert not a.recorder.busy
    for _ in range(2):
        a.orchestrator.sweep(a.clock.now + 400.0)
    assert len(a.orchestrator.responses) == 0


# -- handed over -----------------------------------------------------------------------------------


async def test_whatever_runs_waits_or_is_being_accepted_is_handed_over_and_goes_on() -> None:
    shared = Shared()
    a = await Task.join(shared, "a", Limits(generations_per_node=1, queue_depth=2))
    b = await Task.join(shared, "b", source=ControlledSource(continues=True))
    channels = [Channel("t", "demo", f"s{number}") for number in range(3)]
    for channel in channels[:2]:
        a.read((await a.send("m1", channel=channel)).stream)
    await settle()
    a.source.calls[0].push("a", "b")
    a.sessions.network.hold("accept")
    sending = asyncio.create_task(a.send("m1", channel=channels[2]))
    await settle()
    a.orchestrator.stop_accepting()
    a.workload.generations.hand_over_all()
    await settle()
    assert a.orchestrator.busy, "one is still being accepted"
    a.sessions.network.release()
    await settle()
    assert sending.result().stream.state is ResponseState.STREAMING
    assert not a.orchestrator.busy
    assert len(a.source.calls) == 1
    assert a.source.open_calls == 0
    leaving = asyncio.create_task(a.hand_over())
    await b.clock.pass_time(2.0)
    assert leaving.done()
    a.assert_idle()
    assert sorted(call.request.prefix for call in b.source.calls) == ["", "", "ab"]
    for call in b.source.calls:
        call.push("c")
        call.finish()
    await b.clock.pass_time(1.0)
    texts = []
    for channel in channels:
        (entry,) = await shared.ledger(channel)
        assert entry.ended
        texts.append(slice_of(await shared.stored(entry.response_id), 0).text)
    assert sorted(texts) == ["abc", "c", "c"]


async def test_what_is_taken_over_while_this_task_leaves_is_left_to_the_next_one() -> None:
    a, b = await two_tasks()
    stream = (await a.send("m1")).stream
    a.read(stream)
    await settle()
    a.cut_off()
    b.sessions.network.hold("load")
    await b.clock.pass_time(12.0, step=0.05)
    assert (await b.shared.head(stream.response_id)).owner == "b"
    leaving = asyncio.create_task(b.hand_over())
    await b.clock.pass_time(1.0)
    b.sessions.network.release()
    await b.clock.pass_time(1.0)
    assert leaving.done()
    assert b.source.calls == []
    c = await Task.join(a.shared, "c")
    await c.clock.pass_time(1.0)
    assert len(c.source.calls) == 1
    assert (await c.shared.head(stream.response_id)).epoch == 3


# -- found -----------------------------------------------------------------------------------------


class Fickle:
    """It says that there is a copy, and there is none."""

    def __init__(self) -> None:
        self.asked = 0

    async def find(self, _response_id: str, _channel: Channel) -> bool:
        self.asked += 1
        return True

    def begin_look_up(self, _response_id: str) -> None:
        """Nothing is found sooner."""


async def test_a_response_is_looked_up_while_the_end_of_its_session_is_read() -> None:
    a, b = await two_tasks()
    stream = (await a.send("m1")).stream
    a.read(stream)
    await b.clock.pass_time(6.0, step=0.05)
    b.sessions.network.hold("find_ended")
    finding = asyncio.create_task(b.find(stream.response_id))
    await settle()
    assert b.responses.network.calls["head"] == 1
    assert not finding.done()
    b.sessions.network.release()
    assert (await finding).response_id == stream.response_id
    assert b.responses.network.calls["head"] == 1
    await a.leave()


async def test_a_response_of_an_ended_session_is_looked_up_in_vain() -> None:
    a, b = await two_tasks()
    stream = (await a.send("m1")).stream
    a.read(stream)
    await settle()
    await a.shared.sessions.end(CHANNEL, a.clock.now)
    with pytest.raises(Gone):
        await b.find(stream.response_id)
    await a.leave()


async def test_what_changes_hands_again_and_again_is_asked_for_again_later() -> None:
    task = await Task.join()
    fickle = task.orchestrator._replicas = Fickle()  # type: ignore[assignment]
    with pytest.raises(EvenflowError) as refused:
        await task.find("rsp_1")
    assert refused.value.status == 503
    assert refused.value.to_object()["retry_after_ms"] > 0
    assert fickle.asked == 3


async def test_what_is_known_here_is_not_looked_for_elsewhere() -> None:
    task = await Task.join()
    stream = (await task.send("m1")).stream
    assert await task.find(stream.response_id) is stream
    await task.answer("a")
    task.orchestrator.sweep(task.clock.now + 299.0)
    assert await task.find(stream.response_id) is stream
    assert task.responses.network.calls["head"] == 0
    with pytest.raises(NotFound):
        await task.find(stream.response_id, OTHER)


# -- after hours -----------------------------------------------------------------------------------


@pytest.mark.parametrize("hours", [1 / 6, 8.0, 23.9])
async def test_who_comes_back_after_hours_is_given_the_whole_answer(hours: float) -> None:
    """At the task that has answered and forgotten it, and at one that has begun since."""
    a = await Task.join()
    stream = (await a.send("m1")).stream
    await a.answer("the whole answer")
    a.clock.now += hours * 3_600.0
    a.orchestrator.sweep(a.clock.now)
    assert a.orchestrator.responses.of_any_session(stream.response_id) is None
    for task in (a, await Task.join(a.shared, "b")):
        found = await task.find(stream.response_id)
        assert (found.state, found.log.text) == (ResponseState.COMPLETED, "the whole answer")
        again = await task.send("m1")
        assert again == Submission(found, duplicate=True)
        with pytest.raises(NotFound):
            await task.find(stream.response_id, OTHER)


async def test_what_the_store_does_not_take_is_not_forgotten_here() -> None:
    a = await Task.join()
    stream = (await a.send("m1")).stream
    a.responses.network.failures["finish"] = UNREACHABLE
    await a.answer("a")
    for _ in range(2):
        a.orchestrator.sweep(a.clock.now + 301.0)
        assert await a.find(stream.response_id) is stream
    a.responses.network.failures.clear()
    await a.clock.pass_time(2.0)
    a.orchestrator.sweep(a.clock.now + 301.0)
    assert a.orchestrator.responses.of_any_session(stream.response_id) is None
    assert (await a.find(stream.response_id)).log.text == "a"


async def test_after_a_day_it_is_gone() -> None:
    a = await Task.join()
    stream = (await a.send("m1")).stream
    await a.answer("a")
    a.clock.now += 86_401.0
    a.orchestrator.sweep(a.clock.now)
    with pytest.raises(Gone):
        await a.find(stream.response_id)


async def test_an_answer_for_which_later_ones_of_its_session_took_the_room_is_on_record() -> None:
    task = await Task.join(limits=Limits(responses_held_per_session=1, store_interval_ms=150))
    first = (await task.send("m1")).stream
    await task.answer("first")
    await task.send("m2", "m1")
    assert task.orchestrator.responses.of_any_session(first.response_id) is None
    assert (await task.find(first.response_id)).log.text == "first"
    await task.leave()


# -- nobody reads ----------------------------------------------------------------------------------


async def _taken_over(kind: MessageKind, limits: Limits) -> ResponseStream:
    """An answer that a lost task began, at the task that goes on with it. Nobody reads it."""
    shared = Shared()
    a = await Task.join(shared, "a", limits)
    b = await Task.join(shared, "b", limits)
    stream = (await a.send("m1", text=WholeRequest(()).to_text(), kind=kind)).stream
    await settle()
    a.cut_off()
    await a.clock.pass_time(12.0, step=0.05)
    taken_over = await b.find(stream.response_id)
    assert taken_over.via == "owner"
    await b.clock.pass_time(40.0, step=0.5)
    return taken_over


@pytest.mark.parametrize("kind", [BACKGROUND, RESPONSE, KEYED_COMPLETION])
async def test_what_may_be_fetched_later_goes_on_unread_at_the_task_that_takes_it_over(
    kind: MessageKind,
) -> None:
    assert not (await _taken_over(kind, Limits())).state.terminal


async def test_an_operators_grace_does_not_stop_what_goes_on_in_the_background() -> None:
    limits = Limits(grace_seconds=20)
    assert not (await _taken_over(BACKGROUND, limits)).state.terminal
    assert (await _taken_over(RESPONSE, limits)).finish_reason == "abandoned"


async def test_what_nobody_can_come_back_for_is_not_gone_on_with_to_its_end() -> None:
    assert (await _taken_over(COMPLETION, Limits())).finish_reason == "cancelled"
