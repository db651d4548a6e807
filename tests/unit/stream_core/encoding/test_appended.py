from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.encoding.appended import AppendedContents
from evenflow.stream_core.log.entries import Content, Part, PartKind, Restart, behind, joined
from evenflow.stream_core.log.response_log import ResponseLog, ResponseState, ResumePoint, slice_of


def log_of(*attempts: list[str]) -> ResponseLog:
    """Each attempt replaces the one before."""
    log = ResponseLog()
    for number, pieces in enumerate(attempts, 1):
        if number > 1:
            log.restart(-1, number)
        for piece in pieces:
            log.append(piece)
    return log


def read(text: AppendedContents) -> str:
    return "".join(str(piece) for piece in contents_of(text))


def contents_of(appended: AppendedContents) -> list[Content]:
    """What it gives now, joined."""
    pieces = []
    while (piece := appended.take()) is not None:
        assert piece
        pieces.append(piece)
    return list(joined(pieces))


def test_without_a_restart_it_is_the_log() -> None:
    log = log_of(["One", " two"])
    text = AppendedContents(log, 0, 100)
    assert read(text) == "One two"
    log.append(" three")
    assert read(text) == " three"
    log.close(ResponseState.COMPLETED)
    text.check_whole()


def test_what_is_said_again_is_not_given_again() -> None:
    log = log_of(["One", " two"])
    text = AppendedContents(log, 0, 100)
    assert read(text) == "One two"
    log.restart(-1, 2)
    log.append("One t")
    assert read(text) == ""
    log.append("wo three")
    assert read(text) == " three"


def test_a_restart_that_keeps_the_text_is_nothing() -> None:
    log = log_of(["One"])
    text = AppendedContents(log, 0, 100)
    assert read(text) == "One"
    log.restart(0, 2, 2)
    log.append(" two")
    assert read(text) == " two"


@pytest.mark.parametrize("again", [["Two"], ["One", " and"]])
def test_what_is_said_in_another_way_is_an_error(again: list[str]) -> None:
    log = log_of(["One two"])
    text = AppendedContents(log, 0, 100)
    assert text.take() == "One two"
    log.extend(log_of([], again).entries)
    with pytest.raises(UpstreamFailed) as told:
        text.take()
    assert told.value.code == "response_restarted"


def test_an_answer_that_became_shorter_is_an_error_at_the_end() -> None:
    log = log_of(["One two"])
    text = AppendedContents(log, 0, 100)
    assert read(text) == "One two"
    log.extend(log_of([], ["One"]).entries)
    assert read(text) == ""
    with pytest.raises(UpstreamFailed):
        text.check_whole()


@pytest.mark.parametrize("begin", [0, 1])
def test_what_was_replaced_before_it_was_read_is_not_given(begin: int) -> None:
    text = AppendedContents(log_of(["Hello", " wor", "ld one"], ["Hello there"]), begin, 100)
    assert read(text) == ("Hello there" if begin == 0 else " there")
    text.check_whole()


def test_a_slow_reader_is_compared_by_what_it_was_given() -> None:
    log = log_of(["Hello", " wor", "ld one"])
    text = AppendedContents(log, 0, 1)
    assert text.take() == "Hello"
    log.extend(log_of([], ["Hello there"]).entries)
    assert read(text) == " there"


def test_of_an_attempt_that_is_kept_in_part_only_that_is_given() -> None:
    log = log_of(["Hello", " world"])
    log.restart(0, 2, 2)
    log.append(" there")
    assert read(AppendedContents(log, 0, 100)) == "Hello there"


def test_in_another_copy_it_goes_on_behind_what_was_read() -> None:
    text = AppendedContents(log_of(["One", " two"]), 0, 100)
    assert read(text) == "One two"
    there = text.going_on(log_of(["One", " two", " three"]), ResumePoint(2))
    assert read(there) == " three"


@pytest.mark.parametrize(
    ("on_record", "rest"), [(["O", "ne", " two three"], " three"), (["One", " too"], None)]
)
def test_what_a_lost_task_gave_and_did_not_get_on_record_is_compared(
    on_record: list[str], rest: str | None
) -> None:
    text = AppendedContents(log_of(["One", " two"]), 0, 100)
    assert read(text) == "One two"
    there = text.going_on(log_of(on_record), ResumePoint(0, Restart(-1, 2, 2)))
    if rest is None:
        with pytest.raises(UpstreamFailed):
            read(there)
    else:
        assert read(there) == rest


_PIECES: st.SearchStrategy[Content] = st.one_of(
    st.text("ab", min_size=1, max_size=3),
    st.text("ab", min_size=1, max_size=2).map(lambda text: Part(PartKind.REASONING, text)),
    st.just(Part(PartKind.CALL, id="call_1", name="add")),
)


@st.composite
def logs(draw: st.DrawFn) -> ResponseLog:
    """Logs whose restarts keep anything from nothing to everything."""
    log = ResponseLog()
    for piece in draw(st.lists(st.none() | _PIECES, max_size=16)):
        if piece is None:
            log.restart(draw(st.integers(-1, log.next_index - 1)), 2)
        else:
            log.extend([piece])
    return log


def standing(log: ResponseLog, until: int | None = None) -> list[Content]:
    """What stands of the entries before index `until`, joined."""
    return list(joined(slice_of(log.entries[:until], 0).current))


def begins_with(contents: list[Content], has: list[Content]) -> bool:
    try:
        rest = behind(contents, has)
    except IndexError:
        return False
    return list(joined([*has, *rest])) == contents


@given(logs(), st.integers(1, 10), st.data())
def test_who_comes_back_is_given_the_rest_or_told_that_what_it_has_differs(
    log: ResponseLog, most: int, data: st.DataObject
) -> None:
    begin = data.draw(st.integers(0, log.next_index))
    has = standing(log, begin)
    appended = AppendedContents(log, begin, most)
    try:
        has_then = list(joined([*has, *contents_of(appended)]))
        appended.check_whole()
    except UpstreamFailed:
        assert not begins_with(standing(log), has)
    else:
        assert has_then == standing(log)


@given(logs(), st.integers(1, 10))
def test_asked_from_the_beginning_it_is_what_stands(log: ResponseLog, most: int) -> None:
    appended = AppendedContents(log, 0, most)
    assert contents_of(appended) == standing(log)
    appended.check_whole()


@given(logs(), st.data())
def test_a_client_has_what_stands_or_is_told_that_it_has_not(
    whole: ResponseLog, data: st.DataObject
) -> None:
    growing = ResponseLog()
    appended = AppendedContents(growing, 0, data.draw(st.integers(1, 10)))
    has, at_end = list[Content](), False
    try:
        while growing.next_index < whole.next_index:
            to = data.draw(st.integers(growing.next_index + 1, whole.next_index))
            growing.extend(whole.entries[growing.next_index : to])
            while (piece := appended.take()) is not None:
                has = list(joined([*has, piece]))
        at_end = True
        appended.check_whole()
        assert has == standing(whole)
    except UpstreamFailed:
        stands = standing(growing, appended.cursor.next_index)
        assert has != standing(whole) if at_end else not begins_with(has, stands)


def test_a_call_with_another_id_is_another_answer() -> None:
    log = ResponseLog()
    log.extend(["One", Part(PartKind.CALL, id="call_1", name="add")])
    appended = AppendedContents(log, 0, 100)
    contents_of(appended)
    log.extend([Restart(-1, 2), "One", Part(PartKind.CALL, id="call_2", name="add")])
    with pytest.raises(UpstreamFailed):
        contents_of(appended)


def test_the_same_call_again_is_not_given_again() -> None:
    log = ResponseLog()
    call = Part(PartKind.CALL, id="call_1", name="add")
    log.extend(["One", call, Part(PartKind.ARGUMENTS, "{")])
    appended = AppendedContents(log, 0, 100)
    contents_of(appended)
    log.extend([Restart(-1, 2), "O", "ne", call, Part(PartKind.ARGUMENTS, '{"a":1')])
    assert contents_of(appended) == [Part(PartKind.ARGUMENTS, '"a":1')]
