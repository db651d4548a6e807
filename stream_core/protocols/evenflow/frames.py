"""The frames of `evenflow.v1`, and server-sent events with these frames."""

from __future__ import annotations

from abc import ABC, abstractmethod

from evenflow.stream_core.base.errors import EvenflowError, TooSlow
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.delta_encoder import EntryEncoder
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.port import event_id, rest_of_id
from evenflow.stream_core.log.entries import Part, Restart
from evenflow.stream_core.log.response_log import NOTHING_YET, REPLACES_ALL, Cursor, ResumePoint
from evenflow.stream_core.protocols.evenflow.entry_encoders import V1Encoder
from evenflow.stream_core.protocols.evenflow.messages import ErrorFrame
from evenflow.stream_core.protocols.evenflow.response_frames import (
    queued_frame,
    restart_frame,
    terminal_frame,
)

_DELTA = "chat.response.delta"
_EVENT = "chat.response.event"
# What a `EntryEncoder` writes.
_WRITTEN = (_DELTA, _EVENT)


class FrameEncoder:
    """Encodes a response as JSON, one frame a call.

    Args:
        point: where to begin.
        most: the most characters of text in one joined frame. 0: each entry is a frame.
    """

    __slots__ = (
        "_most",
        "_restarted",
        "_stream",
        "cursor",
        "deltas",
        "ended",
        "epoch",
        "kind",
        "last",
        "opening",
    )

    def __init__(self, stream: ResponseStream, point: ResumePoint, most: int) -> None:
        self.opening = b""
        self.ended = False
        self.kind = _DELTA
        """The type of the last frame."""
        self.last = NOTHING_YET
        """The index of the last frame. `NOTHING_YET` before the first and after a full restart."""
        self._most = most
        self.deltas: EntryEncoder = V1Encoder(stream.channel.session, stream.response_id)
        """Writes the deltas and parts. Several readers may have the same one."""
        self.go_on(stream, point)

    def go_on(self, stream: ResponseStream, point: ResumePoint) -> None:
        """Read another copy of the response from `point` on."""
        self._stream = stream
        self._restarted = point.restarted
        self.cursor = Cursor(stream.log, point.next_index, self._most)
        restarted_epoch = point.restarted.epoch if point.restarted else 0
        self.epoch = restarted_epoch or stream.log.epoch_at(point.next_index - 1)

    def take_only(self) -> bytes:
        """The next frame, if it is a delta and the only one that is left. Otherwise empty."""
        cursor, entries = self.cursor, self._stream.log.entries
        index = cursor.next_index
        if index + 1 != len(entries) or self._restarted is not None:
            return b""
        entry = entries[index]
        if not isinstance(entry, str):
            return b""
        cursor.next_index = index + 1
        self.kind, self.last = _DELTA, index
        return self.deltas.delta(entry, index, index)

    def take(self) -> bytes:
        """The next frame. Empty when there is nothing."""
        if self._restarted is not None:
            return self._replace_everything(self._restarted)
        cursor = self.cursor
        entry = cursor.next_entry()
        if isinstance(entry, str):
            self.kind, self.last = _DELTA, cursor.last
            return self.deltas.delta(entry, cursor.first, cursor.last)
        if entry is None:
            return self._end()
        if isinstance(entry, Part):
            self.kind, self.last = _EVENT, cursor.last
            return self.deltas.event(entry, cursor.first, cursor.last)
        self.epoch = max(self.epoch, entry.epoch)
        frame = restart_frame(self._stream, entry, cursor.last)
        self.kind, self.last = frame.type, cursor.last
        return frame.to_json()

    def queued(self, place: QueuePlace) -> bytes:
        """A `chat.response.queued` frame."""
        return queued_frame(self._stream, place).to_json()

    def failure(self, error: EvenflowError) -> bytes:
        """An `error` frame for a reader that is too slow, which would not learn of it later.

        Otherwise empty: the reader comes back, and receives the error then.
        """
        if not isinstance(error, TooSlow):
            return b""
        error_object, response_id = error.to_object(), self._stream.response_id
        return ErrorFrame(type="error", error=error_object, response_id=response_id).to_json()

    @property
    def place(self) -> bytes:
        """The line with the event id by which the reader resumes. Empty before any entry."""
        if self._restarted is not None or self.cursor.after == NOTHING_YET:
            return b""
        return b"id: %b\n" % event_id(self.cursor.after, self.epoch).encode()

    def _replace_everything(self, restarted: Restart) -> bytes:
        frame = restart_frame(self._stream, restarted, REPLACES_ALL)
        self.kind, self.last, self._restarted = frame.type, NOTHING_YET, None
        return frame.to_json()

    def _end(self) -> bytes:
        if self._stream.log.state is None or self.ended or self.cursor.behind:
            return b""
        self.ended = True
        frame = terminal_frame(self._stream)
        self.kind, self.last = frame.type, self.cursor.after
        return frame.to_json()


class DeltaEvents:
    """Server-sent events with the deltas and parts of `evenflow.v1`.

    Args:
        epoch: of the readers.
    """

    __slots__ = ("_deltas", "_rest_of_id")

    def __init__(self, stream: ResponseStream, epoch: int) -> None:
        self._deltas = V1Encoder(stream.channel.session, stream.response_id)
        self._rest_of_id = rest_of_id(epoch)

    def delta(self, text: str, first: int, last: int) -> bytes:
        """The event for `text`."""
        return b"event: chat.response.delta\nid: %d%b\ndata: %b\n\n" % (
            last,
            self._rest_of_id,
            self._deltas.delta(text, first, last),
        )

    def event(self, part: Part, first: int, last: int) -> bytes:
        """The event for `part`."""
        return b"event: chat.response.event\nid: %d%b\ndata: %b\n\n" % (
            last,
            self._rest_of_id,
            self._deltas.event(part, first, last),
        )


class FrameEvents(ABC):
    """Encodes a response as server-sent events with its frames.

    Readers of one response share the bytes of what they are given alike.

    Args:
        characters: the most of text in a joined frame. 0: each entry is a frame.
        most: about the most bytes that `take` returns.
    """

    __slots__ = ("_epoch", "_frames", "_most", "_stream", "opening")

    def __init__(
        self, stream: ResponseStream, point: ResumePoint, characters: int, most: int
    ) -> None:
        self.opening = b""
        self._most = most
        self._stream = stream
        self._frames = FrameEncoder(stream, point, characters)
        self._share()

    @property
    def ended(self) -> bool:
        """Whether the reader was given the end."""
        return self._frames.ended

    @property
    def cursor(self) -> Cursor:
        """The reader's place in the log."""
        return self._frames.cursor

    @property
    def epoch(self) -> int:
        """The newest epoch that the reader knows."""
        return self._frames.epoch

    @abstractmethod
    def take(self) -> bytes:
        """What is new, as events. Empty when there is nothing."""

    def go_on(self, stream: ResponseStream, point: ResumePoint) -> None:
        """Read another copy of the response from `point` on."""
        self._stream = stream
        self._frames.go_on(stream, point)
        self._share()

    @abstractmethod
    def queued(self, place: QueuePlace) -> bytes:
        """Where the response waits for its model."""

    @abstractmethod
    def failure(self, error: EvenflowError) -> bytes:
        """As of `FrameEncoder`, as an event."""

    @abstractmethod
    def _writer(self, stream: ResponseStream, epoch: int) -> EntryEncoder:
        """What writes deltas and parts, for all readers that know this epoch."""

    @abstractmethod
    def _write(self, frame: bytes) -> bytes:
        """The events for any frame but a delta and a part."""

    def _events_of(self, frame: bytes) -> bytes:
        """The events for the frame that was taken last."""
        if self._frames.kind in _WRITTEN:
            return frame
        if self._frames.epoch != self._epoch:
            self._share()  # this frame announced another owner
        return self._write(frame)

    def _share(self) -> None:
        epoch = self._epoch = self._frames.epoch
        self._frames.deltas = self._writer(self._stream, epoch)


class EventEncoder(FrameEvents):
    """Encodes a response as server-sent events, each with one frame.

    Args:
        most: the most characters in a frame, and about the most that `take` returns.
        joined: whether entries that join are one event. Otherwise each entry is one.
    """

    __slots__ = ()

    def __init__(
        self, stream: ResponseStream, point: ResumePoint, most: int, *, joined: bool
    ) -> None:
        super().__init__(stream, point, most if joined else 0, most)
        # Milliseconds until an EventSource comes back; its own default is seconds. The line belongs
        # to the first event: alone, with an empty line after it, some parsers take it for an event.
        self.opening = b"retry: 500\n"

    def take(self) -> bytes:
        """What is new, as events. Empty when there is nothing."""
        frames = self._frames
        # Nearly every call is like this.
        if event := frames.take_only():
            return event
        parts, size = list[bytes](), 0
        while size < self._most and (frame := frames.take()):
            event = self._events_of(frame)
            parts.append(event)
            size += len(event)
        # One event stays the same bytes for all of its readers.
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def queued(self, place: QueuePlace) -> bytes:
        """An event without an id: it changes nothing of what the reader has."""
        return b"event: chat.response.queued\ndata: %b\n\n" % self._frames.queued(place)

    def failure(self, error: EvenflowError) -> bytes:
        """As of `FrameEncoder`, with the id of what the reader has: there it resumes."""
        frame = self._frames.failure(error)
        return b"event: error\n%bdata: %b\n\n" % (self._frames.place, frame) if frame else b""

    def _writer(self, stream: ResponseStream, epoch: int) -> EntryEncoder:
        return stream.readers.encoder((DeltaEvents, epoch), lambda: DeltaEvents(stream, epoch))

    def _write(self, frame: bytes) -> bytes:
        return b"event: %b\nid: %b\ndata: %b\n\n" % (
            self._frames.kind.encode(),
            self._id().encode(),
            frame,
        )

    def _id(self) -> str:
        """The event's id. Empty before any entry: an EventSource then begins again."""
        frames = self._frames
        if frames.last == NOTHING_YET and not frames.ended:
            return ""
        return event_id(frames.last, frames.epoch, end=frames.ended)
