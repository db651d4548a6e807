from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from evenflow.fargate_handler.orchestrator import response_recorder
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.stores.response_store import Chunk, Unwritable
from tests.unit.fargate_handler.orchestrator.recorder_node import INTERVAL, Node, started
from tests.unit.fargate_handler.orchestrator.scripted_stores import (
    UNREACHABLE,
)
from tests.unit.recording_reader import AssembledText, RecordingReader
from tests.unit.settle import settle

# -- too far behind --------------------------------------------------------------------------------


async def test_it_knows_its_backlog_and_when_it_is_too_far_behind() -> None:
    node = await started(Limits(store_backlog_bytes=1024))
    stream = await node.begin()
    node.responses.refuses = lambda _: True
    stream.push("ä" * 400)
    await node.time(INTERVAL)
    assert (node.recorder.backlog_bytes, node.recorder.behind) == (800, False)
    stream.push("ä" * 400)
    await node.time(INTERVAL)
    assert (node.recorder.backlog_bytes, node.recorder.behind) == (1600, True)
    stream.push("goes on")
    node.responses.refuses = lambda _: False
    await node.time(1.3)
    assert (node.recorder.backlog_bytes, node.recorder.behind) == (0, False)
    assert await node.stored() == stream.log.entries
    stream.cancel()
    await settle()


async def test_an_answer_that_nobody_reads_waits_for_a_store_that_is_behind() -> None:
    node = await started(Limits(pause_window_bytes=100))
    unread, read = await node.begin("unread"), await node.begin("read")
    reader = RecordingReader(read, node.clock, AssembledText())
    read.attach(reader)
    node.responses.refuses = lambda _: True
    for stream in (unread, read):
        stream.push("x" * 101)
    await node.time(INTERVAL)
    assert (unread.paused, read.paused) == (True, False)
    unread.attach(RecordingReader(unread, node.clock, AssembledText()))
    assert not unread.paused, "somebody reads it now"
    read.detach(reader)
    assert read.paused, "and this one nobody"
    node.responses.refuses = lambda _: False
    await node.time(1.3)
    assert not read.paused, "the store has it"
    for stream in (unread, read):
        stream.cancel()
    await settle()


async def test_what_cannot_be_written_until_it_expires_is_given_up_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = await started(Limits(response_ttl_seconds=5))
    stream = await node.begin()
    stream.push("taken")
    await settle()
    node.responses.refuses = lambda _: True
    for _ in range(3):
        await node.time(0.06)
        stream.push("lost")
    stream.complete("stop", None)
    await node.time(4.5)
    assert node.recorder.busy
    assert node.count(catalogue.STORE_DELTAS_LOST) == 0
    await node.time(2.0)
    assert not node.recorder.busy
    assert node.count(catalogue.STORE_DELTAS_LOST) == stream.log.next_index - 1
    assert "response r expired before the store had its last 3 deltas and its end" in caplog.text
    await node.time(INTERVAL)
    assert node.recorder.backlog_bytes == 0
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_end_that_was_never_taken_is_no_quiet_loss() -> None:
    """Its readers elsewhere would wait for it for ever: that must raise the alarm, as lost
    deltas do.
    """
    node = await started(Limits(response_ttl_seconds=2))
    stream = await node.begin()
    node.responses.network.failures["finish"] = UNREACHABLE
    stream.push("x")
    stream.complete("stop", None)
    await node.time(1.0)
    assert node.ended == []
    await node.time(3.0)
    assert not node.recorder.busy
    assert node.count(catalogue.STORE_DELTAS_LOST) > 0
    assert node.ended == [stream], "no other task ends it"


BUG = ValueError("a bug in the store")


@pytest.mark.parametrize("call", ["append", "finish", "answered"])
async def test_what_the_store_fails_at_again_and_again_is_given_up_long_before_it_expires(
    call: str, caplog: pytest.LogCaptureFixture
) -> None:
    node = await started(Limits())
    for network in (node.responses.network, node.sessions.network):
        network.failures[call] = BUG
    stream = await node.begin()
    stream.push("x")
    stream.complete("stop", None)
    await node.time(90.0, step=0.1)
    assert (node.recorder.busy, node.ended) == (False, [stream])
    logged = [(record.levelname, record.exc_info is not None) for record in caplog.records]
    assert logged == [("WARNING", True), ("ERROR", False)], "not once a try"
    lost = {"append": "its last 1 deltas and its end", "finish": "its last 0 deltas and its end"}
    assert lost.get(call, "its place in the conversation") in caplog.text
    assert (node.count(catalogue.STORE_DELTAS_LOST) > 0) == (call in lost)


async def test_a_response_at_which_the_store_fails_is_tried_seldom_while_it_runs() -> None:
    node = await started(Limits())
    stream = await node.begin()
    node.responses.network.failures["append"] = BUG
    stream.push("x")
    await node.time(100.0, step=0.1)
    before = node.responses.network.calls["append"]
    await node.time(300.0, step=0.5)
    assert 0 < node.responses.network.calls["append"] - before < 40
    node.responses.network.failures.clear()
    await node.time(61.0, step=0.5)
    assert await node.stored() == ["x"]
    stream.cancel()
    await node.time(2.0)
    assert not node.recorder.busy


async def test_what_is_refused_for_good_takes_no_other_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    node = await started(Limits())
    append = node.memory.append

    async def refuse_one(chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        refused = [each for each in chunks if each.response_id == "bad"]
        await append([each for each in chunks if each not in refused])
        if refused:
            raise Unwritable(refused, ())
        return ()

    monkeypatch.setattr(node.memory, "append", refuse_one)
    bad, good = await node.begin("bad"), await node.begin("good")
    for stream in (bad, good):
        stream.push("x")
        stream.complete("stop", None)
    await node.time(0.5)
    assert node.head("good").ending is not None
    await node.time(90.0, step=0.1)
    assert not node.recorder.busy
    assert node.head("bad").ending is None
    assert node.count(catalogue.STORE_DELTAS_LOST) == 1


async def test_a_response_that_still_runs_is_never_given_up() -> None:
    node = await started(Limits(response_ttl_seconds=1))
    stream = await node.begin()
    node.responses.refuses = lambda _: True
    stream.push("x")
    await node.time(10.0, step=0.1)
    assert node.recorder.busy
    node.responses.refuses = lambda _: False
    await node.time(1.3)
    assert await node.stored() == ["x"]
    stream.cancel()
    await settle()


# -- leaving ---------------------------------------------------------------------------------------


async def test_draining_writes_everything_without_waiting_for_the_clock(node: Node) -> None:
    streams = [await node.begin(f"r{number}") for number in range(30)]
    for stream in streams:
        stream.push("x")
        stream.push("y")
        stream.complete("stop", None)
    await node.recorder.drain(node.clock.now + 5)
    assert not node.recorder.busy
    for stream in streams:
        assert await node.stored(stream.response_id) == stream.log.entries
        assert node.head(stream.response_id).ending is not None


async def test_draining_stops_at_its_deadline_and_says_what_is_left(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(response_recorder, "_DRAIN_STEP_SECONDS", 0.0)
    node.responses.refuses = lambda _: True
    for name in ("b", "c"):
        stream = await node.begin(name)
        stream.push("x")
        stream.cancel()
    draining = asyncio.create_task(node.recorder.drain(node.clock.now + 5))
    await node.time(4.5)
    assert not draining.done()
    await node.time(1.0)
    assert draining.done()
    assert [f"response {name} could not be written" in caplog.text for name in ("b", "c")] == [
        True,
        True,
    ]
    assert node.count(catalogue.STORE_DELTAS_LOST) == 2
    assert not node.recorder.busy
    node.responses.refuses = lambda _: False
    await node.time(1.3)


async def test_draining_leaves_what_has_not_ended_to_another_task_once_it_is_on_record(
    node: Node, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(response_recorder, "_DRAIN_STEP_SECONDS", 0.0)
    stream = await node.begin("b")
    node.responses.network.hold("append")
    stream.push("x")
    draining = asyncio.create_task(node.recorder.drain(node.clock.now + 5))
    await node.time(1.0)
    assert not draining.done()
    node.responses.network.release()
    await settle()
    assert draining.done()
    assert not node.recorder.busy
    stream.push("nobody writes this any more")
    await node.time(1.0)
    assert await node.stored("b") == ["x"]
    assert node.head("b").ending is None
    assert node.count(catalogue.STORE_DELTAS_LOST) == 0
    assert caplog.text == ""
    assert node.ended == [], "another task ends what has not ended here"


async def test_draining_with_nothing_to_write_returns_at_once(node: Node) -> None:
    await node.recorder.drain(node.clock.now + 5)


# -- what it measures ------------------------------------------------------------------------------


async def test_the_delay_of_a_write_is_what_it_took_until_the_store_had_it(node: Node) -> None:
    stream = await node.begin()
    node.responses.network.hold("append")
    stream.push("x")
    await node.time(0.5)
    assert node.delays == (0, 0.0)
    node.responses.network.release()
    await settle()
    count, total = node.delays
    assert count == 1
    assert 480 <= total <= 520
    stream.cancel()


async def test_the_delay_of_what_was_refused_counts_from_its_first_attempt(node: Node) -> None:
    node.responses.refuses = lambda _: True
    stream = await node.begin()
    stream.push("x")
    await node.time(1.0)
    # What comes meanwhile goes along, and doesn't make it younger.
    stream.push("y")
    await node.time(1.0)
    node.responses.refuses = lambda _: False
    await node.time(1.3)
    count, total = node.delays
    assert count == 1
    assert 2000 <= total <= 3300
    stream.cancel()


async def test_the_delay_counts_the_wait_for_the_write_before(node: Node) -> None:
    stream = await node.begin()
    node.responses.network.hold("append")
    stream.push("x")
    await settle()
    stream.push("y")
    # It is on the log after 50 ms, and due to be written at most an interval later; the store is
    # busy for 2 s.
    await node.time(2.0)
    node.responses.network.release()
    node.responses.network.hold("append")
    await node.time(1.0)
    node.responses.network.release()
    await settle()
    count, total = node.delays
    stream.cancel()
    await settle()
    assert count == 2
    second = total - 2000
    assert 2_600 <= second <= 3_000


async def test_the_backlog_counts_what_the_store_has_not_got(node: Node) -> None:
    stream = await node.begin()
    stream.push("12345")
    await node.time(INTERVAL)
    assert node.recorder.backlog_bytes == 0
    node.responses.refuses = lambda _: True
    stream.push("6789")
    await node.time(2 * INTERVAL)
    assert node.recorder.backlog_bytes == 4
    node.responses.refuses = lambda _: False
    stream.cancel()
    await node.time(2.0)
    assert node.recorder.backlog_bytes == 0
    assert node.count(catalogue.STORE_DELTAS_LOST) == 0


async def test_many_responses_are_written_less_often_and_their_first_delta_and_end_at_once() -> (
    None
):
    node = await started(Limits())
    node.responses.chunks_per_second = 10
    streams = [await node.begin(f"r{number}") for number in range(20)]
    for stream in streams:
        stream.push("first")
    await settle()
    assert await node.stored("r0") == ["first"]
    await node.time(INTERVAL)
    node.responses.requests.clear()
    for _ in range(100):
        for stream in streams:
            stream.push("x" * 50)  # longer than a batch: a delta
        await node.time(0.1)
    assert 4 * 20 <= sum(map(len, node.responses.requests)) <= 6 * 20
    for stream in streams:
        stream.complete("stop", None)
    await settle()
    assert not node.recorder.busy
    assert await node.stored("r0") == streams[0].log.entries


async def test_many_responses_take_turns_within_the_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(response_recorder, "_RESPONSES_AT_ONCE", 5)
    node = await started(Limits(store_interval_ms=400, polled_store_interval_ms=400))
    streams = [await node.begin(f"r{number}") for number in range(20)]
    for stream in streams:
        stream.push("first")
    turns = []
    for _ in range(3):
        await node.time(0.4)
        for stream in streams:
            stream.push("x" * 50)
        node.responses.requests.clear()
        written = 0
        for _ in range(60):
            await node.time(0.01)
            turns.append(sum(map(len, node.responses.requests)) - written)
            written += turns[-1]
        assert written == 20
    assert max(turns) <= 10


# -- usage that can't be written -------------------------------------------------------------------


@pytest.mark.parametrize("failure", [UNREACHABLE, PermissionError("no such right")], ids=repr)
async def test_an_end_does_not_wait_for_ever_for_usage_which_is_written_later(
    failure: Exception,
) -> None:
    node = await started(Limits(response_ttl_seconds=60))
    stream = await node.begin()
    node.settling_fails = failure
    stream.push("all")
    await node.time(INTERVAL)
    stream.complete("stop", None)
    await node.time(9.0, step=0.1)
    assert (node.head().ending, node.ended) == (None, [])
    await node.time(3.0, step=0.1)
    assert node.head().ending is not None
    assert node.ended == [stream]
    assert (node.recorder.busy, node.settled) == (True, [])
    node.settling_fails = None
    await node.time(2.0, step=0.1)
    assert ([each for each, _ in node.settled], node.recorder.busy) == ([stream], False)
    assert node.ended == [stream]
    assert node.count(catalogue.STORE_DELTAS_LOST) == 0


async def test_an_end_on_record_is_no_loss_where_its_usage_can_not_be_written(
    caplog: pytest.LogCaptureFixture,
) -> None:
    node = await started(Limits(response_ttl_seconds=30))
    stream = await node.begin("late")
    node.settling_fails = UNREACHABLE
    stream.push("all")
    stream.complete("stop", None)
    await node.time(60.0, step=0.1)
    assert not node.recorder.busy
    assert node.head("late").ending is not None
    assert node.ended == [stream]
    assert node.count(catalogue.STORE_DELTAS_LOST) == 0
    assert "the usage of response late is not on record" in caplog.text


# -- what the conversation remembers ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("history_bytes", "longest", "remembered"),
    [(10, None, True), (10, 50, True), (10, 49, False), (0, None, False)],
)
async def test_an_answer_is_remembered_that_is_longer_than_the_history_but_not_than_the_store_takes(
    history_bytes: int, longest: int | None, remembered: bool
) -> None:
    node = Node(Limits(history_bytes=history_bytes), longest_answer=longest)
    stream = await node.begin()
    stream.push("x" * 50)
    stream.complete("stop", None)
    await settle()
    (entry,) = (await node.sessions.load(stream.channel, node.wall_time())).messages
    assert (entry.answer == "x" * 50) is remembered
