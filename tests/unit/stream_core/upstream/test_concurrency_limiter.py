"""One limiter decides whether one more call of an upstream may start."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.upstream.concurrency_limiter import ConcurrencyLimiter
from evenflow.stream_core.upstream.rejection_backoff import RejectedCall

FIRST_TOKEN_SECONDS = 0.5


def running(count: int) -> ConcurrencyLimiter:
    limiter = ConcurrencyLimiter(0.02)
    for number in range(count):
        limiter.acquire(str(number), "t", "sender", 0.0, None)
    return limiter


def end(limiter: ConcurrencyLimiter, count: int = 1) -> None:
    for _ in range(count):
        limiter.release("", "t", "sender")


def reject(limiter: ConcurrencyLimiter, now: float, retry_after: float | None = 1.0) -> None:
    limiter.record_rejection(now, now, retry_after)
    end(limiter)


def test_it_starts_with_eight_calls_and_the_first_that_are_answered_make_room_for_more() -> None:
    limiter = running(0)
    for number in range(8):
        assert limiter.may_start("t", 0.0)
        limiter.acquire(str(number), "t", "sender", 0.0, 100)
    assert not limiter.may_start("t", 0.0)
    limiter.record_first_token("0", 0.1)
    assert limiter.may_start("t", 0.1)


def test_an_upstream_that_is_silent_for_long_is_given_twice_as_many_each_second() -> None:
    limiter, started = running(0), list[int]()
    for second in range(5):
        while limiter.may_start("t", float(second)):
            limiter.acquire(f"{second}.{limiter.running}", "t", "sender", float(second), 100)
        started.append(limiter.running)
    assert started == [8, 16, 32, 64, 128]


def test_while_some_are_answered_silence_of_others_makes_no_room() -> None:
    limiter = running(1)
    for number in range(7):
        limiter.acquire(f"call {number}", "t", "sender", 0.0, 100)
    assert limiter.may_start("t", 10.0), "beside one that is answered there may be eight"
    limiter.acquire("last", "t", "sender", 10.0, 100)
    assert not limiter.may_start("t", 20.0)


def test_the_limit_is_what_runs_beside_the_rejected_calls() -> None:
    limiter = running(100)
    for _ in range(60):
        limiter.record_rejection(0.0, 0.0, 1.0)
        end(limiter)
    assert (limiter.limit.limit, limiter.running) == (40, 40)
    assert not limiter.may_start("t", 10.0)
    end(limiter)
    assert limiter.may_start("t", 10.0)


def test_what_resumes_needs_no_room_but_waits_for_a_pause() -> None:
    limiter = running(8)
    limiter.limit.limit = 8
    assert not limiter.may_start("t", 0.0)
    assert limiter.may_start("t", 0.0, has_started=True)
    limiter.backoff.pause(0.0, 2.0)
    assert not limiter.may_start("t", 1.9, has_started=True)


def test_a_limit_is_forgotten_five_minutes_after_the_last_rejection() -> None:
    limiter = running(4)
    reject(limiter, 0.0)
    for name, now in (("in time", 299.0), ("too late", 301.0)):
        limiter.acquire(name, "t", "sender", now, 100)
        limiter.record_first_token(name, now + 0.1)
        end(limiter)
        assert (limiter.limit.limit is None) is (name == "too late")


@given(takes=st.integers(1, 50), wanted=st.integers(1, 200), rounds=st.integers(30, 60))
def test_it_finds_what_the_server_takes_and_stays_within_one_of_it(
    takes: int, wanted: int, rounds: int
) -> None:
    """Rounds in which all start that may, the server rejects what is too much, and answers."""
    limiter, now, rejected, begun = running(0), 0.0, 0, 0
    for number in range(rounds):
        now += 10.0
        calls = deque[str]()
        while len(calls) < wanted and limiter.may_start("t", now):
            calls.append(f"{number}.{len(calls)}")
            limiter.acquire(calls[-1], "t", "sender", now, 100)
        begun, rejected = len(calls), max(0, len(calls) - takes)
        for _ in range(rejected):
            limiter.record_rejection(now, now, 1.0)
            limiter.release(calls.pop(), "t", "sender")
        for call in calls:
            limiter.record_first_token(call, now + 0.1)
        for call in calls:
            limiter.release(call, "t", "sender")
    assert limiter.running == 0
    assert rejected <= max(1, takes // 8)
    assert begun >= 0.8 * min(wanted, takes)


# -- questions and senders -------------------------------------------------------------------------


def reject_question(
    limiter: ConcurrencyLimiter, sender: str, call: str, now: float, after: float | None
) -> float:
    """Its call starts and is rejected. Returns for how long the question is paused."""
    limiter.acquire(call, "t", sender, now, 10)
    seconds = limiter.record_rejection(
        now, now, after, RejectedCall(sender, sender + call[0], call)
    )
    limiter.release(call, "t", sender)
    return seconds


def test_a_question_that_is_rejected_alone_lowers_no_limit() -> None:
    limiter = running(3)
    for number in range(5):
        seconds = reject_question(limiter, "a", f"0{number}", 10.0 * number, 5.0)
        assert seconds == pytest.approx(5.5)
        assert (limiter.limit.limit, limiter.may_start("t", 10.0 * number)) == (None, True)


def test_questions_of_two_senders_lower_it() -> None:
    limiter = running(3)
    for sender in ("a", "b"):
        reject_question(limiter, sender, "1", 1.0, 5.0)
    assert limiter.limit.limit == 3


def test_a_sender_that_is_alone_is_limited_to_what_runs_beside() -> None:
    limiter = ConcurrencyLimiter(0.02)
    for number in range(3):
        limiter.acquire(f"r{number}", "t", "a", 0.0, None)
    for number in range(2):
        reject_question(limiter, "a", str(number), 1.0, 5.0)
    assert limiter.limit.limit == 3


def test_a_server_that_names_no_time_while_others_run_is_at_its_limit() -> None:
    limiter = running(3)
    reject_question(limiter, "a", "1", 1.0, None)
    assert (limiter.limit.limit, limiter.backoff.paused_for(1.0)) == (3, 0.0)


def test_a_retry_of_the_same_question_lowers_no_limit() -> None:
    limiter = running(9)
    reject_question(limiter, "a", "1", 1.0, None)
    end(limiter, 8)
    reject_question(limiter, "a", "1 again", 20.0, None)
    assert limiter.limit.limit == 9


# -- after an outage -------------------------------------------------------------------------------


class Outage:
    """An upstream that answers `takes` calls at once, and for a time rejects every call.

    More requests wait than may start. Each answer takes some seconds.
    """

    def __init__(self, takes: int, answer_seconds: float = 5.0) -> None:
        self.limiter = ConcurrencyLimiter(0.02)
        self.takes, self.answer_seconds, self.now = takes, answer_seconds, 0.0
        self.closed = False
        self._calls = deque[tuple[float, str]]()  # by the time of the first token
        self._answers = deque[tuple[float, str]]()  # by their end
        self._started = 0

    def run(self, seconds: float) -> None:
        """In steps of 10 ms."""
        end_at = self.now + seconds
        while self.now < end_at:
            self.now += 0.01
            while self._answers and self._answers[0][0] <= self.now:
                self.limiter.release(self._answers.popleft()[1], "t", "sender")
            while self._calls and self._calls[0][0] <= self.now:
                call = self._calls.popleft()[1]
                self.limiter.record_first_token(call, self.now)
                self._answers.append((self.now + self.answer_seconds, call))
            while self.limiter.may_start("t", self.now):
                self._start()

    def _start(self) -> None:
        self._started += 1
        call = str(self._started)
        self.limiter.acquire(call, "t", "sender", self.now, 100)
        if self.closed or self.limiter.running > self.takes:
            self.limiter.record_rejection(self.now, self.now, None)
            self.limiter.release(call, "t", "sender")
        else:
            self._calls.append((self.now + FIRST_TOKEN_SECONDS, call))

    def seconds_until(self, calls: int) -> float:
        began_at = self.now
        while self.limiter.running < calls:
            self.run(0.1)
            assert self.now - began_at < 600
        return self.now - began_at


def test_after_half_a_minute_of_rejections_the_calls_double_up_to_the_last_good_limit() -> None:
    outage = Outage(takes=30)
    outage.run(60.0)
    assert outage.limiter.running >= 29
    outage.closed = True
    outage.run(30.0)
    assert (outage.limiter.running, outage.limiter.limit.limit) == (0, 1)
    outage.closed = False
    pause = outage.limiter.backoff.paused_for(outage.now)
    assert pause <= 8.8
    recovery = outage.seconds_until(27) - pause
    assert recovery <= 6 * FIRST_TOKEN_SECONDS, "five rounds: 1, 3, 7, 15, 29"


def test_a_rejection_while_the_calls_double_ends_it() -> None:
    outage = Outage(takes=30)
    outage.run(60.0)
    outage.closed = True
    outage.run(30.0)
    outage.closed, outage.takes = False, 10
    outage.run(20.0)
    assert outage.limiter.limit.limit is not None
    assert 9 <= outage.limiter.limit.limit <= 12
