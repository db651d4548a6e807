"""Decodes events and lines from a byte stream that may be cut anywhere."""

from __future__ import annotations

from stream_core.protocol.errors import UpstreamFailed

_MOST_BYTES = 1_048_576


class SseDecoder:
    """Decodes server-sent events. Only their data is kept, and comments are counted."""

    __slots__ = ("_data", "_rest", "_size", "comments")

    def __init__(self) -> None:
        self.comments = 0
        """How many comments came. Servers send them as heartbeats."""
        self._rest = b""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that `chunk` completes. Newlines join several `data:` lines.

        Raises:
            UpstreamFailed: an event is larger than 1 MiB.
        """
        if not (self._rest or self._data) and chunk.startswith(b"data: "):
            data = chunk[6:-2]
            if chunk.endswith(b"\n\n") and b"\n" not in data and not data.endswith(b"\r"):
                return [data]  # nearly every call is like this
        lines = (self._rest + chunk).split(b"\n")
        self._rest = lines.pop()
        if self._size + len(self._rest) > _MOST_BYTES:
            raise UpstreamFailed(
                "the model's server sent an event without end; the connection was closed",
                code="upstream_failed",
            )
        events = []
        for raw in lines:
            line = raw[:-1] if raw.endswith(b"\r") else raw
            if line.startswith(b"data:"):
                self._size += len(line)
                self._data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif line.startswith(b":"):
                self.comments += 1
            elif not line and self._data:
                events.append(self._data[0] if len(self._data) == 1 else b"\n".join(self._data))
                self._data = []
                self._size = 0
        return events


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
            raise UpstreamFailed(
                "the model's server sent a line without end; the connection was closed",
                code="upstream_failed",
            )
        return [line for line in lines if line.strip()]
