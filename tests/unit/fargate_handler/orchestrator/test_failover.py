from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import Restart
from evenflow.stream_core.log.response_log import ResponseState, slice_of
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.session.conversation import Turn
from evenflow.stream_core.stores.response_store import Ending, NodeLease
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource
from tests.unit.fargate_handler.orchestrator.scripted_stores import UNREACHABLE
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Shared, Task
from tests.unit.seeds import seeds
from tests.unit.settle import settle

SWEEP = 1.0
"""Two sweeps, or nearly."""


async def lost(
    *, tokens: str = "", continues: bool = False, limits: Limits | None = None
) -> tuple[Task, Task, str]:
    """Task a answered m1 when it was lost, and had said this much; b, which began afterwards, is
    about to find its lease run out.
    """
    shared = Shared()
    a = await Task.join(shared, "a")
    stream = (await a.send("m1", text="one?")).stream
    a.read(stream)
    await settle()
    for token in tokens:
        a.source.calls[0].push(token)
        await a.clock.pass_time(0.2)
    a.cut_off()
    b = await Task.join(shared, "b", limits, ControlledSource(continues=continues))
    await a.clock.pass_time(2.9, step=0.05)
    return a, b, stream.response_id


async def taken_over(b: Task, response_id: str) -> bool:
    """Task b is asked for what task a left, whose lease is known to be lost."""
    b.shared.memory._leases["a"] = replace(b.shared.memory._leases["a"], lost=True)
    return await b.failover.take_over(response_id)


async def text_on_record(task: Task, response_id: str) -> str:
    return slice_of(await task.shared.stored(response_id), 0).text


# -- taken over ------------------------------------------------------------------------------------


async def test_what_a_lost_task_was_answering_is_begun_again_without_anybody_asking() -> None:
    _, b, response_id = await lost(tokens="ab")
    await b.clock.pass_time(SWEEP)
    (call,) = b.source.calls
    assert (call.request.turns, call.request.attempt, call.request.prefix) == (
        (Turn("user", "one?"),),
        2,
        "",
    )
    await b.answer("Once more.")
    assert await b.shared.stored(response_id) == [
        "a",
        "b",
        Restart(1, 2, 2),
        Restart(-1, 2),
        "Once more.",
    ]
    assert min(chunk.first_index for request in b.responses.requests for chunk in request) == 2, (
        "written once"
    )
    head = await b.shared.head(response_id)
    assert (head.owner, head.epoch) == ("b", 2)
    assert head.ending is not None
    assert head.ending.state is ResponseState.COMPLETED
    (entry,) = await b.shared.ledger()
    assert (entry.answer, entry.ended) == ("Once more.", True)
    assert b.count(catalogue.TAKE_OVERS) == 1


async def test_a_model_that_continues_goes_on_where_the_record_ends() -> None:
    _, b, response_id = await lost(tokens="ab", continues=True)
    await b.clock.pass_time(SWEEP)
    assert b.source.calls[0].request.prefix == "ab"
    await b.answer("c")
    assert await b.shared.stored(response_id) == ["a", "b", Restart(1, 2, 2), "c"]
    assert await text_on_record(b, response_id) == "abc"


async def test_what_goes_on_is_not_in_prefill_until_it_ends() -> None:
    _, b, _ = await lost(tokens="ab", limits=Limits(prefills_per_tenant=1))
    await b.clock.pass_time(SWEEP)
    b.source.calls[0].push("c")
    await b.clock.pass_time(0.2)
    await b.send("m2", channel=Channel(CHANNEL.tenant, CHANNEL.agent, "another"))
    await settle()
    assert len(b.source.calls) == 2
    for call in b.source.calls:
        call.finish()
    await settle()


async def test_what_a_lost_task_had_not_begun_is_begun() -> None:
    _, b, response_id = await lost()
    await b.clock.pass_time(SWEEP)
    await b.answer("First.")
    assert await text_on_record(b, response_id) == "First."


@pytest.mark.parametrize("tokens", ["", "ab"])
async def test_what_must_not_be_asked_twice_ends_with_what_is_on_record(tokens: str) -> None:
    shared = Shared()
    a = await Task.join(shared, "a")
    stream = (await a.send("m1")).stream
    a.read(stream)
    await settle()
    for token in tokens:
        a.source.calls[0].push(token)
        await a.clock.pass_time(0.2)
    a.cut_off()
    b = await Task.join(shared, "b", repeats_lost=False)
    await b.clock.pass_time(4.0, step=0.05)
    assert b.source.calls == []
    ending = (await shared.head(stream.response_id)).ending
    assert ending is not None
    assert ending.error is not None
    assert (ending.state, ending.error["code"]) == (ResponseState.ERROR, "not_repeated")
    assert await text_on_record(b, stream.response_id) == tokens


async def test_the_model_is_told_what_was_said_before() -> None:
    shared = Shared()
    a = await Task.join(shared, "a")
    await a.send("m1", text="one?")
    await a.answer("one.")
    a.read((await a.send("m2", "m1", text="two?")).stream)
    await settle()
    a.cut_off()
    b = await Task.join(shared, "b")
    await b.clock.pass_time(11.0, step=0.05)
    assert [turn.text for turn in b.source.calls[0].request.turns] == ["one?", "one.", "two?"]
    await b.answer("two.")
    await b.send("m3", "m2", text="three?")
    await settle()
    assert [turn.text for turn in b.source.calls[1].request.turns] == [
        "one?",
        "one.",
        "two?",
        "two.",
        "three?",
    ]
    await b.leave()


async def test_what_a_task_leaves_in_order_is_taken_over_at_once() -> None:
    shared = Shared()
    a = await Task.join(shared, "a")
    stream = (await a.send("m1")).stream
    a.read(stream)
    await settle()
    a.source.calls[0].push("a", "b")
    b = await Task.join(shared, "b", source=ControlledSource(continues=True))
    leaving = asyncio.create_task(a.hand_over())
    await b.clock.pass_time(SWEEP)
    assert leaving.done()
    assert b.source.calls[0].request.prefix == "ab", (
        "what waited to be delivered was delivered, and is on record"
    )
    assert a.source.open_calls == 0
    a.assert_idle()
    assert (await shared.head(stream.response_id)).losses == 0


async def test_who_reads_it_here_hears_it_go_on() -> None:
    shared = Shared()
    a, b = (
        await Task.join(shared, "a"),
        await Task.join(shared, "b", source=ControlledSource(continues=True)),
    )
    stream = (await a.send("m1")).stream
    a.read(stream)
    await settle()
    a.source.calls[0].push("a")
    await a.clock.pass_time(0.3)
    reader = b.read(await b.find(stream.response_id))
    a.cut_off()
    await b.clock.pass_time(12.0, step=0.05)
    assert reader.left_behind
    following = b.read(await b.find(stream.response_id))
    await b.answer("b")
    assert following.held.text == "ab"


async def read_here_and_lost(*, second: bool = False) -> tuple[Task, ResponseStream]:
    """Task b reads what task a was answering when it was lost two seconds ago: m1, or m2."""
    shared = Shared()
    a, b = await Task.join(shared, "a"), await Task.join(shared, "b")
    stream = (await a.send("m1", text="one?")).stream
    if second:
        stream = (await a.send("m2", "m1", text="two?")).stream
    a.read(stream)
    await settle()
    a.source.calls[-1].push("a")
    await a.clock.pass_time(0.3)
    b.read(await b.find(stream.response_id))
    a.cut_off()
    await b.clock.pass_time(2.0, step=0.05)
    return b, stream


async def test_the_conversation_is_read_before_the_lease_of_a_lost_node_has_run_out() -> None:
    b, _ = await read_here_and_lost()
    b.sessions.network.hold("load")  # what is asked for from now on comes too late
    await b.clock.pass_time(1.5, step=0.05)
    (call,) = b.source.calls
    assert call.request.turns == (Turn("user", "one?"),)
    await b.leave()


async def test_a_conversation_with_another_answer_under_way_is_read_once_that_may_have_ended() -> (
    None
):
    b, stream = await read_here_and_lost(second=True)
    b.sessions.network.calls.clear()
    await b.clock.pass_time(4.0, step=0.05)
    assert b.sessions.network.calls["load"] == 2
    assert b.workload.generations.of(stream.response_id) is not None
    await b.leave()


async def test_a_conversation_that_was_read_in_vain_is_not_kept() -> None:
    shared = Shared()
    a, b = await Task.join(shared, "a"), await Task.join(shared, "b")
    stream = (await a.send("m1")).stream
    a.read(stream)
    await b.failover.prepare(stream.response_id, CHANNEL)
    assert b.failover._prepared
    await b.clock.pass_time(8.0, step=0.05)
    assert not b.failover._prepared
    await a.leave()


async def test_a_task_whose_own_lease_was_lost_goes_on_with_what_is_left_under_its_new_name() -> (
    None
):
    shared = Shared()
    a = await Task.join(shared, "a")
    stream = (await a.send("m1")).stream
    reader = a.read(stream)
    await settle()
    a.source.calls[0].push("a")
    await a.clock.pass_time(0.3)
    shared.memory._leases["a"] = replace(shared.memory._leases["a"], lost=True)
    await a.clock.pass_time(5.0, step=0.05)
    assert reader.left_behind
    head = await shared.head(stream.response_id)
    assert (head.owner, head.epoch) == ("a-2", 2)
    assert (a.source.open_calls, len(a.source.calls)) == (1, 2)
    await a.answer("b")
    assert await text_on_record(a, stream.response_id) == "b"
    a.assert_idle()


# -- left alone ------------------------------------------------------------------------------------


async def test_what_a_living_task_answers_is_its_own() -> None:
    shared = Shared()
    a, b = await Task.join(shared, "a"), await Task.join(shared, "b")
    a.read((await a.send("m1")).stream)
    await a.clock.pass_time(9.0, step=0.05)
    assert b.source.calls == []
    assert b.responses.network.calls["take_over"] == 0
    await a.answer("a")


@pytest.mark.parametrize("how", ["draining", "not in force", "full"])
async def test_who_may_not_take_anything_over_does_not_even_ask(how: str) -> None:
    _, b, response_id = await lost(tokens="a", limits=Limits(generations_per_node=1, queue_depth=0))
    match how:
        case "draining":
            b.orchestrator.stop_accepting()
        case "not in force":
            b.keeper._in_force_until = 0.0
            b.responses.network.failures["renew"] = UNREACHABLE
        case _:
            b.read((await b.send("m1", channel=Channel("t", "demo", "busy"))).stream)
            await settle()
    running = len(b.source.calls)
    await b.clock.pass_time(2.0)
    assert not await b.failover.take_over(response_id)
    assert len(b.source.calls) == running
    assert (await b.shared.head(response_id)).owner == "a"
    b.workload.draining = False
    b.responses.network.failures.clear()
    for call in b.source.calls:
        call.finish()
    await b.clock.pass_time(5.0, step=0.05)
    assert len(b.source.calls) == running + 1
    assert (await b.shared.head(response_id)).owner == "b"


async def test_what_has_ended_meanwhile_is_not_begun_again() -> None:
    _, b, response_id = await lost(tokens="a")
    b.responses.network.hold("take_over")
    await b.clock.pass_time(SWEEP)
    # The end was on its way for long.
    ending = Ending(ResponseState.COMPLETED, 1, b.clock.now, finish_reason="stop")
    await b.shared.memory.finish(
        (await b.shared.head(response_id)).lease, ending, b.clock.now + 300.0
    )
    b.responses.network.release()
    await b.clock.pass_time(SWEEP)
    assert b.source.calls == []
    assert b.failover._claimed == set()
    assert (await b.find(response_id)).log.text == "a"


# -- races -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", seeds(20))
async def test_of_several_tasks_that_take_over_at_once_one_does(seed: int) -> None:
    shared, random = Shared(), Random(seed)
    a = await Task.join(shared, "a")
    streams: list[ResponseStream] = []
    for number in range(5):
        streams.append((await a.send("m1", channel=Channel("t", "demo", f"s{number}"))).stream)
        a.read(streams[-1])
    await settle()
    a.cut_off()
    successors = [
        await Task.join(shared, name, source=ControlledSource(continues=True)) for name in "bcd"
    ]
    for task in successors:
        task.responses.network.turns = task.sessions.network.turns = lambda: random.randrange(12)
    await a.clock.pass_time(12.0, step=0.05)
    owners = [(await shared.head(stream.response_id)).owner for stream in streams]
    for task in successors:
        assert sum(call.opened for call in task.source.calls) == owners.count(task.keeper.owner)
        assert task.count(catalogue.TAKE_OVERS) == owners.count(task.keeper.owner)
        assert task.failover._claimed == set()
    assert set(owners) <= {"b", "c", "d"}
    for task in successors:
        for call in task.source.calls:
            call.push("x")
            call.finish()
    await a.clock.pass_time(1.0)
    for stream in streams:
        head = await shared.head(stream.response_id)
        assert head.epoch == 2
        assert head.ending is not None
        assert await shared.stored(stream.response_id) == [Restart(-1, 2, 2), "x"]


async def test_many_that_ask_at_the_same_time_are_one_take_over() -> None:
    _, b, response_id = await lost(tokens="a")
    b.responses.network.hold("take_over")
    taking = [asyncio.create_task(taken_over(b, response_id)) for _ in range(10)]
    await settle()
    taking[0].cancel()
    b.responses.network.release()
    await settle()
    assert [one.result() for one in taking[1:]] == [True] * 9
    assert b.responses.network.calls["take_over"] == 1
    assert len(b.source.calls) == 1


async def test_a_reader_and_the_sweep_at_the_same_time_are_one_take_over() -> None:
    _, b, response_id = await lost(tokens="a")
    b.responses.network.turns = lambda: 3
    b.shared.memory._leases["a"] = replace(b.shared.memory._leases["a"], lost=True)
    await b.cluster.leases.all(0)
    finding = asyncio.create_task(b.find(response_id))
    await b.clock.pass_time(2.0)
    stream = finding.result()
    assert (stream.via, stream.epoch) == ("owner", 2)
    assert len(b.source.calls) == 1
    assert b.count(catalogue.TAKE_OVERS) == 1
    assert b.orchestrator.responses.of(CHANNEL) == [stream]


# -- interrupted -----------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["leases", "unfinished", "take_over", "load"])
@pytest.mark.parametrize("how", ["not done", "answer lost"])
async def test_what_a_sick_store_interrupts_is_done_when_it_is_well(call: str, how: str) -> None:
    _, b, response_id = await lost(tokens="a")
    network = b.sessions.network if call == "load" else b.responses.network
    (network.failures if how == "not done" else network.lost_answers)[call] = UNREACHABLE
    await b.clock.pass_time(3.0)
    assert network.calls[call] > 1
    assert b.source.calls == []
    network.failures.clear()
    network.lost_answers.clear()
    await b.clock.pass_time(SWEEP)
    assert len(b.source.calls) == 1
    await b.answer("b")
    assert await text_on_record(b, response_id) == "b"
    assert (await b.shared.head(response_id)).epoch == 2
    assert b.failover._claimed == set()


async def test_a_response_that_fails_over_and_over_keeps_none_of_the_others_waiting() -> None:
    shared = Shared()
    a = await Task.join(shared, "a")
    streams = [
        (await a.send("m1", channel=Channel("t", "demo", f"s{number}"))).stream
        for number in range(3)
    ]
    for stream in streams:
        a.read(stream)
    await settle()
    a.cut_off()
    b = await Task.join(shared, "b", Limits(sessions_per_node=1))
    await a.clock.pass_time(12.0, step=0.05)
    assert len(b.source.calls) == 1, "there is room for one session, and it is busy"
    for expected in (2, 3):
        b.source.calls[-1].finish()
        await b.clock.pass_time(SWEEP)
        assert len(b.source.calls) == expected
    assert b.failover._claimed == set()


async def test_what_there_is_no_room_for_does_not_keep_the_sweep_from_what_comes_later() -> None:
    shared = Shared()
    first, second = await Task.join(shared, "first"), await Task.join(shared, "second")
    busy, other = Channel("t", "demo", "busy"), Channel("t", "demo", "other")
    first.read((await first.send("m1", channel=other)).stream)
    b = await Task.join(shared, "b", Limits(sessions_per_node=1, model_first_sign_seconds=60))
    b.read((await b.send("m1", channel=busy)).stream)
    late = (await second.send("m2", "m1", channel=busy)).stream
    second.read(late)
    second.orchestrator.stop_accepting()  # it takes nothing over
    await settle()
    first.cut_off()
    await b.clock.pass_time(12.0, step=0.05)
    assert b.failover._claimed, "there is no room for another session"
    second.cut_off()
    await b.clock.pass_time(12.0, step=0.05)
    assert (await shared.head(late.response_id)).owner == "b"
    assert len(b.source.calls) == 2


async def test_only_as_many_are_taken_over_as_there_is_room_for_also_when_they_come_at_once() -> (
    None
):
    shared = Shared()
    a = await Task.join(shared, "a")
    for number in range(6):
        a.read((await a.send("m1", channel=Channel("t", "demo", f"s{number}"))).stream)
    await settle()
    a.cut_off()
    b = await Task.join(shared, "b", Limits(generations_per_node=2, queue_depth=1))
    await a.clock.pass_time(12.0, step=0.05)
    assert (len(b.source.calls), len(b.workload.generations)) == (2, 3)
    for _ in range(20):
        for call in b.source.calls:
            call.finish()
        await b.clock.pass_time(SWEEP)
    assert len(b.source.calls) == 6
    assert [
        entry.ended
        for number in range(6)
        for entry in await shared.ledger(Channel("t", "demo", f"s{number}"))
    ] == [True] * 6
    b.assert_idle()


async def test_a_message_being_accepted_keeps_its_place_whatever_is_taken_over() -> None:
    _, b, response_id = await lost(tokens="a", limits=Limits(generations_per_node=1, queue_depth=0))
    b.responses.network.hold("take_over")
    await b.clock.pass_time(SWEEP)
    b.sessions.network.hold("accept")
    sending = asyncio.create_task(b.send("m1", channel=Channel("t", "demo", "busy")))
    await settle()
    b.responses.network.release()
    await b.clock.pass_time(SWEEP)
    assert b.source.calls == []
    b.sessions.network.release()
    await settle()
    b.read(sending.result().stream)
    assert [call.request.turns[-1].text for call in b.source.calls] == ["hi"]
    await b.answer("busy.")
    await b.clock.pass_time(SWEEP)
    assert [call.request.turns[-1].text for call in b.source.calls] == ["hi", "one?"]
    assert (await b.shared.head(response_id)).owner == "b"
    await b.leave()


# -- forgotten -------------------------------------------------------------------------------------


async def test_a_lost_lease_is_remembered_for_a_while_and_then_forgotten() -> None:
    _, b, _ = await lost(tokens="a")
    await b.clock.pass_time(SWEEP)
    assert b.shared.memory._leases["a"].lost
    await b.answer("b")
    await b.clock.pass_time(40.0, step=0.05)
    assert "a" in b.shared.memory._leases
    await b.clock.pass_time(30.0, step=0.05)
    assert "a" not in b.shared.memory._leases
    assert "b" in b.shared.memory._leases


async def test_a_lease_with_something_left_to_take_over_is_not_forgotten() -> None:
    _, b, response_id = await lost(tokens="a")
    b.shared.memory._leases["a"] = NodeLease("a", b.clock.now - 1_000.0, lost=True)
    # There is room when it begins to look, and none any more when it has found something.
    b.responses.network.hold("unfinished")
    await b.clock.pass_time(SWEEP)
    b.workload.draining = True
    b.responses.network.release()
    await b.clock.pass_time(SWEEP)
    assert b.responses.network.calls["unfinished"] == 1
    assert (await b.shared.head(response_id)).owner == "a"
    b.workload.draining = False
    await b.clock.pass_time(SWEEP)
    assert (await b.shared.head(response_id)).owner == "b"
