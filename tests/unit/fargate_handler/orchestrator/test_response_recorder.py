from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fargate_handler.metrics import Metrics
from fargate_handler.orchestrator import response_recorder
from fargate_handler.orchestrator.response_recorder import ResponseRecorder
from stream_core import metric_catalogue as catalogue
from stream_core.channel import Channel
from stream_core.limits import Limits
from stream_core.messages import Usage
from stream_core.metric_catalogue import Metric
from stream_core.response_log import LogEntry
from stream_core.response_state import ResponseState
from stream_core.response_store import Chunk, ResponseHead
from stream_core.response_stream import ResponseStream
from stream_core.session_store import LedgerEntry
from tests.unit.fargate_handler.orchestrator.controlled_source import settle
from tests.unit.fargate_handler.orchestrator.scripted_stores import (
    UNREACHABLE,
    ScriptedResponseStore,
    ScriptedSessionStore,
)
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.recording_reader import AssembledText, RecordingReader

EPOCH = 1_800_000_000.0
INTERVAL = 0.17
"""The interval of 150 ms, in slots and with the one that has begun."""


class Node:
    """A recorder on stores and a clock in the test's hand. Its task is `a`."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.clock = HandTurnedClock()
        self.metrics = Metrics()
        self.responses = ScriptedResponseStore()
        self.sessions = ScriptedSessionStore(self.responses)
        self.lost: list[ResponseStream] = []
        self.recorder = ResponseRecorder(
            responses=self.responses,
            sessions=self.sessions,
            owner="a",
            clock=self.clock.delivery,
            limits=self.limits,
            metrics=self.metrics,
            monotonic=self.clock.monotonic,
            wall_time=self.wall_time,
            on_lost=self.lost.append,
        )

    def wall_time(self) -> float:
        return EPOCH + self.clock.now

    async def begin(self, name: str = "r") -> ResponseStream:
        """A response that has begun to be generated, in a session of its own."""
        channel = Channel("t", "demo", name)
        entry = LedgerEntry("m1", None, "hi", name, "a")
        lease = await self.sessions.accept(channel, entry, self.wall_time())
        stream = ResponseStream(
            response_id=name,
            message_id="m1",
            channel=channel,
            clock=self.clock.delivery,
            limits=self.limits,
            monotonic=self.clock.monotonic,
        )
        self.recorder.record(stream, lease)
        stream.start()
        return stream

    async def time(self, seconds: float, step: float = 0.01) -> None:
        """Let time pass, and tasks run as it does."""
        until = self.clock.now + seconds - 1e-6
        while self.clock.now < until:
            self.clock.turn(min(step, until - self.clock.now + 1e-6))
            await settle()

    async def stored(self, name: str = "r") -> list[LogEntry]:
        """What any other task would read."""
        return list((await self.responses.entries(name, 0, self.wall_time())).entries)

    def head(self, name: str = "r") -> ResponseHead:
        return self.responses._heads[name]

    def count(self, metric: Metric) -> int:
        return self.metrics.counter(metric).value

    @property
    def delays(self) -> tuple[int, float]:
        """How many write delays were recorded, and their sum in milliseconds."""
        measured = self.metrics.distribution(catalogue.STORE_WRITE_DELAY)
        return measured.count, measured.total


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """A node that has started; when the test is over, nothing of it is left."""
    node = Node()
    await node.recorder.start()
    yield node
    await settle()
    assert not node.recorder.busy
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def started(limits: Limits) -> Node:
    node = Node(limits)
    await node.recorder.start()
    return node


# -- when it writes --------------------------------------------------------------------------------------------------


async def test_the_first_delta_and_the_end_are_written_at_once(node: Node) -> None:
    stream = await node.begin()
    stream.push("Hello")
    await settle()
    assert await node.stored() == ["Hello"]
    await node.time(0.06)
    stream.push(" you")
    stream.complete("stop", Usage(prompt_tokens=1, completion_tokens=2))
    await settle()
    assert await node.stored() == ["Hello", " you"]
    ending = node.head().ending
    assert ending is not None
    assert (ending.state, ending.next_index, ending.finish_reason) == (ResponseState.COMPLETED, 2, "stop")
    assert ending.usage == {"prompt_tokens": 1, "completion_tokens": 2}
    assert ending.ended_at == pytest.approx(node.wall_time())
    assert node.head().expires_at == pytest.approx(node.wall_time() + 300)
    (entry,) = (await node.sessions.load(stream.channel, node.wall_time())).entries
    assert (entry.answer, entry.ended) == ("Hello you", True)


async def test_between_them_it_writes_at_the_interval_all_that_has_grown(node: Node) -> None:
    stream = await node.begin()
    for _ in range(100):
        stream.push("x")
        await node.time(0.01)
    # One for the first delta, then one in every 160 ms.
    assert 6 <= len(node.responses.requests) <= 8
    assert sum(len(chunk.entries) for (chunk,) in node.responses.requests[1:]) > 10
    stream.cancel()


async def test_what_does_not_grow_is_not_written(node: Node) -> None:
    stream = await node.begin()
    stream.push("x")
    await node.time(2.0)
    assert len(node.responses.requests) == 1
    stream.cancel()


async def test_the_interval_stretches_with_the_delivery_clock() -> None:
    written = []
    for slots in (5, 20):
        node = await started(Limits())
        stream = await node.begin()
        for _ in range(300):
            node.clock.delivery.interval_slots, node.clock.delivery.interval = slots, slots * 0.01
            stream.push("x")
            await node.time(0.01)
        written.append(len(node.responses.requests))
        stream.cancel()
        await settle()
    assert 17 <= written[0] <= 20
    assert 5 <= written[1] <= 7


@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
async def test_a_response_that_ends_without_text_ends_in_the_store_too(node: Node, end: str) -> None:
    stream = await node.begin()
    if end == "complete":
        stream.complete("stop", None)
    elif end == "fail":
        stream.fail({"type": "upstream_error", "code": "x", "message": "y"})
    else:
        stream.cancel()
    await settle()
    ending = node.head().ending
    assert ending is not None
    assert (ending.state, ending.next_index) == (stream.state, 0)
    assert ending.error == stream.error
    assert node.responses.requests == []


async def test_what_a_cancelled_or_degraded_response_said_is_not_remembered(node: Node) -> None:
    cancelled, degraded = await node.begin("c"), await node.begin("d")
    cancelled.push("half an ans")
    cancelled.cancel()
    degraded.substitute("Later, please.")
    degraded.complete("stop", None)
    await settle()
    for stream in (cancelled, degraded):
        (entry,) = (await node.sessions.load(stream.channel, node.wall_time())).entries
        assert (entry.answer, entry.ended) == (None, True)
    ending = node.head("d").ending
    assert ending is not None
    assert ending.degraded


async def test_when_the_first_delta_came_is_the_same_in_every_chunk(node: Node) -> None:
    stream = await node.begin()
    await node.time(0.4)
    came = node.wall_time()
    for _ in range(50):
        stream.push("x")
        await node.time(0.02)
    stream.complete("stop", None)
    await settle()
    times = [chunk.began_at for (chunk,) in node.responses.requests]
    assert len(times) > 4
    assert times == [pytest.approx(came)] * len(times)


async def test_a_restart_is_written_like_any_entry(node: Node) -> None:
    stream = await node.begin()
    stream.push("wrong")
    await node.time(0.1)
    stream.restart()
    await node.time(0.1)
    stream.push("right")
    stream.complete("stop", None)
    await settle()
    assert await node.stored() == stream.log.entries
    assert stream.log.text == "right"


# -- requests --------------------------------------------------------------------------------------------------------


async def test_responses_that_begin_or_end_in_one_turn_share_requests(node: Node) -> None:
    streams = [await node.begin(f"r{number}") for number in range(60)]
    for stream in streams:
        stream.push("x")
    await settle()
    assert [len(request) for request in node.responses.requests] == [25, 25, 10]
    node.responses.requests.clear()
    await node.time(0.06)
    for stream in streams:
        stream.push("y")
        stream.complete("stop", None)
    await settle()
    assert [len(request) for request in node.responses.requests] == [25, 25, 10]
    assert not node.recorder.busy


async def test_a_response_has_one_write_on_its_way_and_the_next_takes_all_that_came_meanwhile(node: Node) -> None:
    stream = await node.begin()
    node.responses.network.hold("append")
    stream.push("first")
    for _ in range(100):
        await node.time(0.01)
        stream.push("x")
    assert len(node.responses.requests) == 1
    grown = stream.log.next_index
    node.responses.network.release()
    await node.time(INTERVAL)
    assert len(node.responses.requests) == 2
    assert len(node.responses.requests[1][0].entries) >= grown - 1
    stream.cancel()
    await settle()
    assert await node.stored() == stream.log.entries


async def test_an_end_that_comes_during_a_write_is_written_right_behind_it(node: Node) -> None:
    stream = await node.begin()
    node.responses.network.hold("append")
    stream.push("first")
    await settle()
    stream.push("last")
    stream.complete("stop", None)
    await settle()
    assert node.head().ending is None
    node.responses.network.release()
    await settle()
    assert await node.stored() == ["first", "last"]
    assert node.head().ending is not None


async def test_so_many_requests_at_once_and_no_more(node: Node) -> None:
    node.responses.network.hold("append")
    streams = [await node.begin(f"r{number}") for number in range(25 * 20)]
    for stream in streams:
        stream.push("x")
    await settle()
    assert len(node.responses.requests) == 16
    for stream in streams:
        stream.cancel()
    node.responses.network.release()
    await node.time(0.1)
    assert not node.recorder.busy


async def test_a_big_log_is_cut_into_chunks_and_each_is_as_full_as_it_may_be(node: Node) -> None:
    node.responses.network.hold("append")
    stream = await node.begin()
    stream.push("first")
    await settle()
    for number in range(100):
        stream.push(f"{number:03d}" * 400)
    stream.complete("stop", None)
    node.responses.network.release()
    await settle()
    await node.time(0.1)
    sizes = [sum(map(len, map(str, chunk.entries))) for (chunk,) in node.responses.requests]
    longest = max(len(str(entry)) for entry in stream.log.entries)
    assert all(size <= 16_384 for size in sizes)
    assert all(size > 16_384 - longest for size in sizes[1:-1])
    assert await node.stored() == stream.log.entries


async def test_a_delta_beyond_the_size_of_a_chunk_is_written_by_itself(node: Node) -> None:
    stream = await node.begin()
    stream.push("x")
    stream.substitute("y" * 40_000)
    stream.complete("stop", None)
    await settle()
    assert await node.stored() == ["x", "y" * 40_000]


# -- refusals --------------------------------------------------------------------------------------------------------


async def test_what_was_refused_is_written_again_and_nothing_is_doubled(node: Node) -> None:
    node.responses.refuses = lambda _: True
    stream = await node.begin()
    stream.push("a")
    await node.time(3.0)
    assert node.count(catalogue.STORE_RETRIES) == len(node.responses.requests) >= 4
    stream.push("b")
    node.responses.refuses = lambda _: False
    await node.time(1.3)
    assert await node.stored() == ["a", "b"]
    requests = len(node.responses.requests)
    await node.time(1.0)
    assert len(node.responses.requests) == requests
    stream.cancel()


async def test_refused_writes_come_again_spread_and_not_all_at_once(node: Node) -> None:
    node.responses.refuses = lambda _: True
    streams = [await node.begin(f"r{number}") for number in range(50)]
    for stream in streams:
        stream.push("x")
    await node.time(4.0)
    node.responses.requests.clear()
    spread = []
    for _ in range(8):
        await node.time(INTERVAL)
        spread.append(sum(map(len, node.responses.requests)))
        node.responses.requests.clear()
    assert sum(count > 0 for count in spread) >= 5
    assert max(spread) < 50
    node.responses.refuses = lambda _: False
    for stream in streams:
        stream.cancel()
    await node.time(1.3)


async def test_others_in_the_request_of_a_refused_chunk_are_not_held_up(node: Node) -> None:
    node.responses.refuses = lambda chunk: chunk.response_id == "bad"
    bad, good = await node.begin("bad"), await node.begin("good")
    for stream in (bad, good):
        stream.push("x")
    await settle()
    assert (await node.stored("bad"), await node.stored("good")) == ([], ["x"])
    good.push("y")
    good.complete("stop", None)
    await settle()
    assert node.head("good").ending is not None
    node.responses.refuses = lambda _: False
    bad.cancel()
    await node.time(1.3)
    assert await node.stored("bad") == ["x"]


@pytest.mark.parametrize("error", [UNREACHABLE, ValueError("a bug in the store")], ids=["unreachable", "bug"])
@pytest.mark.parametrize("call", ["append", "finish", "answered"])
async def test_a_call_that_fails_is_made_again_and_its_response_is_not_leaked(
    node: Node, call: str, error: Exception
) -> None:
    for network in (node.responses.network, node.sessions.network):
        network.failures[call] = error
    streams = [await node.begin(f"r{number}") for number in range(3)]
    for stream in streams:
        stream.push("x")
        stream.complete("stop", None)
    await node.time(2.0)
    assert node.recorder.busy
    assert node.count(catalogue.STORE_RETRIES) >= 3
    for network in (node.responses.network, node.sessions.network):
        network.failures.clear()
    await node.time(1.3)
    for stream in streams:
        assert await node.stored(stream.response_id) == ["x"]
        assert node.head(stream.response_id).ending is not None
    assert not node.recorder.busy


@pytest.mark.parametrize("call", ["append", "finish"])
async def test_a_call_whose_answer_is_lost_changes_nothing_when_it_is_made_again(node: Node, call: str) -> None:
    node.responses.network.lost_answers[call] = UNREACHABLE
    stream = await node.begin()
    stream.push("x")
    await node.time(1.0)
    stream.push("y")
    stream.complete("stop", None)
    await node.time(1.0)
    node.responses.network.lost_answers.clear()
    await node.time(1.3)
    assert await node.stored() == ["x", "y"]
    assert not node.recorder.busy


# -- too far behind --------------------------------------------------------------------------------------------------


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
    """Its readers elsewhere would wait for it for ever: that must raise the alarm, as lost deltas do."""
    node = await started(Limits(response_ttl_seconds=2))
    stream = await node.begin()
    node.responses.network.failures["finish"] = UNREACHABLE
    stream.push("x")
    stream.complete("stop", None)
    await node.time(4.0)
    assert not node.recorder.busy
    assert node.count(catalogue.STORE_DELTAS_LOST) > 0


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


# -- leaving ---------------------------------------------------------------------------------------------------------


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


async def test_draining_stops_at_its_deadline_and_says_how_much_is_left(
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
    assert "2 responses could not be written" in caplog.text
    node.responses.refuses = lambda _: False
    await node.time(1.3)


async def test_draining_with_nothing_to_write_returns_at_once(node: Node) -> None:
    await node.recorder.drain(node.clock.now + 5)


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


# -- what it measures ------------------------------------------------------------------------------------------------


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
    await node.time(2.0)
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
    # It is on the log after 50 ms, and due to be written at most an interval later; the store is busy for 2 s.
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


# -- everything at once ----------------------------------------------------------------------------------------------

GENERATES = ("push", "push", "push", "many", "restart", "complete", "fail", "cancel")
HAPPENS = ("time", "time", "long", "refuse", "deny", "take", "hold", "release", "raise", "loop")
ACTIONS = st.lists(st.tuples(st.sampled_from([*GENERATES, *HAPPENS]), st.integers(0, 7)), max_size=60)


class Weather:
    """Four responses and a store that takes, refuses, fails or is silent."""

    NAMES = ("p", "q", "r", "s")

    def __init__(self, node: Node, streams: list[ResponseStream]) -> None:
        self.node = node
        self.streams = streams
        self._pushed = 0

    async def do(self, action: str, which: int) -> None:
        store, stream = self.node.responses, self.streams[which % len(self.streams)]
        match action:
            case "push" | "many" | "restart" | "complete" | "fail" | "cancel" if not stream.state.terminal:
                self._generate(stream, action)
            case "time" | "long":
                await self.node.time((0.03 if action == "time" else 0.2) * which)
            case "refuse":
                store.refuses = self._some(which)
            case "deny":
                store.says_refused = self._some(which)
            case "raise":
                store.network.failures["finish" if which % 2 else "append"] = UNREACHABLE
            case "hold":
                store.network.hold("append", "finish")
            case "take":
                self.clear_up()
            case "release":
                store.network.release()
            case "loop":
                await settle()

    def clear_up(self) -> None:
        store = self.node.responses
        store.refuses = store.says_refused = lambda _: False
        store.network.failures.clear()
        store.network.release()

    async def check(self) -> None:
        """What anyone can read is a gapless prefix of the log, at any moment."""
        for stream in self.streams:
            stored = await self.node.stored(stream.response_id)
            assert stored == stream.log.entries[: len(stored)]

    def _some(self, which: int) -> Callable[[Chunk], bool]:
        return lambda chunk: (ord(chunk.response_id) + chunk.last_index + which) % 3 != 0

    def _generate(self, stream: ResponseStream, action: str) -> None:
        match action:
            case "push":
                self._pushed += 1
                stream.push(f"{self._pushed} ")
            case "many":
                for _ in range(12):
                    stream.push("é" * 800)
            case "restart":
                stream.restart()
            case "complete":
                stream.complete("stop", None)
            case "fail":
                stream.fail({"type": "t", "code": "c", "message": "m"})
            case _:
                stream.cancel()


@given(ACTIONS)
@settings(max_examples=120)
async def test_whatever_happens_the_store_has_a_prefix_of_each_log_and_in_the_end_all_of_it(
    actions: list[tuple[str, int]],
) -> None:
    node = await started(Limits())
    weather = Weather(node, [await node.begin(name) for name in Weather.NAMES])
    for action, which in actions:
        await weather.do(action, which)
        await weather.check()
    for stream in weather.streams:
        if not stream.state.terminal:
            stream.cancel()
    weather.clear_up()
    await node.time(2.5, step=0.05)
    for stream in weather.streams:
        assert await node.stored(stream.response_id) == stream.log.entries
        ending = node.head(stream.response_id).ending
        assert ending is not None
        assert (ending.state, ending.next_index) == (stream.state, stream.log.next_index)
    assert not node.recorder.busy
    assert node.count(catalogue.STORE_DELTAS_LOST) == 0
    # The clock's next turn knows that nothing waits any more.
    await node.time(INTERVAL)
    assert node.recorder.backlog_bytes == 0
    await settle()
    assert asyncio.all_tasks() == {asyncio.current_task()}
