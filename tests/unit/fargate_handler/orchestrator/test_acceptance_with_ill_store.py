from __future__ import annotations

import asyncio

import pytest

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import EvenflowError, Overloaded
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.stores.session_store import StoreFull
from tests.unit.fargate_handler.orchestrator.scripted_stores import (
    UNREACHABLE,
)
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import (
    CHANNEL,
    LEAVING,
    Shared,
    Task,
    two_tasks,
)
from tests.unit.settle import settle

# -- a store that is ill ---------------------------------------------------------------------------


async def test_a_task_begins_though_the_store_is_full() -> None:
    shared = Shared()
    shared.sessions.network.failures["accept"] = StoreFull()
    task = await Task.join(shared)
    refused = await task.refusal("m1")
    assert (refused.status, refused.code) == (503, "store_full")
    task.assert_idle()
    del shared.sessions.network.failures["accept"]
    await task.send("m1")
    await task.leave()


@pytest.mark.parametrize("call", ["load", "accept"])
@pytest.mark.parametrize("error", [UNREACHABLE, ValueError("a bug")], ids=["unreachable", "bug"])
async def test_what_could_not_be_put_on_record_leaves_nothing_behind(
    call: str, error: Exception
) -> None:
    task = await Task.join(Shared())
    task.shared.sessions.network.failures[call] = error
    with pytest.raises(Overloaded if error is UNREACHABLE else type(error)) as refusal:
        await task.send("m1")
    if error is UNREACHABLE:
        assert (refusal.value.status, refusal.value.code) == (503, "store_unavailable")  # type: ignore[attr-defined]
    task.assert_idle()
    assert task.orchestrator.last_message_id(CHANNEL) is None
    assert len(task.orchestrator.responses) == 0
    assert not task.recorder.busy
    task.shared.sessions.network.failures.clear()
    assert not (await task.send("m1")).duplicate
    await task.leave()


async def test_a_session_that_could_not_be_read_is_read_by_the_next_message() -> None:
    a, b = await two_tasks()
    await a.send("m1", text="one?")
    await a.answer("one.")
    a.shared.sessions.network.failures["load"] = UNREACHABLE
    assert (await b.refusal("m2", "m1")).code == "store_unavailable"
    a.shared.sessions.network.failures.clear()
    assert (await b.refusal("m2")).to_object()["expected"] == "m1"
    await b.send("m2", "m1", text="two?")
    await settle()
    assert [turn.text for turn in b.source.calls[0].request.turns] == ["one?", "one.", "two?"]
    await b.leave()


@pytest.mark.parametrize("call", ["load", "accept"])
async def test_a_caller_cancelled_while_its_message_is_accepted_leaves_nothing_behind(
    call: str,
) -> None:
    task = await Task.join(Shared())
    task.shared.sessions.network.hold(call)
    sending = asyncio.create_task(task.send("m1"))
    waiting = asyncio.create_task(task.send("m1"))
    await settle()
    sending.cancel()
    await settle()
    assert sending.cancelled()
    task.shared.sessions.network.release()
    assert not (await waiting).duplicate
    await task.leave()


async def test_an_acceptance_whose_answer_was_lost_is_answered_when_its_message_comes_again() -> (
    None
):
    """503 says "send it again": whoever does must not be sent to a response that nobody
    generates.
    """
    task = await Task.join(Shared())
    task.shared.sessions.network.lost_answers["accept"] = UNREACHABLE
    assert (await task.refusal("m1")).code == "store_unavailable"
    task.shared.sessions.network.lost_answers.clear()
    (entry,) = await task.shared.ledger()
    submission = await task.send("m1")
    assert submission.stream.response_id == entry.response_id
    await task.answer("one.")
    (entry,) = await task.shared.ledger()
    assert (entry.answer, entry.ended) == ("one.", True)
    head = await task.shared.responses.head(entry.response_id, task.clock.now)
    assert head is not None
    assert head.ending is not None


async def test_a_session_goes_on_when_an_acceptance_whose_answer_was_lost_is_never_repeated() -> (
    None
):
    """Its sender may as well send something else: that is told what is expected, and then goes
    on behind it.
    """
    task = await Task.join(Shared())
    task.shared.sessions.network.lost_answers["accept"] = UNREACHABLE
    assert (await task.refusal("m1")).code == "store_unavailable"
    task.shared.sessions.network.lost_answers.clear()
    refused = await task.refusal("m1b")
    assert (refused.code, refused.to_object().get("expected")) == ("causal_violation", "m1")
    await task.send("m2", "m1")
    await task.leave()
    # And no reader of the first one waits for ever.
    task.clock.turn(60.0)
    await settle()
    assert [(entry.message_id, entry.ended) for entry in await task.shared.ledger()] == [
        ("m1", True),
        ("m2", True),
    ]


async def full_task_with_a_lost_acceptance() -> Task:
    """It has room for one, which another session has; m1 is on record, and neither its sender
    nor its task knows.
    """
    limits = Limits(
        generations_per_node=1, queue_depth=0, sessions_per_node=2, model_first_sign_seconds=60
    )
    task = await Task.join(Shared(), limits=limits)
    task.shared.sessions.network.lost_answers["accept"] = UNREACHABLE
    assert (await task.refusal("m1")).code == "store_unavailable"
    task.shared.sessions.network.lost_answers.clear()
    task.read((await task.send("m1", channel=Channel("t", "demo", "busy"))).stream)
    await settle()
    # The session is forgotten for another one, and so is read anew.
    with pytest.raises(EvenflowError):
        await task.send("m1", channel=Channel("t", "demo", "idle"))
    assert task.workload.conversations.get(CHANNEL) is None
    return task


@pytest.mark.parametrize("read", [True, False], ids=["read", "unread"])
async def test_what_is_begun_late_waits_for_room_and_is_then_answered(read: bool) -> None:
    task = await full_task_with_a_lost_acceptance()
    for _ in range(2):
        submission = await task.send("m1")
        assert submission.duplicate
    reader = task.read(submission.stream) if read else None
    for _ in range(15):
        await task.clock.pass_time(1.0)
        task.orchestrator.sweep(task.clock.now)
    assert len(task.source.calls) == 1
    task.source.calls[0].finish()
    await task.clock.pass_time(3.0)
    assert len(task.source.calls) == 2
    assert reader is None or reader.left_behind
    await task.answer("one.")
    (entry,) = await task.shared.ledger()
    assert (entry.answer, entry.ended) == ("one.", True)
    await task.leave()


async def test_what_cannot_be_begun_late_now_is_begun_when_the_store_is_well() -> None:
    task = await Task.join()
    task.shared.sessions.network.lost_answers["accept"] = UNREACHABLE
    assert (await task.refusal("m1")).code == "store_unavailable"
    task.shared.sessions.network.lost_answers.clear()
    task.responses.network.failures["take_over"] = UNREACHABLE
    sending = asyncio.create_task(task.send("m1"))
    await task.clock.pass_time(6.0)
    assert sending.result().duplicate
    assert task.source.calls == []
    task.responses.network.failures.clear()
    await task.clock.pass_time(1.0)
    assert len(task.source.calls) == 1
    await task.leave()


async def test_what_a_leaving_task_should_have_begun_late_another_one_answers() -> None:
    task = await full_task_with_a_lost_acceptance()
    successor = await Task.join(task.shared, "b")
    task.orchestrator.stop_accepting()
    assert (await task.send("m1")).duplicate
    await task.hand_over()
    await task.clock.pass_time(1.0)
    assert len(task.source.calls) == 1
    assert [call.request.turns[-1].text for call in successor.source.calls] == ["hi", "hi"]
    await successor.leave()


async def test_while_the_store_is_behind_running_answers_go_on_and_nothing_new_begins() -> None:
    task = await Task.join(Shared(), limits=Limits(store_backlog_bytes=1024))
    stream = (await task.send("m1")).stream
    await settle()
    task.recorder.backlog_bytes = 2000
    refused = await task.refusal("m2", "m1")
    assert (refused.status, refused.code) == (503, "store_behind")
    assert task.count(catalogue.STORE_REFUSED) == 1
    # What was accepted before is known all the same.
    assert (await task.send("m1")).duplicate
    await task.answer("goes on")
    assert stream.log.text == "goes on"
    task.recorder.backlog_bytes = 0
    await task.send("m2", "m1")
    await task.leave()


# -- bounds ----------------------------------------------------------------------------------------


async def test_however_slow_acceptance_is_there_are_never_more_than_the_node_may_have() -> None:
    task = await Task.join(Shared(), limits=Limits(generations_per_node=2, queue_depth=1))
    task.shared.sessions.network.hold("accept")
    channels = [Channel("t", "demo", f"s{number}") for number in range(6)]
    sending = [asyncio.create_task(task.send("m1", channel=channel)) for channel in channels]
    await settle()
    refused = [sent.exception() for sent in sending if sent.done()]
    assert [getattr(error, "code", None) for error in refused] == ["queue_full"] * 3
    task.shared.sessions.network.release()
    await settle()
    accepted = [sent.result().stream for sent in sending if sent.exception() is None]
    assert sorted(stream.state for stream in accepted) == ["queued", "streaming", "streaming"]
    await task.leave()


async def test_messages_that_are_being_accepted_count_for_their_tenant() -> None:
    task = await Task.join(Shared(), limits=Limits(messages_in_flight_per_tenant=2))
    task.shared.sessions.network.hold("accept")
    channels = [Channel("t", "demo", f"s{number}") for number in range(4)]
    sending = [asyncio.create_task(task.send("m1", channel=channel)) for channel in channels]
    await settle()
    refused = [sent.exception() for sent in sending if sent.done()]
    assert [getattr(error, "code", None) for error in refused] == ["tenant_in_flight"] * 2
    task.shared.sessions.network.release()
    await settle()
    await task.leave()


async def test_what_is_answered_here_needs_no_look_elsewhere() -> None:
    a, b = await two_tasks()
    await a.send("m1")
    await b.send("m2", "m1")
    await a.send("m3", "m2")
    await a.answer("one.", 0)
    await b.answer("two.")
    await a.send("m4", "m3")
    loads = a.shared.sessions.network.calls["load"]
    # Only m3 and m4 are still being answered, and that by this task.
    await a.send("m5", "m4")
    assert a.shared.sessions.network.calls["load"] == loads
    await a.leave()
    await b.leave()


async def test_messages_out_of_order_do_not_make_the_store_read_without_limit() -> None:
    task = await Task.join(Shared(), limits=Limits(messages_per_second=20))
    await task.send("m1")
    for number in range(200):
        await task.refusal(f"x{number}", "nonsense")
    # The burst that the rate allows, and the first look.
    assert task.shared.sessions.network.calls["load"] <= 41
    await task.leave()


async def test_a_conversation_that_is_being_accepted_into_is_not_forgotten_for_another() -> None:
    task = await Task.join(Shared(), limits=Limits(sessions_per_node=1))
    task.shared.sessions.network.hold("accept")
    first = asyncio.create_task(task.send("m1"))
    await settle()
    other = asyncio.create_task(task.send("m1", channel=Channel("t", "demo", "other")))
    await settle()
    task.shared.sessions.network.release()
    await asyncio.gather(first, other, return_exceptions=True)
    await settle()
    for call in task.source.calls[1:]:
        call.finish()
    await settle()
    await task.send("m2", "m1")
    await task.answer("one.", 0)
    assert task.workload.conversations._known[CHANNEL].in_flight == 1
    await task.leave()


# -- leaving ---------------------------------------------------------------------------------------


async def test_a_node_with_a_message_on_its_way_into_the_ledger_is_busy() -> None:
    """So that the drain waits for it: what is accepted here after the drain would never end in
    the store.
    """
    task = await Task.join(Shared())
    task.shared.sessions.network.hold("accept")
    sending = asyncio.create_task(task.send("m1"))
    await settle()
    task.orchestrator.stop_accepting()
    busy = task.orchestrator.busy
    task.shared.sessions.network.release()
    await sending
    await task.leave()
    assert busy


async def test_what_is_accepted_when_the_drain_is_over_ends_with_its_error_in_the_store_too() -> (
    None
):
    task = await Task.join(Shared())
    task.shared.sessions.network.hold("accept")
    sending = asyncio.create_task(task.send("m1"))
    await settle()
    task.orchestrator.stop_accepting()
    task.workload.generations.fail_all(LEAVING)
    task.shared.sessions.network.release()
    await asyncio.gather(sending, return_exceptions=True)
    await settle()
    busy = task.orchestrator.busy
    await task.leave()
    assert not busy
    (entry,) = await task.shared.ledger()
    head = await task.shared.responses.head(entry.response_id, task.clock.now)
    assert head is not None
    assert head.ending is not None
