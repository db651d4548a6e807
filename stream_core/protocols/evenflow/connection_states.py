"""The states of a client's connection, and the outputs that it gives its transport."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.protocols.evenflow.messages import ClientMessage


class ConnectionState(StrEnum):
    """The state of a connection."""

    CONNECTING = "connecting"  # the client was admitted, and not greeted yet
    OPEN = "open"
    DRAINING = "draining"  # responses go on, new messages are rejected
    CLOSING = "closing"  # a close frame was sent, and the transport is not gone yet
    CLOSED = "closed"


class ConnectionEvent(StrEnum):
    """What happens to a connection."""

    CONNECT = "connect"  # the transport is ready
    RECEIVE = "receive"  # the client sent a frame, other than a close
    MESSAGE = "message"  # the client sent a message of the conversation
    SEND = "send"  # a frame is sent to the client, other than a close
    BEAT = "beat"  # it is time for the heartbeat
    DRAIN = "drain"  # the node is leaving
    VIOLATE = "violate"  # a frame was too large, binary, not UTF-8, or one too many
    CLOSE = "close"  # the node closes the connection
    LOSE = "lose"  # the client was silent for the pong timeout
    OVERFLOW = "overflow"  # the client sends requests without reading
    CLIENT_CLOSE = "client_close"  # the client sent a close frame
    TIME_OUT = "time_out"  # the transport is not gone `CLOSE_SECONDS` after the first close frame
    DISCONNECT = "disconnect"  # the transport is gone


_S, _E = ConnectionState, ConnectionEvent

CONNECTION_TRANSITIONS: dict[tuple[ConnectionState, ConnectionEvent], ConnectionState] = {
    (_S.CONNECTING, _E.CONNECT): _S.OPEN,
    (_S.CONNECTING, _E.DISCONNECT): _S.CLOSED,
    (_S.OPEN, _E.RECEIVE): _S.OPEN,
    (_S.OPEN, _E.MESSAGE): _S.OPEN,
    (_S.OPEN, _E.SEND): _S.OPEN,
    (_S.OPEN, _E.BEAT): _S.OPEN,
    (_S.OPEN, _E.DRAIN): _S.DRAINING,
    (_S.OPEN, _E.VIOLATE): _S.CLOSING,
    (_S.OPEN, _E.CLOSE): _S.CLOSING,
    (_S.OPEN, _E.LOSE): _S.CLOSED,
    (_S.OPEN, _E.OVERFLOW): _S.CLOSED,
    (_S.OPEN, _E.CLIENT_CLOSE): _S.CLOSING,
    (_S.OPEN, _E.DISCONNECT): _S.CLOSED,
    (_S.DRAINING, _E.RECEIVE): _S.DRAINING,
    (_S.DRAINING, _E.SEND): _S.DRAINING,
    (_S.DRAINING, _E.BEAT): _S.DRAINING,
    (_S.DRAINING, _E.VIOLATE): _S.CLOSING,
    (_S.DRAINING, _E.CLOSE): _S.CLOSING,
    (_S.DRAINING, _E.LOSE): _S.CLOSED,
    (_S.DRAINING, _E.OVERFLOW): _S.CLOSED,
    (_S.DRAINING, _E.CLIENT_CLOSE): _S.CLOSING,
    (_S.DRAINING, _E.DISCONNECT): _S.CLOSED,
    (_S.CLOSING, _E.CLIENT_CLOSE): _S.CLOSING,
    (_S.CLOSING, _E.TIME_OUT): _S.CLOSED,
    (_S.CLOSING, _E.DISCONNECT): _S.CLOSED,
}
"""An event without a row here changes nothing and gives no output."""


@dataclass(frozen=True, slots=True)
class SendText:
    """Send a text frame."""

    data: bytes


@dataclass(frozen=True, slots=True)
class SendPing:
    """Send a ping."""


@dataclass(frozen=True, slots=True)
class SendPong:
    """Answer a ping."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class SendClose:
    """Send a close frame, empty without a code. It is the last frame."""

    code: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StopReading:
    """Read nothing more of what the client sends."""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Disconnect. `flush`: send first what the transport still has."""

    flush: bool


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Call `timer` after `seconds`. Earlier timers stay; a needless call is harmless."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Command:
    """Execute the client's message."""

    message: ClientMessage


@dataclass(frozen=True, slots=True)
class Received:
    """Queue a message, which is parsed later."""

    data: bytes


@dataclass(frozen=True, slots=True)
class FrameRejected:
    """A frame was answered with an error.

    Args:
        what: the frame's type; `frame` where it has none that is known.
        is_message: whether it was a message of the conversation.
    """

    error: EvenflowError
    what: str
    is_message: bool


@dataclass(frozen=True, slots=True)
class Ended:
    """The connection no longer reads or requests. Comes once. `event` is the reason."""

    event: ConnectionEvent


Output = (
    SendText
    | SendPing
    | SendPong
    | SendClose
    | StopReading
    | Disconnect
    | SetTimer
    | Command
    | Received
    | FrameRejected
    | Ended
)
