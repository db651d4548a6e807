from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.upstream.circuit_breaker import (
    CircuitBreaker,
    CircuitOpen,
    SenderKey,
    UpstreamCall,
)

FAILURES, OPEN_SECONDS = 4, 10.0
EVIL, HONEST, THIRD = ("evil", "10.0.0.1"), ("honest", "10.0.0.2"), ("third", "10.0.0.3")


@pytest.fixture
def breaker() -> CircuitBreaker:
    return CircuitBreaker(FAILURES, OPEN_SECONDS)


def fail(
    breaker: CircuitBreaker, times: int = FAILURES, now: float = 0.0, sender: SenderKey = EVIL
) -> None:
    for _ in range(times):
        breaker.call(sender, now).record_failure(now)


def fail_for_all(breaker: CircuitBreaker, now: float = 0.0) -> None:
    """The last failure is `EVIL`'s."""
    for _ in range(FAILURES // 2):
        fail(breaker, 1, now, HONEST)
        fail(breaker, 1, now, EVIL)


def refused_for(breaker: CircuitBreaker, now: float, sender: SenderKey = EVIL) -> float:
    with pytest.raises(CircuitOpen) as refused:
        breaker.call(sender, now)
    assert refused.value.seconds == breaker.open_for(sender, now)
    return refused.value.seconds


def test_it_opens_after_so_many_failures_in_a_row(breaker: CircuitBreaker) -> None:
    fail(breaker, FAILURES - 1)
    assert breaker.open_for(EVIL, 0.0) == 0.0
    fail(breaker, 1)
    assert refused_for(breaker, 4.0) == 6.0


def test_an_answer_in_between_begins_the_row_again(breaker: CircuitBreaker) -> None:
    fail(breaker, FAILURES - 1)
    breaker.call(EVIL, 0.0).record_success()
    fail(breaker, FAILURES - 1)
    assert breaker.open_for(EVIL, 0.0) == 0.0


def test_when_its_time_is_over_one_call_tries_and_the_others_wait_for_it(
    breaker: CircuitBreaker,
) -> None:
    fail(breaker)
    probe = breaker.call(EVIL, OPEN_SECONDS)
    assert refused_for(breaker, OPEN_SECONDS) == 1.0
    probe.record_success()
    breaker.call(EVIL, OPEN_SECONDS)


def test_a_probe_that_has_begun_to_answer_closes_it_before_it_ends(breaker: CircuitBreaker) -> None:
    fail(breaker)
    probe = breaker.call(EVIL, OPEN_SECONDS)
    probe.record_answering()
    # Then it is a call like any other.
    probe.record_failure(OPEN_SECONDS)
    fail(breaker, FAILURES - 2, OPEN_SECONDS)
    assert breaker.open_for(EVIL, OPEN_SECONDS) == 0.0
    fail(breaker, 1, OPEN_SECONDS)
    assert breaker.open_for(EVIL, OPEN_SECONDS) > 0


def test_an_answer_that_has_begun_is_no_success_yet(breaker: CircuitBreaker) -> None:
    for _ in range(FAILURES):
        call = breaker.call(EVIL, 0.0)
        call.record_answering()
        call.record_failure(0.0)
    assert refused_for(breaker, 0.0) == OPEN_SECONDS


def test_a_probe_that_fails_opens_it_for_as_long_again(breaker: CircuitBreaker) -> None:
    fail(breaker)
    breaker.call(EVIL, OPEN_SECONDS).record_failure(12.0)
    assert refused_for(breaker, 13.0) == 9.0


def test_a_probe_that_was_withdrawn_says_nothing_and_the_next_call_tries(
    breaker: CircuitBreaker,
) -> None:
    fail(breaker)
    breaker.call(EVIL, OPEN_SECONDS).record_withdrawal(11.0)
    breaker.call(EVIL, 11.0).record_success()
    assert breaker.open_for(EVIL, 11.0) == 0.0


_ENDS_WITH_A_TIME = ("record_failure", "record_withdrawal")


@pytest.mark.parametrize("late", ["record_success", "record_answering", *_ENDS_WITH_A_TIME])
def test_what_was_called_before_it_opened_says_nothing_about_now(
    breaker: CircuitBreaker, late: str
) -> None:
    old = breaker.call(EVIL, 0.0)
    fail(breaker)
    getattr(old, late)(*([9.0] if late in _ENDS_WITH_A_TIME else []))
    assert refused_for(breaker, 9.0) == 1.0
    assert breaker.is_failing


def test_a_failure_of_before_it_closed_again_is_not_counted(breaker: CircuitBreaker) -> None:
    old = breaker.call(EVIL, 0.0)
    fail(breaker)
    breaker.call(EVIL, OPEN_SECONDS).record_success()
    fail(breaker, FAILURES - 1, OPEN_SECONDS)
    old.record_failure(OPEN_SECONDS)
    assert breaker.open_for(EVIL, OPEN_SECONDS) == 0.0


# -- groups of senders -----------------------------------------------------------------------------


@pytest.mark.parametrize("failures", [1, FAILURES, 10 * FAILURES])
def test_however_often_one_sender_fails_the_others_are_let_out(failures: int) -> None:
    breaker = CircuitBreaker(failures, OPEN_SECONDS)
    fail(breaker, failures)
    assert refused_for(breaker, 0.0) == OPEN_SECONDS
    fail(breaker, 1, OPEN_SECONDS)  # its probe
    assert breaker.open_for(HONEST, OPEN_SECONDS) == 0.0


def test_failures_of_several_senders_in_a_row_close_the_model_for_all(
    breaker: CircuitBreaker,
) -> None:
    fail_for_all(breaker)
    assert [breaker.open_for(sender, 0.0) for sender in (HONEST, THIRD)] == [OPEN_SECONDS] * 2


def test_one_failure_beside_many_of_another_sender_closes_it_for_nobody_else(
    breaker: CircuitBreaker,
) -> None:
    fail(breaker, FAILURES - 1)
    fail(breaker, 1, sender=HONEST)
    assert [breaker.open_for(sender, 0.0) for sender in (HONEST, THIRD)] == [0.0, 0.0]


def test_an_answer_to_another_sender_clears_their_common_row_alone(breaker: CircuitBreaker) -> None:
    fail(breaker, FAILURES - 1)
    breaker.call(HONEST, 0.0).record_success()
    fail(breaker, 1)
    assert breaker.open_for(EVIL, 0.0) == OPEN_SECONDS
    fail(breaker, FAILURES - 1, sender=HONEST)
    assert breaker.open_for(THIRD, 0.0) == 0.0


def test_the_sender_that_failed_last_is_not_the_one_that_tries(breaker: CircuitBreaker) -> None:
    fail_for_all(breaker)
    assert refused_for(breaker, OPEN_SECONDS, EVIL) == OPEN_SECONDS
    breaker.call(HONEST, OPEN_SECONDS).record_success()
    assert breaker.open_for(EVIL, OPEN_SECONDS) == 0.0


def test_where_nobody_else_comes_it_tries_after_all(breaker: CircuitBreaker) -> None:
    fail_for_all(breaker)
    breaker.call(EVIL, 2 * OPEN_SECONDS).record_success()
    assert breaker.open_for(THIRD, 2 * OPEN_SECONDS) == 0.0


def test_the_addresses_of_a_tenant_close_it_for_that_tenant_alone(breaker: CircuitBreaker) -> None:
    for number in range(FAILURES):
        fail(breaker, 1, sender=("evil", f"10.0.0.{number}"))
    assert breaker.open_for(("evil", "10.9.9.9"), 0.0) == OPEN_SECONDS
    assert breaker.open_for(HONEST, 0.0) == 0.0


@pytest.mark.parametrize("others", [(), (HONEST,)])
def test_it_fails_while_none_is_answered_that_was_called_since(
    breaker: CircuitBreaker, others: Sequence[SenderKey]
) -> None:
    assert not breaker.is_failing
    fail(breaker)
    assert breaker.is_failing
    for sender in others:
        breaker.call(sender, 0.0).record_success()
    fail(breaker, 1, OPEN_SECONDS)  # its probe
    assert breaker.is_failing is not bool(others)


def test_made_up_senders_take_a_bounded_memory_and_others_are_not_forgotten() -> None:
    breaker, now = CircuitBreaker(FAILURES, OPEN_SECONDS), 0.0
    fail(breaker, FAILURES - 1, now, HONEST)
    for number in range(2_000):
        now += 2 * OPEN_SECONDS
        fail(breaker, 1, now, (*EVIL, f"session {number}"))
    assert len(breaker._by_length[3]) == 1_024
    assert breaker._known(HONEST) is not None


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["call", "wait", "record_success", "record_answering", *_ENDS_WITH_A_TIME]),
        st.integers(0, 5),
    ),
    max_size=60,
)


@given(STEPS)
def test_it_is_never_stuck_and_never_lets_two_probes_of_a_sender_out(
    steps: list[tuple[str, int]],
) -> None:
    breaker, now, running = CircuitBreaker(2, 3.0), 0.0, list[UpstreamCall]()
    senders = (EVIL, HONEST, ("evil", "10.0.0.9"))
    for step, which in steps:
        sender = senders[which % len(senders)]
        if step == "wait":
            now += 1.0
        elif step == "call":
            groups = [breaker._known(sender[:length]) for length in range(3)]
            is_probe = any(group is not None and not group.is_closed for group in groups)
            if breaker.open_for(sender, now):
                refused_for(breaker, now, sender)
            else:
                running.append(breaker.call(sender, now))
                # Whatever comes next waits for a probe.
                assert (breaker.open_for(sender, now) > 0) == is_probe
        elif running:
            call = running.pop(which % len(running))
            getattr(call, step)(*([now] if step in _ENDS_WITH_A_TIME else []))
            if step == "record_answering":
                running.append(call)
    for call in running:
        call.record_withdrawal(now)
    for sender in senders:
        now += 6.0
        breaker.call(sender, now).record_success()
    assert [breaker.open_for(sender, now) for sender in senders] == [0.0] * len(senders)
    assert not breaker.is_failing
