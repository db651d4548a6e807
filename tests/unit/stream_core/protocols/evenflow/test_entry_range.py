"""Ranges of entries: the same bytes whenever they are asked for, or nothing."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.errors import InvalidRequest, NotFound
from evenflow.stream_core.delivery.delta_encoder import SharedEncoder
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import Content, LogEntry, Part, Restart, joined, joins
from evenflow.stream_core.log.response_log import REPLACES_ALL, Cursor, ResponseState, resume_point
from evenflow.stream_core.protocols.evenflow.entry_encoders import V1Encoder
from evenflow.stream_core.protocols.evenflow.entry_range import MOST_ENTRIES, entry_range
from evenflow.stream_core.protocols.evenflow.part_objects import PartObject
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.recording_reader import AssembledText
from tests.unit.stream_core.delivery.test_response_stream import new_stream
from tests.unit.stream_core.log.contents import CONTENT

_Step = Content | tuple[int, bool]
_STEPS: st.SearchStrategy[list[_Step]] = st.lists(
    st.one_of(st.text(max_size=3), CONTENT, st.tuples(st.integers(-1, 30), st.booleans())),
    max_size=30,
)


def written(steps: Sequence[_Step]) -> ResponseStream:
    """A response of these deltas and restarts, some of them by a new owner."""
    stream = new_stream(HandTurnedClock(), start=False)
    write(stream, steps)
    return stream


def write(stream: ResponseStream, steps: Sequence[_Step]) -> None:
    log = stream.log
    epoch, entries = log.epoch_at(log.next_index), list[LogEntry]()
    for step in steps:
        if isinstance(step, str | Part):
            entries.append(step)
        else:
            epoch += step[1]
            at = place_of_restart([*log.entries, *entries], step[0])
            entries.append(Restart(at, 2, epoch if step[1] else 0))
    stream.follow(entries)


def place_of_restart(entries: Sequence[LogEntry], at: int) -> int:
    """A restart keeps whole steps of a model, so it cuts no entries that join."""
    at = min(at, len(entries) - 1)
    while 0 <= at < len(entries) - 1 and are_joined(entries[at], entries[at + 1]):
        at -= 1
    return at


def are_joined(one: LogEntry, other: LogEntry) -> bool:
    return not (isinstance(one, Restart) or isinstance(other, Restart)) and joins(one, other)


def take(held: AssembledText, body: bytes) -> None:
    for frame in orjson.loads(body)["frames"]:
        if frame["type"] == "chat.response.delta":
            held.take(frame["delta"], frame.get("from", frame["index"]), frame["index"])
        elif frame["type"] == "chat.response.event":
            held.take(
                PartObject.model_validate(frame).to_part(),
                frame.get("from", frame["index"]),
                frame["index"],
            )
        else:
            marker = Restart(frame["from_index"], frame["attempt"])
            held.take(marker, frame["index"], frame["index"])


@given(_STEPS, _STEPS, st.integers(1, 7), st.integers(1, 40))
def test_who_joins_late_reads_ranges_and_then_live_each_entry_once(
    steps: list[_Step],
    later: list[_Step],
    size: int,
    most: int,
) -> None:
    stream = written(steps)
    held, ranges = AssembledText(), {}
    while True:
        first = held.next_index
        try:
            ranges[first] = entry_range(stream, 1, first, first + size - 1, most)
        except NotFound:
            break
        take(held, ranges[first])
    write(stream, later)
    stream.copy_ending(ResponseState.COMPLETED)
    for first, answer in ranges.items():
        assert entry_range(stream, 1, first, first + size - 1, most) == answer, "it never changes"
    point = resume_point(stream.log, held.next_index - 1, 1)
    assert point is not None
    assert point.next_index == held.next_index
    assert point.restarted is None
    cursor = Cursor(stream.log, point.next_index, most)
    held.drain(cursor)
    assert held.indexes == [*range(stream.log.next_index)]
    assert held.text == stream.log.text
    assert held.contents == [*joined(stream.log.read(0).current)]


def test_what_a_lost_owner_wrote_is_not_what_the_next_one_wrote() -> None:
    """Its entries 2 and 3 were not on record. Who has them begins again."""
    lost, next_one = written(["a", "b", "x", "y"]), written(["a", "b", (1, True), "c"])
    assert b"abxy" in entry_range(lost, 1, 0, 3, 100)
    assert entry_range(lost, 1, 0, 1, 100) == entry_range(next_one, 1, 0, 1, 100)
    for stream, epoch in ((next_one, 1), (lost, 2)):
        with pytest.raises(NotFound):
            entry_range(stream, epoch, 0, 3, 100)
    point = resume_point(next_one.log, 3, 1)
    assert point is not None
    assert point.restarted is not None
    assert point.restarted.from_index == REPLACES_ALL


@pytest.mark.parametrize(("first", "last"), [(2, 1), (0, MOST_ENTRIES)])
def test_a_range_has_a_beginning_and_a_bounded_length(first: int, last: int) -> None:
    with pytest.raises(InvalidRequest):
        entry_range(written(["a"] * 2_000), 1, first, last, 100)


def test_a_range_of_what_was_taken_back_has_its_indexes_and_nothing_of_its_text() -> None:
    stream = written(["secret", "more"])
    assert b"secretmore" in entry_range(stream, 1, 0, 1, 100)
    shared = SharedEncoder(V1Encoder("ses_1", "rsp_1"))
    assert b"secret" in shared.delta("secret", 0, 0)
    stream.follow([Restart(-1, 1, withdraws=True), "new"])
    frames = orjson.loads(entry_range(stream, 1, 0, 3, 100))["frames"]
    assert [frame.get("delta") for frame in frames] == ["", None, "new"]
    assert (frames[0]["from"], frames[0]["index"], frames[1]["withdrawn"]) == (0, 1, True)
    assert b"secret" not in shared.delta("", 0, 0), "it was encoded once, for all"
