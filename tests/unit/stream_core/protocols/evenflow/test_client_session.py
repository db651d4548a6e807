from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import (
    Conflict,
    EvenflowError,
    Gone,
    ModelRefused,
    NotFound,
    Overloaded,
    RateLimited,
)
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.protocols.evenflow.client_session import ClientSession
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode
from evenflow.stream_core.protocols.evenflow.connection_states import (
    Command,
    ConnectionEvent,
    ConnectionState,
    Disconnect,
    Ended,
    FrameRejected,
    Output,
    SendClose,
    SendPing,
    SendPong,
    SendText,
    SetTimer,
    StopReading,
)
from evenflow.stream_core.protocols.evenflow.dialect import CompactDialect, Dialect
from evenflow.stream_core.protocols.evenflow.messages import (
    ChatMessageFrame,
    ClientMessage,
    ErrorFrame,
    ResponseAck,
)
from evenflow.stream_core.protocols.evenflow.response_frames import rejection_frame
from evenflow.stream_core.protocols.evenflow.socket_session import CLOSE_SECONDS, Opcode
from evenflow.stream_core.protocols.realtime.dialect import RealtimeDialect

CLAIMS = SessionClaims(
    Channel("public", "demo", "ses_1"), expires_at=2_000_000_000, issued_at=1_000_000_000
)
MESSAGE = (
    b'{"type":"chat.message","message_id":"m1","previous_message_id":null,"payload":{"text":"hi"}}'
)
ACK = b'{"type":"response.ack","response_id":"rsp_1","index":3}'
PAUSE = b'{"type":"response.pause","response_id":"rsp_1"}'


READY = ErrorFrame(type="error", error={"message": "stands for session.ready"})


def new_session(
    limits: Limits | None = None, *, expires_in: float = 3600.0, now: float = 0.0
) -> ClientSession:
    """One that is open."""
    session = ClientSession(CLAIMS, limits or Limits(), expires_in=expires_in, now=now)
    session.connected(READY, 0.5, now)
    return session


class Received:
    """What a session says to do, sorted."""

    def __init__(self, outputs: list[Output]) -> None:
        self.outputs = outputs
        self.frames = [output.data for output in outputs if isinstance(output, SendText)]
        self.pings = sum(isinstance(output, SendPing) for output in outputs)
        self.refused = next(
            (o.error.code for o in outputs if isinstance(o, FrameRejected) and o.is_message), ""
        )
        self.event: ClientMessage | None = next(
            (o.message for o in outputs if isinstance(o, Command)), None
        )
        self.close = next((output for output in outputs if isinstance(output, SendClose)), None)
        self.look_again_in = next(
            (output.seconds for output in outputs if isinstance(output, SetTimer)), None
        )


def receive(session: ClientSession, data: bytes, now: float) -> Received:
    return Received(session.receive_frame(Opcode.TEXT, data, now))


def receive_fragment(
    session: ClientSession, data: bytes, *, continues: bool, final: bool, now: float
) -> Received:
    kind = Opcode.CONTINUATION if continues else Opcode.TEXT
    return Received(session.receive_frame(kind, data, now, final=final))


def only_frame(received: Received) -> dict[str, Any]:
    assert len(received.frames) == 1
    frame: dict[str, Any] = json.loads(received.frames[0])
    return frame


def refusal_code(received: Received) -> str:
    code: str = only_frame(received)["error"]["code"]
    return code


# -- messages --------------------------------------------------------------------------------------


def test_a_message_becomes_an_event() -> None:
    received = receive(new_session(), MESSAGE, 1.0)
    assert isinstance(received.event, ChatMessageFrame)
    assert received.event.payload.text == "hi"
    assert (received.frames, received.close) == ([], None)


def test_an_acknowledgement_becomes_an_event_and_an_unknown_field_is_refused() -> None:
    ack = b'{"type":"response.ack","response_id":"r","index":2'
    received = receive(new_session(), ack + b"}", 1.0)
    assert received.event == ResponseAck(type="response.ack", response_id="r", index=2)
    refused = only_frame(receive(new_session(), ack + b',"later":{"a":[1]}}', 1.0))
    assert (refused["error"]["code"], refused["error"]["param"]) == ("invalid_field", "later")
    assert refused["response_id"] == "r"


@given(st.lists(st.integers(0, len(MESSAGE)), max_size=6))
def test_a_message_in_any_pieces_is_the_message(cuts: list[int]) -> None:
    session = new_session()
    edges = [0, *sorted(cuts), len(MESSAGE)]
    pieces = [MESSAGE[start:end] for start, end in itertools.pairwise(edges)]
    for number, piece in enumerate(pieces[:-1]):
        assert (
            receive_fragment(session, piece, continues=number > 0, final=False, now=1.0).outputs
            == []
        )
    whole = receive_fragment(session, pieces[-1], continues=len(pieces) > 1, final=True, now=1.0)
    assert isinstance(whole.event, ChatMessageFrame)
    again = receive_fragment(session, MESSAGE, continues=False, final=True, now=1.0)
    assert isinstance(again.event, ChatMessageFrame), "nothing is left of the first message"


def test_a_character_may_be_split_between_fragments() -> None:
    session = new_session()
    body = MESSAGE.replace(b'"hi"', '"流れ"'.encode())
    at = body.index("流".encode()) + 1
    receive_fragment(session, body[:at], continues=False, final=False, now=1.0)
    received = receive_fragment(session, body[at:], continues=True, final=True, now=1.0)
    assert isinstance(received.event, ChatMessageFrame)
    assert received.event.payload.text == "流れ"


def test_a_message_as_large_as_may_be_is_taken_and_one_byte_more_closes_1009() -> None:
    limits = Limits(message_bytes=1000)
    padding = b" " * (1000 - len(MESSAGE))
    assert receive(new_session(limits), MESSAGE + padding, 1.0).event is not None
    session = new_session(limits)
    received = receive(session, MESSAGE + padding + b" ", 1.0)
    assert received.event is None
    assert received.close is not None
    assert received.close.code == CloseCode.TOO_LARGE
    assert "1000" in received.close.reason
    assert session.state is ConnectionState.CLOSING


def test_fragments_that_add_up_to_too_much_close_1009_before_the_last_one() -> None:
    session = new_session(Limits(message_bytes=1000))
    for number in range(10):
        received = receive_fragment(session, b"x" * 100, continues=number > 0, final=False, now=1.0)
        assert received.close is None
    received = receive_fragment(session, b"x", continues=True, final=False, now=1.0)
    assert received.close is not None
    assert received.close.code == CloseCode.TOO_LARGE
    assert receive_fragment(session, b"x", continues=True, final=True, now=1.0).outputs == []


@pytest.mark.parametrize(
    "frames",
    [
        [(True, True)],
        [(True, False)],
        [(False, False), (False, True)],
        [(False, False), (False, False)],
        [(False, False), (True, True), (True, True)],
        [(False, True), (True, True)],
    ],
)
def test_fragments_out_of_order_close_1002(frames: list[tuple[bool, bool]]) -> None:
    """Each frame: whether it continues a message, and whether it is the message's last."""
    session = new_session()
    for continues, final in frames[:-1]:
        assert (
            receive_fragment(session, b"{}", continues=continues, final=final, now=1.0).close
            is None
        )
    received = receive_fragment(
        session, b"{}", continues=frames[-1][0], final=frames[-1][1], now=1.0
    )
    assert received.close is not None
    assert received.close.code == CloseCode.PROTOCOL == 1002
    assert session.state is ConnectionState.CLOSING


@pytest.mark.parametrize("body", [b"\xff\xfe", MESSAGE.replace(b"hi", b"\xc3"), b'"\xed\xa0\x80"'])
def test_text_that_is_not_utf8_closes_1007(body: bytes) -> None:
    session = new_session()
    received = receive(session, body, 1.0)
    assert received.close is not None
    assert received.close.code == CloseCode.INVALID_TEXT
    assert session.state is ConnectionState.CLOSING


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"hello", "invalid_json"),
        (b"[" * 5000, "invalid_json"),
        (b"[]", "invalid_field"),
        (b"1", "invalid_field"),
        (b"null", "invalid_field"),
        (b"{}", "unknown_type"),
        (b'{"type":"nonsense"}', "unknown_type"),
        (b'{"type":5}', "unknown_type"),
        (b'{"type":null}', "unknown_type"),
        (b'{"type":["chat.message"]}', "unknown_type"),
        (b'{"type":"chat.message"}', "invalid_field"),
        (b'{"type":"response.resume","response_id":"r","after":-2}', "invalid_field"),
        (b'{"type":"response.resume","response_id":"r","after":"3"}', "invalid_field"),
        (b'{"type":"response.cancel","response_id":""}', "invalid_field"),
    ],
)
def test_a_frame_that_is_not_understood_is_answered_and_the_connection_stays(
    body: bytes, code: str
) -> None:
    session = new_session()
    received = receive(session, body, 1.0)
    assert only_frame(received)["type"] == "error"
    assert refusal_code(received) == code
    assert (received.event, received.close, session.state) == (None, None, ConnectionState.OPEN)
    assert receive(session, MESSAGE, 1.0).event is not None


@given(st.binary(max_size=200))
def test_no_bytes_at_all_break_the_machine(body: bytes) -> None:
    received = receive(new_session(), body, 1.0)
    assert received.event is not None or received.frames or received.close


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b'{"type":"chat.message","message_id":"m1"}', {"message_id": "m1"}),
        (b'{"type":"nonsense","response_id":"r","message_id":5}', {"response_id": "r"}),
        (b'{"type":"response.ack","response_id":"r","index":"x"}', {"response_id": "r"}),
        (b'{"message_id":"%b"}' % (b"m" * 129), {}),
        (b"[5]", {}),
        (b"{", {}),
    ],
)
def test_a_refusal_names_the_message_or_response_that_the_frame_named(
    body: bytes, named: dict[str, str]
) -> None:
    frame = only_frame(receive(new_session(), body, 1.0))
    assert {name: frame[name] for name in ("message_id", "response_id") if name in frame} == named


def test_a_client_that_keeps_at_it_is_closed_1008() -> None:
    session = new_session()
    answers = [receive(session, b"nonsense", 1.0) for _ in range(21)]
    assert [answer.close for answer in answers[:20]] == [None] * 20
    last = answers[20]
    assert last.close is not None
    assert last.close.code == CloseCode.POLICY
    assert refusal_code(last) == "invalid_json", "even the last one is told why"
    assert receive(session, MESSAGE, 1.0).outputs == []


def test_a_client_that_errs_now_and_then_is_not_closed() -> None:
    session = new_session()
    for second in range(0, 600, 4):
        assert receive(session, b"nonsense", float(second)).close is None


# -- rate ------------------------------------------------------------------------------------------


def test_acks_that_a_slow_line_delivers_at_once_are_taken() -> None:
    session = new_session()
    assert all(receive(session, ACK, 1.0).event is not None for _ in range(150))
    assert receive(session, MESSAGE, 1.0).event is not None


def test_frames_that_come_too_fast_are_throttled_with_the_time_to_wait_and_later_ones_taken() -> (
    None
):
    session = new_session()
    answers = [receive(session, MESSAGE, 1.0) for _ in range(41)]
    assert all(answer.event is not None for answer in answers[:40])
    frame = only_frame(answers[40])
    assert (frame["type"], frame["message_id"], frame["error"]["code"]) == (
        "throttle",
        "m1",
        "rate_limited",
    )
    assert (answers[40].refused, answers[0].refused) == ("rate_limited", "")
    assert 0 < frame["retry_after_ms"] <= 51
    assert receive(session, MESSAGE, 1.0 + frame["retry_after_ms"] / 1000).event is not None


def test_what_is_asked_of_a_response_too_fast_names_the_response() -> None:
    session = new_session()
    received = [receive(session, PAUSE, 1.0) for _ in range(41)][40]
    frame = only_frame(received)
    assert not received.refused  # no message
    assert (frame["type"], frame["response_id"], frame["error"]["code"]) == (
        "throttle",
        "rsp_1",
        "rate_limited",
    )


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"type":"response.credit","response_id":"r","n":%d}', "n"),
        (b'{"type":"response.resume","response_id":"r","after":1,"credit":%d}', "credit"),
        (b'{"type":"chat.message","message_id":"m1","payload":{"text":"x"},"credit":%d}', "credit"),
    ],
)
def test_credit_beyond_the_window_is_refused_before_anything_is_done(
    body: bytes, param: str
) -> None:
    session = new_session(Limits(credit_window=100))
    assert receive(session, body % 100, 1.0).event is not None
    for credit in (101, 10**40):
        received = receive(session, body % credit, 1.0)
        assert (received.event, received.close, refusal_code(received)) == (
            None,
            None,
            "invalid_field",
        )
        assert only_frame(received)["error"]["param"] == param


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.49, 0.5, 1.0, 20.0])
def test_at_every_allowed_rate_a_message_comes_through(rate: float) -> None:
    session = new_session(Limits(messages_per_second=rate))
    assert receive(session, MESSAGE, 0.0).event is not None


def test_a_client_that_does_not_heed_the_throttle_is_closed() -> None:
    session = new_session()
    closes = [receive(session, PAUSE, 1.0).close for _ in range(70)]
    assert next(close for close in closes if close is not None).code == CloseCode.POLICY


# -- expiry and drain ------------------------------------------------------------------------------


def test_with_an_expired_token_a_message_is_refused_and_the_connection_closed() -> None:
    session = new_session(expires_in=100.0, now=50.0)
    assert receive(session, MESSAGE, 149.9).event is not None
    refused = receive(session, MESSAGE, 150.0)
    assert only_frame(refused)["type"] == "error"
    assert only_frame(refused)["message_id"] == "m1"
    assert refusal_code(refused) == "token_expired"
    assert refused.close is not None
    assert refused.close.code == CloseCode.DONE, "who has a new token may come again"


@pytest.mark.parametrize(
    "frame",
    [
        b'{"type":"response.resume","response_id":"r","after":-1}',
        b'{"type":"response.cancel","response_id":"r"}',
        b'{"type":"ping"}',
    ],
)
def test_an_expired_token_neither_reads_nor_cancels(frame: bytes) -> None:
    session = new_session(expires_in=100.0)
    assert receive(session, frame, 99.0).close is None
    refused = receive(session, frame, 100.0)
    assert (refused.event, refusal_code(refused)) == (None, "token_expired")
    assert session.over


def test_an_expired_token_is_told_nothing_of_its_session() -> None:
    session = new_session(expires_in=100.0)
    assert len(Received(session.notify(READY, 99.0)).frames) == 1
    told = Received(session.notify(READY, 100.0))
    assert told.frames == [], "a question was shown before the next heartbeat"
    assert told.close is not None
    assert told.close.code == CloseCode.DONE


def test_while_draining_messages_are_refused_and_everything_else_goes_on() -> None:
    session = new_session()
    session.drain("leaving", 0)
    refused = receive(session, MESSAGE, 1.0)
    assert only_frame(refused)["type"] == "system.busy"
    assert refusal_code(refused) == "draining"
    assert only_frame(refused)["retry_after_ms"] > 0
    assert receive(session, ACK, 1.0).event is not None
    session.drain("leaving", 0)
    assert session.state is ConnectionState.DRAINING


# -- the closing handshake -------------------------------------------------------------------------


def test_what_the_node_closes_the_client_answers() -> None:
    session = new_session()
    assert session.close(1001, "leaving", 5.0) == [
        SendClose(1001, "leaving"),
        SetTimer(CLOSE_SECONDS),
        Ended(ConnectionEvent.CLOSE),
    ]
    assert (session.state, session.over) == (ConnectionState.CLOSING, True)
    assert session.receive_frame(Opcode.CLOSE, b"\x03\xe9", 6.0) == [Disconnect(flush=True)]
    assert session.disconnected() == [], "its service had ended"
    assert session.state is ConnectionState.CLOSED


def test_a_close_frame_that_is_not_answered_is_waited_for_so_long_and_not_longer() -> None:
    session = new_session()
    session.close(1001, "leaving", 5.0)
    assert session.timer(6.0) == [SetTimer(CLOSE_SECONDS - 1.0)], "the heartbeat's timer comes too"
    assert session.close(1001, "again", 7.0) == []
    assert session.timer(5.0 + CLOSE_SECONDS) == [Disconnect(flush=False)]
    assert session.timer(1000.0) == []


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (b"", None),
        (b"\x03\xe8bye", 1000),
        (b"\x0f\xa0", 4000),
        (b"\x03", 1002),
        (b"\x13\x88", 1002),
    ],
)
def test_what_the_client_closes_is_answered_with_its_code(payload: bytes, code: int | None) -> None:
    session = new_session()
    assert session.receive_frame(Opcode.CLOSE, payload, 1.0) == [
        SendClose(code),
        Disconnect(flush=True),
        SetTimer(CLOSE_SECONDS),
        Ended(ConnectionEvent.CLIENT_CLOSE),
    ]
    assert session.receive_frame(Opcode.CLOSE, payload, 1.0) == [Disconnect(flush=True)]


@pytest.mark.parametrize("closed_first", ["client", "server"])
def test_a_client_that_closes_and_takes_nothing_is_cut_off(closed_first: str) -> None:
    session = new_session()
    session.block()
    if closed_first == "server":
        session.close(1001, "leaving", 3.0)
    ended = session.receive_frame(Opcode.CLOSE, b"", 3.0)
    assert Disconnect(flush=True) in ended
    assert session.timer(4.0) == [SetTimer(CLOSE_SECONDS - 1.0)], "the heartbeat's timer comes too"
    assert session.timer(3.0 + CLOSE_SECONDS) == [Disconnect(flush=False)]
    assert session.timer(1000.0) == []


def test_bytes_that_are_no_frames_end_the_service_at_once_and_the_socket_in_time() -> None:
    session = new_session()
    session.block()
    assert session.malformed(CloseCode.TOO_LARGE, 3.0) == [
        SendClose(CloseCode.TOO_LARGE, "this is no frame of the protocol"),
        SetTimer(CLOSE_SECONDS),
        Ended(ConnectionEvent.VIOLATE),
    ]
    assert session.malformed(CloseCode.PROTOCOL, 3.0) == []
    assert session.timer(3.0 + CLOSE_SECONDS) == [Disconnect(flush=False)]


def test_a_transport_that_is_gone_ends_the_service_once() -> None:
    session = new_session()
    assert session.disconnected() == [Ended(ConnectionEvent.DISCONNECT)]
    assert session.disconnected() == []
    closing = new_session()
    closing.close(1001, "leaving", 5.0)
    assert closing.disconnected() == [], "its service had ended"
    assert closing.state is ConnectionState.CLOSED


@pytest.mark.parametrize("state", [ConnectionState.CLOSING, ConnectionState.CLOSED])
def test_a_connection_that_is_over_says_nothing_whatever_comes(state: ConnectionState) -> None:
    session = new_session()
    session.close(1001, "leaving", 0.0)
    if state is ConnectionState.CLOSED:
        session.disconnected()
    for kind in (Opcode.TEXT, Opcode.CONTINUATION, Opcode.BINARY, Opcode.PING, Opcode.PONG):
        assert session.receive_frame(kind, MESSAGE, 1.0) == []
    assert session.receive_frame(Opcode.TEXT, MESSAGE, 1.0, reserved=True) == []
    assert session.tell(READY) == []
    assert session.drain("leaving", 0) == []
    assert session.connected(READY, 0.5, 1.0) == []
    assert session.state is state


@pytest.mark.parametrize(
    ("kind", "reserved", "code"),
    [(Opcode.BINARY, False, 1003), (3, False, 1003), (Opcode.TEXT, True, 1002)],
)
def test_a_frame_of_another_protocol_closes_with_its_code_and_reason(
    kind: int, reserved: bool, code: int
) -> None:
    session = new_session()
    received = Received(session.receive_frame(kind, b"{}", 1.0, reserved=reserved))
    assert received.close is not None
    assert received.close.code == code
    assert received.close.reason
    assert received.outputs[-1] == Ended(ConnectionEvent.VIOLATE)
    assert session.state is ConnectionState.CLOSING


# -- a client that doesn't read --------------------------------------------------------------------


def test_of_pings_that_come_while_the_client_does_not_read_the_last_is_answered_then() -> None:
    session = new_session()
    assert session.receive_frame(Opcode.PING, b"1", 1.0) == [SendPong(b"1")]
    session.block()
    assert session.receive_frame(Opcode.PING, b"2", 1.0) == []
    assert session.receive_frame(Opcode.PING, b"3", 1.0) == []
    assert session.unblock() == [SendPong(b"3")]
    session.block()
    assert session.unblock() == [], "it was answered"
    session.block()
    assert session.receive_frame(Opcode.PING, b"4", 1.0) == []
    session.close(1001, "leaving", 1.0)
    assert session.unblock() == [], "a close frame is the last"


@pytest.mark.parametrize("dialect", [Dialect(), CompactDialect(), RealtimeDialect()])
def test_the_ping_of_a_browser_is_answered_as_long_as_the_connection_serves(
    dialect: Dialect,
) -> None:
    session = ClientSession(CLAIMS, Limits(), expires_in=3600.0, now=0.0, dialect=dialect)
    session.connected(READY, 0.5, 0.0)
    pong = [SendText(b'{"type":"pong"}')]
    assert session.receive_frame(Opcode.TEXT, b'{"type":"ping"}', 1.0) == pong
    session.drain("leaving", 0)
    assert session.receive_frame(Opcode.TEXT, b'{"type":"ping"}', 2.0) == pong
    session.close(1001, "leaving", 3.0)
    assert session.receive_frame(Opcode.TEXT, b'{"type":"ping"}', 3.0) == []


def test_pings_that_come_too_fast_are_throttled_like_every_frame() -> None:
    session = new_session(Limits(messages_per_second=1))
    answers = [only_frame(receive(session, b'{"type":"ping"}', 1.0))["type"] for _ in range(3)]
    assert answers == ["pong", "pong", "throttle"]


def test_so_many_frames_wait_for_a_client_and_with_one_more_it_is_let_go() -> None:
    session = new_session()
    for _ in range(2):
        session.block()
        for _ in range(64):
            assert len(session.tell(READY)) == 1
        session.unblock()
    session.block()
    for _ in range(64):
        session.tell(READY)
    assert session.tell(READY) == [
        SendClose(CloseCode.TOO_SLOW, "asks without reading; reconnect and resume"),
        Disconnect(flush=False),
        Ended(ConnectionEvent.OVERFLOW),
    ]
    assert session.tell(READY) == []


def test_the_refusal_that_is_one_too_many_is_not_followed_by_a_second_close() -> None:
    session = new_session(Limits(protocol_errors_per_minute=1))
    receive(session, b"nonsense", 1.0)
    session.block()
    for _ in range(64):
        session.tell(READY)
    closes = [
        output
        for output in session.receive_frame(Opcode.TEXT, b"nonsense", 1.0)
        if isinstance(output, SendClose)
    ]
    assert [close.code for close in closes] == [CloseCode.TOO_SLOW]


@pytest.mark.parametrize(
    ("opcode", "final"),
    [(Opcode.PING, True), (Opcode.PONG, True), (Opcode.CONTINUATION, False)],
)
def test_a_flood_of_frames_that_are_no_messages_is_closed_and_not_read(
    opcode: Opcode, final: bool
) -> None:
    session = new_session(Limits(frames_per_second=50))
    if opcode == Opcode.CONTINUATION:
        session.receive_frame(Opcode.TEXT, b"", 1.0, final=False)
    taken = 99 if opcode == Opcode.CONTINUATION else 100
    for _ in range(taken):
        assert not Received(session.receive_frame(opcode, b"", 1.0, final=final)).close
    assert session.receive_frame(opcode, b"", 1.0, final=final) == [
        SendClose(
            CloseCode.POLICY,
            "a connection may send 50 frames a second; slow down and connect again",
        ),
        SetTimer(CLOSE_SECONDS),
        Ended(ConnectionEvent.VIOLATE),
        StopReading(),
    ]
    assert session.timer(1.0 + CLOSE_SECONDS) == [Disconnect(flush=False)]


def test_a_flood_after_our_close_frame_is_not_read_either() -> None:
    session = new_session(Limits(frames_per_second=50))
    session.close(CloseCode.GOING_AWAY, "leaving", 1.0)
    outputs = [session.receive_frame(Opcode.PING, b"", 1.0) for _ in range(101)]
    assert outputs == [[]] * 100 + [[StopReading()]]


def test_pings_a_heartbeat_and_thirty_credits_a_second_are_no_flood() -> None:
    session = new_session(Limits(messages_per_second=40, frames_per_second=100))
    credit = b'{"type":"response.credit","response_id":"r","n":1}'
    for tick in range(30 * 600):
        now = 1.0 + tick / 30
        assert receive(session, credit, now).event is not None
        if tick % 30 == 0:
            assert session.receive_frame(Opcode.PING, b"", now) == [SendPong(b"")]
            assert session.receive_frame(Opcode.PONG, b"", now) == []
            assert only_frame(receive(session, b'{"type":"ping"}', now))["type"] == "pong"


def test_who_may_send_more_messages_may_send_more_frames() -> None:
    assert Limits().most_frames_per_second == 100
    assert Limits(messages_per_second=1).most_frames_per_second == 100
    assert Limits(messages_per_second=1_000).most_frames_per_second == 5_000
    assert Limits(messages_per_second=1_000, frames_per_second=7).most_frames_per_second == 7


# -- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RateLimited("x", code="rate_limited", retry_after_ms=7), "throttle"),
        (RateLimited("x", code="session_in_flight"), "throttle"),
        (RateLimited("x", code="tenant_in_flight"), "throttle"),
        (RateLimited("x", code="queue_full", retry_after_ms=7), "system.busy"),
        (Overloaded("x", code="draining"), "system.busy"),
        (Conflict("x", code="causal_violation", expected="m0"), "error"),
        (NotFound("x", code="response_not_found"), "error"),
        (Gone("x", code="response_expired"), "error"),
        (ModelRefused("x", code="model_refused"), "error"),
    ],
)
def test_each_error_is_refused_with_the_frame_of_its_kind(error: EvenflowError, kind: str) -> None:
    frame = json.loads(rejection_frame(error, message_id="m1").to_json())
    assert frame["type"] == kind
    assert frame["message_id"] == "m1"
    assert frame["error"] == error.to_object()
    assert ("retry_after_ms" in frame) == (kind != "error")
    if kind != "error":
        assert frame["retry_after_ms"] == (error.retry_after_ms or 1000)


def test_a_refused_operation_names_its_response() -> None:
    frame = json.loads(
        rejection_frame(NotFound("x", code="response_not_found"), response_id="rsp_9").to_json()
    )
    assert frame["response_id"] == "rsp_9"
    assert "message_id" not in frame


# -- heartbeat -------------------------------------------------------------------------------------


def _timer(outputs: list[Output]) -> float:
    (seconds,) = [output.seconds for output in outputs if isinstance(output, SetTimer)]
    return seconds


class HeartbeatRun:
    """A connection whose heartbeat is looked at as the clock would: when it asked to, or up to
    20 ms later.
    """

    def __init__(
        self, share: float, late: float, limits: Limits | None = None, *, opened_at: float = 0.0
    ) -> None:
        self.session = ClientSession(CLAIMS, limits or Limits(), expires_in=1e6, now=opened_at)
        self.late = late
        self.pings: list[float] = []
        self.closed_at: float | None = None
        self.close: SendClose | None = None
        self._look_at = opened_at + _timer(self.session.connected(READY, share, opened_at))
        self._pongs: list[float] = []

    def run(self, until: float, answers_after: float | None = None) -> None:
        """Look until then; a client that answers does so so many seconds after each ping."""
        while self.closed_at is None and (now := self._look_at + self.late) <= until:
            for pong in self._pongs:
                if pong <= now:
                    self.heard(pong)
            self._pongs = [pong for pong in self._pongs if pong > now]
            beat = Received(self.session.timer(now))
            if beat.pings:
                self.pings.append(now)
                if answers_after is not None:
                    self._pongs.append(now + answers_after)
            if beat.close is not None:
                self.close, self.closed_at = beat.close, now
                return
            assert beat.look_again_in, "the same moment would be looked at for ever"
            self._look_at = now + beat.look_again_in

    def stop(self, now: float, seconds: float, *, wheel_goes_on: bool) -> None:
        """The process stands still. What comes meanwhile is read after the next timers.

        `wheel_goes_on`: whether they come when they are due, else all of them so much later.
        """
        goes_on = now + seconds
        self._look_at = max(self._look_at, goes_on) if wheel_goes_on else self._look_at + seconds
        self._pongs = [max(pong, goes_on + 0.5) for pong in self._pongs]

    def heard(self, now: float) -> None:
        self.session.receive_frame(Opcode.PONG, b"", now)


@given(st.floats(0, 1), st.floats(0, 0.02), st.floats(0, 400), st.floats(0, 1e6))
def test_a_client_last_heard_at_t_is_given_up_between_60_and_75_seconds_later(
    share: float, late: float, silent_after: float, opened_at: float
) -> None:
    run = HeartbeatRun(share, late, opened_at=opened_at)
    heard_at = opened_at
    while heard_at + 7.0 < opened_at + silent_after:
        heard_at += 7.0
        run.run(heard_at)
        run.heard(heard_at)
    run.run(opened_at + silent_after)
    run.run(heard_at + 1000.0)
    assert run.closed_at is not None
    assert run.close is not None
    assert 60.0 - 1e-6 <= run.closed_at - heard_at <= 75.0
    assert run.close.code == CloseCode.HEARTBEAT_LOST
    assert run.session.state is ConnectionState.CLOSED


@given(st.floats(0, 1), st.floats(0, 0.02), st.floats(0, 29))
def test_a_client_that_answers_its_pings_is_never_given_up(
    share: float, late: float, answers_after: float
) -> None:
    run = HeartbeatRun(share, late)
    run.run(3600.0, answers_after)
    assert run.closed_at is None


@given(st.floats(0, 1), st.floats(0, 20), st.floats(0, 200), st.floats(0.5, 4_000), st.booleans())
def test_a_process_that_stood_still_pings_its_clients_before_it_judges_them(
    share: float, answers_after: float, stops_at: float, stopped: float, wheel_goes_on: bool
) -> None:
    run = HeartbeatRun(share, 0.01)
    run.run(stops_at, answers_after)
    before = len(run.pings)
    run.stop(stops_at, stopped, wheel_goes_on=wheel_goes_on)
    run.run(stops_at + stopped + 200.0, answers_after)
    assert run.closed_at is None
    assert len(run.pings) > before


@given(st.floats(0, 1), st.floats(0, 200), st.floats(0.5, 4_000), st.booleans())
def test_a_client_that_vanished_while_the_process_stood_still_is_given_up_in_time(
    share: float, stops_at: float, stopped: float, wheel_goes_on: bool
) -> None:
    run = HeartbeatRun(share, 0.01)
    run.run(stops_at, 0.05)
    run.stop(stops_at, stopped, wheel_goes_on=wheel_goes_on)
    run.run(stops_at + stopped + 100.0)
    assert run.closed_at is not None
    assert run.closed_at <= stops_at + stopped + 92.0


@given(st.floats(0, 1), st.sampled_from([0.2, 1.0, 40.0]), st.floats(1.5, 10))
def test_a_client_that_answers_its_pings_lives_with_any_limits_that_are_allowed(
    share: float, heartbeat: float, times: float
) -> None:
    limits = Limits(heartbeat_seconds=heartbeat, pong_timeout_seconds=heartbeat * times)
    run = HeartbeatRun(share, 0.01, limits)
    run.run(heartbeat * 100, answers_after=heartbeat * 0.2)
    assert run.closed_at is None


@given(st.floats(0, 1), st.floats(0, 0.02))
def test_pings_come_every_25_seconds_from_a_moment_of_each_connections_own(
    share: float, late: float
) -> None:
    run = HeartbeatRun(share, late)
    run.run(1000.0, answers_after=0.05)
    assert 25 * 0.05 <= run.pings[0] <= 25.0 + 0.05
    gaps = [after - before for before, after in zip(run.pings, run.pings[1:], strict=False)]
    assert len(gaps) > 30
    assert all(25.0 - 1e-6 <= gap <= 25.05 for gap in gaps)


def test_ten_thousand_connections_ping_spread_over_the_interval() -> None:
    per_slot: dict[int, int] = {}
    for number in range(10_000):
        session = ClientSession(CLAIMS, Limits(), expires_in=1.0, now=0.0)
        first = _timer(session.connected(READY, number / 10_000, 0.0))
        per_slot[int(first)] = per_slot.get(int(first), 0) + 1
    assert max(per_slot.values()) < 1000
    assert len(per_slot) >= 23


@pytest.mark.parametrize("kind", [Opcode.TEXT, Opcode.PING, Opcode.PONG])
def test_whatever_comes_from_the_client_shows_that_it_lives(kind: Opcode) -> None:
    session = new_session(Limits(heartbeat_seconds=30))
    for beat in (15.0, 45.0):
        session.timer(beat)
    session.receive_frame(kind, b"nonsense", 50.0)
    for beat in (60.0, 75.0, 105.0, 109.0):
        assert Received(session.timer(beat)).close is None
    assert session.timer(110.0) == [
        SendClose(CloseCode.HEARTBEAT_LOST, "nothing was heard for 60 s; reconnect and resume"),
        Disconnect(flush=False),
        Ended(ConnectionEvent.LOSE),
    ]
