from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.policy.circuit_breaker import Call, CircuitBreaker, CircuitOpen

FAILURES, OPEN_SECONDS = 3, 10.0


@pytest.fixture
def breaker() -> CircuitBreaker:
    return CircuitBreaker(FAILURES, OPEN_SECONDS)


def fail(breaker: CircuitBreaker, times: int = FAILURES, now: float = 0.0) -> None:
    for _ in range(times):
        breaker.call(now).failed(now)


def refused_for(breaker: CircuitBreaker, now: float) -> float:
    with pytest.raises(CircuitOpen) as refused:
        breaker.call(now)
    assert refused.value.seconds == breaker.refuses_for(now)
    return refused.value.seconds


def test_it_opens_after_so_many_failures_in_a_row(breaker: CircuitBreaker) -> None:
    fail(breaker, FAILURES - 1)
    assert (breaker.closed, breaker.refuses_for(0.0)) == (True, 0.0)
    fail(breaker, 1)
    assert not breaker.closed
    assert refused_for(breaker, 4.0) == 6.0


def test_an_answer_in_between_begins_the_row_again(breaker: CircuitBreaker) -> None:
    fail(breaker, FAILURES - 1)
    breaker.call(0.0).succeeded()
    fail(breaker, FAILURES - 1)
    assert breaker.closed


def test_when_its_time_is_over_one_call_tries_and_the_others_wait_for_it(
    breaker: CircuitBreaker,
) -> None:
    fail(breaker)
    probe = breaker.call(OPEN_SECONDS)
    assert not breaker.closed
    assert refused_for(breaker, OPEN_SECONDS) == 1.0
    probe.succeeded()
    assert breaker.closed
    breaker.call(OPEN_SECONDS)


def test_a_probe_that_has_begun_to_answer_closes_it_before_it_ends(breaker: CircuitBreaker) -> None:
    fail(breaker)
    probe = breaker.call(OPEN_SECONDS)
    probe.answers()
    assert breaker.closed
    # Then it is a call like any other.
    probe.failed(OPEN_SECONDS)
    fail(breaker, FAILURES - 2, OPEN_SECONDS)
    assert breaker.closed
    fail(breaker, 1, OPEN_SECONDS)
    assert not breaker.closed


def test_an_answer_that_has_begun_is_no_success_yet(breaker: CircuitBreaker) -> None:
    for _ in range(FAILURES):
        call = breaker.call(0.0)
        call.answers()
        call.failed(0.0)
    assert not breaker.closed


def test_a_probe_that_fails_opens_it_for_as_long_again(breaker: CircuitBreaker) -> None:
    fail(breaker)
    breaker.call(OPEN_SECONDS).failed(12.0)
    assert refused_for(breaker, 13.0) == 9.0


def test_a_probe_that_was_withdrawn_says_nothing_and_the_next_call_tries(
    breaker: CircuitBreaker,
) -> None:
    fail(breaker)
    breaker.call(OPEN_SECONDS).withdrawn(11.0)
    assert not breaker.closed
    breaker.call(11.0).succeeded()
    assert breaker.closed


@pytest.mark.parametrize("late", ["succeeded", "failed", "answers", "withdrawn"])
def test_what_was_called_before_it_opened_says_nothing_about_now(
    breaker: CircuitBreaker, late: str
) -> None:
    old = breaker.call(0.0)
    fail(breaker)
    getattr(old, late)(*([9.0] if late in ("failed", "withdrawn") else []))
    assert refused_for(breaker, 9.0) == 1.0


def test_a_failure_of_before_it_closed_again_is_not_counted(breaker: CircuitBreaker) -> None:
    old = breaker.call(0.0)
    fail(breaker)
    breaker.call(OPEN_SECONDS).succeeded()
    fail(breaker, FAILURES - 1)
    old.failed(OPEN_SECONDS)
    assert breaker.closed


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["call", "succeeded", "failed", "answers", "withdrawn", "wait"]),
        st.integers(0, 5),
    ),
    max_size=60,
)


@given(STEPS)
def test_it_is_never_stuck_and_never_lets_two_probes_out(steps: list[tuple[str, int]]) -> None:
    breaker, now, running = CircuitBreaker(2, 3.0), 0.0, list[Call]()
    for step, which in steps:
        if step == "wait":
            now += 1.0
        elif step == "call":
            was_closed, refused_for_seconds = breaker.closed, breaker.refuses_for(now)
            if refused_for_seconds:
                refused_for(breaker, now)
            else:
                running.append(breaker.call(now))
                # Whoever comes next waits for a probe.
                assert was_closed or breaker.refuses_for(now) > 0
        elif running:
            call = running.pop(which % len(running))
            getattr(call, step)(*([now] if step in ("failed", "withdrawn") else []))
            if step == "answers":
                running.append(call)
    for call in running:
        call.withdrawn(now)
    breaker.call(now + 3.0).succeeded()
    assert breaker.closed
