from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.channel import CHAT, COMPLETION, MessageKind
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import Part, PartKind, size_of
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.stores.response_store import Chunk
from evenflow.stream_core.stores.session_store import LedgerEntry
from tests.unit.fargate_handler.orchestrator.recorder_node import INTERVAL, Node, started
from tests.unit.fargate_handler.orchestrator.scripted_stores import (
    UNREACHABLE,
)
from tests.unit.recording_reader import AssembledText, RecordingReader
from tests.unit.settle import settle

# -- when it writes --------------------------------------------------------------------------------


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
    assert (ending.state, ending.next_index, ending.finish_reason) == (
        ResponseState.COMPLETED,
        2,
        "stop",
    )
    assert ending.usage == {"prompt_tokens": 1, "completion_tokens": 2}
    assert ending.ended_at == pytest.approx(node.wall_time(), abs=0.001)
    assert node.head().expires_at == pytest.approx(node.wall_time() + 86_400, abs=0.001)
    (entry,) = (await node.sessions.load(stream.channel, node.wall_time())).messages
    assert (entry.answer, entry.ended) == ("Hello you", True)


@pytest.mark.parametrize(("kind", "kept"), [(CHAT, 86_400), (COMPLETION, 300)])
async def test_an_answer_is_kept_as_long_as_somebody_may_come_back_for_it(
    node: Node, kind: MessageKind, kept: float
) -> None:
    stream, entry = node.stream_of("r"), LedgerEntry("m1", None, "hi", "r", "a")
    lease = await node.sessions.accept(stream.channel, entry, node.wall_time())
    node.recorder.record(stream, lease, kind=kind)
    stream.start()
    stream.complete("stop", None)
    await settle()
    assert node.head().expires_at == pytest.approx(node.wall_time() + kept, abs=0.001)


async def _writes_of(node: Node, stream: ResponseStream, seconds: float) -> int:
    """How many writes a model's answer takes that says something every 50 ms."""
    before = len(node.responses.requests)
    for _ in range(round(seconds / 0.05)):
        stream.push("x")
        await node.time(0.05)
    return len(node.responses.requests) - before


async def _read(node: Node, stream: ResponseStream) -> RecordingReader:
    await settle()  # what was there at its beginning has been written
    reader = RecordingReader(stream, node.clock, AssembledText())
    stream.attach(reader)
    return reader


async def test_what_is_read_here_is_written_once_a_second_with_all_that_has_grown(
    node: Node,
) -> None:
    stream = await node.begin()
    await _read(node, stream)
    # The first turn after each second.
    assert await _writes_of(node, stream, 20) == pytest.approx(18, abs=1)
    assert all(len(chunk.entries) >= 15 for (chunk,) in node.responses.requests)
    stream.cancel()


async def test_what_may_be_polled_is_as_fresh_as_the_wait_of_its_polls_asks_for(
    node: Node,
) -> None:
    stream = await node.begin()
    # 150 ms for each second that a poll waits, up to a second.
    assert await _writes_of(node, stream, 1) == pytest.approx(4.6, abs=1)
    assert await _writes_of(node, stream, 2) == pytest.approx(4.0, abs=1)
    assert await _writes_of(node, stream, 17) == pytest.approx(16.5, abs=1.5)
    stream.cancel()


async def test_what_loses_its_last_reader_is_written_as_what_may_be_polled(node: Node) -> None:
    stream = await node.begin()
    reader = await _read(node, stream)
    stream.push("x")
    await node.time(0.5)
    assert await node.stored() == []
    reader.leave()
    await node.time(INTERVAL)
    assert await node.stored() == ["x"]
    stream.cancel()


async def test_what_fills_a_chunk_does_not_wait_for_its_second(node: Node) -> None:
    stream = await node.begin()
    await _read(node, stream)
    stream.push("x")
    await node.time(0.06)
    for _ in range(20):
        stream.push("y" * 1_000)
    await node.time(INTERVAL)
    assert sum(len(str(entry)) for entry in await node.stored()) > 15_000
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
        node = await started(Limits(store_interval_ms=150))
        node.clock.hold_interval(slots)
        stream = await node.begin()
        for _ in range(300):
            stream.push("x")
            await node.time(0.01)
        written.append(len(node.responses.requests))
        stream.cancel()
        await settle()
    assert 17 <= written[0] <= 20
    assert 5 <= written[1] <= 7


@pytest.mark.parametrize("end", ["complete", "fail", "cancel"])
async def test_a_response_that_ends_without_text_ends_in_the_store_too(
    node: Node, end: str
) -> None:
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
        (entry,) = (await node.sessions.load(stream.channel, node.wall_time())).messages
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
    assert times == [pytest.approx(came, abs=0.001)] * len(times)


async def test_a_restart_is_written_like_any_entry(node: Node) -> None:
    stream = await node.begin()
    stream.push("wrong")
    await node.time(0.1)
    stream.next_attempt()
    stream.restart()
    await node.time(0.1)
    stream.push("right")
    stream.complete("stop", None)
    await settle()
    assert await node.stored() == stream.log.entries
    assert stream.log.text == "right"


# -- requests --------------------------------------------------------------------------------------


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


async def test_a_response_has_one_write_on_its_way_and_the_next_takes_all_that_came_meanwhile(
    node: Node,
) -> None:
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
    for number in range(700):
        stream.push(f"{number:03d}" * 33)
    stream.complete("stop", None)
    node.responses.network.release()
    await settle()
    await node.time(0.1)
    sizes = [sum(map(len, map(str, chunk.entries))) for (chunk,) in node.responses.requests]
    longest = max(len(str(entry)) for entry in stream.log.entries)
    assert all(size <= 16_384 for size in sizes)
    assert all(size > 16_384 - longest for size in sizes[1:-1])
    assert await node.stored() == stream.log.entries


async def test_parts_are_cut_into_chunks_by_all_that_they_say(node: Node) -> None:
    node.responses.network.hold("append")
    stream = await node.begin()
    stream.push("first")
    await settle()
    for number in range(100):
        stream.push_part(Part(PartKind.CALL, call=number, id=f"{number:04d}" * 100, name="n" * 400))
    stream.complete("stop", None)
    node.responses.network.release()
    await settle()
    await node.time(0.1)
    sizes = [sum(map(size_of, chunk.entries)) for (chunk,) in node.responses.requests]
    assert all(size <= 16_384 for size in sizes)
    assert all(size > 16_384 - 1_000 for size in sizes[1:-1])
    assert sum(sizes) == stream.log.text_bytes
    assert await node.stored() == stream.log.entries


async def test_a_delta_beyond_the_size_of_a_chunk_is_written_by_itself(node: Node) -> None:
    stream = await node.begin()
    stream.push("x")
    stream.substitute("y" * 40_000)
    stream.complete("stop", None)
    await settle()
    assert await node.stored() == ["x", "y" * 40_000]


# -- refusals --------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "error", [UNREACHABLE, ValueError("a bug in the store")], ids=["unreachable", "bug"]
)
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


@pytest.mark.parametrize("what", ["finish", "answered"])
async def test_that_an_end_is_on_record_is_told_once_however_often_it_is_written(
    node: Node, what: str
) -> None:
    stream = await node.begin()
    store = node.responses if what == "finish" else node.sessions
    store.network.lost_answers[what] = UNREACHABLE
    stream.push("x")
    stream.complete("stop", None)
    await node.time(0.5)
    assert node.ended == ([] if what == "finish" else [stream])
    del store.network.lost_answers[what]
    await node.time(1.5)
    assert node.ended == [stream]
    assert not node.recorder.busy


@pytest.mark.parametrize("call", ["append", "finish"])
async def test_a_call_whose_answer_is_lost_changes_nothing_when_it_is_made_again(
    node: Node, call: str
) -> None:
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


# -- everything at once ----------------------------------------------------------------------------

GENERATES = ("push", "push", "push", "many", "restart", "complete", "fail", "cancel")
HAPPENS = ("time", "time", "long", "refuse", "deny", "take", "hold", "release", "raise", "loop")
ACTIONS = st.lists(
    st.tuples(st.sampled_from([*GENERATES, *HAPPENS]), st.integers(0, 7)), max_size=60
)


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
            case "push" | "many" | "restart" | "complete" | "fail" | "cancel" if (
                not stream.state.terminal
            ):
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
                stream.next_attempt()
                stream.restart()
            case "complete":
                stream.complete("stop", None)
            case "fail":
                stream.fail({"type": "t", "code": "c", "message": "m"})
            case _:
                stream.cancel()


@given(ACTIONS)
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
