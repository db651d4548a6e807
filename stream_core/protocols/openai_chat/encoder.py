"""A response as the chunks of OpenAI's API."""

from __future__ import annotations

from typing import Any

from evenflow.stream_core.base.errors import (
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
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.delta_encoder import DeltaEncoder
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.appended import AppendedContents
from evenflow.stream_core.encoding.port import event_id, queued_comment
from evenflow.stream_core.log.response_log import Cursor, ResponseState, ResumePoint, slice_of
from evenflow.stream_core.protocols.openai_chat.deltas import CompletionDeltas
from evenflow.stream_core.protocols.openai_chat.whole_answer import CompletionObjects, error_event

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
    # It may come from another node, as the error's object.
    kind = next(
        (error_class for error_class in _CLASSES if error_class.type == error["type"]),
        InternalError,
    )
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

    Readers of one response share the bytes of equal chunks.

    Args:
        point: where to begin. It must not replace what the reader has.
        max_bytes: the most characters in one chunk, and about the most that `take` returns.
    """

    __slots__ = (
        "_contents",
        "_deltas",
        "_max_bytes",
        "_objects",
        "_shared",
        "_stream",
        "ended",
        "opening",
    )

    def __init__(
        self, objects: CompletionObjects, stream: ResponseStream, point: ResumePoint, max_bytes: int
    ) -> None:
        log = stream.log
        self.ended = False
        self._objects = objects
        self._stream = stream
        self._shared = self._shared_on(stream)
        self._max_bytes = max_bytes
        self._contents = AppendedContents(log, point.next_index, max_bytes)
        # What the client has may end within a call.
        self._deltas = CompletionDeltas(slice_of(log.entries[: point.next_index], 0).current)
        self.opening = objects.role(self._id())

    @property
    def cursor(self) -> Cursor:
        """The reader's place in the log."""
        return self._contents.cursor

    @property
    def epoch(self) -> int:
        """The epoch of the last entry that the reader has. Readers aren't notified of restarts."""
        return self._stream.log.epoch_at(self._contents.cursor.after)

    def take(self) -> bytes:
        """The new contents as chunks. Empty if there are none.

        Raises:
            EvenflowError: the response ended without an answer, or was replaced.
        """
        contents, log, deltas = self._contents, self._stream.log, self._deltas
        content = contents.take()
        last_index = contents.cursor.next_index - 1
        if (
            isinstance(content, str)
            and last_index + 1 == len(log.entries)
            and not (deltas.pending_logprobs or log.restarts)
        ):
            # Nearly every call is like this.
            encoder = self._shared if content is log.entries[last_index] else self._objects
            return encoder.delta(content, last_index, last_index)
        chunks, size = list[bytes](), 0
        while content is not None:
            if (choice := deltas.take(content)) is not None:
                chunks.append(self._objects.chunk(self._id(), [choice]))
                size += len(chunks[-1])
            content = contents.take() if size < self._max_bytes else None
        return b"".join(chunks) or self._end()

    def go_on(self, stream: ResponseStream, point: ResumePoint) -> None:
        """Read another copy of the response. Compares it with what the reader has."""
        self._stream = stream
        self._shared = self._shared_on(stream)
        self._contents = self._contents.going_on(stream.log, point)

    def queued(self, place: QueuePlace) -> bytes:
        """A comment."""
        return queued_comment(place)

    def failure(self, error: EvenflowError) -> bytes:
        """An event that OpenAI's clients raise as an error, and the end of the stream."""
        return error_event(error)

    def _shared_on(self, stream: ResponseStream) -> DeltaEncoder:
        """Writes single deltas for all readers of this copy with equal chunks."""
        encoder: DeltaEncoder = self._objects
        return stream.readers.encoder(self._objects.text_key, lambda: encoder)

    def _end(self) -> bytes:
        if self.ended or not self._contents.cursor.at_end:
            return b""
        check_completed(self._stream)
        self._contents.check_whole()
        self.ended = True
        pending_choices = [
            self._objects.chunk(self._id(), [choice]) for choice in self._deltas.take_pending()
        ]
        last = self._deltas.last(self._stream.finish_reason)
        finish = self._objects.finish(self._id(), self._stream, last, self._deltas.unread)
        return b"".join([*pending_choices, finish])

    def _id(self) -> bytes:
        return event_id(self._contents.cursor.after, self.epoch).encode()
