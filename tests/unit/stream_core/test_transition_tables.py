"""The three tables that the code runs: responses, connections, readers."""

from __future__ import annotations

from contextlib import nullcontext, suppress
from enum import StrEnum
from itertools import product
from typing import Any

import pytest

from stream_core.flow_control import FLOW_TRANSITIONS, FlowEvent, FlowState, ReaderFlow
from stream_core.limits import Limits
from stream_core.response_state import (
    RESPONSE_TRANSITIONS,
    IllegalTransition,
    ResponseEvent,
    ResponseState,
    next_response_state,
)
from stream_core.session import SESSION_TRANSITIONS, Session, SessionEvent, SessionState
from tests.unit.stream_core.test_session import new_session

TABLES: list[tuple[type[StrEnum], type[StrEnum], StrEnum, set[StrEnum], dict[Any, Any]]] = [
    (
        ResponseState,
        ResponseEvent,
        ResponseState.QUEUED,
        {ResponseState.COMPLETED, ResponseState.ERROR, ResponseState.CANCELLED},
        RESPONSE_TRANSITIONS,
    ),
    (SessionState, SessionEvent, SessionState.OPEN, {SessionState.CLOSED}, SESSION_TRANSITIONS),
    (FlowState, FlowEvent, FlowState.CURRENT, {FlowState.TOO_SLOW}, FLOW_TRANSITIONS),
]
EACH_TABLE = pytest.mark.parametrize(
    ("states", "events", "first", "terminal", "table"), TABLES, ids=["response", "session", "flow"]
)


@EACH_TABLE
def test_every_state_is_reached_from_the_first(
    states: type[StrEnum], events: type[StrEnum], first: StrEnum, terminal: set[StrEnum], table: dict[Any, Any]
) -> None:
    reached = {first}
    while (further := {to for (frm, _), to in table.items() if frm in reached} | reached) != reached:
        reached = further
    assert reached == set(states)


@EACH_TABLE
def test_every_event_has_a_row(
    states: type[StrEnum], events: type[StrEnum], first: StrEnum, terminal: set[StrEnum], table: dict[Any, Any]
) -> None:
    assert {event for _, event in table} == set(events)


@EACH_TABLE
def test_nothing_leads_out_of_a_terminal_state_and_out_of_every_other_something_does(
    states: type[StrEnum], events: type[StrEnum], first: StrEnum, terminal: set[StrEnum], table: dict[Any, Any]
) -> None:
    left = {frm for (frm, _), to in table.items() if to is not frm}
    assert left == set(states) - terminal


@EACH_TABLE
def test_a_terminal_state_can_be_reached_from_everywhere(
    states: type[StrEnum], events: type[StrEnum], first: StrEnum, terminal: set[StrEnum], table: dict[Any, Any]
) -> None:
    ending = set(terminal)
    while (further := {frm for (frm, _), to in table.items() if to in ending} | ending) != ending:
        ending = further
    assert ending == set(states)


def test_the_terminal_states_of_a_response_say_so() -> None:
    assert {state for state in ResponseState if state.terminal} == TABLES[0][3]


# -- responses: every pair -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("state", "event"), list(product(ResponseState, ResponseEvent)))
def test_a_response_takes_the_rows_of_its_table_and_refuses_all_others(
    state: ResponseState, event: ResponseEvent
) -> None:
    expected = RESPONSE_TRANSITIONS.get((state, event))
    if expected is None:
        with pytest.raises(IllegalTransition):
            next_response_state(state, event)
    else:
        assert next_response_state(state, event) is expected


# -- connections: every pair, through what fires the event -----------------------------------------------------------


def session_in(state: SessionState) -> Session:
    session = new_session()
    if state is SessionState.DRAINING:
        session.drain()
    elif state is SessionState.CLOSED:
        session.close()
    return session


def fire_in_session(session: Session, event: SessionEvent) -> None:
    match event:
        case SessionEvent.DRAIN:
            session.drain()
        case SessionEvent.CLOSE:
            session.close()
        case SessionEvent.VIOLATE:
            session.violation(1003, "binary")
        case SessionEvent.LOSE:
            session.heartbeat(1e6)


@pytest.mark.parametrize(("state", "event"), list(product(SessionState, SessionEvent)))
def test_a_connection_takes_the_rows_of_its_table_and_refuses_all_others(
    state: SessionState, event: SessionEvent
) -> None:
    session = session_in(state)
    expected = SESSION_TRANSITIONS.get((state, event))
    with suppress(LookupError) if expected is None else nullcontext():
        fire_in_session(session, event)
    assert session.state is (expected or state)


# -- readers: every pair; what the table has no row for changes nothing ----------------------------------------------


def flow_in(state: FlowState) -> ReaderFlow:
    flow = ReaderFlow(Limits())
    if state is FlowState.PAUSED:
        flow.pause(0.0, 0)
    elif state is not FlowState.CURRENT:
        flow.fell_behind(0.0, 0)
        if state is FlowState.LAGGING:
            flow.check(flow.measure(10.0, 1, 1))
        elif state is FlowState.TOO_SLOW:
            flow.check(flow.measure(30.0, 1, 1))
    assert flow.state is state
    return flow


def fire_in_flow(flow: ReaderFlow, event: FlowEvent) -> None:
    match event:
        case FlowEvent.FALL_BEHIND:
            flow.fell_behind(11.0, 0)
        case FlowEvent.CATCH_UP:
            flow.caught_up()
        case FlowEvent.LAG:
            flow.check(flow.measure(11.0, 100, 1))
        case FlowEvent.EXCEED:
            if not flow.end_long_pause(1000.0):
                flow.check(flow.measure(1000.0, 1, 1))
        case FlowEvent.PAUSE:
            flow.pause(11.0, 0)
        case FlowEvent.CONTINUE:
            flow.resume()


@pytest.mark.parametrize(("state", "event"), list(product(FlowState, FlowEvent)))
def test_a_reader_takes_the_rows_of_its_table_and_stays_as_it_is_for_all_others(
    state: FlowState, event: FlowEvent
) -> None:
    flow = flow_in(state)
    fire_in_flow(flow, event)
    assert flow.state is FLOW_TRANSITIONS.get((state, event), state)
