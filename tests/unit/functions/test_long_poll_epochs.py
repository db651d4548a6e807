"""A response that changes its owner: who may hold what is no longer part of it begins again,
everyone else goes on exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.log.entries import LogEntry, Restart
from evenflow.stream_core.log.response_log import ResponseLog, ResponseState, resume_point
from evenflow.stream_core.protocols.evenflow.long_poll import Polled
from tests.unit.functions.response_buffer import LOOK, USAGE, Buffer

# Two take-overs, at 3 and at 6, and a restart by the last owner.
ENTRIES: list[LogEntry] = [
    "a",
    "b",
    "c",
    Restart(2, 2, 2),
    "d",
    "e",
    Restart(5, 3, 3),
    "f",
    Restart(-1, 4),
    "g",
    "h",
]


def taken_over_twice() -> Buffer:
    """What ENTRIES say, on record."""
    buffer = Buffer()
    buffer.write(*"abc")
    buffer.take_over()
    buffer.go_on("d", "e")
    buffer.take_over()
    buffer.go_on("f", Restart(-1, 4), "g", "h", attempt=3)
    return buffer


def taken_over_at_two() -> Buffer:
    """Another task owns it from index 2 on. Its marker isn't on record yet."""
    buffer = Buffer()
    buffer.write("a", "b")
    buffer.take_over()
    return buffer


# -- the rule --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ended", [False, True])
@pytest.mark.parametrize("epoch", [1, 2, 3])
@pytest.mark.parametrize("from_index", range(len(ENTRIES) + 1))
def test_it_answers_as_a_handler_does_that_has_the_log(
    from_index: int, epoch: int, ended: bool
) -> None:
    buffer, log = taken_over_twice(), ResponseLog()
    log.extend(ENTRIES)
    if ended:
        buffer.end()
    point = resume_point(log, from_index - 1, epoch)
    assert point is not None
    part = log.read(point.next_index)
    expected = Polled(
        response_id="r",
        message_id="m1",
        status=ResponseState.COMPLETED if ended else ResponseState.STREAMING,
        part=replace(part, restarted=point.restarted) if point.restarted else part,
        epoch=3,
        finish_reason="stop" if ended else None,
        usage=USAGE if ended else None,
        full_text="gh" if ended else None,
    )
    assert buffer.poll(from_index, timeout=0, epoch=epoch).polled.to_body() == expected.to_body()


def test_the_rule_in_words() -> None:
    buffer = taken_over_twice()

    def restarted(from_index: int, epoch: int) -> object:
        return buffer.poll(from_index, timeout=0, epoch=epoch).polled.to_body()["metadata"][
            "restarted"
        ]

    everything = {"from_index": -1, "attempt": 4}
    # Who has index 3 may have it from the first owner. Who has only what comes before it, or has
    # heard of the later one, goes on.
    assert [restarted(from_index, 1) for from_index in (0, 4, 11)] == [None, everything, everything]
    assert [restarted(from_index, 2) for from_index in (6, 7, 11)] == [everything] * 3
    assert [restarted(from_index, 3) for from_index in (7, 9, 11)] == [everything, None, None]


def test_who_goes_on_before_a_later_owners_beginning_is_told_of_the_text_alone() -> None:
    buffer = Buffer()
    buffer.write(*"abc")
    buffer.take_over()
    buffer.go_on("d", "e")
    body = buffer.poll(3, timeout=0).polled.to_body()
    assert (body["new_text"], body["chunk_index"]) == ("de", 5)
    assert (body["metadata"]["restarted"], body["metadata"]["epoch"]) == (None, 2)


def test_a_new_owner_that_begins_again_replaces_everything_for_everyone() -> None:
    buffer = Buffer()
    buffer.write(*"abc")
    buffer.take_over()
    buffer.go_on("x", "y", continues=False)
    for from_index, epoch in ((3, 1), (6, 1)):
        body = buffer.poll(from_index, timeout=0, epoch=epoch).polled.to_body()
        assert (body["new_text"], body["metadata"]["next_index"]) == ("xy", 6)
        assert (body["metadata"]["restarted"], body["metadata"]["epoch"]) == (
            {"from_index": -1, "attempt": 2},
            2,
        )


def test_the_epoch_is_that_of_the_text_that_the_reader_has_now() -> None:
    buffer = taken_over_at_two()
    assert (
        buffer.poll(0, timeout=0).polled.epoch == 1
    )  # the later owner's beginning hasn't been told
    assert buffer.poll(2, timeout=0).polled.epoch == 1
    # It was told of the later owner, and then cut off early in the text.
    assert buffer.poll(1, timeout=0, epoch=2).polled.epoch == 2
    buffer.go_on("c")
    assert buffer.poll(0, timeout=0).polled.epoch == 2


def test_an_owner_that_has_written_nothing_makes_no_difference() -> None:
    buffer = Buffer()
    buffer.write("a", "b")
    buffer.take_over()
    buffer.take_over()
    buffer.go_on("c", attempt=2)
    exact = buffer.poll(2, timeout=0, epoch=1).polled
    assert (exact.part.text, exact.part.restarted, exact.epoch) == ("c", None, 3)
    again = buffer.poll(3, timeout=0, epoch=2).polled
    assert (again.part.text, again.part.restarted, again.epoch) == ("abc", Restart(-1, 2, 3), 3)


def test_a_first_owner_of_which_nothing_is_on_record() -> None:
    """It had delivered five entries when it was lost."""
    buffer = Buffer()
    buffer.take_over()
    waiting = buffer.poll(5, timeout=1.0).polled
    assert (waiting.part.text, waiting.part.last_index, waiting.part.restarted) == ("", 4, None)
    buffer.go_on("x", "y")
    again = buffer.poll(5, timeout=0).polled
    assert (again.part.text, again.part.last_index, again.part.restarted) == (
        "xy",
        2,
        Restart(-1, 2, 2),
    )


# -- before the later owner's beginning is on record -----------------------------------------------


def test_until_there_is_something_to_begin_with_a_reader_keeps_what_it_has() -> None:
    buffer = taken_over_at_two()
    body = buffer.poll(4, timeout=2.0).polled.to_body()
    assert buffer.slept == pytest.approx(2.0)
    assert (body["new_text"], body["chunk_index"], body["status"]) == ("", 3, "streaming")
    assert (body["metadata"]["restarted"], body["metadata"]["epoch"]) == (None, 1)
    buffer.go_on("c")
    body = buffer.poll(4, timeout=0, epoch=1).polled.to_body()
    assert (body["new_text"], body["chunk_index"]) == ("abc", 3)
    assert (body["metadata"]["restarted"], body["metadata"]["epoch"]) == (
        {"from_index": -1, "attempt": 2},
        2,
    )


def test_while_a_task_has_claimed_it_and_not_begun_nobody_is_told_anything() -> None:
    buffer = Buffer()
    buffer.write("a", "b", "c")
    buffer.claim()
    for from_index in (0, 1, 3, 5):
        polled = buffer.poll(from_index, timeout=0.5).polled
        assert (polled.part.text, polled.part.last_index, polled.part.restarted) == (
            "",
            from_index - 1,
            None,
        )
        assert polled.epoch == 1
    buffer.at(buffer.passed + 0.2, buffer.begin)
    assert buffer.poll(0).polled.part.text == "abc"


def test_a_claim_upon_a_response_that_the_reader_knows_to_be_taken_over() -> None:
    buffer = taken_over_at_two()
    buffer.go_on("c")
    buffer.claim()
    keeps = buffer.poll(4, timeout=0.5).polled
    assert (keeps.part.text, keeps.part.last_index, keeps.part.restarted, keeps.epoch) == (
        "",
        3,
        None,
        1,
    )
    buffer.begin()
    buffer.go_on("d", attempt=3)
    again = buffer.poll(4, timeout=0).polled
    assert (again.part.text, again.part.restarted, again.epoch) == ("abcd", Restart(-1, 3, 3), 3)


# -- between a look and the answer -----------------------------------------------------------------


class Once:
    """Does all of it the first time."""

    def __init__(self, *actions: Callable[[], None]) -> None:
        self._actions = list(actions)

    def __call__(self) -> None:
        while self._actions:
            self._actions.pop(0)()


def test_a_take_over_before_the_answer_to_one_who_has_news() -> None:
    buffer = Buffer()
    buffer.write("a", "b", "c")
    buffer.readers.before_the_answer = Once(buffer.take_over)
    polled = buffer.poll(1, timeout=0).polled
    assert (polled.part.text, polled.part.last_index, polled.epoch) == ("bc", 2, 1)
    assert buffer.slept == 0


def test_a_take_over_before_the_answer_to_one_who_is_ahead_of_the_record() -> None:
    buffer = Buffer()
    buffer.write("a", "b")
    buffer.readers.before_the_answer = Once(buffer.take_over, lambda: buffer.go_on("c"))
    keeps = buffer.poll(4, timeout=0).polled
    assert (keeps.part.text, keeps.part.last_index, keeps.part.restarted, keeps.epoch) == (
        "",
        3,
        None,
        1,
    )
    again = buffer.poll(4, timeout=0).polled
    assert (again.part.text, again.part.restarted, again.epoch) == ("abc", Restart(-1, 2, 2), 2)


def test_a_claim_before_the_answer_puts_it_off() -> None:
    """Nothing counts until the new owner has begun: an answer without text would be one poll too
    many.
    """
    buffer = Buffer()
    buffer.write("a", "b")
    buffer.readers.before_the_answer = Once(buffer.claim)
    buffer.at(1.0, buffer.begin)
    polled = buffer.poll().polled
    assert 1.0 <= buffer.passed <= 1.0 + LOOK
    assert (polled.part.text, polled.status) == ("ab", "streaming")


def test_an_end_before_the_answer_is_told_with_it() -> None:
    buffer = Buffer()
    buffer.write("a", "b")
    buffer.readers.before_the_answer = Once(buffer.end)
    polled = buffer.poll(1, timeout=0).polled
    assert (polled.part.text, polled.status, polled.full_text) == ("b", "completed", "ab")


@pytest.mark.parametrize("head_first", [False, True])
def test_a_take_over_within_a_look(head_first: bool) -> None:
    buffer = Buffer()
    buffer.readers.head_first = head_first
    old = buffer.lease
    buffer.write("a")

    def take_over() -> None:
        buffer.take_over()
        buffer.write("stale", lease=old, first_index=1)
        buffer.go_on("fresh")

    buffer.readers.within_a_look = Once(take_over)
    text, next_index, epoch = "", 0, 1
    for _ in range(2):
        polled = buffer.poll(next_index, timeout=0, epoch=epoch).polled
        text, next_index, epoch = text + polled.part.text, polled.part.last_index + 1, polled.epoch
        assert polled.part.restarted is None
    assert (text, next_index, epoch) == ("afresh", 3, 2)


def test_late_entries_of_a_lost_owner_that_were_seen_for_a_moment_hide_nothing() -> None:
    buffer = Buffer()
    buffer.readers.head_first = True
    old = buffer.lease
    buffer.write("a", "b")

    def take_over() -> None:
        buffer.take_over()
        buffer.write("stale", "stale", "stale", lease=old, first_index=2)
        buffer.go_on("c")

    buffer.at(1.0, lambda: setattr(buffer.readers, "within_a_look", Once(take_over)))
    polled = buffer.poll(2).polled
    assert (polled.part.text, polled.part.last_index, polled.part.restarted, polled.epoch) == (
        "c",
        3,
        None,
        2,
    )


# -- while a poll waits ----------------------------------------------------------------------------


def test_a_poll_that_waits_goes_on_exactly_with_the_new_owner() -> None:
    buffer = Buffer()
    buffer.write("a", "b")
    buffer.at(2.0, buffer.take_over)
    buffer.at(2.5, lambda: buffer.go_on("c"))
    result = buffer.poll(2)
    assert 2.5 <= buffer.passed <= 2.5 + LOOK
    assert (
        result.polled.part.text,
        result.polled.part.last_index,
        result.polled.part.restarted,
    ) == ("c", 3, None)
    assert result.polled.epoch == 2
    assert result.late_ms <= LOOK * 1000


def test_a_poll_that_waits_for_what_was_lost_begins_again() -> None:
    buffer = Buffer()
    buffer.write("a", "b")
    buffer.at(2.0, buffer.take_over)
    buffer.at(3.0, lambda: buffer.go_on("c"))
    result = buffer.poll(5)
    assert 3.0 <= buffer.passed <= 3.0 + LOOK
    assert (result.polled.part.text, result.polled.part.last_index) == ("abc", 3)
    assert (result.polled.part.restarted, result.polled.epoch) == (Restart(-1, 2, 2), 2)
    assert result.late_ms <= LOOK * 1000


def test_a_poll_that_waits_through_two_take_overs() -> None:
    buffer = Buffer()
    buffer.write("a", "b")
    buffer.at(2.0, buffer.take_over)
    buffer.at(4.0, buffer.take_over)
    buffer.at(5.0, lambda: buffer.go_on("c", attempt=2))
    result = buffer.poll(4)
    assert 5.0 <= buffer.passed <= 5.0 + LOOK
    assert (result.polled.part.text, result.polled.part.restarted, result.polled.epoch) == (
        "abc",
        Restart(-1, 2, 3),
        3,
    )


def test_who_is_ahead_of_the_record_goes_on_exactly_when_its_owner_writes() -> None:
    buffer = Buffer()
    buffer.write("a", "b")
    buffer.at(3.0, lambda: buffer.write("c"))
    buffer.at(6.0, lambda: buffer.write("d", "e"))
    result = buffer.poll(4)
    assert 6.0 <= buffer.passed <= 6.0 + LOOK
    assert (
        result.polled.part.text,
        result.polled.part.last_index,
        result.polled.part.restarted,
    ) == ("e", 4, None)
    assert result.late_ms <= LOOK * 1000


def test_who_begins_again_lingers_like_any_later_poll() -> None:
    """A client that never says its epoch begins again in each poll: were it answered at once, it
    would ask again at once.
    """
    buffer = taken_over_twice()
    buffer.now += 3
    result = buffer.poll(len(ENTRIES), epoch=1)
    assert result.polled.part.restarted is not None
    assert buffer.slept == pytest.approx(3, abs=LOOK)


# -- the end ---------------------------------------------------------------------------------------


def test_what_a_reader_has_of_a_lost_owner_may_lie_behind_the_end() -> None:
    buffer = taken_over_at_two()
    buffer.go_on("c")
    buffer.end()
    polled = buffer.poll(30, epoch=1).polled
    assert (polled.status, polled.part.text, polled.full_text, polled.epoch) == (
        "completed",
        "abc",
        "abc",
        2,
    )
    assert polled.part.restarted == Restart(-1, 2, 2)
    assert buffer.slept == 0
    with pytest.raises(InvalidRequest) as refusal:
        buffer.poll(5, epoch=2)
    assert (refusal.value.status, refusal.value.param) == (400, "from_index")
    assert buffer.poll(4, epoch=2).polled.part.text == ""


def test_a_response_that_is_given_up_ends_with_a_marker() -> None:
    """Its last owner writes nothing but that."""
    buffer = taken_over_at_two()
    buffer.go_on()
    buffer.end(ResponseState.ERROR)
    polled = buffer.poll(3, epoch=1).polled
    assert (polled.status, polled.part.text, polled.full_text) == ("error", "ab", "ab")
    assert polled.part.restarted == Restart(-1, 2, 2)


def test_the_end_comes_while_a_poll_waits_for_what_was_lost() -> None:
    buffer = taken_over_at_two()
    buffer.at(1.0, lambda: buffer.go_on("c"))
    buffer.at(1.0, buffer.end)
    result = buffer.poll(9)
    assert 1.0 <= buffer.passed <= 1.0 + LOOK
    assert (result.polled.status, result.polled.part.text, result.polled.full_text) == (
        "completed",
        "abc",
        "abc",
    )


# -- what it costs ---------------------------------------------------------------------------------


def test_a_poll_that_begins_again_reads_once() -> None:
    buffer = taken_over_twice()
    buffer.poll(len(ENTRIES), timeout=0)
    assert (buffer.readers.looks, buffer.readers.heads) == ([0], 1)


def test_an_ended_response_is_read_once_and_its_head_is_not_asked_for_again() -> None:
    buffer = taken_over_twice()
    buffer.end()
    assert buffer.poll(len(ENTRIES) + 5, epoch=1).polled.full_text == "gh"
    assert (buffer.readers.looks, buffer.readers.heads) == ([0], 0)
    assert buffer.poll(len(ENTRIES), epoch=3).polled.full_text == "gh"
    # The second time for the whole text.
    assert (buffer.readers.looks[1:], buffer.readers.heads) == ([len(ENTRIES), 0], 0)


def test_while_it_waits_the_head_alone_is_not_asked_for() -> None:
    buffer = taken_over_at_two()
    buffer.poll(5, timeout=2.0)
    assert len(buffer.readers.looks) > 20
    assert buffer.readers.heads == 1
