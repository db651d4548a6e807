from __future__ import annotations

from itertools import pairwise

import pytest

from stream_core.limits import Limits
from stream_core.response_stream import ResponseStream
from tests.unit.fargate_handler.orchestrator.controlled_source import settle
from tests.unit.fargate_handler.orchestrator.recorder_node import Node, started
from tests.unit.fargate_handler.orchestrator.scripted_stores import (
    UNREACHABLE,
)
from tests.unit.recording_reader import AssembledText, RecordingReader

# -- the lease -------------------------------------------------------------------------------------------------------


async def test_a_task_that_cannot_take_its_lease_does_not_start() -> None:
    node = Node()
    node.responses.network.failures["renew"] = UNREACHABLE
    with pytest.raises(type(UNREACHABLE)):
        await node.recorder.start()


async def test_the_lease_is_renewed_several_times_before_it_runs_out(node: Node) -> None:
    began = node.wall_time()
    await node.time(30.0)
    renewed_at = [until - node.limits.lease_seconds - began for until in node.responses.renewals]
    assert renewed_at[0] == pytest.approx(0.0)
    assert len(renewed_at) >= 9
    assert all(0 <= later - earlier <= 3.4 for earlier, later in pairwise(renewed_at))
    assert 30 - renewed_at[-1] <= 3.4


@pytest.mark.parametrize("interval_ms", [150, 800])
async def test_however_rarely_it_writes_and_however_late_the_clock_the_lease_is_kept(interval_ms: int) -> None:
    node = await started(Limits(store_interval_ms=interval_ms, lease_seconds=10))
    for _ in range(600):
        node.clock.delivery.interval_slots, node.clock.delivery.interval = 20, 0.2
        await node.time(0.1, step=0.1)
        assert node.responses.renewals[-1] > node.wall_time()


@pytest.mark.parametrize("error", [UNREACHABLE, ValueError("a bug in the store")], ids=["unreachable", "bug"])
async def test_a_renewal_that_fails_is_tried_again(node: Node, error: Exception) -> None:
    await node.time(1.0)
    node.responses.network.failures["renew"] = error
    await node.time(10.0)
    assert len(node.responses.renewals) <= 2
    node.responses.network.failures.clear()
    await node.time(3.4)
    assert node.responses.renewals[-1] > node.wall_time() + 6


async def test_when_another_task_has_the_response_its_end_is_not_written(node: Node) -> None:
    stream = await node.begin()
    stream.push("ours")
    await settle()
    node.responses._owned_until["a"] = 0.0
    assert await node.responses.take_over("r", "b", node.wall_time()) is not None
    stream.push("late")
    stream.complete("stop", None)
    await settle()
    assert node.lost == [stream]
    assert not node.recorder.busy
    head = node.head()
    assert (head.owner, head.ending) == ("b", None)
    assert await node.stored() == ["ours"]
    (entry,) = (await node.sessions.load(stream.channel, node.wall_time())).entries
    assert not entry.ended


async def test_a_task_whose_lease_ran_out_learns_that_another_one_answers(node: Node) -> None:
    """And not only when its own model has finished: until then two models would be paid for one answer (rule 3)."""
    stream = await node.begin()
    stream.attach(RecordingReader(stream, node.clock, AssembledText()))
    stream.push("ours")
    node.responses.network.failures["renew"] = UNREACHABLE
    await node.time(14.0, step=0.05)
    assert await node.responses.take_over("r", "b", node.wall_time()) is not None
    node.responses.network.failures.clear()
    await node.time(10.0, step=0.05)
    lost = list(node.lost)
    stream.cancel()
    await settle()
    assert lost == [stream]


# -- readers elsewhere -----------------------------------------------------------------------------------------------


def unread_for(node: Node, stream: ResponseStream) -> float:
    assert stream.unread_since is not None
    return node.clock.now - stream.unread_since


async def test_polls_elsewhere_are_readers_and_who_stops_polling_is_none(node: Node) -> None:
    stream = await node.begin()
    for _ in range(12):
        await node.responses.note_read("r", node.wall_time())
        await node.time(10.0, step=0.1)
        # A third of the grace period between two looks, and the interval of the clock that looks.
        assert unread_for(node, stream) <= 20.5
    last_poll = node.clock.now - 10.0
    await node.time(60.0, step=0.1)
    assert stream.unread_since is not None
    assert stream.unread_since <= last_poll + 10.5 + node.limits.poll_timeout_max_ms / 1000
    stream.cancel()


@pytest.mark.parametrize("phase", [0.1, 3.0, 6.0, 9.0])
async def test_a_poll_that_waits_as_long_as_it_may_is_a_reader_all_the_time(node: Node, phase: float) -> None:
    """Function's polls may take 25 s: between the beginnings of two nobody may be cancelled for the grace period's sake."""
    await node.time(20.0 + phase, step=0.05)
    stream = await node.begin()
    longest = 0.0
    for _ in range(6):
        await node.responses.note_read("r", node.wall_time())
        for _ in range(252):
            await node.time(0.1, step=0.1)
            longest = max(longest, unread_for(node, stream))
    stream.cancel()
    assert longest < node.limits.grace_seconds


async def test_the_store_is_not_asked_about_responses_that_are_read_here_or_have_ended(node: Node) -> None:
    read, ended = await node.begin("read"), await node.begin("ended")
    read.attach(RecordingReader(read, node.clock, AssembledText()))
    node.responses.network.failures["finish"] = UNREACHABLE
    ended.cancel()
    await settle()
    before = node.responses.network.calls["head"]
    await node.time(31.0, step=0.1)
    assert node.responses.network.calls["head"] == before
    node.responses.network.failures.clear()
    read.cancel()
    await node.time(1.3)


@pytest.mark.parametrize("error", [UNREACHABLE, ValueError("a bug in the store")], ids=["unreachable", "bug"])
async def test_when_nobody_can_tell_whether_somebody_reads_the_grace_period_runs_on(
    node: Node, error: Exception
) -> None:
    stream = await node.begin()
    node.responses.network.failures["head"] = error
    await node.time(25.0, step=0.1)
    assert unread_for(node, stream) == pytest.approx(25.0, abs=0.1)
    node.responses.network.failures.clear()
    await node.responses.note_read("r", node.wall_time())
    await node.time(10.5, step=0.1)
    assert unread_for(node, stream) < 12
    stream.cancel()
