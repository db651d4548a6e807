"""The states of a client's session, and what it hands to its transport."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stream_core.protocol.messages import ClientMessage


class SessionState(StrEnum):
    """Where a connection is."""

    CONNECTING = "connecting"  # its client may come in, and was not greeted yet
    OPEN = "open"
    DRAINING = "draining"  # answers go on, new messages are refused
    CLOSING = "closing"  # our close frame is out, the client's is waited for
    CLOSED = "closed"


class SessionEvent(StrEnum):
    """What happens to a connection."""

    CONNECT = "connect"  # the transport is ready
    RECEIVE = "receive"  # a frame of the client that is no close frame
    MESSAGE = "message"  # one of the conversation came
    SEND = "send"  # a frame to the client that is no close frame
    BEAT = "beat"  # the heartbeat's turn
    DRAIN = "drain"  # the node is leaving
    VIOLATE = "violate"  # oversized, binary, not UTF-8, or not understood too often
    CLOSE = "close"  # the node closes
    LOSE = "lose"  # nothing was heard for the pong timeout
    OVERFLOW = "overflow"  # the client asks without reading
    CLIENT_CLOSE = "client_close"  # the client's close frame
    TIME_OUT = "time_out"  # the client's close frame doesn't come
    DISCONNECT = "disconnect"  # the transport is gone


_S, _E = SessionState, SessionEvent

SESSION_TRANSITIONS: dict[tuple[SessionState, SessionEvent], SessionState] = {
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
    (_S.OPEN, _E.CLIENT_CLOSE): _S.CLOSED,
    (_S.OPEN, _E.DISCONNECT): _S.CLOSED,
    (_S.DRAINING, _E.RECEIVE): _S.DRAINING,
    (_S.DRAINING, _E.SEND): _S.DRAINING,
    (_S.DRAINING, _E.BEAT): _S.DRAINING,
    (_S.DRAINING, _E.VIOLATE): _S.CLOSING,
    (_S.DRAINING, _E.CLOSE): _S.CLOSING,
    (_S.DRAINING, _E.LOSE): _S.CLOSED,
    (_S.DRAINING, _E.OVERFLOW): _S.CLOSED,
    (_S.DRAINING, _E.CLIENT_CLOSE): _S.CLOSED,
    (_S.DRAINING, _E.DISCONNECT): _S.CLOSED,
    (_S.CLOSING, _E.CLIENT_CLOSE): _S.CLOSED,
    (_S.CLOSING, _E.TIME_OUT): _S.CLOSED,
    (_S.CLOSING, _E.DISCONNECT): _S.CLOSED,
}
"""What has no row changes nothing and leads to nothing."""


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
    """Send a close frame; without a code it is empty. Nothing is sent behind it."""

    code: int | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Disconnect:
    """Hang up. `flush`: what the transport still holds goes out first."""

    flush: bool


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Call `timer` after so many seconds. Earlier ones stay; one that comes for nothing is harmless."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Command:
    """Do what the client asks for."""

    message: ClientMessage


@dataclass(frozen=True, slots=True)
class MessageRefused:
    """A message of the conversation was refused, by the code of the error; to be counted."""

    code: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The connection is over: it reads and asks nothing more. Comes once; `event` says why."""

    event: SessionEvent


Output = SendText | SendPing | SendPong | SendClose | Disconnect | SetTimer | Command | MessageRefused | Ended
