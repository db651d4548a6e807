from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fargate_handler.gateway.openai.appended_text import AppendedText
from fargate_handler.gateway.resumption import Resumption
from fargate_handler.orchestrator.whole_request import single_channel
from stream_core.errors import UpstreamFailed
from stream_core.limits import Limits
from stream_core.response_log import ResponseLog, Restart, slice_of
from stream_core.response_state import ResponseState
from stream_core.response_stream import ResponseStream
from stream_core.resume_point import ResumePoint
from tests.unit.hand_turned_clock import HandTurnedClock

PIECES = st.lists(st.text("ab", min_size=1, max_size=3), max_size=6)


def log_of(*attempts: list[str]) -> ResponseLog:
    """Each attempt replaces the one before."""
    log = ResponseLog()
    for number, pieces in enumerate(attempts, 1):
        if number > 1:
            log.restart(-1, number)
        for piece in pieces:
            log.append(piece)
    return log


def read(text: AppendedText) -> str:
    pieces = []
    while (piece := text.take()) is not None:
        assert piece
        pieces.append(piece)
    return "".join(pieces)


def test_without_a_restart_it_is_the_log() -> None:
    log = log_of(["One", " two"])
    text = AppendedText(log, 0, 100)
    assert read(text) == "One two"
    log.append(" three")
    assert read(text) == " three"
    log.close(ResponseState.COMPLETED)
    text.check_whole()


def test_what_is_said_again_is_not_given_again() -> None:
    log = log_of(["One", " two"])
    text = AppendedText(log, 0, 100)
    assert read(text) == "One two"
    log.restart(-1, 2)
    log.append("One t")
    assert read(text) == ""
    log.append("wo three")
    assert read(text) == " three"


def test_a_restart_that_keeps_the_text_is_nothing() -> None:
    log = log_of(["One"])
    text = AppendedText(log, 0, 100)
    assert read(text) == "One"
    log.restart(0, 2, 2)
    log.append(" two")
    assert read(text) == " two"


@pytest.mark.parametrize("again", [["Two"], ["One", " and"]])
def test_what_is_said_in_another_way_is_an_error(again: list[str]) -> None:
    text = AppendedText(log_of(["One two"], again), 0, 100)
    assert text.take() == "One two"
    with pytest.raises(UpstreamFailed) as told:
        text.take()
    assert told.value.code == "response_restarted"


def test_an_answer_that_became_shorter_is_an_error_at_the_end() -> None:
    text = AppendedText(log_of(["One two"], ["One"]), 0, 100)
    assert read(text) == "One two"
    with pytest.raises(UpstreamFailed):
        text.check_whole()


def copy_of(log: ResponseLog) -> ResponseStream:
    clock = HandTurnedClock()
    stream = ResponseStream(
        response_id="rsp_1",
        message_id="m1",
        channel=single_channel("acme", "1"),
        clock=clock.delivery,
        limits=Limits(),
        monotonic=clock.monotonic,
    )
    stream.log.extend(log.entries)
    return stream


def test_in_another_copy_it_goes_on_behind_what_was_read() -> None:
    text = AppendedText(log_of(["One", " two"]), 0, 100)
    assert read(text) == "One two"
    there = text.going_on(Resumption(copy_of(log_of(["One", " two", " three"])), ResumePoint(2)))
    assert read(there) == " three"


@pytest.mark.parametrize(("on_record", "rest"), [(["O", "ne", " two three"], " three"), (["One", " too"], None)])
def test_what_a_lost_task_gave_and_did_not_get_on_record_is_compared(on_record: list[str], rest: str | None) -> None:
    text = AppendedText(log_of(["One", " two"]), 0, 100)
    assert read(text) == "One two"
    found = Resumption(copy_of(log_of(on_record)), ResumePoint(0, Restart(-1, 2, 2)))
    there = text.going_on(found)
    if rest is None:
        with pytest.raises(UpstreamFailed):
            read(there)
    else:
        assert read(there) == rest


@given(st.lists(PIECES, min_size=1, max_size=4), st.data())
def test_a_client_has_the_text_that_stands_or_is_told_that_it_has_not(
    attempts: list[list[str]], data: st.DataObject
) -> None:
    whole = log_of(*attempts)
    growing = ResponseLog()
    text = AppendedText(growing, 0, data.draw(st.integers(1, 10)))
    has, at_end = "", False
    try:
        while growing.next_index < whole.next_index:
            to = data.draw(st.integers(growing.next_index + 1, whole.next_index))
            growing.extend(whole.entries[growing.next_index : to])
            while (piece := text.take()) is not None:
                has += piece
        at_end = True
        text.check_whole()
        assert has == whole.text
    except UpstreamFailed:
        stands = slice_of(growing.entries[: text.cursor.next_index], 0).text
        assert has != whole.text if at_end else not has.startswith(stands)
