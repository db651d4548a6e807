from __future__ import annotations

import pytest

from evenflow.functions.poll_response.long_poll import LongPoll
from evenflow.stream_core.base.errors import Gone, InvalidRequest, NotFound, RateLimited
from evenflow.stream_core.log.entries import Restart
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.stores.response_store import Chunk, Ending
from tests.unit.functions.response_buffer import (
    CHANNEL,
    LOOK,
    MOST_WAITING,
    START,
    USAGE,
    Buffer,
    at_once,
)

# -- when it answers -------------------------------------------------------------------------------


def test_the_first_poll_answers_with_the_first_delta() -> None:
    buffer = Buffer()
    buffer.at(2.0, lambda: buffer.write("Hello"))
    buffer.at(2.05, lambda: buffer.write(" you"))
    result = buffer.poll()
    assert 2.0 <= buffer.passed <= 2.0 + LOOK
    assert result.polled.part.text in ("Hello", "Hello you")
    assert result.polled.status is ResponseState.STREAMING
    assert 0 <= result.late_ms <= LOOK * 1000
    assert result.polls is None
    assert result.polled.full_text is None


def test_what_is_there_is_answered_without_waiting() -> None:
    buffer = Buffer()
    buffer.write("Hello")
    buffer.now += 5
    assert buffer.poll().polled.part.text == "Hello"
    assert buffer.slept == 0


@pytest.mark.parametrize("since_first", [0.5, 1.0, 5.0])
def test_later_polls_wait_a_second_longer_than_the_response_has_run_and_three_at_most(
    since_first: float,
) -> None:
    buffer = Buffer()
    buffer.write("a", "b")
    for number in range(100):
        buffer.at(since_first + 0.1 * number, lambda: buffer.write("x"))
    buffer.now += since_first
    result = buffer.poll(from_index=2)
    assert buffer.slept == pytest.approx(min(1 + since_first, 3), abs=LOOK)
    assert result.late_ms <= LOOK * 1000
    assert result.polled.part.text == "x" * (result.polled.part.last_index - 1)


def test_a_poll_of_a_reader_that_is_behind_answers_at_once() -> None:
    """Its network was away: `from_index=3` while twenty words wait."""
    buffer = Buffer()
    buffer.write("a", "b", "c")
    buffer.write(*"x" * 20)
    buffer.now += 5
    assert buffer.poll(from_index=3).polled.part.text == "x" * 20
    assert buffer.slept == 0
    buffer.write("y")
    assert buffer.poll(from_index=23).polled.part.text == "y"
    assert buffer.slept == pytest.approx(3, abs=LOOK)


@pytest.mark.parametrize("from_index", [0, 1])
def test_the_end_is_answered_at_once(from_index: int) -> None:
    buffer = Buffer()
    if from_index:
        buffer.write("a")
    buffer.at(1.5, lambda: buffer.write("the end"))
    buffer.at(1.5, buffer.end)
    result = buffer.poll(from_index)
    assert 1.5 <= buffer.passed <= 1.5 + LOOK
    assert (result.polled.status, result.polled.part.text) == (ResponseState.COMPLETED, "the end")
    assert result.polled.full_text == ("a" if from_index else "") + "the end"
    assert (result.polled.finish_reason, result.polled.usage) == ("stop", USAGE)
    assert 0 <= result.late_ms <= LOOK * 1000


def test_without_news_it_waits_as_long_as_it_was_told() -> None:
    buffer = Buffer()
    result = buffer.poll(timeout=7.0)
    assert buffer.slept == pytest.approx(7.0)
    assert (result.polled.status, result.polled.part.text, result.polled.part.last_index) == (
        "queued",
        "",
        -1,
    )
    assert result.late_ms <= 1
    buffer.write("a")
    buffer.slept = 0
    result = buffer.poll(1, timeout=3.0)
    assert buffer.slept == pytest.approx(3.0)
    assert (result.polled.status, result.polled.part.text, result.polled.part.last_index) == (
        "streaming",
        "",
        0,
    )


def test_a_poll_without_patience_looks_once() -> None:
    buffer = Buffer()
    assert buffer.poll(timeout=0).polled.status is ResponseState.QUEUED
    assert (buffer.slept, buffer.readers.looks) == (0, [0])


def test_a_long_silence_does_not_pile_up_what_each_look_finds_again() -> None:
    """A function has a fraction of a core: 300 looks at the same chunk must not become 300
    chunks to walk through.
    """
    buffer = Buffer()
    buffer.write(*"abc")
    buffer.now += 24
    waiting = LongPoll(
        buffer.readers,
        response_id="r",
        channel=CHANNEL,
        from_index=3,
        epoch=1,
        patience=25.0,
        shared=False,
        most_waiting=MOST_WAITING,
        wall_time=lambda: buffer.now,
        sleep=buffer.sleep,
    )
    waiting.run()
    assert len(buffer.readers.looks) > 250
    assert len(waiting._chunks) == 1


def test_each_look_reads_on_from_what_the_last_one_found() -> None:
    buffer = Buffer()
    buffer.write("a")
    for number in range(8):
        buffer.at(0.1 * number, lambda: buffer.write("b"))
    assert buffer.poll(1).polled.part.text == "b" * 8
    assert buffer.readers.looks == sorted(buffer.readers.looks)
    assert buffer.readers.looks[-1] == 9


def test_news_after_a_pause_of_the_model_are_late_only_from_when_they_came() -> None:
    """`fallback.poll_latency_ms` has an alarm at 500 ms: a model that pauses must not set it
    off.
    """
    buffer = Buffer()
    buffer.write("a")
    buffer.at(6.0, lambda: buffer.write("b"))
    buffer.now += 0.5
    result = buffer.poll(from_index=1)
    assert result.polled.part.text == "b"
    assert 6.0 <= buffer.passed <= 6.0 + LOOK
    assert result.late_ms <= LOOK * 1000


def test_an_answer_is_never_early_though_the_owners_clock_is_ahead() -> None:
    buffer = Buffer()
    buffer.write("a")
    ending = Ending(ResponseState.COMPLETED, 1, buffer.now + 3)
    at_once(buffer.store.finish(buffer.lease, ending, buffer.now + 300))
    assert buffer.poll().late_ms == 0


def test_the_last_poll_knows_how_many_there_were() -> None:
    buffer = Buffer()
    buffer.write("a")
    buffer.poll()
    buffer.poll(1, timeout=0.1)
    buffer.end()
    assert buffer.poll(1).polls == 3


def test_of_a_long_answer_they_are_counted_for_each_half_minute() -> None:
    buffer = Buffer()
    buffer.write("a")
    for _ in range(5):
        buffer.poll()
    buffer.sleep(90.0)
    buffer.end()
    assert buffer.poll(1).polls == pytest.approx(6 / 3, rel=0.05)


# -- what it answers -------------------------------------------------------------------------------


def test_an_index_inside_a_chunk() -> None:
    buffer = Buffer()
    buffer.write("a", "b", "c")
    buffer.write("d")
    buffer.now += 2
    result = buffer.poll(from_index=2, timeout=0)
    assert (result.polled.part.text, result.polled.part.last_index) == ("cd", 3)


def test_a_reader_that_was_given_more_by_another_transport_than_the_buffer_has() -> None:
    buffer = Buffer()
    result = buffer.poll(from_index=3, timeout=1.0)
    assert (result.polled.status, result.polled.part.text, result.polled.part.last_index) == (
        "streaming",
        "",
        2,
    )
    buffer.write("a", "b")
    buffer.at(buffer.passed + 0.5, lambda: buffer.write("c", "d", "e"))
    result = buffer.poll(from_index=3)
    assert (result.polled.part.text, result.polled.part.last_index) == ("de", 4)


def test_overlapping_chunks_give_each_entry_once() -> None:
    buffer = Buffer()
    buffer.write("a", "b")
    buffer.write("b", "c", first_index=1)
    buffer.write("a", "b", "c", "d", first_index=0)
    assert buffer.poll().polled.part.text == "abcd"


def test_a_chunk_that_is_missing_is_a_delay_and_no_gap() -> None:
    buffer = Buffer()
    buffer.write("a")
    buffer.write("c", first_index=2)
    buffer.end(next_index=3)
    result = buffer.poll(timeout=0.5)
    assert (result.polled.status, result.polled.part.text) == ("streaming", "a")
    buffer.at(buffer.passed + 1.0, lambda: buffer.write("b", first_index=1))
    result = buffer.poll(1)
    assert (result.polled.status, result.polled.part.text, result.polled.full_text) == (
        "completed",
        "bc",
        "abc",
    )


def test_a_restart_replaces_what_the_reader_holds() -> None:
    buffer = Buffer()
    buffer.write("wro")
    buffer.write("ng", Restart(-1, 2), "right")
    whole = buffer.poll()
    assert (whole.polled.part.text, whole.polled.part.restarted) == ("right", None)
    later = buffer.poll(from_index=1, timeout=0)
    assert later.polled.part.text == "right"
    assert later.polled.to_body()["metadata"]["restarted"] == {"from_index": -1, "attempt": 2}
    buffer.end()
    last = buffer.poll(from_index=4)
    assert (last.polled.part.text, last.polled.part.restarted, last.polled.full_text) == (
        "",
        None,
        "right",
    )


def test_errors_and_degraded_answers_are_told() -> None:
    buffer = Buffer()
    buffer.write("ha")
    error = {"type": "upstream_error", "code": "x", "message": "y"}
    ending = Ending(ResponseState.ERROR, 1, buffer.now, error=error, degraded=True)
    at_once(buffer.store.finish(buffer.lease, ending, buffer.now + 300))
    body = buffer.poll().polled.to_body()
    assert (body["status"], body["full_text"]) == ("error", "ha")
    assert (body["metadata"]["error"], body["metadata"]["degraded"]) == (error, True)


def test_an_index_behind_the_end() -> None:
    buffer = Buffer()
    buffer.write("a")
    buffer.end()
    assert buffer.poll(1).polled.part.text == ""
    with pytest.raises(InvalidRequest) as refusal:
        buffer.poll(2)
    assert (refusal.value.status, refusal.value.param) == (400, "from_index")
    assert buffer.slept == 0


# -- a stale owner ---------------------------------------------------------------------------------


def test_what_a_stale_owner_writes_after_a_take_over_never_comes_out() -> None:
    buffer = Buffer()
    old = buffer.lease
    buffer.write("a")
    buffer.take_over()
    buffer.write("stale", lease=old)
    assert buffer.poll().polled.part.text == "a"
    buffer.next_index = 1
    buffer.write("fresh")
    buffer.end()
    assert buffer.poll().polled.full_text == "afresh"
    assert buffer.poll(1).polled.full_text == "afresh"


def test_what_was_read_before_a_take_over_that_did_not_see_it_never_comes_out() -> None:
    """The chunk is late: who takes over has looked already, and a reader finds it with the head
    of the time before.
    """
    buffer = Buffer()
    old = buffer.lease
    buffer.write("a")
    stale = [Chunk("r", old.epoch, 1, ("stale",), START)]
    found = buffer.readers.chunks_and_head("r", 0, buffer.now)
    buffer.take_over()
    buffer.readers.chunks_and_head = lambda *_: ([*found[0], *stale], found[1])  # type: ignore[method-assign]
    assert buffer.poll().polled.part.text == "a"


def test_a_take_over_right_before_the_answer() -> None:
    buffer = Buffer()
    buffer.write("a")
    took_over: list[bool] = []

    def take_over() -> None:
        if not took_over:
            took_over.append(True)
            # It saw no more than the first chunk; the second comes in between its look and its
            # word.
            buffer.take_over()
            at_once(buffer.store.append([Chunk("r", 1, 1, ("stale",), START)]))

    buffer.readers.before_the_answer = take_over
    assert buffer.poll().polled.part.text == "a"
    buffer.write("fresh")
    buffer.now += 5
    assert buffer.poll(1, timeout=0).polled.part.text == "fresh"


def test_a_poll_that_waits_through_a_take_over_gets_what_the_new_owner_writes() -> None:
    buffer = Buffer()
    old = buffer.lease
    buffer.write("a", "b")
    buffer.at(1.0, buffer.take_over)
    buffer.at(1.1, lambda: buffer.write("stale", "stale", "stale", lease=old, first_index=2))
    buffer.at(1.5, lambda: buffer.write("c", "d", first_index=2))
    result = buffer.poll(from_index=2)
    assert 1.5 <= buffer.passed <= 1.5 + LOOK
    assert (result.polled.status, result.polled.part.text) == ("streaming", "cd")


# -- who may not -----------------------------------------------------------------------------------


def test_another_sessions_response_and_one_that_is_none() -> None:
    buffer = Buffer()
    with pytest.raises(NotFound):
        buffer.poll(channel="t:demo:stranger")
    assert buffer.store._heads["r"].polls == 0
    del buffer.store._heads["r"]
    with pytest.raises(NotFound):
        buffer.poll()


def test_what_has_expired_before_or_meanwhile_is_gone() -> None:
    buffer = Buffer()
    buffer.write("a")
    buffer.end()
    buffer.now += 301
    with pytest.raises(Gone):
        buffer.poll()
    buffer = Buffer()
    buffer.now = START + 86_400 - 1
    with pytest.raises(Gone):
        buffer.poll()


# -- who waits for nothing -------------------------------------------------------------------------


def poll_at_once(buffer: Buffer, *, shared: bool = False) -> None:
    buffer.poll(timeout=0, shared=shared)


def test_an_index_far_behind_the_log_is_refused_before_it_waits() -> None:
    buffer = Buffer()
    buffer.write("a", "b")
    with pytest.raises(InvalidRequest, match="next index is 2"):
        buffer.poll(999_999_999, timeout=25.0)
    assert (buffer.slept, len(buffer.readers.looks)) == (0, 1)


def test_of_a_long_log_an_index_at_its_end_is_waited_for() -> None:
    buffer = Buffer()
    buffer.write(*["x"] * 20_000)
    assert buffer.poll(20_000, timeout=7.0).polled.part.text == ""
    assert buffer.slept == pytest.approx(7.0)
    buffer.slept = 0.0
    assert buffer.poll(30_000, timeout=7.0).polled.part.text == ""
    assert buffer.slept == pytest.approx(7.0)


def test_of_too_many_polls_the_oldest_gives_way() -> None:
    buffer = Buffer()
    for number in range(MOST_WAITING):
        buffer.at(1.0 + number, lambda: poll_at_once(buffer))
    with pytest.raises(RateLimited) as refused:
        buffer.poll(timeout=7.0)
    assert refused.value.code == "session_streams"
    assert buffer.passed == pytest.approx(MOST_WAITING, abs=LOOK)


def test_polls_with_share_tokens_make_none_of_the_session_s_give_way() -> None:
    buffer = Buffer()
    for number in range(2 * MOST_WAITING):
        buffer.at(0.5 + 0.1 * number, lambda: poll_at_once(buffer, shared=True))
    assert buffer.poll(timeout=7.0).polled.status is ResponseState.QUEUED
    assert buffer.slept == pytest.approx(7.0)
