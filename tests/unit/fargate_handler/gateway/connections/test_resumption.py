from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.gateway.connections.resumption import Progress, Resumption, resume
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.log.entries import Restart
from evenflow.stream_core.log.response_log import ResumePoint
from tests.unit.fargate_handler.gateway.changed_hands import LEASE, ChangedHands
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Task
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("tasks_end_with_the_test")


def resuming(
    here: ChangedHands,
    task: Task,
    after: int,
    epoch: int | None = 1,
    channel: Channel = CHANNEL,
    patience: float = 20.0,
) -> asyncio.Task[Resumption]:
    context = here.gateway(task).context
    return asyncio.create_task(
        resume(context, here.response_id, channel, Progress(after, epoch, "after"), patience)
    )


def refusal(work: asyncio.Task[Resumption]) -> tuple[int, str]:
    error = work.exception()
    assert isinstance(error, EvenflowError)
    return error.status, error.code


# -- at once ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [1, None])
@pytest.mark.parametrize("after", [-1, 0, 1])
async def test_at_its_owner_and_elsewhere_a_reader_goes_on_behind_what_it_has(
    after: int, epoch: int | None
) -> None:
    here = await ChangedHands.begin()
    for task in (here.a, here.b):
        work = resuming(here, task, after, epoch)
        await settle()
        assert work.result().point == ResumePoint(after + 1)


async def test_what_its_owner_has_not_said_nobody_has() -> None:
    here = await ChangedHands.begin()
    for after, epoch in ((2, 1), (1_000, None)):
        work = resuming(here, here.a, after, epoch)
        await settle()
        assert refusal(work) == (400, "invalid_field")


async def test_who_knows_of_a_later_owner_is_not_told_to_be_wrong() -> None:
    """The task that takes itself for the owner may be the one that is yet to hear of it."""
    here = await ChangedHands.begin()
    shared = here.a.shared
    await shared.memory.release("a")
    taken = await shared.memory.take_over(here.response_id, "c", shared.clock.now)
    assert taken is not None
    work = resuming(here, here.a, 0, 2)
    await settle()
    assert refusal(work) == (503, "response_elsewhere")


async def test_who_knows_of_an_owner_that_nobody_has_on_record_is() -> None:
    here = await ChangedHands.begin()
    work = resuming(here, here.a, 0, 2)
    await settle()
    assert refusal(work) == (400, "invalid_field")


async def test_without_the_store_it_can_not_be_told_who_the_owner_is() -> None:
    here = await ChangedHands.begin()
    here.a.cut_off()
    work = resuming(here, here.a, 0, 2)
    await settle()
    assert refusal(work) == (503, "store_unavailable")


async def test_behind_the_end_of_a_response_there_is_nothing_to_have() -> None:
    here = await ChangedHands.begin()
    await here.a.answer("c")
    for task in (here.a, here.b):
        work = resuming(here, task, 2)
        await settle()
        assert work.result().point == ResumePoint(3)
        work = resuming(here, task, 3)
        await settle()
        assert refusal(work) == (400, "invalid_field")


async def test_an_owner_that_an_ended_response_never_had_is_not_looked_for_again_and_again() -> (
    None
):
    here = await ChangedHands.begin()
    await here.a.answer("c")
    await here.b.clock.pass_time(1.0)
    for task in (here.a, here.b):
        before = task.responses.network.calls.total()
        work = resuming(here, task, 1, epoch=9)
        await settle()
        assert refusal(work) == (400, "invalid_field")
        assert task.responses.network.calls.total() - before < 10
        assert (await task.find(here.response_id)).log.text == "abc"


async def test_another_session_s_response_is_not_resumed() -> None:
    here = await ChangedHands.begin()
    for task in (here.a, here.b):
        work = resuming(here, task, -1, channel=Channel("t", "demo", "other"))
        await settle()
        assert refusal(work) == (404, "response_not_found")


# -- ahead of the copy -----------------------------------------------------------------------------


async def test_who_is_ahead_of_the_copy_waits_for_it_and_keeps_nobody_else_waiting() -> None:
    here = await ChangedHands.begin()
    here.a.shared.peers.cut(here.a.address)
    here.a.responses.network.hold("append")
    here.a.source.calls[0].push("c")
    await settle()
    work = resuming(here, here.b, 2)
    await here.b.clock.pass_time(5.0, step=0.05)
    assert not work.done()
    here.a.responses.network.release()
    await here.b.clock.pass_time(0.5)
    assert work.result().point == ResumePoint(3)
    assert work.result().stream.log.entries == ["a", "b", "c"]


@pytest.mark.parametrize("patience", [20.0, 3.0])
async def test_who_is_ahead_and_stays_so_is_asked_to_come_again_in_time(patience: float) -> None:
    here = await ChangedHands.begin()
    here.a.shared.peers.cut(here.a.address)
    work = resuming(here, here.b, 7, patience=patience)
    await here.b.clock.pass_time(patience - 0.5, step=0.05)
    assert not work.done()
    await here.b.clock.pass_time(1.0)
    assert refusal(work) == (503, "response_elsewhere")


async def test_who_has_what_was_lost_with_its_owner_begins_again() -> None:
    here = await ChangedHands.begin()
    work = resuming(here, here.b, 2)
    await here.lose_a()
    resumed = work.result()
    assert resumed.point == ResumePoint(0, Restart(-1, 2, 2))
    assert (resumed.stream.via, resumed.stream.epoch) == ("owner", 2)


async def test_who_has_only_what_is_on_record_goes_on_exactly() -> None:
    here = await ChangedHands.begin()
    await here.lose_a()
    for epoch in (1, None):
        work = resuming(here, here.b, 1, epoch)
        await settle()
        assert work.result().point == ResumePoint(2)


async def test_who_does_not_say_whose_entries_it_has_behind_a_second_owner_begins_again() -> None:
    here = await ChangedHands.begin()
    await here.lose_a()
    await here.say("c", task=here.b)
    for epoch, point in (
        (None, ResumePoint(0, Restart(-1, 2, 2))),
        (2, ResumePoint(4)),
        (1, ResumePoint(0, Restart(-1, 2, 2))),
    ):
        work = resuming(here, here.b, 3, epoch)
        await settle()
        assert work.result().point == point


async def test_a_lost_task_that_has_not_noticed_it_does_not_answer_who_knows_a_later_owner() -> (
    None
):
    """It would give entries that are no part of the response."""
    here = await ChangedHands.begin()
    await here.lose_a()
    await here.say("c", task=here.b)
    work = resuming(here, here.a, 3, 2)
    await here.a.clock.pass_time(1.0)
    assert not (work.done() and work.exception() is None)


async def test_a_copy_that_is_lost_while_somebody_waits_for_it_is_found_again() -> None:
    here = await ChangedHands.begin()
    here.a.shared.peers.cut(here.a.address)
    copy = await here.b.find(here.response_id)
    work = resuming(here, here.b, 2)
    await here.b.clock.pass_time(1.0)
    here.b.orchestrator.responses.drop(copy)
    copy.lose()
    await settle()
    assert not work.done()
    here.a.source.calls[0].push("c")
    await here.b.clock.pass_time(1.0)
    assert work.result().point == ResumePoint(3)
    assert work.result().stream is not copy


async def test_only_so_many_wait_for_one_response() -> None:
    here = await ChangedHands.begin(limits=Limits(readers_per_response=16))
    here.a.shared.peers.cut(here.a.address)
    waiting = [resuming(here, here.b, 9, patience=5.0) for _ in range(17)]
    await here.b.clock.pass_time(1.0)
    assert [refusal(work) for work in waiting if work.done()] == [(429, "response_readers")]
    await here.b.clock.pass_time(LEASE, step=0.05)
    assert all(work.done() for work in waiting)
    assert not (await here.b.find(here.response_id)).readers
