from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.protocol.long_poll import answer_at, linger_seconds


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
        linger_until = now + linger_seconds(from_index, max(0.0, now))
        next_delta_at = 0.0 if from_index == 0 else from_index * gap
        has_news_at = next_delta_at if next_delta_at <= answer_seconds else float("inf")
        timeout_at = now + timeout
        if now < has_news_at:
            due = answer_at(
                linger_until=linger_until, timeout_at=timeout_at, has_news=False, ended=False
            )
            due = max(has_news_at, min(linger_until, timeout_at)) if has_news_at <= due else due
        else:
            due = answer_at(
                linger_until=linger_until, timeout_at=timeout_at, has_news=True, ended=False
            )
        answers_at = max(now, min(due, answer_seconds))
        answered.append(answers_at)
        if answers_at >= answer_seconds:
            return answered
        from_index = int(answers_at / gap + 1e-9) + 1
        now = answers_at + network


def test_the_first_poll_does_not_linger() -> None:
    assert linger_seconds(0, 0.0) == 0.0
    assert linger_seconds(0, 99.0) == 0.0


def test_polls_linger_one_two_four_eight_seconds() -> None:
    assert [linger_seconds(1, since) for since in (0.0, 1.0, 3.0, 7.0)] == [1.0, 2.0, 4.0, 8.0]


def test_a_clock_that_ran_back_does_not_shorten_the_linger() -> None:
    assert linger_seconds(5, -3.0) == 1.0


def test_the_polls_of_a_long_answer_come_at_0_1_3_7_15_seconds() -> None:
    assert polls_of(20.0) == pytest.approx([0.0, 1.0, 3.0, 7.0, 15.0, 20.0])


@given(st.floats(0, 7), st.floats(0.02, 0.4))
def test_an_answer_of_up_to_seven_seconds_costs_fewer_than_five_polls(
    seconds: float, gap: float
) -> None:
    assert len(polls_of(seconds, gap=gap)) < 5


@given(st.floats(0, 7), st.floats(0, 1))
def test_a_slow_network_never_costs_a_poll_more(seconds: float, network: float) -> None:
    assert len(polls_of(seconds, network=network)) <= len(polls_of(seconds))


@given(st.floats(0, 60))
def test_the_number_of_polls_grows_with_the_logarithm_of_the_answer(seconds: float) -> None:
    assert len(polls_of(seconds, timeout=30.0)) <= 7


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
