"""A folded log is the log that it was, for every reader, and small."""

from __future__ import annotations

import sys
from sys import getsizeof
from types import FrameType
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.log import folded_entries
from evenflow.stream_core.log.entries import Content, LogEntry, Part, PartKind
from evenflow.stream_core.log.folded_entries import FoldedEntries
from evenflow.stream_core.log.response_log import (
    Cursor,
    LogClosed,
    ResponseLog,
    ResponseState,
    resume_point,
)
from tests.unit.stream_core.log.contents import CONTENT

if TYPE_CHECKING:
    from _typeshed import TraceFunction

# Short deltas, deltas whose size doesn't fit into a byte, and restarts by new owners or the same.
_DELTAS = st.one_of(
    st.text(max_size=4), st.integers(84, 400).map("é☃x".__mul__), st.just("流" * 85)
)
_STEPS = st.lists(
    st.one_of(
        _DELTAS,
        st.tuples(st.integers(-1, 99), st.integers(0, 3)),
        CONTENT,
        st.just(Part(PartKind.REASONING, "x" * 300)),
    ),
    max_size=100,
)
Steps = list[Content | tuple[int, int]]


def written(steps: Steps) -> ResponseLog:
    log = ResponseLog()
    for attempt, step in enumerate(steps):
        if isinstance(step, str | Part):
            log.extend([step])
        else:
            log.restart(min(step[0], log.next_index - 1), attempt, step[1])
    log.close(ResponseState.COMPLETED)
    return log


def folded(log: ResponseLog) -> ResponseLog:
    log.fold(FoldedEntries(log.entries))
    return log


def given_by(cursor: Cursor) -> list[tuple[LogEntry, int, int]]:
    taken = []
    while (piece := cursor.next_entry()) is not None:
        taken.append((piece, cursor.first, cursor.last))
    assert cursor.at_end
    return taken


@given(_STEPS, st.integers(0, 100), st.integers(0, 100), st.integers(0, 2_000))
def test_whatever_is_read_of_it_is_as_it_was(
    steps: Steps, first: int, last: int, most: int
) -> None:
    as_it_was, log = written(steps), folded(written(steps))
    entries = list[LogEntry](as_it_was.entries)
    assert list(log.entries) == entries == log.entries
    assert [log.entries[index] for index in range(len(entries))] == entries
    assert log.entries[first:last] == entries[first:last]
    assert log.entries[last:first:-1] == entries[last:first:-1]
    assert log.text == as_it_was.text
    assert (log.text_bytes, log.restarts) == (as_it_was.text_bytes, as_it_was.restarts)
    start = min(first, len(entries))
    assert given_by(Cursor(log, start, most)) == given_by(Cursor(as_it_was, start, most))
    for after in range(-1, len(entries)):
        for epoch in (None, 1, 2, 3):
            assert resume_point(log, after, epoch) == resume_point(as_it_was, after, epoch)


@given(_STEPS, st.integers(0, 100), st.integers(0, 2_000))
def test_a_reader_in_the_middle_goes_on(steps: Steps, takes: int, most: int) -> None:
    log, as_it_was = written(steps), written(steps)
    reader, other = Cursor(log, 0, most), Cursor(as_it_was, 0, most)
    for _ in range(takes):
        assert reader.next_entry() == other.next_entry()
    folded(log)
    assert given_by(reader) == given_by(other)


def test_an_index_behind_the_end_is_none_and_one_before_it_counts_from_the_end() -> None:
    entries = folded(written(["a", "b"])).entries
    assert (entries[-1], entries[-2]) == ("b", "a")
    for index in (2, -3):
        with pytest.raises(IndexError):
            entries[index]


def test_nothing_is_added_to_it() -> None:
    log = folded(written(["a"]))
    with pytest.raises(LogClosed):
        log.append("b")
    with pytest.raises(LogClosed):
        log.restart(-1, 2)


@pytest.mark.parametrize("delta", ["流", "tokens", "x" * 254, "x" * 300, "x" * 4_096])
@pytest.mark.parametrize("count", [10, 200, 2_000])
def test_it_takes_at_most_twice_its_text_and_little_more(delta: str, count: int) -> None:
    entries = FoldedEntries([delta] * count)
    held = sum(map(getsizeof, (entries, entries._sizes, entries.text, *entries.text)))
    for index, size in (entries._others or {}).items():
        held += getsizeof(index) + getsizeof(size)
    held += getsizeof(entries._others) if entries._others else 0
    assert held <= 2 * count * len(delta.encode()) + 384


def test_one_entry_takes_as_many_steps_as_the_next_whatever_is_before_it() -> None:
    entries = FoldedEntries(["word "] * 64)

    def steps(index: int) -> int:
        lines = 0

        def count(frame: FrameType, event: str, _arg: object) -> TraceFunction:
            nonlocal lines
            lines += event == "line" and frame.f_code.co_filename == folded_entries.__file__
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            assert entries[index] == "word "
        finally:
            sys.settrace(before)
        return lines

    assert {steps(index) for index in range(64)} == {steps(0)}
