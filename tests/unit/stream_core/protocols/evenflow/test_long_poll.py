from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.protocols.evenflow.long_poll import (
    PollPatience,
    answer_at,
    linger_seconds,
    polls_per_half_minute,
)

_LONGEST_LINGER_SECONDS = 3.0


def polls_of(
    answer_seconds: float, *, gap: float = 0.05, timeout: float = 10.0, network: float = 0.0
) -> list[float]:
    """When each poll answers, counted from the first delta, for a client that asks again `network`
    seconds later.

    The answer's deltas come every `gap` seconds, and it ends `answer_seconds` after the first.
    """
    answered: list[float] = []
    now, from_index = -0.5, 0
    while True:
        poll = PollPatience(from_index, now, timeout)
        while True:
            next_index = int(min(now, answer_seconds) / gap + 1e-9) + 1 if now >= 0 else 0
            has_news, ended = next_index > from_index, now >= answer_seconds
            due = look(poll, now, next_index, has_news=has_news, ended=ended)
            if now >= due:
                break
            next_delta_at = due if has_news else from_index * gap
            now = min(at for at in (due, next_delta_at, answer_seconds) if at > now)
        answered.append(now)
        if ended:
            return answered
        from_index = next_index
        now += network


def look(
    poll: PollPatience, now: float, next_index: int, *, has_news: bool, ended: bool = False
) -> float:
    """When a poll answers. The first delta came at 0."""
    return poll.look(
        now,
        next_index=next_index,
        has_news=has_news,
        ended=ended,
        first_delta_at=0.0 if next_index else None,
    )


def waits(from_index: int, next_index: int, age: float) -> float:
    """How long a poll waits that begins `age` seconds after the first of `next_index` entries."""
    due = look(PollPatience(from_index, age, 10.0), age, next_index, has_news=True)
    return max(0.0, due - age)


# -- who has caught up -----------------------------------------------------------------------------


def test_the_first_poll_does_not_linger() -> None:
    assert linger_seconds(0, 0.0) == 0.0
    assert linger_seconds(0, 99.0) == 0.0


def test_polls_linger_one_two_and_then_three_seconds() -> None:
    assert [linger_seconds(1, since) for since in (0.0, 1.0, 2.0, 3.0, 99.0)] == [1, 2, 3, 3, 3]


def test_a_clock_that_ran_back_does_not_shorten_the_linger() -> None:
    assert linger_seconds(5, -3.0) == 1.0


def test_the_polls_of_a_long_answer_come_at_0_1_3_seconds_and_then_every_3() -> None:
    assert polls_of(20.0) == pytest.approx([0, 1, 3, 6, 9, 12, 15, 18, 20])


@given(st.floats(0, 6), st.floats(0.02, 0.4))
def test_an_answer_of_up_to_six_seconds_costs_fewer_than_five_polls(
    seconds: float, gap: float
) -> None:
    assert len(polls_of(seconds, gap=gap)) < 5


@given(st.floats(0, 7), st.floats(0, 0.9))
def test_a_slow_network_never_costs_a_poll_more(seconds: float, network: float) -> None:
    assert len(polls_of(seconds, network=network)) <= len(polls_of(seconds))


@given(st.floats(0, 60))
def test_an_answer_costs_a_poll_every_three_seconds_and_three_more(seconds: float) -> None:
    assert len(polls_of(seconds)) <= 3 + seconds / _LONGEST_LINGER_SECONDS


def test_text_behind_a_pause_of_the_model_is_collected_like_any() -> None:
    """By the average it looks old. Answered at once, each delta would cost a poll of its own."""
    assert waits(from_index=10, next_index=12, age=30.0) == _LONGEST_LINGER_SECONDS


# -- who is behind ---------------------------------------------------------------------------------


def test_text_that_waits_for_its_reader_is_answered_at_once() -> None:
    assert waits(from_index=3, next_index=23, age=5.0) == 0.0


@given(st.floats(1.1, 60), st.floats(5, 60))
def test_after_an_outage_the_first_poll_answers_at_once_and_the_next_one_lingers(
    outage: float, age: float
) -> None:
    had, there = int(age * 20) + 1, int((age + outage) * 20) + 2
    assert waits(had, there, age + outage) == 0.0
    assert waits(there, there + 2, age + outage + 0.1) == pytest.approx(_LONGEST_LINGER_SECONDS)


@given(st.integers(0, 2000), st.integers(1, 2000), st.floats(0, 1e6))
def test_no_text_is_held_for_longer_than_three_seconds(
    from_index: int, missing: int, age: float
) -> None:
    assert waits(from_index, from_index + missing, age) <= _LONGEST_LINGER_SECONDS + 1e-6 * age


def test_text_that_comes_while_a_poll_lingers_does_not_cut_it_short() -> None:
    poll = PollPatience(100, 5.0, 10.0)
    assert look(poll, 5.0, 101, has_news=True) == 8.0
    assert look(poll, 7.0, 160, has_news=True) == 8.0


def test_a_poll_could_not_answer_before_the_news_that_woke_it() -> None:
    """A model that thinks for 15 s does not make the poll late."""
    poll = PollPatience(0, 0.0, 30.0)
    assert look(poll, 0.0, 0, has_news=False) == 30.0
    poll.had_nothing_until(15.0)
    look(poll, 15.0, 1, has_news=True)
    assert poll.could_at(has_news=True, ended_at=None) == 15.0


# -- the end, and the timeout ----------------------------------------------------------------------


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.booleans())
def test_when_the_response_has_ended_a_poll_answers_at_once(
    linger: float, timeout: float, news: bool
) -> None:
    assert answer_at(linger_until=linger, timeout_at=timeout, has_news=news, ended=True) == 0.0


@given(st.floats(0, 1e6), st.floats(0, 1e6))
def test_without_news_a_poll_answers_at_its_timeout_and_with_news_when_its_linger_is_over(
    linger: float, timeout: float
) -> None:
    assert (
        answer_at(linger_until=linger, timeout_at=timeout, has_news=False, ended=False) == timeout
    )
    assert answer_at(linger_until=linger, timeout_at=timeout, has_news=True, ended=False) == min(
        linger, timeout
    )


@pytest.mark.parametrize("seconds", [1.0, 30.0, 52.0, 120.0, 1_800.0])
def test_an_answer_of_any_length_takes_about_ten_polls_for_each_half_minute(
    seconds: float,
) -> None:
    """The alarm is at twenty."""
    assert polls_per_half_minute(len(polls_of(seconds, network=0.05)), seconds) < 13
    hurried = polls_of(seconds, timeout=0.4, network=0.05)
    assert polls_per_half_minute(len(hurried), seconds) > 20 or seconds < 30
