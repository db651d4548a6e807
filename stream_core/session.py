"""The server's side of one WebSocket connection, as a pure state machine: bytes and time in, decisions out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypedDict

import orjson

from stream_core.dialect import Dialect
from stream_core.errors import AuthenticationFailed, EvenflowError, InvalidRequest, Overloaded, RateLimited
from stream_core.limits import Limits
from stream_core.messages import (
    LONGEST_IDENTIFIER,
    ChatMessageFrame,
    ClientMessage,
    ErrorFrame,
    ResponseCredit,
    ResponseResume,
    ServerMessage,
    SystemBusy,
    Throttle,
)
from stream_core.session_token import SessionClaims
from stream_core.token_bucket import TokenBucket


class CloseCode:
    """The close codes of the contract."""

    DONE = 1000
    GOING_AWAY = 1001
    PROTOCOL = 1002
    UNSUPPORTED_DATA = 1003
    INVALID_TEXT = 1007
    POLICY = 1008
    TOO_LARGE = 1009
    OVER_CAPACITY = 1013
    TOO_SLOW = 4008
    REPLACED = 4009
    HEARTBEAT_LOST = 4010


class SessionState(StrEnum):
    """Where a connection is."""

    OPEN = "open"
    DRAINING = "draining"  # answers go on, new messages are refused
    CLOSED = "closed"


class SessionEvent(StrEnum):
    """What happens to a connection."""

    DRAIN = "drain"  # the node is leaving
    VIOLATE = "violate"  # oversized, binary, not UTF-8, or not understood too often
    LOSE = "lose"  # nothing was heard for the pong timeout
    CLOSE = "close"  # either side closed


_S, _E = SessionState, SessionEvent

SESSION_TRANSITIONS: dict[tuple[SessionState, SessionEvent], SessionState] = {
    (_S.OPEN, _E.DRAIN): _S.DRAINING,
    (_S.OPEN, _E.VIOLATE): _S.CLOSED,
    (_S.OPEN, _E.LOSE): _S.CLOSED,
    (_S.OPEN, _E.CLOSE): _S.CLOSED,
    (_S.DRAINING, _E.VIOLATE): _S.CLOSED,
    (_S.DRAINING, _E.LOSE): _S.CLOSED,
    (_S.DRAINING, _E.CLOSE): _S.CLOSED,
}


@dataclass(frozen=True, slots=True)
class Close:
    """Close the connection."""

    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Received:
    """What one message from the client leads to: an event to act upon, frames to send, perhaps a close.

    `refused` is the code with which a message of the conversation was refused; empty where none was.
    """

    event: ClientMessage | None = None
    frames: tuple[bytes, ...] = ()
    close: Close | None = None
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """What the heartbeat decides: ping now, close, and when (seconds from now) to look again."""

    ping: bool
    close: Close | None
    look_again_in: float


_NOTHING = Received()
_EVENFLOW = Dialect()


class Session:
    """The protocol state of one connection.

    Args:
        claims: whose connection it is.
        dialect: how its frames are written.
        expires_in: seconds from `now` until the token expires (which the claims say in wall-clock time).
        now: seconds on a monotonic clock, like every `now` here.
    """

    __slots__ = (
        "_bucket",
        "_expires_at",
        "_fragments",
        "_heard_at",
        "_limits",
        "_ping_at",
        "_strikes",
        "claims",
        "dialect",
        "state",
    )

    def __init__(
        self,
        claims: SessionClaims,
        limits: Limits,
        *,
        expires_in: float,
        now: float,
        dialect: Dialect = _EVENFLOW,
    ) -> None:
        self.claims = claims
        self.dialect = dialect
        self.state = SessionState.OPEN
        self._limits = limits
        self._expires_at = now + expires_in
        self._heard_at = now
        self._ping_at = now
        # Most connections never send much: what counts and collects is made when it is needed.
        self._bucket: TokenBucket | None = None
        self._strikes: TokenBucket | None = None
        self._fragments: bytearray | None = None

    # -- what comes in -------------------------------------------------------------------------------------------

    def heard(self, now: float) -> None:
        """Anything came from the client, a pong for example: it is alive."""
        self._heard_at = now

    def receive_fragment(self, data: bytes, *, continues: bool, final: bool, now: float) -> Received:
        """A text frame, or one that continues it; the final one is answered like a whole message."""
        self._heard_at = now
        if self.state is SessionState.CLOSED:
            return _NOTHING
        if continues is (self._fragments is None):
            return self.violation(CloseCode.PROTOCOL, "a fragmented message is out of order")
        if self._fragments is None:
            if final:
                return self.receive(data, now)
            self._fragments = bytearray()
        self._fragments += data
        if len(self._fragments) > self._limits.message_bytes:
            return self.violation(CloseCode.TOO_LARGE, self._too_large())
        if not final:
            return _NOTHING
        whole = bytes(self._fragments)
        self._fragments = None
        return self.receive(whole, now)

    def receive(self, data: bytes, now: float) -> Received:
        """A whole text message: an event, or a refusal that says why. Other answers are never harmed."""
        self._heard_at = now
        if self.state is SessionState.CLOSED:
            return _NOTHING
        if len(data) > self._limits.message_bytes:
            return self.violation(CloseCode.TOO_LARGE, self._too_large())
        try:
            data.decode()
        except UnicodeDecodeError:
            return self.violation(CloseCode.INVALID_TEXT, "text frames must be UTF-8")
        try:
            message = self.dialect.read(data)
            self._check_credit(message)
        except InvalidRequest as error:
            return self._strike(self.refuse(error, **self._named_by(data)), now)
        return self._judge(message, now)

    def violation(self, code: int, reason: str) -> Received:
        """The protocol was broken beyond an answer: close."""
        if self.state is SessionState.CLOSED:
            return _NOTHING
        self._fire(SessionEvent.VIOLATE)
        return Received(close=Close(code, reason))

    def refuse(self, error: EvenflowError, *, message_id: str | None = None, response_id: str | None = None) -> bytes:
        """The frame that refuses a message or an operation, with the right type for the error."""
        return self.dialect.write(_refusal(error, message_id, response_id))

    # -- what time brings ----------------------------------------------------------------------------------------

    def first_heartbeat_in(self, share: float, now: float) -> float:
        """Seconds until the first look; `share` (0–1) spreads connections over the heartbeat interval."""
        self._ping_at = now + self._limits.heartbeat_seconds * max(share, 0.05)
        return self._ping_at - now

    def heartbeat(self, now: float) -> Heartbeat:
        """Ping when it is time, and give up a client that was not heard for the pong timeout."""
        lost_at = self._heard_at + self._limits.pong_timeout_seconds
        if now >= lost_at:
            self._fire(SessionEvent.LOSE)
            silent = f"nothing was heard for {now - self._heard_at:.0f} s; reconnect and resume"
            return Heartbeat(ping=False, close=Close(CloseCode.HEARTBEAT_LOST, silent), look_again_in=0)
        ping = now >= self._ping_at
        if ping:
            self._ping_at = now + self._limits.heartbeat_seconds
        return Heartbeat(ping=ping, close=None, look_again_in=min(self._ping_at, lost_at) - now)

    def drain(self) -> None:
        """The node is leaving: answers go on, new messages are refused."""
        if self.state is SessionState.OPEN:
            self._fire(SessionEvent.DRAIN)

    def close(self) -> None:
        """Either side has closed; closing twice is the same."""
        if self.state is not SessionState.CLOSED:
            self._fire(SessionEvent.CLOSE)

    # -- inside --------------------------------------------------------------------------------------------------

    def _judge(self, message: ClientMessage, now: float) -> Received:
        message_id, response_id = ids_of(message)
        if self._bucket is None:
            rate = self._limits.messages_per_second
            self._bucket = TokenBucket(rate, rate * 2, now)
        wait = self._bucket.take(now)
        if wait:
            error = RateLimited(
                "frames come too fast; this one was not acted upon, send it again later",
                code="rate_limited",
                retry_after_ms=int(wait * 1000) + 1,
            )
            struck = self._strike(self.refuse(error, message_id=message_id, response_id=response_id), now)
            return replace(struck, refused=error.code if message_id is not None else "")
        if message_id is not None:
            refusal = self._refuses_messages(now)
            if refusal is not None:
                return Received(frames=(self.refuse(refusal, message_id=message_id),), refused=refusal.code)
        return Received(event=message)

    def _refuses_messages(self, now: float) -> EvenflowError | None:
        if self.state is SessionState.DRAINING:
            return Overloaded(
                "this node is leaving; the message was not accepted, send it on a new connection",
                code="draining",
                retry_after_ms=1000,
            )
        if now >= self._expires_at:
            return AuthenticationFailed(
                "the session token has expired; running answers go on, but the message was not accepted: "
                "POST /session with the same session_id, connect again and send it there",
                code="token_expired",
            )
        return None

    def _check_credit(self, message: ClientMessage) -> None:
        """Before a message is accepted or a response is looked for."""
        if isinstance(message, ResponseCredit):
            credit, param = message.n, "n"
        elif isinstance(message, ChatMessageFrame | ResponseResume) and message.credit is not None:
            credit, param = message.credit, "credit"
        else:
            return
        if credit > self._limits.credit_window:
            raise InvalidRequest(
                f"{param}: at most {self._limits.credit_window} entries may be granted ahead; nothing was changed",
                code="invalid_field",
                param=param,
            )

    def _strike(self, frame: bytes, now: float) -> Received:
        if self._strikes is None:
            per_minute = self._limits.protocol_errors_per_minute
            self._strikes = TokenBucket(per_minute / 60, per_minute, now)
        if self._strikes.take(now):
            self._fire(SessionEvent.VIOLATE)
            return Received(
                frames=(frame,), close=Close(CloseCode.POLICY, "too many frames were not understood or too fast")
            )
        return Received(frames=(frame,))

    def _too_large(self) -> str:
        return f"a message may have {self._limits.message_bytes} bytes"

    def _fire(self, event: SessionEvent) -> None:
        self.state = SESSION_TRANSITIONS[self.state, event]

    def _named_by(self, data: bytes) -> _Named:
        """The ids in a frame that is otherwise not understood, so that its sender knows which one was refused."""
        try:
            frame = orjson.loads(data)
        except orjson.JSONDecodeError:
            return {}
        if not isinstance(frame, dict):
            return {}
        named: _Named = {}
        message_id, response_id = frame.get(self.dialect.message_field), frame.get("response_id")
        if isinstance(message_id, str) and len(message_id) <= LONGEST_IDENTIFIER:
            named["message_id"] = message_id
        if isinstance(response_id, str) and len(response_id) <= LONGEST_IDENTIFIER:
            named["response_id"] = response_id
        return named


class _Named(TypedDict, total=False):
    message_id: str
    response_id: str


def ids_of(message: ClientMessage) -> tuple[str | None, str | None]:
    """The message, or the response, that a client's frame is about."""
    if isinstance(message, ChatMessageFrame):
        return message.message_id, None
    return None, message.response_id


def _refusal(error: EvenflowError, message_id: str | None, response_id: str | None) -> ServerMessage:
    told = error.to_object()
    wait = error.retry_after_ms or 1000
    # `system.busy` is about messages; what can't be done with a response now names it.
    about_response = response_id is not None and isinstance(error, Overloaded)
    if isinstance(error, RateLimited) and error.code != "queue_full":
        return Throttle(
            type="throttle", retry_after_ms=wait, message_id=message_id, response_id=response_id, error=told
        )
    if isinstance(error, RateLimited | Overloaded) and not about_response:
        return SystemBusy(type="system.busy", retry_after_ms=wait, message_id=message_id, error=told)
    return ErrorFrame(type="error", error=told, message_id=message_id, response_id=response_id)
