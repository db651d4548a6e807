"""The sink of an attempt that begins again behind text."""

from __future__ import annotations

from stream_core.response_stream import ResponseStream


class ReplacingSink:
    """A `TokenSink`. What was delivered stands until the first token of this attempt: it may never come."""

    __slots__ = ("_begun", "_stream")

    def __init__(self, stream: ResponseStream) -> None:
        self._stream = stream
        self._begun = False

    @property
    def paused(self) -> bool:
        """See `TokenSink.paused`."""
        return self._stream.paused

    def push(self, token: str) -> None:
        """See `TokenSink.push`.

        Raises:
            ResponseFull, LogClosed: as `ResponseStream.push` does.
        """
        if token and not self._begun:
            self._begun = True
            self._stream.restart()
        self._stream.push(token)

    def alive(self) -> None:
        """See `TokenSink.alive`."""
        self._stream.alive()
