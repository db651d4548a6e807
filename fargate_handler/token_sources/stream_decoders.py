"""Decodes events and lines from a byte stream that may be cut anywhere."""

from __future__ import annotations

from evenflow.fargate_handler.token_sources.chunk_fields import parsed
from evenflow.stream_core.base.errors import UpstreamUnreadable

EVENT_BYTES = 1_048_576
"""The default for the most bytes of an event."""
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# Bytes of overhead that each line counts.
_LINE_BYTES = 64


class EventTooLong(UpstreamUnreadable):
    """An event, or a line, is larger than allowed.

    Args:
        beginning: the data received so far.
    """

    def __init__(self, beginning: bytes) -> None:
        super().__init__(
            "the model's server sent an event that is too long; the connection was closed, and "
            "what came before was kept",
            code="upstream_failed",
        )
        self.beginning = beginning


class SseDecoder:
    """Decodes server-sent events. Only their data is kept, and comments are counted.

    Args:
        most_bytes: the size of the largest event.
        marks_errors: whether the data of an event `error` becomes `{"error": data}`. Other names of
            events are ignored.
    """

    __slots__ = (
        "_after_cr",
        "_buffer",
        "_data",
        "_has_begun",
        "_is_error",
        "_marks_errors",
        "_most_bytes",
        "_size",
        "comments",
    )  # fmt: skip

    def __init__(self, most_bytes: int = EVENT_BYTES, *, marks_errors: bool = False) -> None:
        self.comments = 0
        """The number of comments. Servers send them as heartbeats."""
        self._most_bytes = most_bytes
        self._marks_errors = marks_errors
        self._buffer = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._has_begun = self._after_cr = self._is_error = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that `chunk` completes. Newlines join several `data:` lines.

        Raises:
            EventTooLong: an event is larger than allowed.
        """
        if self.is_between_events and chunk.startswith(b"data: ") and chunk.endswith(b"\n\n"):
            events = chunk[6:-2].split(b"\n\ndata: ")
            if chunk.count(b"\n") == 2 * len(events) and b"\r" not in chunk:
                self._has_begun = True
                return events  # nearly every call is like this
        events = []
        for line in self._lines(chunk):
            if line:
                self._take_field(line)
            elif self._data:
                events.append(self._marked(self._whole_data()))
            else:
                self._is_error = False
        if self._size + len(self._buffer) > self._most_bytes:
            beginning, self._buffer = self.rest(), bytearray()
            raise EventTooLong(beginning)
        return events

    @property
    def is_between_events(self) -> bool:
        """Whether nothing of an event waits for the rest."""
        return not (self._buffer or self._data or self._is_error)

    def _take_field(self, line: bytes) -> None:
        if line.startswith(b"data:"):
            self._size += _LINE_BYTES + len(line)
            self._data.append(_value(line))
        elif line.startswith(b":"):
            self.comments += 1
        elif line.startswith(b"event:"):
            self._is_error = self._marks_errors and _value(line) == b"error"

    def rest(self) -> bytes:
        """The data of a last event without its empty line."""
        line = bytes(self._buffer)
        return self._marked(self._whole_data(_value(line) if line.startswith(b"data:") else b""))

    def _whole_data(self, last_value: bytes = b"") -> bytes:
        data, self._data = self._data, []
        self._size = 0
        if last_value:
            data.append(last_value)
        return data[0] if len(data) == 1 else b"\n".join(data)

    def _marked(self, data: bytes) -> bytes:
        if not self._is_error:
            return data
        self._is_error = False
        return b'{"error":%b}' % data

    def _lines(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes. They end with CR LF, LF or CR."""
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")  # that line has been taken
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        buffer = self._buffer
        buffer += chunk
        if not self._has_begun:
            if len(buffer) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(buffer):
                return []
            self._has_begun = True
            if buffer.startswith(_BYTE_ORDER_MARK):
                del buffer[: len(_BYTE_ORDER_MARK)]
        elif b"\n" not in chunk:
            return []
        *lines, last = bytes(buffer).split(b"\n")
        self._buffer = bytearray(last)
        return lines


def _value(line: bytes) -> bytes:
    """The value of a field, after the colon and one space."""
    value = line[line.index(b":") + 1 :]
    return value[1:] if value.startswith(b" ") else value


class JsonLinesDecoder:
    """Decodes JSON lines. Empty lines are left out.

    Args:
        most_bytes: the size of the longest line.
    """

    __slots__ = ("_buffer", "_most_bytes")

    comments = 0

    def __init__(self, most_bytes: int = EVENT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes.

        Raises:
            EventTooLong: a line is larger than allowed.
        """
        lines: list[bytes] = []
        self._buffer += chunk
        if b"\n" in chunk:
            *lines, last = bytes(self._buffer).split(b"\n")
            self._buffer = bytearray(last)
        if len(self._buffer) > self._most_bytes:
            raise EventTooLong(bytes(self._buffer))
        return [line for line in lines if line.strip()]

    def rest(self) -> bytes:
        """A last line without a line break."""
        return bytes(self._buffer)


class JsonDecoder:
    """Decodes a JSON body: JSON lines, if the first line is JSON by itself, else one value.

    Args:
        most_bytes: the size of the longest line, and of the value.
    """

    __slots__ = ("_buffer", "_is_value", "_lines", "_most_bytes")

    comments = 0
    is_between_events = False
    """It is not known here: a line may be part of a value."""

    def __init__(self, most_bytes: int = EVENT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._buffer = bytearray()
        self._lines: JsonLinesDecoder | None = None
        self._is_value = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes. A single value is in `rest` instead.

        Raises:
            EventTooLong: a line, or the value, is larger than allowed.
        """
        if self._lines is not None:
            return self._lines.feed(chunk)
        self._buffer += chunk
        if b"\n" in chunk and not self._is_value:
            first, _, _ = bytes(self._buffer).partition(b"\n")
            if first.startswith(b"[DONE]") or _is_json(first):
                self._lines = JsonLinesDecoder(self._most_bytes)
                return self._lines.feed(bytes(self._buffer))
            self._is_value = True
        if len(self._buffer) > self._most_bytes:
            raise EventTooLong(bytes(self._buffer))
        return []

    def rest(self) -> bytes:
        """The value, or a last line without a line break."""
        return bytes(self._buffer) if self._lines is None else self._lines.rest()


def _is_json(data: bytes) -> bool:
    try:
        parsed(data)
    except ValueError:
        return False
    return True
