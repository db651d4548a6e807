"""The protocol of one WebSocket: frames and time in; frames, messages and timers out.

It has no socket and no clock. A transport reports what came, and does what it returns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import IntEnum

from evenflow.stream_core.base.errors import EvenflowError, NotPermitted
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode, answer_to_close
from evenflow.stream_core.protocols.evenflow.connection_states import (
    CONNECTION_TRANSITIONS,
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
from evenflow.stream_core.protocols.evenflow.frame_intake import (
    FrameIntake,
    RejectedMessage,
    Violation,
)

CLOSE_SECONDS = 5.0
"""How long a connection may take to end after the first close frame. Then its socket is cut."""

CredentialCheck = Callable[[], object]
"""Raises an `EvenflowError` when a credential is no longer valid."""

_MOST_WAITING = 64
"""How many frames, other than deltas, may wait for a transport that takes no more."""


class Opcode(IntEnum):
    """The types of frames (RFC 6455, 5.2)."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


def always_valid() -> None:
    """The check of a credential that never expires."""


class SocketSession(ABC):
    """The state of one connection. A subclass has the protocol of its messages.

    Each method takes an event and returns what to do about it, in order.

    Args:
        most_bytes: the largest message.
        now: seconds on a monotonic clock. So is every `now` of this class.
        check: checks the credential with each message. In between the node calls `revoke`.
    """

    __slots__ = (
        "_check",
        "_close_by",
        "_heard_at",
        "_intake",
        "_limits",
        "_look_at",
        "_ping_at",
        "_unanswered",
        "_waiting",
        "blocked",
        "state",
    )

    def __init__(
        self, limits: Limits, most_bytes: int, now: float, check: CredentialCheck = always_valid
    ) -> None:
        self.state = ConnectionState.CONNECTING
        self.blocked = False
        """Whether the transport takes no more. Cursors wait then."""
        self._limits = limits
        self._intake = FrameIntake(limits, most_bytes)
        self._check = check
        self._waiting = 0  # frames that were sent while the transport took no more
        self._unanswered: bytes | None = None  # the last ping that came meanwhile
        self._heard_at = now
        self._ping_at = now
        self._look_at = now  # when the heartbeat's timer ends
        self._close_by = now

    @property
    def over(self) -> bool:
        """Whether the connection is closing or closed."""
        return self.state is ConnectionState.CLOSING or self.state is ConnectionState.CLOSED

    @property
    def waiting_bytes(self) -> int:
        """Bytes of a message that lacks its last fragment."""
        return self._intake.waiting_bytes

    # -- events of the transport -------------------------------------------------------------------

    def begin(self, share: float, now: float) -> list[Output]:
        """The transport is ready: begin the heartbeat.

        `share` (0–1) spreads the heartbeats of connections over the interval.
        """
        if not self._fire(ConnectionEvent.CONNECT):
            return []
        first_ping_in = self._limits.heartbeat_seconds * max(share, 0.05)
        self._ping_at = self._look_at = now + first_ping_in
        return [SetTimer(first_ping_in)]

    def receive_frame(
        self, opcode: int, payload: bytes, now: float, *, final: bool = True, reserved: bool = False
    ) -> list[Output]:
        """A frame came. `reserved`: whether any of its reserved bits is set."""
        self._heard_at = now
        if opcode == Opcode.CLOSE and not reserved:
            return self._answer_close(payload, now)
        if self._intake.too_many_frames(now):
            return self._flooded(now)
        if not self._fire(ConnectionEvent.RECEIVE):
            return []
        if reserved:
            reason = "reserved bits are set, but no extension was agreed"
            violation = Violation(CloseCode.PROTOCOL, reason)
        elif opcode in (Opcode.TEXT, Opcode.CONTINUATION):
            return self._receive_text(payload, opcode == Opcode.CONTINUATION, final, now)
        elif opcode in (Opcode.PING, Opcode.PONG):
            return self._answer_ping(payload) if opcode == Opcode.PING else []
        else:
            reason = "binary frames are not part of this protocol"
            violation = Violation(CloseCode.UNSUPPORTED_DATA, reason)
        return self._violate(violation, now)

    def arriving(self, now: float) -> None:
        """Part of a frame came. No pong can come before its end."""
        self._heard_at = now

    def block(self) -> None:
        """The transport takes no more: the client doesn't read fast enough."""
        self.blocked = True

    def unblock(self) -> list[Output]:
        """The transport takes frames again."""
        self.blocked = False
        self._waiting = 0
        payload, self._unanswered = self._unanswered, None
        if payload is None or not self._fire(ConnectionEvent.SEND):
            return []
        return [SendPong(payload)]

    def malformed(self, code: int, now: float) -> list[Output]:
        """The transport read what is no frame. It has sent a close `code`, and reads no more."""
        return self._violate(Violation(code, "this is no frame of the protocol"), now)

    def timer(self, now: float) -> list[Output]:
        """A timer has ended: ping, or give up a client that is silent or doesn't close."""
        if self._fire(ConnectionEvent.BEAT):
            return self._heartbeat(now)
        if self.state is ConnectionState.CLOSING and now < self._close_by:
            return [SetTimer(self._close_by - now)]
        return self._end(ConnectionEvent.TIME_OUT, Disconnect(flush=False))

    def disconnected(self) -> list[Output]:
        """The transport is gone. Its responses are not cancelled."""
        return self._end(ConnectionEvent.DISCONNECT)

    # -- events of the node ------------------------------------------------------------------------

    def send(self, data: bytes) -> list[Output]:
        """Send a frame, other than a delta."""
        if not self._fire(ConnectionEvent.SEND):
            return []
        self._waiting += self.blocked
        if self._waiting > _MOST_WAITING:
            close = SendClose(CloseCode.TOO_SLOW, "asks without reading; reconnect and resume")
            return self._end(ConnectionEvent.OVERFLOW, close, Disconnect(flush=False))
        return [SendText(data)]

    def reject(self, rejected: RejectedMessage, now: float) -> list[Output]:
        """Answer a message with an error. Too many errors close the connection."""
        outputs = self.send(self._encoded(rejected))
        outputs.append(FrameRejected(rejected.error, rejected.what, rejected.is_message))
        if rejected.is_violation and self._intake.too_many_violations(now):
            reason = "too many frames were not understood or came too fast"
            outputs += self._violate(Violation(CloseCode.POLICY, reason), now)
        return outputs

    def revoke(self, error: EvenflowError, now: float) -> list[Output]:
        """Close the connection, since its credential is no longer valid."""
        # A client may come back with a new token, unless its tenant was removed.
        code = CloseCode.POLICY if isinstance(error, NotPermitted) else CloseCode.DONE
        return self.close(code, error.message, now)

    def close(self, code: int, reason: str, now: float) -> list[Output]:
        """Send a close frame, and wait for the client's answer."""
        return self._begin_close(ConnectionEvent.CLOSE, code, reason, now)

    # -- messages ----------------------------------------------------------------------------------

    @abstractmethod
    def _receive_message(self, data: bytes, now: float) -> list[Output]:
        """A whole message came."""

    @abstractmethod
    def _encoded(self, rejected: RejectedMessage) -> bytes:
        """The frame for a rejected message."""

    def _receive_text(self, data: bytes, continues: bool, final: bool, now: float) -> list[Output]:
        message = self._intake.add_text(data, continues=continues, final=final)
        if isinstance(message, Violation):
            return self._violate(message, now)
        return [] if message is None else self._receive_message(message, now)

    def _lapsed(self, now: float) -> EvenflowError | None:
        """The error of a credential that is no longer valid. None: it is, as far as is known."""
        try:
            self._check()
        except EvenflowError as error:
            return error
        return None

    def _reject_lapsed(self, rejected: RejectedMessage, now: float) -> list[Output]:
        """Answer a message with an invalid credential, and close the connection."""
        return [*self.reject(rejected, now), *self.revoke(rejected.error, now)]

    def _close_lapsed(self, now: float) -> list[Output]:
        """Close the connection if its credential is no longer valid."""
        return [] if (lapsed := self._lapsed(now)) is None else self.revoke(lapsed, now)

    def _answer_ping(self, payload: bytes) -> list[Output]:
        """Answer now, or the last ping alone once the client reads (RFC 6455, 5.5.3)."""
        if not self.blocked:
            return [SendPong(payload)]
        self._unanswered = payload
        return []

    # -- ends --------------------------------------------------------------------------------------

    def _heartbeat(self, now: float) -> list[Output]:
        # Time in which this process was stopped, or too busy to ping, is not the client's silence.
        self._heard_at = min(now, self._heard_at + max(0.0, now - self._look_at))
        lost_at = self._heard_at + self._limits.pong_timeout_seconds
        if now >= lost_at:
            silent = f"nothing was heard for {now - self._heard_at:.0f} s; reconnect and resume"
            close = SendClose(CloseCode.HEARTBEAT_LOST, silent)
            return self._end(ConnectionEvent.LOSE, close, Disconnect(flush=False))
        outputs: list[Output] = []
        if now >= self._ping_at:
            self._ping_at = now + self._limits.heartbeat_seconds
            outputs.append(SendPing())
        self._look_at = min(self._ping_at, lost_at)
        return [*outputs, SetTimer(self._look_at - now)]

    def _flooded(self, now: float) -> list[Output]:
        # Not even the answer to our close frame is waited for, since it would come behind the rest.
        most = self._limits.most_frames_per_second
        reason = f"a connection may send {most:g} frames a second; slow down and connect again"
        return [*self._violate(Violation(CloseCode.POLICY, reason), now), StopReading()]

    def _violate(self, violation: Violation, now: float) -> list[Output]:
        return self._begin_close(ConnectionEvent.VIOLATE, violation.code, violation.reason, now)

    def _begin_close(
        self, event: ConnectionEvent, code: int, reason: str, now: float
    ) -> list[Output]:
        outputs = self._end(event, SendClose(code, reason), SetTimer(CLOSE_SECONDS))
        if outputs:
            self._close_by = now + CLOSE_SECONDS
        return outputs

    def _answer_close(self, payload: bytes, now: float) -> list[Output]:
        if self.state is ConnectionState.CLOSING:
            return self._end(ConnectionEvent.CLIENT_CLOSE, Disconnect(flush=True))
        # A client that doesn't read would never take the answer.
        self._close_by = now + CLOSE_SECONDS
        outputs = (
            SendClose(answer_to_close(payload)),
            Disconnect(flush=True),
            SetTimer(CLOSE_SECONDS),
        )
        return self._end(ConnectionEvent.CLIENT_CLOSE, *outputs)

    def _end(self, event: ConnectionEvent, *outputs: Output) -> list[Output]:
        """Fire an event that ends the service, or the connection after that."""
        served = not self.over
        if not self._fire(event):
            return []
        return [*outputs, Ended(event)] if served else list(outputs)

    def _fire(self, event: ConnectionEvent) -> bool:
        """Take the event's transition. Returns whether there is one."""
        to = CONNECTION_TRANSITIONS.get((self.state, event))
        if to is None:
            return False
        self.state = to
        return True
