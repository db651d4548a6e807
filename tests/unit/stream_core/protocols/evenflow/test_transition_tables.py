"""The three tables that the code runs: responses, connections, readers."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from itertools import product
from typing import Any

import pytest

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.flow_control import (
    FLOW_TRANSITIONS,
    FlowEvent,
    FlowState,
    ReaderFlow,
)
from evenflow.stream_core.log.response_log import (
    RESPONSE_TRANSITIONS,
    IllegalTransition,
    ResponseEvent,
    ResponseState,
    next_response_state,
)
from evenflow.stream_core.protocols.evenflow.client_session import ClientSession
from evenflow.stream_core.protocols.evenflow.connection_states import (
    CONNECTION_TRANSITIONS,
    ConnectionEvent,
    ConnectionState,
    SetTimer,
)
from evenflow.stream_core.protocols.evenflow.socket_session import Opcode
from tests.unit.stream_core.protocols.evenflow.test_client_session import CLAIMS, MESSAGE, READY

TABLES: list[tuple[type[StrEnum], type[StrEnum], StrEnum, set[StrEnum], dict[Any, Any]]] = [
    (
        ResponseState,
        ResponseEvent,
        ResponseState.QUEUED,
        {ResponseState.COMPLETED, ResponseState.ERROR, ResponseState.CANCELLED},
        RESPONSE_TRANSITIONS,
    ),
    (
        ConnectionState,
        ConnectionEvent,
        ConnectionState.CONNECTING,
        {ConnectionState.CLOSED},
        CONNECTION_TRANSITIONS,
    ),
    (FlowState, FlowEvent, FlowState.CURRENT, {FlowState.TOO_SLOW}, FLOW_TRANSITIONS),
]
EACH_TABLE = pytest.mark.parametrize(
    ("states", "events", "first", "terminal", "table"), TABLES, ids=["response", "session", "flow"]
)


@EACH_TABLE
def test_every_state_is_reached_from_the_first(
    states: type[StrEnum],
    events: type[StrEnum],
    first: StrEnum,
    terminal: set[StrEnum],
    table: dict[Any, Any],
) -> None:
    reached = {first}
    while (
        further := {to for (frm, _), to in table.items() if frm in reached} | reached
    ) != reached:
        reached = further
    assert reached == set(states)


@EACH_TABLE
def test_every_event_has_a_row(
    states: type[StrEnum],
    events: type[StrEnum],
    first: StrEnum,
    terminal: set[StrEnum],
    table: dict[Any, Any],
) -> None:
    assert {event for _, event in table} == set(events)


@EACH_TABLE
def test_nothing_leads_out_of_a_terminal_state_and_out_of_every_other_something_does(
    states: type[StrEnum],
    events: type[StrEnum],
    first: StrEnum,
    terminal: set[StrEnum],
    table: dict[Any, Any],
) -> None:
    left = {frm for (frm, _), to in table.items() if to is not frm}
    assert left == set(states) - terminal


@EACH_TABLE
def test_a_terminal_state_can_be_reached_from_everywhere(
    states: type[StrEnum],
    events: type[StrEnum],
    first: StrEnum,
    terminal: set[StrEnum],
    table: dict[Any, Any],
) -> None:
    ending = set(terminal)
    while (further := {frm for (frm, _), to in table.items() if to in ending} | ending) != ending:
        ending = further
    assert ending == set(states)


def test_the_terminal_states_of_a_response_say_so() -> None:
    assert {state for state in ResponseState if state.terminal} == TABLES[0][3]


# -- responses: every pair -------------------------------------------------------------------------


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


# -- connections: every pair, through what fires the event -----------------------------------------


def session_in(state: ConnectionState) -> ClientSession:
    session = ClientSession(CLAIMS, Limits(), expires_in=1e9, now=0.0)
    if state is not ConnectionState.CONNECTING:
        session.connected(READY, 0.5, 0.0)
    if state is ConnectionState.DRAINING:
        session.drain("leaving", 0)
    elif state is ConnectionState.CLOSING:
        session.close(1001, "leaving", 0.0)
    elif state is ConnectionState.CLOSED:
        session.disconnected()
    assert session.state is state
    return session


def overflow(session: ClientSession) -> None:
    session.block()
    for _ in range(65):
        session.tell(READY)


def fall_silent(session: ClientSession) -> None:
    """Nothing is heard, and each timer comes in time."""
    now, again_in = 0.0, 15.0
    while True:
        outputs = session.timer(now := now + again_in)
        again = [output.seconds for output in outputs if isinstance(output, SetTimer)]
        if not again:
            return
        again_in = again[0]


FIRE_IN_SESSION: dict[ConnectionEvent, Callable[[ClientSession], object]] = {
    ConnectionEvent.CONNECT: lambda session: session.connected(READY, 0.5, 0.0),
    ConnectionEvent.RECEIVE: lambda session: session.receive_frame(Opcode.PONG, b"", 0.0),
    ConnectionEvent.MESSAGE: lambda session: session.receive_frame(Opcode.TEXT, MESSAGE, 0.0),
    ConnectionEvent.SEND: lambda session: session.tell(READY),
    ConnectionEvent.BEAT: lambda session: session.timer(0.0),
    ConnectionEvent.DRAIN: lambda session: session.drain("leaving", 0),
    ConnectionEvent.VIOLATE: lambda session: session.receive_frame(Opcode.BINARY, b"", 0.0),
    ConnectionEvent.CLOSE: lambda session: session.close(1001, "leaving", 0.0),
    ConnectionEvent.LOSE: fall_silent,
    ConnectionEvent.OVERFLOW: overflow,
    ConnectionEvent.CLIENT_CLOSE: lambda session: session.receive_frame(Opcode.CLOSE, b"", 0.0),
    ConnectionEvent.TIME_OUT: fall_silent,
    ConnectionEvent.DISCONNECT: lambda session: session.disconnected(),
}
# One timer is for the heartbeat and for a close that isn't answered: which of the two it is, the
# state says.
_SAME_TIMER = {
    ConnectionEvent.LOSE: ConnectionEvent.TIME_OUT,
    ConnectionEvent.TIME_OUT: ConnectionEvent.LOSE,
}


@pytest.mark.parametrize(("state", "event"), list(product(ConnectionState, ConnectionEvent)))
def test_a_connection_takes_the_rows_of_its_table_and_refuses_all_others(
    state: ConnectionState, event: ConnectionEvent
) -> None:
    session = session_in(state)
    other = CONNECTION_TRANSITIONS.get((state, _SAME_TIMER.get(event, event)), state)
    FIRE_IN_SESSION[event](session)
    assert session.state is CONNECTION_TRANSITIONS.get((state, event), other)


# -- readers: every pair; what the table has no row for changes nothing ----------------------------


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
            flow.unpause()


@pytest.mark.parametrize(("state", "event"), list(product(FlowState, FlowEvent)))
def test_a_reader_takes_the_rows_of_its_table_and_stays_as_it_is_for_all_others(
    state: FlowState, event: FlowEvent
) -> None:
    flow = flow_in(state)
    fire_in_flow(flow, event)
    assert flow.state is FLOW_TRANSITIONS.get((state, event), state)
