"""How many calls a model takes at once: nothing is known, then its throttling teaches."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.upstream.adaptive_ceiling import AdaptiveCeiling
from evenflow.stream_core.upstream.refused_questions import Question

LATEST = 1.101  # of what the server says


def running(count: int) -> AdaptiveCeiling:
    ceiling = AdaptiveCeiling()
    for _ in range(count):
        ceiling.begin()
    return ceiling


def throttle(
    ceiling: AdaptiveCeiling,
    now: float = 0.0,
    retry_after: float | None = 1.0,
    began_at: float | None = None,
    elsewhere: int = 0,
) -> None:
    ceiling.throttled(now, now if began_at is None else began_at, retry_after, elsewhere)
    ceiling.end()


def test_without_a_throttle_there_is_none() -> None:
    ceiling = running(1_000)
    assert (ceiling.limit, ceiling.has_room(0.0), ceiling.opens_in(0.0)) == (None, True, 0.0)


def test_it_is_what_runs_beside_the_refused_calls() -> None:
    ceiling = running(100)
    for _ in range(60):
        throttle(ceiling)
    assert (ceiling.limit, ceiling.running) == (40, 40)
    assert not ceiling.has_room(10.0)
    ceiling.end()
    assert ceiling.has_room(10.0)


def test_nothing_begins_before_the_server_said() -> None:
    ceiling = running(2)
    throttle(ceiling, now=5.0, retry_after=3.0)
    ceiling.end()
    assert not ceiling.has_room(7.99)
    assert 3.0 <= ceiling.opens_in(5.0) <= 3.0 * LATEST
    assert ceiling.has_room(5.0 + 3.0 * LATEST)


def pauses_of(
    ceiling: AdaptiveCeiling, refusals: int, elsewhere: int = 0, since: float = 0.0
) -> list[float]:
    """How long nothing begins after each of some refusals, 100 s apart."""
    pauses = []
    for number in range(refusals):
        ceiling.begin()
        now = since + 100.0 * number
        throttle(ceiling, now, retry_after=None, elsewhere=elsewhere)
        pauses.append(round(ceiling.opens_in(now) / 1.1, 6))
    return pauses


def test_where_the_server_says_nothing_the_pause_doubles_until_a_call_is_taken() -> None:
    ceiling = running(0)
    assert pauses_of(ceiling, 7) == [0.25, 0.5, 1, 2, 4, 8, 8]
    ceiling.taken(began_at=650.0)
    assert pauses_of(ceiling, 1, since=700.0) == [0.25]


def test_one_refusal_among_calls_that_run_stops_nobody() -> None:
    """A probe for more room: the end of another call makes room, and it comes without a pause."""
    ceiling = running(32)
    assert pauses_of(ceiling, 4) == [0, 0.25, 0.5, 1]
    ceiling.taken(began_at=350.0)
    assert pauses_of(ceiling, 1, since=400.0) == [0]


def test_a_call_that_began_before_the_last_refusal_says_nothing_of_now() -> None:
    ceiling = running(32)
    assert pauses_of(ceiling, 2) == [0, 0.25]
    ceiling.taken(began_at=99.0)
    ceiling.begin()
    throttle(ceiling, 300.0, retry_after=None)
    assert ceiling.opens_in(300.0) == pytest.approx(0.5 * 1.1)


def test_while_other_tasks_are_answered_the_pause_stays_short() -> None:
    assert pauses_of(running(0), 5, elsewhere=31) == [0.05] * 5


def test_calls_that_are_refused_together_lengthen_the_pause_once() -> None:
    ceiling = running(20)
    for _ in range(20):
        throttle(ceiling, 5.0, retry_after=None, began_at=4.0)
    assert ceiling.opens_in(5.0) == pytest.approx(0.25 * 1.1)


def test_at_least_one_call_may_run() -> None:
    ceiling = running(1)
    throttle(ceiling)
    assert (ceiling.limit, ceiling.has_room(10.0)) == (1, True)


def test_it_grows_by_one_when_as_many_calls_as_it_allows_were_answered() -> None:
    ceiling = running(4)
    throttle(ceiling)
    limits = list[int | None]()
    for _ in range(7):
        ceiling.answered()
        limits.append(ceiling.limit)
    assert limits == [3, 3, 4, 4, 4, 4, 5]


def test_after_ten_minutes_without_a_throttle_it_is_forgotten() -> None:
    ceiling = running(3)
    throttle(ceiling, now=0.0)
    assert not ceiling.has_room(599.0)
    assert ceiling.has_room(600.0)
    assert ceiling.limit is None


@given(
    takes=st.integers(1, 50),
    wanted=st.integers(1, 200),
    rounds=st.integers(5, 30),
)
def test_it_finds_what_the_server_takes_and_stays_within_one_of_it(
    takes: int, wanted: int, rounds: int
) -> None:
    """Rounds in which all begin that may, the server refuses what is too much, and answers."""
    ceiling, now, refused = AdaptiveCeiling(), 0.0, 0
    for _ in range(rounds):
        now += 10.0
        begun = 0
        while begun < wanted and ceiling.has_room(now):
            ceiling.begin()
            begun += 1
        refused = max(0, begun - takes)
        for _ in range(refused):
            throttle(ceiling, now)
        for _ in range(begun - refused):
            ceiling.answered()
            ceiling.end()
    assert ceiling.running == 0
    assert refused <= 1
    assert begun >= min(wanted, takes)


def test_a_pause_never_becomes_shorter() -> None:
    ceiling = AdaptiveCeiling()
    ceiling.pause(0.0, 10.0)
    ceiling.pause(0.0, 1.0)
    assert ceiling.opens_in(0.0) == pytest.approx(10.0)


def test_a_server_that_names_next_to_no_time_is_believed_three_times() -> None:
    ceiling, pauses = running(1), list[float]()
    for number in range(5):
        now = 100.0 * number
        throttle(ceiling, now, retry_after=0.1)
        pauses.append(ceiling.opens_in(now))
        ceiling.begin()
    assert pauses == pytest.approx([0.11, 0.11, 0.11, 2.2, 4.4])


def test_it_knows_since_when_its_server_has_refused_every_call() -> None:
    ceiling = running(3)
    assert ceiling.refuses_since == inf
    throttle(ceiling, now=5.0, began_at=4.0)
    throttle(ceiling, now=6.0, began_at=4.0)
    assert ceiling.refuses_since == 5.0
    ceiling.taken(began_at=4.0)
    assert ceiling.refuses_since == inf


# -- whose question was refused --------------------------------------------------------------------


def ask(sender: str, number: int) -> Question:
    return Question(sender, f"{sender}{number}", number)


def refuse(
    ceiling: AdaptiveCeiling, question: Question, now: float, retry_after: float | None
) -> float:
    """Its call begins and is refused. Returns for how long the question is held."""
    ceiling.begin(question.sender)
    throttled = ceiling.throttled(now, now, retry_after, question=question)
    ceiling.end(question.sender)
    return throttled.seconds


def test_a_question_that_is_refused_alone_stops_nobody_and_bounds_nothing() -> None:
    ceiling = running(3)
    for number in range(5):
        held_for = refuse(ceiling, ask("a", 0)._replace(call=number), 10.0 * number, 5.0)
        assert held_for == pytest.approx(5.5)
        assert (ceiling.limit, ceiling.opens_in(10.0 * number)) == (None, 0.0)
        assert ceiling.held_until("a") < 0


def test_two_questions_of_one_sender_hold_that_sender() -> None:
    ceiling = running(3)
    for number in range(2):
        refuse(ceiling, ask("a", number), 1.0, 5.0)
    assert ceiling.held_until("a") == pytest.approx(6.5)
    assert (ceiling.held_until("b"), ceiling.opens_in(1.0), ceiling.limit) == (-inf, 0.0, None)


def test_questions_of_two_senders_hold_everybody() -> None:
    ceiling = running(3)
    for sender in ("a", "b"):
        refuse(ceiling, ask(sender, 1), 1.0, 5.0)
    assert ceiling.opens_in(1.0) == pytest.approx(5.5)
    assert ceiling.limit == 3


def test_a_sender_that_is_alone_is_bounded_by_what_runs_beside() -> None:
    ceiling = AdaptiveCeiling()
    for _ in range(3):
        ceiling.begin("a")
    for number in range(2):
        refuse(ceiling, ask("a", number), 1.0, 5.0)
    assert ceiling.limit == 3


def test_a_server_that_names_no_time_while_others_run_has_room_for_no_more() -> None:
    ceiling = running(3)
    refuse(ceiling, ask("a", 1), 1.0, None)
    assert (ceiling.limit, ceiling.opens_in(1.0)) == (3, 0.0)


def test_the_same_question_again_lowers_no_bound() -> None:
    ceiling = running(9)
    refuse(ceiling, ask("a", 1), 1.0, None)
    for _ in range(8):
        ceiling.end()
    refuse(ceiling, ask("a", 1)._replace(call="again"), 20.0, None)
    assert ceiling.limit == 9
