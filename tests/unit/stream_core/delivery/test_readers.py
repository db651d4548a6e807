"""A response with very many readers: all in time, none of them holding the loop."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from evenflow.stream_core.delivery.readers import MAX_DIRECT_READERS
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.protocols.evenflow.entry_encoders import V1Encoder
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.recording_reader import AssembledText, RecordingReader
from tests.unit.stream_core.delivery.test_response_stream import new_stream

MANY = 4 * MAX_DIRECT_READERS


def crowd(stream: ResponseStream, clock: HandTurnedClock, count: int) -> list[RecordingReader]:
    readers = [RecordingReader(stream, clock, AssembledText()) for _ in range(count)]
    for reader in readers:
        stream.attach(reader)
    return readers


def tell(stream: ResponseStream, clock: HandTurnedClock, *tokens: str) -> None:
    """A token an interval."""
    for token in tokens:
        stream.push(token)
        clock.turn_slots(5)


def test_many_are_given_each_delta_in_the_slots_of_the_interval() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    readers = crowd(stream, clock, MANY)
    tell(stream, clock, "a", "b", "c", "d")
    clock.turn_slots(5)
    assert {reader.held.text for reader in readers} == {"abcd"}
    slots = Counter(delivery.slot for reader in readers for delivery in reader.deliveries[1:2])
    assert len(slots) == 5
    assert max(slots.values()) <= MANY / 5 + 32
    for reader in readers:
        times = [delivery.slot for delivery in reader.deliveries]
        gaps = {later - earlier for earlier, later in pairwise(times)}
        assert gaps == {5}, "each has the same interval"
        # The clock is turned by hand: the first delivery is in no slot's turn.
        assert all(delivery.jitter < 0.001 for delivery in reader.deliveries[2:])  # type: ignore[operator]


def test_few_are_given_it_at_once() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    readers = crowd(stream, clock, MAX_DIRECT_READERS)
    stream.push("a")
    assert all(reader.held.text == "a" for reader in readers)


def test_many_are_given_the_end_and_all_leave() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    readers = crowd(stream, clock, MANY)
    tell(stream, clock, "a", "b")
    stream.push("c")
    stream.complete("stop", None)
    clock.turn_slots(6)
    assert {reader.held.text for reader in readers} == {"abc"}
    assert not stream.readers


def test_who_has_left_is_called_no_more_and_who_comes_late_has_everything_once() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    readers = crowd(stream, clock, MANY)
    stream.push("a")
    for reader in readers[1::2]:
        reader.leave()  # before its group's slot
    late = crowd(stream, clock, MANY)
    tell(stream, clock, "b", "c")
    clock.turn_slots(6)
    assert {reader.held.text for reader in [*readers[::2], *late]} == {"abc"}
    assert all(reader.held.indexes == [*range(stream.log.next_index)] for reader in late)
    assert {reader.held.text for reader in readers[1::2]} <= {"", "a"}


def test_the_last_of_many_to_leave_begins_the_grace() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    readers = crowd(stream, clock, MANY)
    for reader in readers[1:]:
        reader.leave()
    assert stream.readers.grace_begins_at is None
    clock.turn(3.0)
    readers[0].leave()
    assert stream.readers.grace_begins_at == clock.now


def test_the_model_is_held_only_once_everybody_pauses() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    readers = crowd(stream, clock, 3)
    for reader in readers:
        assert not stream.paused
        reader.pauses_model = True
        reader.pause()
    assert stream.paused
    readers[1].resume()
    assert not stream.paused


def test_what_many_are_given_alike_is_encoded_once() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    made = []

    def make() -> V1Encoder:
        made.append(V1Encoder("ses_1", "rsp_1"))
        return made[-1]

    alone = stream.readers.encoder("v1", make)
    crowd(stream, clock, 1)
    second, third = stream.readers.encoder("v1", make), stream.readers.encoder("v1", make)
    assert second is third is not alone
    assert stream.readers.encoder("other", make) is not second
    assert len(made) == 3
    assert second.delta("ab", 0, 1) is third.delta("ab", 0, 1)
    for text, first, last in (("a", 0, 0), ("ab", 0, 1), ("b", 1, 1), ("abc", 0, 2), ("bc", 1, 2)):
        assert second.delta(text, first, last) == alone.delta(text, first, last)
