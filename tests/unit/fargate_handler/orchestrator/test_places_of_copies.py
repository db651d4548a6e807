"""Who reads a copy hears where the answer waits, as at its owner."""

from __future__ import annotations

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Shared, Task
from tests.unit.recording_reader import AssembledText, RecordingReader
from tests.unit.settle import settle

ONE_AT_ONCE = Limits(generations_per_node=1, store_interval_ms=150)
SESSIONS = [Channel("t", "demo", f"s{number}") for number in range(3)]


async def waiting(count: int = 1) -> tuple[Task, Task, list[ResponseStream]]:
    """Task a has one answer running, and so many wait behind it. Task b is there."""
    shared = Shared()
    a = await Task.join(shared, "a", ONE_AT_ONCE)
    b = await Task.join(shared, "b")
    streams = [(await a.send("m1", channel=each)).stream for each in SESSIONS[: count + 1]]
    await settle()
    return a, b, streams[1:]


async def copied(b: Task, stream: ResponseStream) -> tuple[ResponseStream, RecordingReader]:
    """The copy of a response at b, and a client that reads it."""
    copy = await b.find(stream.response_id, stream.channel)
    reader = client_of(b, copy)
    await settle()
    return copy, reader


def client_of(task: Task, stream: ResponseStream) -> RecordingReader:
    reader = RecordingReader(stream, task.clock, AssembledText())
    reader.user = ""
    stream.attach(reader)
    return reader


async def sweep(task: Task, seconds: int = 1) -> None:
    """So many seconds pass, in which the task tells places."""
    for _ in range(seconds):
        task.orchestrator.sweep(task.clock.now)
        await task.clock.pass_time(1.0, step=0.05)


def positions(reader: RecordingReader) -> list[int]:
    return [place.position for place in reader.places]


async def test_a_copy_s_reader_is_told_what_the_owner_s_is() -> None:
    a, b, streams = await waiting(2)
    copy, reader = await copied(b, streams[1])
    at_owner = client_of(a, streams[1])
    await sweep(a, 30)
    await a.answer("Done.", 0)
    await sweep(a)
    assert reader.places == at_owner.places
    assert set(positions(reader)) == {2, 1}
    assert len(reader.places) < 20
    assert copy.place == streams[1].place
    await a.leave()


async def test_one_that_comes_later_is_told_at_once() -> None:
    a, b, (stream,) = await waiting()
    await sweep(a)
    copy, reader = await copied(b, stream)
    assert positions(reader) == [1]
    late = b.read(copy)
    assert late.places == reader.places
    await a.leave()


async def test_once_it_has_begun_it_waits_at_no_copy_though_there_is_no_text_yet() -> None:
    a, b, (stream,) = await waiting()
    copy, reader = await copied(b, stream)
    await sweep(a)
    assert copy.place is not None
    await a.answer("Done.", 0)
    assert copy.log.next_index == 0
    assert copy.place is None
    assert positions(reader) == [1], "clients hear it from the text"
    late = b.read(copy)
    assert late.places == []
    await a.leave()


async def test_an_owner_whose_answer_waits_long_is_not_taken_for_lost() -> None:
    a, b, (stream,) = await waiting()
    copy, reader = await copied(b, stream)
    await sweep(a, 10)
    assert set(positions(reader)) == {1}
    assert (copy.via, b.responses.network.calls["entries"]) == ("peer", 0)
    assert a.shared.peers.asked[a.address] == 1
    await a.leave()


async def test_what_is_cancelled_while_it_waits_waits_no_more() -> None:
    a, b, (stream,) = await waiting()
    copy, _ = await copied(b, stream)
    await sweep(a)
    await b.orchestrator.cancel(copy)
    await settle()
    assert copy.log.closed
    assert stream.place is copy.place is None
    await a.leave()
