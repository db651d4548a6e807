"""The subprotocols of a WebSocket, and how each writes the server's messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from evenflow.stream_core.delivery.delta_encoder import EntryEncoder
from evenflow.stream_core.protocols.evenflow.entry_encoders import CompactEncoder, V1Encoder
from evenflow.stream_core.protocols.evenflow.messages import (
    CLIENT_MESSAGE,
    ClientMessage,
    ServerMessage,
    parse,
)

V1 = "evenflow.v1"
COMPACT = "evenflow.v1.compact"
REALTIME = "evenflow.realtime.v1"


def subprotocols(headers: Iterable[str]) -> list[str]:
    """The subprotocols that a client offers, in its order. They may fill several header lines."""
    return [name.strip() for name in ",".join(headers).split(",") if name.strip()]


class Dialect:
    """`evenflow.v1`: the messages of `messages.py`, unchanged."""

    name: ClassVar[str] = V1
    """The subprotocol."""
    message_field: ClassVar[str] = "message_id"
    """The field that names a client's message."""
    numbers_responses: ClassVar[bool] = False
    """Whether deltas name their response by a number."""

    def read(self, data: bytes) -> ClientMessage:
        """Read a client's frame.

        Raises:
            InvalidRequest: it is not JSON, its type is unknown, or a field is wrong.
        """
        return parse(CLIENT_MESSAGE, data)

    def write(self, message: ServerMessage) -> bytes:
        """Write any frame but a delta and an event."""
        return message.to_json()

    def encoder(self, session_id: str, response_id: str, _number: int) -> EntryEncoder:
        """An encoder for the entries of one response. `_number` is its number on the connection."""
        return V1Encoder(session_id, response_id)


class CompactDialect(Dialect):
    """`evenflow.v1.compact`."""

    name = COMPACT
    numbers_responses = True

    def encoder(self, _session_id: str, _response_id: str, number: int) -> EntryEncoder:
        """An encoder of entries that name the response by its number."""
        return CompactEncoder(number)
