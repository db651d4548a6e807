from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.answer import Transport
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.response_stream import ResponseFull, ResponseStream
from evenflow.stream_core.log.entries import Content, NotAPart, Part, PartKind, joined
from evenflow.stream_core.log.response_log import Cursor, LogClosed
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.delivery.test_response_stream import new_stream
from tests.unit.stream_core.log.contents import CONTENTS

_WINDOW = 6  # slots of an interval


class Taken:
    """A reader that keeps what each delivery gives it."""

    user: str | None = None
    pauses_model = False
    transport: Transport = "http"

    def __init__(self, stream: ResponseStream) -> None:
        self.deliveries: list[list[Content]] = []
        self._cursor = Cursor(stream.log, 0, 1_000)
        stream.attach(self)

    @property
    def next_index(self) -> int:
        return self._cursor.next_index

    def deliver(self, _now: float, _jitter: float | None) -> None:
        taken: list[Content] = []
        while (entry := self._cursor.next_entry()) is not None:
            assert isinstance(entry, str | Part)
            taken.append(entry)
        if taken:
            self.deliveries.append(taken)

    def on_queued(self, place: QueuePlace) -> None:
        """Nothing."""

    def announce_start(self) -> None:
        """Nothing."""

    def on_lost(self) -> None:
        raise AssertionError

    @property
    def all(self) -> list[Content]:
        return list(joined(content for taken in self.deliveries for content in taken))


def push(stream: ResponseStream, content: Content) -> None:
    if isinstance(content, str):
        stream.push(content)
    else:
        stream.push_part(content)


def reasoning(text: str) -> Part:
    return Part(PartKind.REASONING, text)


def test_the_first_part_is_delivered_at_once_and_others_wait_for_the_interval() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = Taken(stream)
    for text in ("Let", " me", " see"):
        stream.push_part(reasoning(text))
    assert reader.deliveries == [[reasoning("Let")]]
    clock.turn_slots(_WINDOW)
    assert reader.deliveries[1:] == [[reasoning(" me see")]]
    assert stream.log.next_index == 2


def test_text_behind_reasoning_is_delivered_with_it_in_order() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = Taken(stream)
    stream.push("a")
    stream.push_part(reasoning("x"))
    stream.push_part(reasoning("y"))
    stream.push("b")
    stream.push("c")
    clock.turn_slots(_WINDOW)
    assert reader.deliveries == [["a"], [reasoning("xy"), "bc"]]


def test_a_full_batch_of_parts_is_one_entry() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock, Limits(batch_tokens=3))
    stream.push("a")
    for text in "123456":
        stream.push_part(reasoning(text))
    assert stream.log.entries == ["a", reasoning("123"), reasoning("456")]


def test_a_long_part_is_cut() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    stream.push_part(reasoning("x" * 10_000))
    assert [len(entry.text) for entry in stream.log.entries if isinstance(entry, Part)] == [
        4_096,
        4_096,
        1_808,
    ]


def test_parts_count_against_the_size_of_a_response() -> None:
    stream = new_stream(HandTurnedClock(), Limits(response_bytes=1_024))
    for _ in range(1_024 // Part(PartKind.CALL_END).size):
        stream.push_part(Part(PartKind.CALL_END))
    with pytest.raises(ResponseFull):
        stream.push_part(Part(PartKind.CALL_END))


def test_a_part_that_is_not_allowed_is_refused() -> None:
    stream = new_stream(HandTurnedClock())
    with pytest.raises(NotAPart):
        stream.push_part(Part(PartKind.CALL))
    assert not stream.log.entries


def test_no_part_comes_after_the_end() -> None:
    stream = new_stream(HandTurnedClock())
    stream.complete("stop", None)
    with pytest.raises(LogClosed):
        stream.push_part(reasoning("x"))


def test_a_restart_drops_the_parts_that_wait() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    stream.push("a")
    stream.push_part(reasoning("x"))
    stream.next_attempt()
    stream.restart()
    stream.push("b")
    stream.complete("stop", None)
    assert stream.log.text == "b"
    assert stream.log.parts == 0


@given(CONTENTS, st.data())
def test_a_reader_is_given_every_content_once_and_in_order(
    contents: list[Content], data: st.DataObject
) -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    reader = Taken(stream)
    for content in contents:
        push(stream, content)
        clock.turn_slots(data.draw(st.integers(0, _WINDOW)))
    stream.complete("stop", None)
    assert reader.all == list(joined(contents))
    assert list(joined(stream.log.read(0).current)) == list(joined(contents))
    assert b"".join(stream.answer).decode() == stream.log.text
