"""Writes the entries of a response as frames of a WebSocket, one encoder for each subprotocol.

They are `EntryEncoder`s (`delivery/delta_encoder.py`): a delivery gives them each entry.
"""

from __future__ import annotations

from orjson import dumps

from evenflow.stream_core.log.entries import Part
from evenflow.stream_core.protocols.evenflow.part_objects import part_json


class V1Encoder:
    """`{"type":"chat.response.delta","session_id":…,"response_id":…,"delta":"…","index":n,"from":first}`.

    All but the text and the numbers is encoded once a response. Parts are
    `{"type":"chat.response.event","session_id":…,"response_id":…,"index":n,"from":first,"kind":…}`.
    """

    __slots__ = ("_event_prefix", "_prefix")

    def __init__(self, session_id: str, response_id: str) -> None:
        ids = b'"session_id":%b,"response_id":%b' % (dumps(session_id), dumps(response_id))
        self._prefix = b'{"type":"chat.response.delta",%b,"delta":' % ids
        self._event_prefix = b'{"type":"chat.response.event",%b,"index":' % ids

    @property
    def template(self) -> bytes:
        """The frame for the text of one index, with places for its JSON and the index."""
        return self._prefix.replace(b"%", b"%%") + b'%b,"index":%d}'

    def delta(self, text: str, first: int, last: int) -> bytes:
        """The frame for `text`."""
        if first == last:
            return b'%b%b,"index":%d}' % (self._prefix, dumps(text), last)
        return b'%b%b,"index":%d,"from":%d}' % (self._prefix, dumps(text), last, first)

    def event(self, part: Part, first: int, last: int) -> bytes:
        """The frame for `part`."""
        return _event(self._event_prefix, part, first, last)


class CompactEncoder:
    """`[stream, index, "text"]`, joined `[stream, index, "text", from]`. `stream` is a number.

    Of a part the third is its object.
    """

    __slots__ = ("_stream",)

    def __init__(self, stream: int) -> None:
        self._stream = stream

    def delta(self, text: str, first: int, last: int) -> bytes:
        """The frame for `text`."""
        if first == last:
            return b"[%d,%d,%b]" % (self._stream, last, dumps(text))
        return b"[%d,%d,%b,%d]" % (self._stream, last, dumps(text), first)

    def event(self, part: Part, first: int, last: int) -> bytes:
        """The frame for `part`."""
        if first == last:
            return b"[%d,%d,%b]" % (self._stream, last, part_json(part))
        return b"[%d,%d,%b,%d]" % (self._stream, last, part_json(part), first)


class TokenEncoder:
    """`{"type":"token","response_id":…,"index":n,"text":"…","from":first}` of `/realtime`.

    `from` is there only when several are joined. Parts are
    `{"type":"event","response_id":…,"index":n,"from":first,"kind":…}`.
    """

    __slots__ = ("_event_prefix", "_prefix")

    def __init__(self, response_id: str) -> None:
        self._prefix = b'{"type":"token","response_id":%b,"index":' % dumps(response_id)
        self._event_prefix = b'{"type":"event","response_id":%b,"index":' % dumps(response_id)

    def delta(self, text: str, first: int, last: int) -> bytes:
        """The frame for `text`."""
        if first == last:
            return b'%b%d,"text":%b}' % (self._prefix, last, dumps(text))
        return b'%b%d,"text":%b,"from":%d}' % (self._prefix, last, dumps(text), first)

    def event(self, part: Part, first: int, last: int) -> bytes:
        """The frame for `part`."""
        return _event(self._event_prefix, part, first, last)


def _event(prefix: bytes, part: Part, first: int, last: int) -> bytes:
    """The frame for a part. It has the fields of the part's object."""
    fields = part_json(part)[1:]  # without the brace
    if first == last:
        return b"%b%d,%b" % (prefix, last, fields)
    return b'%b%d,"from":%d,%b' % (prefix, last, first, fields)
