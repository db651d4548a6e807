"""What every WebSocket owes, whichever protocol its messages have."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import (
    AuthenticationFailed,
    EvenflowError,
    NotFound,
    NotPermitted,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.protocols.evenflow.client_session import ClientSession
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode
from evenflow.stream_core.protocols.evenflow.connection_states import (
    Command,
    ConnectionEvent,
    Ended,
    FrameRejected,
    Output,
    Received,
    SendClose,
    SendPong,
    StopReading,
)
from evenflow.stream_core.protocols.evenflow.frame_intake import RejectedMessage
from evenflow.stream_core.protocols.evenflow.socket_session import (
    CredentialCheck,
    Opcode,
    SocketSession,
    always_valid,
)
from evenflow.stream_core.protocols.openai_responses.socket_session import ResponsesSession

_CLAIMS = SessionClaims(Channel("public", "demo", "ses_1"), expires_at=10**9, issued_at=0)
_MESSAGE = (
    b'{"type":"chat.message","message_id":"m1","previous_message_id":null,"payload":{"text":"hi"}}'
)


def _of_session(limits: Limits, check: CredentialCheck) -> SocketSession:
    return ClientSession(_CLAIMS, limits, expires_in=1e6, now=0.0, check=check)


def _of_responses(limits: Limits, check: CredentialCheck) -> SocketSession:
    return ResponsesSession(limits, 0.0, check)


Make = Callable[[Limits, CredentialCheck], SocketSession]
each = pytest.mark.parametrize("make", [_of_session, _of_responses])


def _opened(
    make: Make, limits: Limits | None = None, check: CredentialCheck = always_valid
) -> SocketSession:
    session = make(limits or Limits(), check)
    session.begin(0.5, 0.0)
    return session


def _close(outputs: list[Output]) -> int | None:
    """The code of the close frame, if there is one."""
    return next((output.code for output in outputs if isinstance(output, SendClose)), None)


def _refused(outputs: list[Output]) -> str | None:
    return next((o.error.code for o in outputs if isinstance(o, FrameRejected)), None)


def _raising(error: EvenflowError) -> CredentialCheck:
    def check() -> None:
        raise error

    return check


@each
@pytest.mark.parametrize("opcode", [Opcode.TEXT, Opcode.PING, Opcode.PONG, Opcode.CONTINUATION])
def test_a_flood_of_frames_closes_1008_and_nothing_more_is_read(make: Make, opcode: int) -> None:
    session = _opened(make, Limits(frames_per_second=10, messages_per_second=1_000))
    payload = _MESSAGE if opcode == Opcode.TEXT else b""
    told: list[Output] = []
    for number in range(21):
        kind = Opcode.TEXT if opcode == Opcode.CONTINUATION and not number else opcode
        final = opcode != Opcode.CONTINUATION
        told += session.receive_frame(kind, payload, 1.0, final=final)
    assert _close(told) == CloseCode.POLICY
    assert StopReading() in told
    assert Ended(ConnectionEvent.VIOLATE) in told
    assert session.over


@each
def test_messages_that_come_too_fast_are_refused_and_who_keeps_at_it_is_closed(
    make: Make,
) -> None:
    session = _opened(make)
    told = [session.receive_frame(Opcode.TEXT, _MESSAGE, 1.0) for _ in range(61)]
    taken = [any(isinstance(output, Command | Received) for output in each) for each in told]
    assert taken == [True] * 40 + [False] * 21
    assert [_refused(each) for each in told[40:]] == ["rate_limited"] * 21
    assert [_close(each) for each in told] == [None] * 60 + [CloseCode.POLICY]


@each
def test_errors_that_its_messages_lead_to_close_it_too(make: Make) -> None:
    session = _opened(make)
    missing = NotFound("there is no such model", code="model_not_found")
    told = [session.reject(RejectedMessage(missing), 1.0) for _ in range(21)]
    assert [_close(each) for each in told] == [None] * 20 + [CloseCode.POLICY]


@each
@pytest.mark.parametrize("continues", [True, False])
def test_fragments_out_of_order_close_1002(make: Make, continues: bool) -> None:
    session = _opened(make)
    if not continues:
        assert session.receive_frame(Opcode.TEXT, b"{", 1.0, final=False) == []
        assert session.waiting_bytes == 1
    opcode = Opcode.CONTINUATION if continues else Opcode.TEXT
    assert _close(session.receive_frame(opcode, b"}", 1.0)) == CloseCode.PROTOCOL


@each
@pytest.mark.parametrize(
    ("opcode", "payload", "reserved", "code"),
    [
        (Opcode.TEXT, b"\xff\xfe", False, CloseCode.INVALID_TEXT),
        (Opcode.TEXT, b"{}", True, CloseCode.PROTOCOL),
        (Opcode.CLOSE, b"", True, CloseCode.PROTOCOL),
        (Opcode.BINARY, b"{}", False, CloseCode.UNSUPPORTED_DATA),
    ],
)
def test_what_is_no_text_closes(
    make: Make, opcode: int, payload: bytes, reserved: bool, code: int
) -> None:
    assert _close(_opened(make).receive_frame(opcode, payload, 1.0, reserved=reserved)) == code


@each
def test_a_ping_is_answered_unless_the_client_does_not_read(make: Make) -> None:
    session = _opened(make)
    assert session.receive_frame(Opcode.PING, b"x", 1.0) == [SendPong(b"x")]
    session.block()
    assert session.receive_frame(Opcode.PING, b"x", 1.0) == []


@each
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (AuthenticationFailed("expired", code="token_expired"), CloseCode.DONE),
        (AuthenticationFailed("rotated", code="invalid_api_key"), CloseCode.DONE),
        (NotPermitted("removed", code="tenant_removed"), CloseCode.POLICY),
    ],
)
def test_it_ends_with_its_credential_at_the_next_message_or_when_that_is_revoked(
    make: Make, error: EvenflowError, code: int
) -> None:
    session = _opened(make, check=_raising(error))
    told = session.receive_frame(Opcode.TEXT, _MESSAGE, 1.0)
    assert not any(isinstance(output, Command | Received) for output in told)
    assert (_refused(told), _close(told)) == (error.code, code)
    idle = _opened(make)
    assert _close(idle.revoke(error, 12.5)) == code


@each
def test_an_error_that_nobody_reads_ends_it(make: Make) -> None:
    session = _opened(make)
    session.block()
    missing = RejectedMessage(NotFound("no", code="model_not_found"), is_violation=False)
    told = [session.reject(missing, 1.0) for _ in range(65)]
    assert [_close(each) for each in told] == [None] * 64 + [CloseCode.TOO_SLOW]
