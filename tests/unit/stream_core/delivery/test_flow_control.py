from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.flow_control import (
    FLOW_TRANSITIONS,
    FlowEvent,
    FlowState,
    Lag,
    ReaderFlow,
)

LIMITS = Limits()


def behind(since: float = 0.0, log_bytes: int = 0) -> ReaderFlow:
    flow = ReaderFlow(LIMITS)
    flow.fell_behind(since, log_bytes)
    return flow


def test_a_new_reader_is_current_and_may_be_sent_to() -> None:
    flow = ReaderFlow(LIMITS)
    assert flow.state is FlowState.CURRENT
    assert flow.may_send


def test_a_reader_behind_may_be_sent_to_and_is_current_again_when_it_has_caught_up() -> None:
    flow = behind()
    assert (flow.state, flow.may_send) == (FlowState.BEHIND, True)
    flow.caught_up()
    assert flow.state is FlowState.CURRENT


def test_the_lag_notice_comes_once_by_deltas() -> None:
    flow = behind()
    assert flow.check(flow.measure(1.0, LIMITS.lag_notice_deltas - 1, 10)) is None
    assert flow.check(flow.measure(1.0, LIMITS.lag_notice_deltas, 10)) is FlowEvent.LAG
    assert flow.state is FlowState.LAGGING
    assert flow.check(flow.measure(2.0, LIMITS.lag_notice_deltas + 1, 10)) is None


def test_the_lag_notice_comes_by_seconds() -> None:
    flow = behind(since=5.0)
    assert flow.check(flow.measure(14.9, 1, 10)) is None
    assert flow.check(flow.measure(15.0, 1, 10)) is FlowEvent.LAG


def test_a_reader_that_lagged_and_caught_up_is_told_again_the_next_time() -> None:
    flow = behind()
    flow.check(flow.measure(10.0, 1, 10))
    flow.caught_up()
    flow.fell_behind(20.0, 100)
    assert flow.check(flow.measure(25.0, 1, 110)) is None
    assert flow.check(flow.measure(30.0, 1, 110)) is FlowEvent.LAG


def test_a_reader_must_go_by_seconds() -> None:
    flow = behind(since=5.0)
    flow.check(flow.measure(20.0, 1, 10))
    assert flow.check(flow.measure(34.9, 1, 10)) is None
    assert flow.check(flow.measure(35.0, 1, 10)) is FlowEvent.EXCEED
    assert (flow.state, flow.may_send) == (FlowState.TOO_SLOW, False)


def test_a_reader_must_go_by_bytes_even_before_it_was_told_that_it_lags() -> None:
    flow = behind(log_bytes=1000)
    assert flow.check(flow.measure(0.1, 1, 1000 + LIMITS.lag_close_bytes - 1)) is None
    assert flow.check(flow.measure(0.1, 1, 1000 + LIMITS.lag_close_bytes)) is FlowEvent.EXCEED


def test_a_reader_that_resumes_far_back_is_not_slow() -> None:
    flow = ReaderFlow(LIMITS)
    lag = flow.measure(1000.0, behind_deltas=50_000, log_bytes=10_000_000)
    assert lag == Lag(0, 0.0, 0)
    assert flow.check(lag) is None
    flow.fell_behind(1000.0, 10_000_000)
    assert flow.check(flow.measure(1001.0, 10, 10_000_100)) is None


def test_falling_behind_twice_does_not_restart_the_count() -> None:
    flow = behind(since=0.0)
    flow.fell_behind(9.0, 500)
    assert flow.measure(10.0, 3, 700) == Lag(3, 10.0, 700)


def test_asking_for_a_pause_twice_is_asking_once() -> None:
    flow = ReaderFlow(LIMITS)
    assert flow.pause(1.0, 100)
    assert not flow.pause(200.0, 5000)
    assert not flow.end_long_pause(1.0 + LIMITS.pause_seconds - 1)
    assert flow.end_long_pause(1.0 + LIMITS.pause_seconds)
    assert flow.state is FlowState.TOO_SLOW


def test_a_pause_holds_delivery_and_continue_lets_it_go_on() -> None:
    flow = ReaderFlow(LIMITS)
    flow.pause(0.0, 0)
    assert (flow.state, flow.may_send) == (FlowState.PAUSED, False)
    assert flow.unpause()
    assert (flow.state, flow.may_send) == (FlowState.CURRENT, True)
    assert not flow.unpause()


def test_a_paused_reader_is_never_too_slow() -> None:
    flow = behind()
    flow.check(flow.measure(11.0, 100, 0))
    flow.pause(12.0, 0)
    lag = flow.measure(1000.0, 100_000, 10_000_000)
    assert flow.check(lag) is None
    flow.fell_behind(1000.0, 0)
    flow.caught_up()
    assert flow.state is FlowState.PAUSED


def test_the_model_is_held_when_it_is_the_pause_window_ahead_and_not_before() -> None:
    flow = ReaderFlow(LIMITS)
    assert not flow.pauses_model(1_000_000)
    flow.pause(0.0, 1000)
    assert not flow.pauses_model(1000 + LIMITS.pause_window_bytes - 1)
    assert flow.pauses_model(1000 + LIMITS.pause_window_bytes)
    flow.unpause()
    assert not flow.pauses_model(1000 + LIMITS.pause_window_bytes)


def test_a_reader_that_must_go_can_do_nothing_about_it() -> None:
    flow = behind()
    flow.check(flow.measure(31.0, 1, 1))
    flow.caught_up()
    flow.fell_behind(32.0, 0)
    assert not flow.pause(32.0, 0)
    assert not flow.unpause()
    assert flow.state is FlowState.TOO_SLOW
    assert flow.check(flow.measure(60.0, 100, 1_000_000)) is None


CALLS = st.lists(
    st.tuples(
        st.sampled_from(["fell_behind", "caught_up", "pause", "resume", "check"]),
        st.floats(0, 40),
        st.integers(0, 300_000),
    ),
    max_size=40,
)


@given(CALLS)
def test_no_order_of_calls_breaks_the_flow_and_every_step_is_a_row_of_the_table(
    calls: list[tuple[str, float, int]],
) -> None:
    flow = ReaderFlow(LIMITS)
    now, log_bytes = 0.0, 0
    for call, seconds, grown in calls:
        now, log_bytes = now + seconds, log_bytes + grown
        before = flow.state
        match call:
            case "fell_behind":
                flow.fell_behind(now, log_bytes)
            case "caught_up":
                flow.caught_up()
            case "pause":
                flow.pause(now, log_bytes)
            case "resume":
                flow.unpause()
            case _:
                flow.check(flow.measure(now, 1, log_bytes))
        after = flow.state
        assert after is before or after in {
            to for (frm, _), to in FLOW_TRANSITIONS.items() if frm is before
        }
