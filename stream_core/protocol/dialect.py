"""Subprotocols, and how each writes the server's messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Protocol

from orjson import dumps

from stream_core.protocol.messages import CLIENT_MESSAGE, ClientMessage, ServerMessage, parse

V1 = "evenflow.v1"
COMPACT = "evenflow.v1.compact"
REALTIME = "evenflow.realtime.v1"


def subprotocols(headers: Iterable[str]) -> list[str]:
    """What a client offers, in its order; it may be spread over several header lines."""
    return [name.strip() for name in ",".join(headers).split(",") if name.strip()]


class DeltaEncoder(Protocol):
    """Writes the deltas of one response for one connection."""

    def delta(self, text: str, first: int, last: int) -> bytes:
        """The frame for `text`, which covers the indexes `first` … `last`."""


class V1Encoder:
    """`{"type":"chat.response.delta","session_id":…,"response_id":…,"delta":"…","index":n,"from":first}`.

    All but the text and the numbers is encoded once per response.
    """

    __slots__ = ("_prefix",)

    def __init__(self, session_id: str, response_id: str) -> None:
        self._prefix = b'{"type":"chat.response.delta","session_id":%b,"response_id":%b,"delta":' % (
            dumps(session_id),
            dumps(response_id),
        )

    def delta(self, text: str, first: int, last: int) -> bytes:
        """The frame for `text`."""
        if first == last:
            return b'%b%b,"index":%d}' % (self._prefix, dumps(text), last)
        return b'%b%b,"index":%d,"from":%d}' % (self._prefix, dumps(text), last, first)


class CompactEncoder:
    """`[stream, index, "text"]`, joined `[stream, index, "text", from]`; `stream` is for the ids."""

    __slots__ = ("_stream",)

    def __init__(self, stream: int) -> None:
        self._stream = stream

    def delta(self, text: str, first: int, last: int) -> bytes:
        """The frame for `text`."""
        if first == last:
            return b"[%d,%d,%b]" % (self._stream, last, dumps(text))
        return b"[%d,%d,%b,%d]" % (self._stream, last, dumps(text), first)


class TokenEncoder:
    """`{"type":"token","response_id":…,"index":n,"text":"…","from":first}` of `/realtime`.

    `from` only when joined.
    """

    __slots__ = ("_prefix",)

    def __init__(self, response_id: str) -> None:
        self._prefix = b'{"type":"token","response_id":%b,"index":' % dumps(response_id)

    def delta(self, text: str, first: int, last: int) -> bytes:
        """The frame for `text`."""
        if first == last:
            return b'%b%d,"text":%b}' % (self._prefix, last, dumps(text))
        return b'%b%d,"text":%b,"from":%d}' % (self._prefix, last, dumps(text), first)


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
