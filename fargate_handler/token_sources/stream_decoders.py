"""Decodes events and lines from a byte stream that may be cut anywhere."""

from __future__ import annotations

from evenflow.stream_core.protocol.errors import UpstreamUnreadable

_MOST_BYTES = 1_048_576
_LF, _CR = b"\n\r"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class SseDecoder:
    """Decodes server-sent events. Only their data is kept, and comments are counted."""

    __slots__ = ("_after_cr", "_begun", "_data", "_rest", "_size", "comments")

    def __init__(self) -> None:
        self.comments = 0
        """How many comments came. Servers send them as heartbeats."""
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0
        self._begun = self._after_cr = False

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that `chunk` completes. Newlines join several `data:` lines.

        Raises:
            UpstreamFailed: an event is larger than 1 MiB.
        """
        if not (self._rest or self._data) and chunk.startswith(b"data: "):
            data = chunk[6:-2]
            if chunk.endswith(b"\n\n") and _LF not in data and _CR not in data:
                self._begun = True
                return [data]  # nearly every call is like this
        events = []
        for line in self._lines(chunk):
            if line.startswith(b"data:"):
                self._size += len(line)
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif line.startswith(b":"):
                self.comments += 1
            elif not line and self._data:
                events.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data = []
                self._size = 0
        if self._size + len(self._rest) > _MOST_BYTES:
            raise UpstreamUnreadable(
                "the model's server sent an event without end; the connection was closed",
                code="upstream_failed",
            )
        return events

    def _lines(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes. They end with CR LF, LF or CR."""
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")  # that line has been taken
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        if b"\r" in chunk:
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        rest = self._rest
        rest += chunk
        if not self._begun:
            if len(rest) < len(_BYTE_ORDER_MARK) and _BYTE_ORDER_MARK.startswith(rest):
                return []
            self._begun = True
            if rest.startswith(_BYTE_ORDER_MARK):
                del rest[: len(_BYTE_ORDER_MARK)]
        elif b"\n" not in chunk:
            return []
        *lines, last = bytes(rest).split(b"\n")
        self._rest = bytearray(last)
        return lines


class JsonLinesDecoder:
    """Decodes JSON lines. Empty lines are left out."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes.

        Raises:
            UpstreamFailed: a line is larger than 1 MiB.
        """
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _MOST_BYTES:
            raise UpstreamUnreadable(
                "the model's server sent a line without end; the connection was closed",
                code="upstream_failed",
            )
        return [line for line in lines if line.strip()]
