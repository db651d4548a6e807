from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.log.entries import Restart
from evenflow.stream_core.log.response_log import Cursor, LogClosed, ResponseLog, ResponseState
from tests.unit.recording_reader import AssembledText, standing_text

TERMINAL_STATES = [state for state in ResponseState if state.terminal]
RUNNING_STATES = [state for state in ResponseState if not state.terminal]

# A text is appended; a number is a restart, from anywhere in what is there by then.
Step = str | int
STEPS = st.lists(st.one_of(st.text(max_size=4), st.integers(0, 50)), max_size=40)
STEPS_RESTARTING_ALL = st.lists(st.one_of(st.text(max_size=4), st.just(0)), max_size=40)


def write(log: ResponseLog, step: Step) -> None:
    if isinstance(step, str):
        log.append(step)
    else:
        log.restart(step % (log.next_index + 1) - 1, attempt=2)


def written(steps: list[Step]) -> ResponseLog:
    log = ResponseLog()
    for step in steps:
        write(log, step)
    return log


@given(STEPS)
def test_the_text_that_stands_is_what_the_rule_for_restarts_leaves(steps: list[Step]) -> None:
    log = written(steps)
    assert log.text == standing_text(log).text


@given(STEPS)
def test_a_slice_from_any_index_completes_what_a_client_holds_up_to_there(
    steps: list[Step],
) -> None:
    log = written(steps)
    for from_index in range(log.next_index + 1):
        held = standing_text(log, from_index)
        part = log.read(from_index)
        assert part.last_index == log.next_index - 1
        if part.restarted is not None:
            held.take(part.restarted, from_index, from_index)
        assert held.text + part.text == log.text, from_index


def test_of_several_restarts_the_one_that_reaches_furthest_back_is_told() -> None:
    log = written(["a", "b", "c", "d", "e"])
    log.restart(-1, attempt=2)
    log.append("x")
    log.restart(3, attempt=3)
    log.append("y")
    part = log.read(5)
    assert part.text == "y"
    assert part.restarted is not None
    assert part.restarted.from_index == -1


def test_a_restart_of_only_what_the_slice_covers_needs_no_telling() -> None:
    log = written(["a", "b", "c"])
    log.restart(1, attempt=2)
    log.append("d")
    assert log.read(2).restarted is None
    assert log.read(2).text == "d"
    assert log.read(3).restarted == Restart(1, 2)


def test_whose_an_entry_is() -> None:
    log = written(["a", "b"])
    log.restart(1, attempt=2, epoch=2)
    log.append("c")
    log.restart(-1, attempt=3)  # by the same owner
    log.restart(2, attempt=4, epoch=4)
    assert [log.epoch_at(index) for index in range(-1, 8)] == [1, 1, 1, 2, 2, 2, 4, 4, 4]
    assert [log.first_index_after(epoch) for epoch in range(1, 6)] == [2, 5, 5, None, None]


def test_of_an_empty_log_the_first_owner_writes_the_next_entry() -> None:
    log = ResponseLog()
    assert (log.epoch_at(0), log.first_index_after(1)) == (1, None)
    log.restart(-1, attempt=2, epoch=2)
    assert (log.epoch_at(-1), log.epoch_at(0), log.first_index_after(1)) == (1, 2, 0)


OWNERS = st.lists(
    st.one_of(st.text(max_size=4), st.tuples(st.integers(-1, 9), st.integers(0, 3))), max_size=20
)


@given(OWNERS, st.integers(0, 20))
def test_a_copy_is_the_log_that_it_was_made_of(
    steps: list[str | tuple[int, int]], cut: int
) -> None:
    log, copy = ResponseLog(), ResponseLog()
    for attempt, step in enumerate(steps):
        if isinstance(step, str):
            log.append(step)
        else:
            log.restart(min(step[0], log.next_index - 1), attempt, step[1])
    copy.extend(log.entries[:cut])
    copy.extend(iter(log.entries[cut:]))
    assert (copy.entries, copy.text_bytes, copy.text) == (log.entries, log.text_bytes, log.text)
    for index in range(-1, len(steps) + 1):
        assert copy.epoch_at(index) == log.epoch_at(index)
        assert copy.first_index_after(index) == log.first_index_after(index)


def test_nothing_is_added_to_a_closed_copy() -> None:
    log = written(["a"])
    log.close(ResponseState.COMPLETED)
    log.extend([])
    for entry in ("b", Restart(-1, 2)):
        with pytest.raises(LogClosed):
            log.extend([entry])
    assert log.entries == ["a"]


def test_a_slice_behind_the_last_index_is_empty() -> None:
    log = written(["a", "b"])
    part = log.read(2)
    assert (part.text, part.last_index, part.restarted) == ("", 1, None)


@given(STEPS, st.data())
def test_every_cursor_is_given_every_index_once_and_in_order(
    steps: list[Step], data: st.DataObject
) -> None:
    log = ResponseLog()
    cursors: list[tuple[Cursor, AssembledText]] = []
    for step in steps:
        write(log, step)
        if data.draw(st.booleans(), label="another reader comes, at any index"):
            start = data.draw(st.integers(0, log.next_index))
            most = data.draw(st.sampled_from([1, 3, 10, 1000]))
            cursors.append((Cursor(log, start, most), AssembledText(indexes=list(range(start)))))
        for cursor, held in cursors:
            for _ in range(data.draw(st.integers(0, 2), label="takes")):
                taken = cursor.next_entry()
                if taken is not None:
                    held.take(taken, cursor.first, cursor.last)
    log.close(ResponseState.COMPLETED)
    for cursor, held in cursors:
        held.drain(cursor)
        assert held.indexes == list(range(log.next_index))
        assert cursor.at_end
        assert cursor.next_entry() is None


@given(STEPS, st.data())
def test_a_client_that_comes_back_at_any_index_ends_with_the_text_of_the_log(
    steps: list[Step], data: st.DataObject
) -> None:
    log = ResponseLog()
    held = AssembledText()
    for step in steps:
        write(log, step)
        cursor = Cursor(log, held.next_index, most=0)
        for _ in range(data.draw(st.integers(0, 3), label="takes before it leaves again")):
            taken = cursor.next_entry()
            if taken is not None:
                held.take(taken, cursor.first, cursor.last)
    held.drain(Cursor(log, held.next_index, most=0))
    assert held.indexes == list(range(log.next_index))
    assert held.text == log.text


@given(STEPS_RESTARTING_ALL, st.integers(0, 20), st.data())
def test_joined_deltas_are_the_text_of_the_log(
    steps: list[Step], most: int, data: st.DataObject
) -> None:
    log, held = ResponseLog(), AssembledText()
    cursor = Cursor(log, 0, most)
    for step in steps:
        if isinstance(step, int):
            log.restart(-1, attempt=2)
        else:
            log.append(step)
        if data.draw(st.booleans(), label="taken at once"):
            held.drain(cursor)
    held.drain(cursor)
    assert held.text == log.text


@given(STEPS, st.integers(0, 12))
def test_joining_stops_at_the_limit_and_at_a_restart_and_never_sooner(
    steps: list[Step], most: int
) -> None:
    log = written(steps)
    cursor = Cursor(log, 0, most)
    while (taken := cursor.next_entry()) is not None:
        covered = log.entries[cursor.first : cursor.last + 1]
        if isinstance(taken, Restart):
            assert covered == [taken]
            continue
        assert [entry for entry in covered if isinstance(entry, Restart)] == []
        assert taken == "".join(str(entry) for entry in covered)
        assert len(taken) <= most or len(covered) == 1
        if cursor.next_index < log.next_index:
            following = log.entries[cursor.next_index]
            fits = isinstance(following, str) and len(taken) + len(following) <= most
            assert not fits or len(taken) == most, "a full frame takes nothing more"


@given(STEPS)
def test_a_cursor_counts_what_it_is_behind(steps: list[Step]) -> None:
    log = written(steps)
    cursor = Cursor(log, 0, most=5)
    while True:
        assert cursor.behind == log.next_index - cursor.next_index
        assert not cursor.at_end, "the log is open"
        if cursor.next_entry() is None:
            break
    assert cursor.behind == 0
    log.close(ResponseState.ERROR)
    assert cursor.at_end


@given(st.lists(st.text(max_size=5)))
def test_the_size_of_a_log_is_its_text_in_utf8(texts: list[str]) -> None:
    log = written(list(texts))
    assert log.text_bytes == len("".join(texts).encode())


def test_what_a_restart_replaced_still_counts_into_the_size() -> None:
    log = written(["ä", "b"])
    log.restart(-1, attempt=2)
    log.append("c")
    assert log.text_bytes == 4


@pytest.mark.parametrize("state", TERMINAL_STATES)
@pytest.mark.parametrize("again", TERMINAL_STATES)
def test_a_log_closes_exactly_once_and_keeps_its_first_end(
    state: ResponseState, again: ResponseState
) -> None:
    log = written(["a"])
    log.close(state)
    with pytest.raises(LogClosed):
        log.close(again)
    assert log.closed
    assert log.state is state


@pytest.mark.parametrize("state", RUNNING_STATES)
def test_only_a_terminal_state_closes_a_log(state: ResponseState) -> None:
    log = ResponseLog()
    with pytest.raises(ValueError, match="does not end"):
        log.close(state)
    assert not log.closed


@pytest.mark.parametrize("step", ["late", 0])
def test_nothing_is_written_behind_the_end(step: Step) -> None:
    log = written(["a"])
    log.close(ResponseState.COMPLETED)
    with pytest.raises(LogClosed):
        write(log, step)
    assert log.entries == ["a"]
    assert log.text_bytes == 1


class Looked(list[str | Restart]):
    """A log's entries, and how many were looked at."""

    looks = 0

    def __getitem__(self, place: Any) -> Any:
        found = super().__getitem__(place)
        self.looks += len(found) if isinstance(place, slice) else 1
        return found


@pytest.mark.parametrize("most", [0, 7, 100, 100_000])
def test_a_reader_far_behind_looks_at_each_entry_a_few_times(most: int) -> None:
    log = ResponseLog()
    entries = Looked("tokens" for _ in range(5_000))
    log.entries = entries
    cursor = Cursor(log, 0, most)
    while cursor.next_entry() is not None:
        pass
    assert entries.looks <= 70 * 5_000 / max(1, most // 6) + 2 * 5_000


def test_what_is_taken_back_is_given_to_nobody_who_comes_later() -> None:
    log = written(["kept", "secret", "more"])
    early, late = Cursor(log, 0, most=100), Cursor(log, 1, most=100)
    assert early.next_entry() == "keptsecretmore"
    log.restart(0, attempt=1, withdraws=True)
    log.append("new")
    assert [late.next_entry(), late.next_entry(), late.next_entry()] == [
        "",
        Restart(0, 1, withdraws=True),
        "new",
    ]
    assert early.next_entry() == Restart(0, 1, withdraws=True)
    assert list(log.entries) == ["kept", "", "", Restart(0, 1, withdraws=True), "new"]
    assert (log.text, log.withdrawals) == ("keptnew", 1)


def test_a_copy_that_had_it_takes_it_back_too() -> None:
    copy = written(["a", "secret"])
    copy.extend([Restart(-1, 2, withdraws=True), "b"])
    assert list(copy.entries) == ["", "", Restart(-1, 2, withdraws=True), "b"]
    assert (copy.text, copy.withdrawals) == ("b", 1)


def test_markers_within_what_is_taken_back_stay() -> None:
    log = written(["a"])
    log.restart(-1, attempt=2)
    log.append("b")
    log.restart(-1, attempt=2, withdraws=True)
    assert list(log.entries) == ["", Restart(-1, 2), "", Restart(-1, 2, withdraws=True)]
