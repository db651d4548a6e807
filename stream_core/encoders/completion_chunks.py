"""A response as the chunks of OpenAI's API."""

from __future__ import annotations

from typing import Any

from stream_core.encoders.appended import AppendedContents
from stream_core.encoders.completion_objects import AnswerReader, CompletionObjects, error_event
from stream_core.encoders.port import event_id
from stream_core.log.entries import Part
from stream_core.log.marked_text import MARK
from stream_core.log.response_log import Cursor, ResponseState, ResumePoint, slice_of
from stream_core.log.response_stream import ResponseStream
from stream_core.protocol.dialect import DeltaEncoder
from stream_core.protocol.errors import (
    EvenflowError,
    Gone,
    InternalError,
    ModelRefused,
    Overloaded,
    RateLimited,
    UnsupportedByModel,
    UpstreamFailed,
    UpstreamTimeout,
)

_TIMEOUTS = ("first_token_timeout", "model_timeout")
_CLASSES: tuple[type[EvenflowError], ...] = (
    UnsupportedByModel,
    ModelRefused,
    RateLimited,
    Overloaded,
    UpstreamFailed,
    InternalError,
)


def check_completed(stream: ResponseStream) -> None:
    """Check that an ended response has an answer.

    Raises:
        EvenflowError: the error with which it ended, or `Gone` if it was cancelled.
    """
    if stream.state is ResponseState.CANCELLED:
        raise Gone(
            "this answer was cancelled before its end, because nobody read it any more; ask "
            "again, with another Idempotency-Key if there was one",
            code="response_cancelled",
        )
    if stream.error is not None:
        raise _error_of(stream.error)


def _error_of(error: dict[str, Any]) -> EvenflowError:
    # It may come from another task, as the error's object.
    kind = next((known for known in _CLASSES if known.type == error["type"]), InternalError)
    if error["code"] in _TIMEOUTS:
        kind = UpstreamTimeout
    return kind(
        str(error["message"]),
        code=str(error["code"]),
        param=error.get("param"),
        retry_after_ms=error.get("retry_after_ms"),
        status=error.get("status"),
        type=error["type"],
    )


class ChunkEncoder:
    """Encodes a response as chunks. Its readers can only append.

    Readers of one response share the bytes of what they are given alike.

    Args:
        point: where to begin. It must not replace what the reader has.
        most: the most characters of text in one chunk, and about the most that `take` returns.
    """

    __slots__ = (
        "_in_text",
        "_most",
        "_objects",
        "_reader",
        "_shared",
        "_stream",
        "_text",
        "ended",
        "opening",
    )

    def __init__(
        self, objects: CompletionObjects, stream: ResponseStream, point: ResumePoint, most: int
    ) -> None:
        log = stream.log
        self.ended = False
        self._objects = objects
        self._stream = stream
        self._shared = self._shared_on(stream)
        self._most = most
        self._text = AppendedContents(log, point.next_index, most)
        # What the client has may end within a call or a mark.
        self._reader = AnswerReader()
        self._reader.read(slice_of(log.entries[: point.next_index], 0).text)
        self._in_text = self._reader.in_text
        self.opening = objects.role(self._id())

    @property
    def cursor(self) -> Cursor:
        """The reader's place in the log."""
        return self._text.cursor

    @property
    def epoch(self) -> int:
        """The epoch of the last entry that the reader has. Readers aren't told restarts."""
        return self._stream.log.epoch_at(self._text.cursor.after)

    def take(self) -> bytes:
        """What is new, as chunks. Empty when there is nothing.

        Raises:
            EvenflowError: the response ended without an answer, or its text was replaced.
        """
        text, log = self._text, self._stream.log
        piece = text.take()
        if piece is None or isinstance(piece, Part):
            return self._end()
        after = text.cursor.next_index - 1
        last = after + 1 == len(log.entries)
        if last and self._in_text and MARK not in piece and not log.restarts:
            # Nearly every call is like this.
            deltas = self._shared if piece is log.entries[after] else self._objects
            return deltas.delta(piece, after, after)
        parts, size = list[bytes](), 0
        while isinstance(piece, str):
            if new := self._reader.read(piece):
                parts.append(self._objects.parts(self._id(), new))
                size += len(parts[-1])
            piece = text.take() if size < self._most else None
        self._in_text = self._reader.in_text
        return b"".join(parts) or self._end()

    def go_on(self, stream: ResponseStream, point: ResumePoint) -> None:
        """Read another copy of the response. Compares its text with what the reader has."""
        self._stream = stream
        self._shared = self._shared_on(stream)
        self._text = self._text.going_on(stream.log, point)

    def failure(self, error: EvenflowError) -> bytes:
        """An event that OpenAI's clients raise as an error, and the end of the stream."""
        return error_event(error)

    def _shared_on(self, stream: ResponseStream) -> DeltaEncoder:
        """Writes single deltas for all readers of this copy whose chunks are the same."""
        objects = self._objects
        return stream.encoder(objects.text_key, lambda: objects)

    def _end(self) -> bytes:
        if self.ended or not self._text.cursor.at_end:
            return b""
        check_completed(self._stream)
        self._text.check_whole()
        self.ended = True
        return self._objects.finish(self._id(), self._stream, self._reader.open_choices)

    def _id(self) -> bytes:
        return event_id(self._text.cursor.after, self.epoch).encode()
