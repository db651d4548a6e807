"""A response's log as the chunks of OpenAI's API, as server-sent events."""

from __future__ import annotations

from stream_core.encoders.appended_text import AppendedText
from stream_core.encoders.completion_ending import check_completed
from stream_core.encoders.completion_objects import AnswerReader, CompletionObjects, error_event
from stream_core.encoders.port import event_id
from stream_core.errors import EvenflowError
from stream_core.response_log import slice_of
from stream_core.response_stream import ResponseStream
from stream_core.resume_point import ResumePoint


class ChunkEncoder:
    """Its readers only append: where they can't, an error says so.

    Args:
        point: where to begin; not one that replaces what the reader has.
        most: characters, of text in one chunk and of what is given at once.
    """

    __slots__ = ("_most", "_objects", "_reader", "_stream", "_text", "ended", "opening")

    def __init__(self, objects: CompletionObjects, stream: ResponseStream, point: ResumePoint, most: int) -> None:
        log = stream.log
        self.ended = False
        self._objects = objects
        self._stream = stream
        self._most = most
        self._text = AppendedText(log, point.next_index, most)
        # What the client has may end in the middle of a call, or of a mark.
        self._reader = AnswerReader()
        self._reader.read(slice_of(log.entries[: point.next_index], 0).text)
        self.opening = objects.role(self._id())

    @property
    def after(self) -> int:
        """The last index that the reader has."""
        return self._text.cursor.next_index - 1

    @property
    def epoch(self) -> int:
        """The owner that wrote the entry at `after`: restarts aren't told."""
        return self._stream.log.epoch_at(self.after)

    def take(self) -> bytes:
        """What is new, as chunks; empty when there is nothing.

        Raises:
            EvenflowError: the response ended without an answer, or its text was replaced by another.
        """
        parts, size = list[bytes](), 0
        while size < self._most and (piece := self._text.take()) is not None:
            if new := self._reader.read(piece):
                parts.append(self._objects.parts(self._id(), new))
                size += len(parts[-1])
        return b"".join(parts) or self._end()

    def go_on(self, stream: ResponseStream, point: ResumePoint) -> None:
        """Read another copy of the response from now on. What the reader has is compared with what stands there."""
        self._stream = stream
        self._text = self._text.going_on(stream.log, point)

    def failure(self, error: EvenflowError) -> bytes:
        """An event that OpenAI's clients raise, and the end."""
        return error_event(error)

    def _end(self) -> bytes:
        if self.ended or not self._text.cursor.at_end:
            return b""
        check_completed(self._stream)
        self._text.check_whole()
        self.ended = True
        return self._objects.finish(self._id(), self._stream, self._reader.open_choices)

    def _id(self) -> str:
        return event_id(self.after, self.epoch)
