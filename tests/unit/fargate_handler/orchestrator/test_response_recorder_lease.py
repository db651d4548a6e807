from __future__ import annotations

import pytest

from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import Restart
from evenflow.stream_core.metrics import metric_catalogue as catalogue

# -- the lease -------------------------------------------------------------------------------------
from tests.integration.stores.stores import lease_of
from tests.unit.fargate_handler.orchestrator.recorder_node import Node
from tests.unit.fargate_handler.orchestrator.scripted_stores import (
    UNREACHABLE,
)
from tests.unit.recording_reader import AssembledText, RecordingReader
from tests.unit.settle import settle

_SHORTEST_USEFUL_GRACE = 30.0


async def test_when_another_task_has_the_response_its_end_is_not_written(node: Node) -> None:
    stream = await node.begin()
    stream.push("ours")
    await settle()
    assert await node.responses.take_over("r", "b", node.wall_time()) is not None
    stream.push("late")
    stream.complete("stop", None)
    await settle()
    assert node.lost == [stream]
    assert node.ended == [], "the other task ends it"
    assert not node.recorder.busy
    head = node.head()
    assert (head.owner, head.ending) == ("b", None)
    assert await node.stored() == ["ours"]
    (entry,) = (await node.sessions.load(stream.channel, node.wall_time())).messages
    assert not entry.ended


async def test_what_others_have_taken_over_is_noticed_while_nobody_reads_it_here(
    node: Node,
) -> None:
    """And not only when its own model has finished: until then two models would be paid for one
    answer (rule 3).
    """
    stream = await node.begin()
    stream.push("ours")
    await settle()
    assert await node.responses.take_over("r", "b", node.wall_time()) is not None
    await node.time(10.5, step=0.05)
    assert node.lost == [stream]
    assert not node.recorder.busy


async def test_when_the_lease_is_lost_nothing_that_is_written_is_this_task_s_any_more(
    node: Node,
) -> None:
    streams = [await node.begin(name) for name in ("one", "two")]
    node.responses.network.hold("append")
    for stream in streams:
        stream.push("ours")
    await settle()
    node.recorder.lose_everything()
    assert node.lost == streams
    assert not node.recorder.busy
    # What was on its way arrives, and changes nothing here.
    node.responses.network.release()
    await settle()
    streams[0].push("late")
    await node.time(1.0)
    assert len(node.responses.requests) == 1
    assert node.count(catalogue.STORE_RETRIES) == 0


async def test_what_is_taken_up_again_is_not_disturbed_by_a_write_that_began_before(
    node: Node,
) -> None:
    """The same task may own a response twice, under two names."""
    earlier = await node.begin()
    node.responses.network.hold("append")
    earlier.push("one ")
    await settle()
    node.recorder.lose_everything()
    lease = lease_of(await node.memory.take_over("r", "a-2", node.wall_time()))
    assert lease is not None
    stream = node.stream_of("r")
    stream.adopt_log([], lease.epoch, None)
    node.recorder.record(stream, lease, 0)
    stream.start()
    node.responses.network.release()
    await settle()
    stream.push("again")
    stream.complete("stop", None)
    await settle()
    assert await node.stored() == [Restart(-1, 2, 2), "again"]
    assert node.head().ending is not None
    assert node.lost == [earlier]


@pytest.mark.parametrize("first", ["the lease", "the answer"])
async def test_an_end_that_the_store_has_is_reported_though_its_answer_and_the_lease_are_lost(
    node: Node, first: str
) -> None:
    """A task that is stopped in the middle of the write finds both when it goes on."""
    stream = await node.begin()
    node.responses.network.lost_answers["finish"] = UNREACHABLE
    if first == "the lease":
        node.responses.network.hold("finish")
    stream.push("x")
    stream.complete("stop", None)
    await settle()
    node.recorder.lose_everything()
    node.responses.network.release()
    await settle()
    assert node.head().ending is not None
    assert node.ended == [stream]


async def test_the_usage_of_an_end_that_the_store_has_is_stored_though_the_lease_is_lost(
    node: Node,
) -> None:
    """Its store was late, and then the task was stopped in the middle of the write of the end."""
    stream = await node.begin()
    node.settling_fails = TimeoutError()
    node.responses.network.lost_answers["finish"] = UNREACHABLE
    node.responses.network.hold("finish")
    stream.push("x")
    stream.complete("stop", None)
    await settle()
    node.recorder.lose_everything()
    node.settling_fails = None
    node.responses.network.release()
    await settle()
    assert node.ended == [stream]
    assert [settled for settled, _ in node.settled] == [stream]


# -- readers elsewhere -----------------------------------------------------------------------------


def unread_for(node: Node, stream: ResponseStream) -> float:
    assert stream.readers.grace_begins_at is not None
    return node.clock.now - stream.readers.grace_begins_at


async def test_polls_elsewhere_are_readers_and_who_stops_polling_is_none(node: Node) -> None:
    stream = await node.begin()
    for _ in range(12):
        await node.responses.note_read("r", node.wall_time())
        await node.time(10.0, step=0.1)
        # A third of the grace period between two looks, and the interval of the clock that looks.
        assert unread_for(node, stream) <= 20.5
    last_poll = node.clock.now - 10.0
    await node.time(60.0, step=0.1)
    assert stream.readers.grace_begins_at is not None
    patience = node.limits.poll_timeout_max_ms / 1000
    assert stream.readers.grace_begins_at <= last_poll + 10.5 + patience
    stream.cancel()


@pytest.mark.parametrize("phase", [0.1, 3.0, 6.0, 9.0])
async def test_a_poll_that_waits_as_long_as_it_may_is_a_reader_all_the_time(
    node: Node, phase: float
) -> None:
    """Function's polls may take 25 s: between the beginnings of two nobody may be cancelled for
    the grace period's sake.
    """
    await node.time(20.0 + phase, step=0.05)
    stream = await node.begin()
    longest = 0.0
    for _ in range(6):
        await node.responses.note_read("r", node.wall_time())
        for _ in range(252):
            await node.time(0.1, step=0.1)
            longest = max(longest, unread_for(node, stream))
    stream.cancel()
    assert longest < _SHORTEST_USEFUL_GRACE


async def test_the_store_is_not_asked_about_responses_that_are_read_here_or_have_ended(
    node: Node,
) -> None:
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


@pytest.mark.parametrize(
    "error", [UNREACHABLE, ValueError("a bug in the store")], ids=["unreachable", "bug"]
)
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
