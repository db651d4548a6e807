"""The wire form of a connection: how a client's frames are read, and the server's are written."""

from __future__ import annotations

from typing import ClassVar

from stream_core.messages import CLIENT_MESSAGE, ClientMessage, ServerMessage, parse
from stream_core.subprotocols import COMPACT, V1, CompactEncoder, DeltaEncoder, V1Encoder


class Dialect:
    """`evenflow.v1`, which is the messages as they are."""

    name: ClassVar[str] = V1
    """The subprotocol."""
    message_field: ClassVar[str] = "message_id"
    """Where a client's frame names its message."""
    numbers_responses: ClassVar[bool] = False
    """Whether a number stands for a response's id."""

    def read(self, data: bytes) -> ClientMessage:
        """Understand a client's frame.

        Raises:
            InvalidRequest: it is no JSON, of no known type, or a field is wrong.
        """
        return parse(CLIENT_MESSAGE, data)

    def write(self, message: ServerMessage) -> bytes:
        """The bytes of any frame but a delta."""
        return message.to_json()

    def encoder(self, session_id: str, response_id: str, _number: int) -> DeltaEncoder:
        """What writes the deltas of a response; the number is this connection's own for it."""
        return V1Encoder(session_id, response_id)


class CompactDialect(Dialect):
    """`evenflow.v1.compact`."""

    name = COMPACT
    numbers_responses = True

    def encoder(self, _session_id: str, _response_id: str, number: int) -> DeltaEncoder:
        """Deltas that name the response by its number."""
        return CompactEncoder(number)
