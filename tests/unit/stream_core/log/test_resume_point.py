"""Where a reader that comes back goes on.

That it works out whatever happens: test_response_model.
"""

from __future__ import annotations

import pytest

from evenflow.stream_core.log.entries import Restart
from evenflow.stream_core.log.response_log import (
    NOTHING_YET,
    REPLACES_ALL,
    ResponseLog,
    ResponseState,
    ResumePoint,
    resume_point,
)

FIRST = ResumePoint(0)


def log_of(*epochs_at: tuple[int, int], length: int = 10) -> ResponseLog:
    """A log with the markers of these epochs at these indexes."""
    markers = {index: epoch for epoch, index in epochs_at}
    log = ResponseLog()
    for index in range(length):
        if index in markers:
            log.restart(index - 1, attempt=markers[index], epoch=markers[index])
        else:
            log.append(f"{index} ")
    return log


@pytest.mark.parametrize("epoch", [None, 1])
@pytest.mark.parametrize("after", [-1, 0, 5, 9])
def test_one_owner_each_index_once(epoch: int | None, after: int) -> None:
    assert resume_point(log_of(), after, epoch) == ResumePoint(after + 1)


def test_a_reader_that_is_ahead_of_the_log_has_to_wait() -> None:
    assert resume_point(log_of(), 10, 1) is None
    assert resume_point(ResponseLog(), 0, None) is None
    assert resume_point(ResponseLog(), NOTHING_YET, None) == FIRST


def test_behind_the_end_of_a_closed_log_nothing_comes() -> None:
    log = log_of()
    log.close(ResponseState.COMPLETED)
    assert resume_point(log, 9, 1) == ResumePoint(10)
    assert resume_point(log, 10, 1) is None


@pytest.mark.parametrize("after", range(-1, 10))
def test_who_holds_what_an_earlier_owner_wrote_behind_its_successors_beginning_begins_again(
    after: int,
) -> None:
    point = resume_point(log_of((2, 6)), after, epoch=1)
    if after < 6:
        assert point == ResumePoint(after + 1)
    else:
        assert point == ResumePoint(0, Restart(REPLACES_ALL, 2, 2))


@pytest.mark.parametrize("after", range(-1, 10))
def test_who_knows_the_owner_goes_on_exactly(after: int) -> None:
    assert resume_point(log_of((2, 6)), after, epoch=2) == ResumePoint(after + 1)


@pytest.mark.parametrize("after", range(-1, 10))
def test_who_does_not_say_what_it_knows_is_taken_to_know_the_first_owner(after: int) -> None:
    log = log_of((2, 3), (3, 6))
    assert resume_point(log, after, None) == resume_point(log, after, 1)


@pytest.mark.parametrize(
    ("after", "epoch", "again"),
    [(5, 2, False), (6, 2, True), (9, 2, True), (2, 1, False), (3, 1, True)],
)
def test_of_several_later_owners_the_first_counts(after: int, epoch: int, again: bool) -> None:
    point = resume_point(log_of((2, 3), (3, 6)), after, epoch)
    anew = ResumePoint(0, Restart(REPLACES_ALL, 3, 3))
    assert point == (anew if again else ResumePoint(after + 1))


def test_an_owner_that_left_nothing_on_record_has_no_marker() -> None:
    log = log_of((3, 4))
    assert resume_point(log, 3, 2) == ResumePoint(4)
    assert resume_point(log, 4, 2) == ResumePoint(0, Restart(REPLACES_ALL, 3, 3))


def test_who_is_far_ahead_of_a_later_owner_begins_again_at_once() -> None:
    assert resume_point(log_of((2, 6)), 50, 1) == ResumePoint(0, Restart(REPLACES_ALL, 2, 2))


@pytest.mark.parametrize("after", [-1, 2, 7, 9])
@pytest.mark.parametrize("closed", [False, True])
def test_a_copy_that_is_older_than_what_the_reader_knows_tells_nothing(
    after: int, closed: bool
) -> None:
    """It may be that of an owner that was lost and hasn't noticed."""
    log = log_of((2, 3))
    if closed:
        log.close(ResponseState.COMPLETED)
    assert resume_point(log, after, 3) is None
    assert resume_point(log_of(), after, 2) is None


def test_beginning_again_says_the_newest_attempt() -> None:
    log = log_of((2, 3))
    log.restart(-1, attempt=9)
    assert resume_point(log, 5, 1) == ResumePoint(0, Restart(REPLACES_ALL, 9, 2))
