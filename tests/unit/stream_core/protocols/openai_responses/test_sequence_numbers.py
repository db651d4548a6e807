"""The numbers of events are places."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.protocols.openai_responses.encoder import (
    MOST_CLOSING_ENTRIES,
    Rank,
    ResumeIndex,
    closing_number,
    final_number,
    number,
    resume_index_of,
)

_INDEXES, _EPOCHS = st.integers(-1, 1_000_000), st.integers(1, 15)
_PLACES = st.tuples(_EPOCHS, _INDEXES, st.integers(0, 7))


@given(_PLACES, _PLACES)
def test_they_are_ordered_by_epoch_index_and_rank(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    numbers = [number(index, epoch, rank) for epoch, index, rank in (one, other)]
    assert (numbers[0] < numbers[1]) is (one < other)
    assert max(numbers) < 2**31


@given(_INDEXES, _EPOCHS)
def test_who_has_an_entry_s_last_event_has_the_entry(index: int, epoch: int) -> None:
    assert resume_index_of(number(index, epoch, Rank.DELTA)) == ResumeIndex(
        index, epoch, has_begun_next=False
    )


@given(_INDEXES, _EPOCHS, st.integers(0, Rank.PART_ADDED))
def test_who_has_an_earlier_event_of_an_entry_has_begun_it(
    index: int, epoch: int, rank: int
) -> None:
    known = resume_index_of(number(index, epoch, rank))
    assert known == ResumeIndex(max(-1, index - 1), epoch, has_begun_next=index >= 0)


@given(_INDEXES, st.integers(0, 3 * 129 - 1))
def test_what_comes_behind_the_last_entry_is_larger(index: int, order: int) -> None:
    last = number(index, 1, Rank.DELTA)
    assert last < closing_number(index, 1, order) < final_number(index, 1)
    assert resume_index_of(final_number(index, 1)).last_index <= index + 1 + MOST_CLOSING_ENTRIES


@pytest.mark.parametrize("nothing", [-1, 0, 1])
def test_who_has_only_the_beginning_has_no_entry(nothing: int) -> None:
    assert resume_index_of(nothing) == ResumeIndex(-1, 1, has_begun_next=False)
