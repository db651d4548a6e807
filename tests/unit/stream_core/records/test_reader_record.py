from __future__ import annotations

from collections.abc import Callable

import pytest

from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.records.reader_record import LeaveReason, ReaderFigures
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.delivery.test_response_stream import new_stream


def _nothing(_stream: ResponseStream, _figures: ReaderFigures) -> None:
    pass


def _end(stream: ResponseStream, _figures: ReaderFigures) -> None:
    stream.complete("stop", None)


def _fall_behind(stream: ResponseStream, figures: ReaderFigures) -> None:
    figures.too_slow = True
    stream.complete("stop", None)


@pytest.mark.parametrize(
    ("happens", "why", "told"),
    [
        (_nothing, None, LeaveReason.GONE),
        (_end, None, LeaveReason.ENDED),
        (_fall_behind, None, LeaveReason.TOO_SLOW),
        (_end, LeaveReason.MOVED, LeaveReason.MOVED),
    ],
)
def test_a_reader_says_why_it_left(
    happens: Callable[[ResponseStream, ReaderFigures], None],
    why: LeaveReason | None,
    told: LeaveReason,
) -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    stream.push("Even")
    figures = ReaderFigures(stream, "evenflow", "sse", 0, clock.now)
    happens(stream, figures)
    assert figures.left_record(stream, 1, clock.now, why).left == told


@pytest.mark.parametrize(
    ("happens", "next_index", "told"),
    [
        (_nothing, 1, LeaveReason.ANSWERED),
        (_end, 0, LeaveReason.ANSWERED),
        (_end, 1, LeaveReason.ENDED),
    ],
)
def test_a_call_that_was_answered_did_not_leave(
    happens: Callable[[ResponseStream, ReaderFigures], None], next_index: int, told: LeaveReason
) -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    stream.push("Even")
    figures = ReaderFigures(stream, "evenflow", "poll", 0, clock.now)
    happens(stream, figures)
    assert figures.answered_record(stream, next_index, clock.now).left == told


def test_what_it_was_given_counts_from_where_it_began() -> None:
    clock = HandTurnedClock()
    stream = new_stream(clock)
    for _ in range(5):
        stream.push("Even")
        clock.turn(0.1)
    figures = ReaderFigures(stream, "evenflow", "sse", 2, clock.now)
    clock.turn(1.5)
    line = figures.left_record(stream, 4, clock.now)
    assert (line.first_index, line.entries_delivered, line.entries_missed) == (2, 2, 1)
    assert (line.duration_ms, line.via, line.left) == (1500.0, "owner", "gone")
    assert stream.figures.delivered == 4
    assert figures.left_record(stream, 3, clock.now).entries_delivered == 1
    assert stream.figures.delivered == 4, "the furthest one counts"
