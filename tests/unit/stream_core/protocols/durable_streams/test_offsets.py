"""Offsets and cursors of Durable Streams."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.encoding.port import EventId
from evenflow.stream_core.log.response_log import NOTHING_YET
from evenflow.stream_core.protocols.durable_streams.offsets import (
    live_cursor,
    offset_of,
    read_offset,
)

places = st.builds(EventId, st.integers(-1, 10**14), st.integers(1, 999_999_999), st.booleans())
_BEGAN = 1_728_432_000


@given(places)
def test_an_offset_is_read_as_it_was_written(has: EventId) -> None:
    assert read_offset(offset_of(has)) == has


@given(places, places)
def test_offsets_sort_as_a_reader_is_given_them(one: EventId, other: EventId) -> None:
    def order(has: EventId) -> tuple[int, int, bool]:
        return has.epoch or 1, has.last_index, has.end

    assert (offset_of(one) < offset_of(other)) is (order(one) < order(other))


def test_the_beginning_is_no_offset_of_its_own() -> None:
    assert read_offset("-1") == EventId(NOTHING_YET, None)
    assert offset_of(EventId(NOTHING_YET, None)) == "000000001_000000000000000"


@pytest.mark.parametrize("text", ["", "0", "now", "1_1", "000000001_00000000000000١", "a,b"])
def test_what_is_no_offset_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="offset must be") as refused:
        read_offset(text)
    assert refused.value.param == "offset"


@pytest.mark.parametrize(
    ("seconds", "given_cursor", "cursor"),
    [
        (0, None, "0"),
        (19.9, None, "0"),
        (20, None, "1"),
        (200, "3", "10"),
        (200, "10", "17"),
        (200, "4000", "4007"),
        (200, "none of ours", "10"),
    ],
)
def test_a_cursor_grows_with_time_and_with_each_read(
    seconds: float, given_cursor: str | None, cursor: str
) -> None:
    assert live_cursor(_BEGAN + seconds, given_cursor, ahead=7) == cursor
