"""What a client's session wants done: by its transport, by the node, and by whoever counts."""

from __future__ import annotations

from dataclasses import dataclass

from stream_core.client_session_states import SessionEvent
from stream_core.messages import ClientMessage


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
