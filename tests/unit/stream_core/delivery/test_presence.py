"""Who reads a response is told to who asks: at once, and then at most once a second."""

from __future__ import annotations

import pytest

from evenflow.stream_core.base.errors import RateLimited
from evenflow.stream_core.delivery.presence import (
    MAX_NAMED_READERS,
    Presence,
    Present,
    PresentReader,
    merge_present,
)
from evenflow.stream_core.delivery.response_stream import ResponseStream
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.recording_reader import AssembledText, RecordingReader
from tests.unit.stream_core.delivery.test_response_stream import new_stream


class Listening:
    def __init__(self) -> None:
        self.told: list[Present] = []
        self.lost: list[str] = []

    def present(self, response_id: str, present: Present) -> None:
        assert response_id == "rsp_1"
        self.told.append(present)

    def presence_lost(self, response_id: str) -> None:
        self.lost.append(response_id)

    @property
    def counts(self) -> list[int]:
        return [each.count for each in self.told]


def come(stream: ResponseStream, clock: HandTurnedClock, user: str | None) -> RecordingReader:
    reader = RecordingReader(stream, clock, AssembledText())
    reader.user = user
    stream.attach(reader)
    return reader


def test_who_asks_is_told_at_once_who_reads_how_and_since_when() -> None:
    clock = HandTurnedClock()
    stream, listening = new_stream(clock), Listening()
    came_at = clock.now
    come(stream, clock, "ann")
    clock.turn(3)
    come(stream, clock, "")
    stream.readers.listen(stream.response_id, listening)
    (told,) = listening.told
    assert [tuple(each) for each in told.readers] == [
        ("ann", "http", came_at),
        ("", "http", came_at + 3),
    ]
    assert told.count == 2


def test_changes_are_told_soon_and_those_within_a_second_together() -> None:
    clock = HandTurnedClock()
    stream, listening = new_stream(clock), Listening()
    stream.readers.listen(stream.response_id, listening)
    first = come(stream, clock, "ann")
    clock.turn(0.05)
    assert listening.counts == [0, 1]
    for _ in range(20):
        come(stream, clock, "bob")
        clock.turn(0.02)
    stream.detach(first)
    assert listening.counts == [0, 1]
    clock.turn(1.1)
    assert listening.counts == [0, 1, 20]
    clock.turn(5)
    assert listening.counts == [0, 1, 20]


def test_what_stays_as_it_was_told_at_first_is_not_told_again() -> None:
    clock = HandTurnedClock()
    stream, listening = new_stream(clock), Listening()
    come(stream, clock, "ann")
    stream.readers.listen(stream.response_id, listening)
    leaves = come(stream, clock, "bob")
    stream.detach(leaves)
    clock.turn(2)
    assert listening.counts == [1]


def test_who_came_and_left_within_a_second_is_not_told() -> None:
    clock = HandTurnedClock()
    stream, listening = new_stream(clock), Listening()
    stays = come(stream, clock, "ann")
    stream.readers.listen(stream.response_id, listening)
    come(stream, clock, "bob")
    clock.turn(2)
    leaves = come(stream, clock, "eve")
    stream.detach(leaves)
    clock.turn(2)
    assert listening.counts == [1, 2]
    stream.detach(stays)
    clock.turn(2)
    assert [each.user for each in listening.told[-1].readers] == ["bob"]


def test_what_reads_for_no_client_is_not_told() -> None:
    clock = HandTurnedClock()
    stream, listening = new_stream(clock), Listening()
    come(stream, clock, None)
    stream.readers.listen(stream.response_id, listening)
    come(stream, clock, None)
    clock.turn(2)
    assert set(listening.counts) == {0}


def test_the_first_are_named_and_all_are_counted() -> None:
    clock = HandTurnedClock()
    stream, listening = new_stream(clock), Listening()
    for number in range(MAX_NAMED_READERS + 30):
        come(stream, clock, f"user {number}")
    stream.readers.listen(stream.response_id, listening)
    (told,) = listening.told
    assert told.count == MAX_NAMED_READERS + 30
    assert [each.user for each in told.readers] == [f"user {n}" for n in range(MAX_NAMED_READERS)]


def test_who_left_is_told_nothing_and_everybody_else_each_change() -> None:
    clock = HandTurnedClock()
    stream, leaves, stays = new_stream(clock), Listening(), Listening()
    stream.readers.listen(stream.response_id, leaves)
    stream.readers.listen(stream.response_id, stays)
    presence = stream.readers.presence
    assert presence is not None
    come(stream, clock, "ann")
    presence.leave(leaves)
    presence.leave(leaves)
    clock.turn(2)
    assert (leaves.counts, stays.counts) == ([0], [0, 1])


def test_who_asks_while_a_change_waits_keeps_it_from_nobody() -> None:
    clock = HandTurnedClock()
    stream, early, late = new_stream(clock), Listening(), Listening()
    stream.readers.listen(stream.response_id, early)
    come(stream, clock, "ann")
    stream.readers.listen(stream.response_id, late)
    clock.turn(0.05)
    assert (early.counts[-1], late.counts[-1]) == (1, 1)


def test_as_many_listen_as_may_and_who_is_not_bound_besides() -> None:
    clock = HandTurnedClock()
    presence = Presence("rsp_1", lambda: Present((), 0), clock.delivery, clock.monotonic, 1)
    listening = Listening()
    presence.listen(listening)
    presence.listen(listening)
    with pytest.raises(RateLimited) as refused:
        presence.listen(Listening())
    assert refused.value.code == "presence_listeners"
    assert listening.counts == [0, 0]
    presence.listen(another := Listening(), bounded=False)
    assert another.counts == [0]


def test_the_readers_of_several_copies_are_told_together_the_first_named() -> None:
    here = [PresentReader("ann", "sse", 1.0), PresentReader("eve", "poll", 5.0)]
    there = [
        PresentReader(f"user {n}", "websocket", 2.0 + n / 100) for n in range(MAX_NAMED_READERS)
    ]
    both = merge_present([Present(tuple(here), 2), Present(tuple(there), 70)])
    assert both.count == 72
    assert both.readers == (here[0], *there[: MAX_NAMED_READERS - 1])


def test_when_the_copy_is_lost_each_is_told_once() -> None:
    clock = HandTurnedClock()
    stream, listening = new_stream(clock), Listening()
    stream.readers.listen(stream.response_id, listening)
    stream.lose()
    stream.lose()
    assert listening.lost == ["rsp_1"]


def test_where_nobody_asks_nothing_is_put_on_the_clock() -> None:
    clock = HandTurnedClock()
    stream, listening = new_stream(clock), Listening()
    come(stream, clock, "ann")
    assert stream.readers.presence is None
    stream.readers.listen(stream.response_id, listening)
    presence = stream.readers.presence
    assert presence is not None
    presence.leave(listening)
    come(stream, clock, "bob")
    clock.turn(2)
    stream.readers.listen(stream.response_id, listening)
    assert listening.counts == [1, 2]


def test_shares_take_no_place_of_the_session_s_own_listeners() -> None:
    clock = HandTurnedClock()
    presence = Presence("rsp_1", lambda: Present((), 0), clock.delivery, clock.monotonic, 2)
    for _ in range(2):
        presence.listen(Listening(), shared=True)
    with pytest.raises(RateLimited):
        presence.listen(Listening(), shared=True)
    for _ in range(2):
        presence.listen(Listening())
    with pytest.raises(RateLimited):
        presence.listen(Listening())
