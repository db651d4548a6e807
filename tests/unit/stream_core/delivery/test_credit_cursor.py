from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.delivery.credit_cursor import CreditCursor, FlowControl
from evenflow.stream_core.log.entries import Restart
from evenflow.stream_core.log.response_log import ResponseLog, ResponseState

MOST_CREDIT = 20


def log_of(*texts: str) -> ResponseLog:
    log = ResponseLog()
    for text in texts:
        log.append(text)
    return log


def paced(
    log: ResponseLog, credit: int | None, next_index: int = 0, most: int = 1000
) -> CreditCursor:
    return CreditCursor(log, next_index, most, credit=credit, most_credit=MOST_CREDIT)


def test_without_credit_it_is_a_plain_cursor() -> None:
    cursor = paced(log_of("a", "b", "c"), None)
    assert (cursor.credit, cursor.starved) == (None, False)
    assert cursor.next_entry() == "abc"
    assert (cursor.credit, cursor.starved, cursor.at_end) == (None, False, False)


def test_a_credit_of_one_is_one_entry() -> None:
    cursor = paced(log_of("a", "b", "c"), 1)
    assert cursor.next_entry() == "a"
    assert (cursor.first, cursor.last, cursor.credit, cursor.starved) == (0, 0, 0, True)
    assert cursor.next_entry() is None
    cursor.grant(1)
    assert cursor.next_entry() == "b"
    assert cursor.next_entry() is None


def test_joined_entries_each_cost_one() -> None:
    cursor = paced(log_of("a", "b", "c", "d"), 3)
    assert cursor.next_entry() == "abc"
    assert (cursor.first, cursor.last, cursor.credit) == (0, 2, 0)


@pytest.mark.parametrize("credit", [None, 4])
def test_it_reads_up_to_an_index_with_credit_or_without(credit: int | None) -> None:
    cursor = paced(log_of("a", "b", "c", "d"), credit)
    assert cursor.next_entry(2) == "ab"
    assert cursor.next_entry(2) is None
    assert cursor.next_entry() == "cd"


def test_a_restart_marker_is_an_entry() -> None:
    log = log_of("a")
    log.restart(-1, attempt=2)
    log.append("b")
    cursor = paced(log, 2)
    assert cursor.next_entry() == "a"
    assert cursor.next_entry() == Restart(-1, 2)
    assert cursor.next_entry() is None
    cursor.grant(1)
    assert cursor.next_entry() == "b"


def test_no_credit_at_all_holds_everything_and_the_end_is_reached_only_with_the_last_entry() -> (
    None
):
    log = log_of("a")
    log.close(ResponseState.COMPLETED)
    cursor = paced(log, 0)
    assert cursor.next_entry() is None
    assert (cursor.starved, cursor.at_end) == (True, False)
    cursor.grant(1)
    assert cursor.next_entry() == "a"
    assert (cursor.starved, cursor.at_end) == (True, True)


def test_the_first_grant_counts_from_where_the_cursor_is() -> None:
    log = log_of("a", "b")
    cursor = paced(log, None)
    cursor.next_entry()
    for text in ("c", "d", "e"):
        log.append(text)
    cursor.grant(2)
    assert cursor.next_entry() == "cd"
    assert cursor.starved


def test_lifted_it_takes_everything() -> None:
    cursor = paced(log_of("a", "b", "c"), 1)
    cursor.next_entry()
    cursor.lift()
    assert (cursor.credit, cursor.starved) == (None, False)
    assert cursor.next_entry() == "bc"


@pytest.mark.parametrize("first", [None, 0, 5, MOST_CREDIT])
@pytest.mark.parametrize("more", [MOST_CREDIT + 1, 10**40])
def test_more_than_may_be_is_refused_and_changes_nothing(first: int | None, more: int) -> None:
    cursor = paced(log_of("a", "b"), first)
    with pytest.raises(InvalidRequest) as refused:
        cursor.grant(more)
    assert (refused.value.code, refused.value.param) == ("invalid_field", "n")
    assert cursor.credit == first


def test_what_was_taken_may_be_granted_again() -> None:
    cursor = paced(log_of("a", "b", "c"), MOST_CREDIT)
    with pytest.raises(InvalidRequest):
        cursor.grant(1)
    cursor.next_entry()
    cursor.grant(3)
    assert cursor.credit == MOST_CREDIT
    with pytest.raises(InvalidRequest):
        cursor.grant(1)


def test_nor_may_a_cursor_begin_with_more() -> None:
    with pytest.raises(InvalidRequest):
        paced(ResponseLog(), MOST_CREDIT + 1)


@given(st.lists(st.text(max_size=5)), st.integers(0, 10), st.integers(0, MOST_CREDIT))
def test_how_far_the_log_is_ahead_counts_from_where_the_cursor_is(
    texts: list[str], start: int, credit: int
) -> None:
    log = log_of(*texts)
    start = min(start, log.next_index)
    cursor = paced(log, credit, start)
    assert cursor.unread_bytes == len("".join(texts[start:]).encode())


def test_what_was_asked_for_is_a_value() -> None:
    assert FlowControl() == FlowControl(paused=False, credit=None)
    assert FlowControl(credit=3) != FlowControl()


class Pacing(RuleBasedStateMachine):
    """A model writes, a reader grants and takes, in any order: never more than granted, nothing
    twice, nothing left out.
    """

    @initialize(credit=st.one_of(st.none(), st.integers(0, MOST_CREDIT)), most=st.integers(0, 12))
    def begin(self, credit: int | None, most: int) -> None:
        self.log = ResponseLog()
        self.cursor = paced(self.log, credit, most=most)
        self.granted = credit  # from the log's beginning on
        self.taken: list[str | Restart] = []
        self.following = 0

    @rule(text=st.text(max_size=4))
    @precondition(lambda self: not self.log.closed)
    def write(self, text: str) -> None:
        self.log.append(text)

    @rule()
    @precondition(lambda self: not self.log.closed)
    def restart(self) -> None:
        self.log.restart(-1, attempt=2)

    @rule()
    @precondition(lambda self: not self.log.closed)
    def end(self) -> None:
        self.log.close(ResponseState.COMPLETED)

    @rule(n=st.integers(1, 2 * MOST_CREDIT))
    def grant(self, n: int) -> None:
        granted = self.following if self.granted is None else self.granted
        if granted + n - self.following > MOST_CREDIT:
            with pytest.raises(InvalidRequest):
                self.cursor.grant(n)
        else:
            self.cursor.grant(n)
            self.granted = granted + n

    @rule()
    def lift(self) -> None:
        self.cursor.lift()
        self.granted = None

    @rule()
    def take(self) -> None:
        taken = self.cursor.next_entry()
        reach = (
            self.log.next_index if self.granted is None else min(self.granted, self.log.next_index)
        )
        if taken is None:
            assert self.following >= reach, "there was something to take"
            return
        first, last = self.cursor.first, self.cursor.last
        assert first == self.following
        assert last < reach, "more than was granted"
        expected = self.log.entries[first : last + 1]
        if isinstance(taken, Restart):
            assert [taken] == expected
        else:
            assert taken == "".join(entry for entry in expected if isinstance(entry, str))
            assert not [entry for entry in expected if isinstance(entry, Restart)]
        self.following = last + 1

    @invariant()
    def says_where_it_is(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.cursor.next_index == self.following
        assert self.cursor.credit == (
            None if self.granted is None else self.granted - self.following
        )
        assert self.cursor.starved == (self.granted is not None and self.granted == self.following)
        if self.granted is not None:
            unread = self.log.entries[self.following :]
            assert self.cursor.unread_bytes == sum(
                len(text.encode()) for text in unread if isinstance(text, str)
            )


TestPacing = Pacing.TestCase


def test_what_was_taken_back_before_it_was_read_is_not_unread() -> None:
    log = log_of("a", "b" * 50)
    cursor = paced(log, 5)
    assert cursor.next_entry() == "a" + "b" * 50
    log.append("c" * 50)
    log.restart(-1, attempt=1, withdraws=True)
    log.append("de")
    while not cursor.at_end_of_log:
        cursor.next_entry()
    assert cursor.unread_bytes == 0
