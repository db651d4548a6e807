"""A response that changes hands: taken up from another owner, handed over, lost, or followed as
a copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.answer import Transport, Usage
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.response_stream import ResponseFull, ResponseStream
from evenflow.stream_core.log.entries import LogEntry, Restart
from evenflow.stream_core.log.response_log import LogClosed, ResponseState
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.recording_reader import standing_text
from tests.unit.stream_core.delivery.test_response_stream import new_stream, reading

ENTRIES = st.lists(
    st.one_of(st.text(min_size=1, max_size=3), st.builds(Restart, st.just(-1), st.integers(2, 5))),
    max_size=8,
)


def taken_up(
    clock: HandTurnedClock,
    entries: Sequence[LogEntry],
    *,
    continues: bool,
    began_at: float | None = None,
    limits: Limits | None = None,
) -> ResponseStream:
    stream = new_stream(clock, limits, start=False)
    stream.adopt_log(entries, 2, began_at)
    stream.start()
    if not continues:
        stream.restart()
    return stream


# -- taken up --------------------------------------------------------------------------------------


def test_a_model_that_continues_keeps_the_text_and_changes_nothing_that_is_seen() -> None:
    clock = HandTurnedClock()
    stream = taken_up(clock, ["Even", "flow "], continues=True)
    reader = reading(stream, clock)
    stream.push("delivers.")
    assert stream.log.entries == ["Even", "flow ", Restart(1, 2, 2), "delivers."]
    assert stream.log.text == reader.held.text == "Evenflow delivers."
    assert (stream.epoch, stream.attempt, stream.log.epoch_at(3)) == (2, 2, 2)


def test_a_model_that_does_not_continue_replaces_the_text() -> None:
    clock = HandTurnedClock()
    stream = taken_up(clock, ["Even", "flow "], continues=False)
    reader = reading(stream, clock)
    stream.push("Once more.")
    clock.turn(0.1)
    assert stream.log.entries == ["Even", "flow ", Restart(1, 2, 2), Restart(-1, 2), "Once more."]
    assert stream.log.text == reader.held.text == "Once more."


def test_a_response_that_had_not_begun_begins_with_the_marker() -> None:
    clock = HandTurnedClock()
    stream = taken_up(clock, [], continues=True)
    stream.push("First.")
    assert stream.log.entries == [Restart(-1, 2, 2), "First."]
    assert stream.log.text == "First."


def test_attempts_are_counted_on_from_those_on_record() -> None:
    stream = taken_up(HandTurnedClock(), ["a", Restart(-1, 2), "b"], continues=True)
    assert stream.attempt == 3
    stream.next_attempt()
    stream.restart()
    assert stream.log.entries[-1] == Restart(-1, 4)
    assert stream.log.epoch_at(stream.log.next_index) == 2, (
        "a restart by the same owner begins no epoch"
    )


@given(ENTRIES, st.booleans(), st.lists(st.text("xyz", min_size=1, max_size=3), max_size=5))
def test_whatever_was_on_record_stays_and_the_text_is_what_stands_of_it_and_what_is_new(
    entries: list[LogEntry], continues: bool, tokens: list[str]
) -> None:
    clock = HandTurnedClock()
    stream = taken_up(clock, entries, continues=continues)
    before = new_stream(clock)
    before.log.extend(entries)
    for token in tokens:
        stream.push(token)
    stream.complete("stop", None)
    assert stream.log.entries[: len(entries)] == entries
    assert stream.log.text == (before.log.text if continues else "") + "".join(tokens)
    assert standing_text(stream.log).text == stream.log.text


def test_a_continued_text_counts_against_the_size_limit_and_a_replaced_one_does_not() -> None:
    limits, clock = Limits(response_bytes=1024), HandTurnedClock()
    continued = taken_up(
        clock, ["x" * 1000, Restart(-1, 2), "y" * 1000], continues=True, limits=limits
    )
    continued.push("z" * 24)
    with pytest.raises(ResponseFull):
        continued.push("z")
    replaced = taken_up(clock, ["x" * 1000], continues=False, limits=limits)
    replaced.push("y" * 1000)
    clock.turn(1.0)
    replaced.push("z" * 24)
    with pytest.raises(ResponseFull):
        replaced.push("z")


def test_its_first_delta_came_when_it_came_and_the_pace_is_measured_anew() -> None:
    clock = HandTurnedClock(start=1_000_000.0)
    stream = taken_up(clock, ["a"], continues=True, began_at=clock.now - 3600.0)
    assert stream.first_delta_at == clock.now - 3600.0
    reader = reading(stream, clock)
    for token in ("b", "c", "d"):
        clock.turn(0.06)
        stream.push(token)
    jitters = [delivery.jitter for delivery in reader.deliveries if delivery.jitter is not None]
    assert len(jitters) == 3
    assert max(jitters) < 0.1


# -- handed over and lost --------------------------------------------------------------------------


def test_what_waits_in_the_batch_is_delivered_before_another_owner_goes_on() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = reading(stream, clock)
    stream.push("a")
    stream.push("b")
    assert stream.log.entries == ["a"]
    stream.flush()
    assert stream.log.entries == ["a", "b"]
    assert reader.held.text == "ab"
    stream.flush()
    clock.turn(1.0)
    assert stream.log.entries == ["a", "b"]


def test_there_is_nothing_to_settle_of_a_response_that_has_ended() -> None:
    stream = new_stream(HandTurnedClock())
    stream.push("a")
    stream.push("b")
    stream.cancel()
    stream.flush()
    assert stream.log.entries == ["a", "b"]


def test_every_reader_of_a_lost_response_is_told_and_what_waits_is_not_delivered_any_more() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    readers = [reading(stream, clock) for _ in range(3)]
    stream.push("a")
    stream.push("not on record, and nobody has it")
    stream.lose()
    clock.turn(1.0)
    assert [reader.left_behind for reader in readers] == [True] * 3
    assert [reader.held.text for reader in readers] == ["a"] * 3


def test_readers_that_leave_as_they_are_told_do_not_hide_one_another() -> None:
    class Leaving:
        user: str | None = None
        pauses_model = False
        transport: Transport = "http"
        next_index = 0

        def __init__(self) -> None:
            self.told = 0

        def deliver(self, now: float, jitter: float | None) -> None:
            """Nothing is delivered here."""

        def on_queued(self, place: QueuePlace) -> None:
            """Nothing."""

        def announce_start(self) -> None:
            """Nothing."""

        def on_lost(self) -> None:
            self.told += 1
            stream.detach(self)

    stream = new_stream(HandTurnedClock())
    readers = [Leaving() for _ in range(3)]
    for reader in readers:
        stream.attach(reader)
    stream.lose()
    assert [reader.told for reader in readers] == [1, 1, 1]
    assert not stream.readers


# -- a copy ----------------------------------------------------------------------------------------


def test_a_copy_gives_its_readers_at_once_what_it_is_given() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock, start=False)
    reader = reading(stream, clock)
    stream.follow([])
    assert (stream.state, stream.first_delta_at) == (ResponseState.QUEUED, None)
    stream.follow(["a", "b"])
    assert (stream.state, stream.first_delta_at) == (ResponseState.STREAMING, clock.now)
    assert reader.held.text == "ab"
    stream.follow(["c", Restart(-1, 2), "d"])
    assert reader.held.text == stream.log.text == "d"
    assert reader.held.indexes == [0, 1, 2, 3, 4]
    assert all(delivery.jitter is None for delivery in reader.deliveries), (
        "its pace is another task's"
    )


def test_a_copy_knows_where_owners_begin() -> None:
    stream = new_stream(HandTurnedClock())
    stream.follow(["a", Restart(0, 2, 2), "b", Restart(-1, 3, 4)])
    assert [stream.log.epoch_at(index) for index in range(-1, 5)] == [1, 1, 2, 2, 4, 4]
    assert [stream.log.first_index_after(epoch) for epoch in range(1, 5)] == [1, 3, 3, None]


@pytest.mark.parametrize(
    "state", [ResponseState.COMPLETED, ResponseState.ERROR, ResponseState.CANCELLED]
)
@pytest.mark.parametrize("begun", [True, False])
def test_a_copy_ends_as_the_original_did(state: ResponseState, begun: bool) -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock, start=False)
    reader = reading(stream, clock)
    if begun:
        stream.follow(["a"])
    usage = Usage(prompt_tokens=1, completion_tokens=2)
    stream.copy_ending(state, finish_reason="stop", usage=usage, error={"code": "x"}, degraded=True)
    assert (stream.state, stream.log.state) == (state, state)
    assert (stream.finish_reason, stream.usage, stream.error, stream.degraded) == (
        "stop",
        usage,
        {"code": "x"},
        True,
    )
    assert stream.ended_at == clock.now
    assert reader not in stream.readers, "who has everything leaves"
    with pytest.raises(LogClosed):
        stream.follow(["late"])
    with pytest.raises(LogClosed):
        stream.copy_ending(ResponseState.COMPLETED)
