"""A response as a stream of Durable Streams: JSON messages, each a frame of `evenflow.v1`.

Each entry of the log is a message of its own, and the last message is the frame that ends the
response. So the same positions have the same messages for all readers, at all times.
"""

from __future__ import annotations

from typing import NamedTuple

from orjson import dumps

from evenflow.stream_core.base.errors import EvenflowError
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.delta_encoder import EntryEncoder
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.port import EventId, queued_comment
from evenflow.stream_core.log.entries import Part
from evenflow.stream_core.log.response_log import ResumePoint
from evenflow.stream_core.protocols.durable_streams.offsets import offset_of, offsets_of
from evenflow.stream_core.protocols.evenflow.entry_encoders import V1Encoder
from evenflow.stream_core.protocols.evenflow.frames import FrameEncoder, FrameEvents

MOST_MESSAGES = 1_024
MOST_BYTES = 262_144
"""A chunk ends with the message that reaches one of these limits."""
# How a control event ends, but for the last one: whether there is more.
_MORE = b"}\n\n"
_UP_TO_DATE = b',"upToDate":true}\n\n'


class MessageBatch(NamedTuple):
    """The messages of one answer to a reader.

    Attributes:
        body: a JSON array of messages.
        has: the position of the reader after them.
        up_to_date: whether there is nothing more yet.
    """

    body: bytes
    has: EventId
    up_to_date: bool

    @property
    def lasts(self) -> bool:
        """Whether every read at the same offset returns just this, now and later."""
        return self.has.end or not self.up_to_date


def chunk_of(stream: ResponseStream, point: ResumePoint) -> MessageBatch:
    """The messages from `point` on, as many as one chunk may have."""
    frames, messages, size = FrameEncoder(stream, point, 0), list[bytes](), 0
    while len(messages) < MOST_MESSAGES and size < MOST_BYTES and (frame := frames.take()):
        messages.append(frame)
        size += len(frame)
    has = EventId(frames.cursor.after, frames.epoch, frames.ended)
    up_to_date = frames.ended or not (frames.cursor.behind or stream.log.closed)
    return MessageBatch(b"[%b]" % b",".join(messages), has, up_to_date)


def tail_of(stream: ResponseStream) -> EventId:
    """The position of a reader that has all current entries."""
    log = stream.log
    last_index = log.next_index - 1
    return EventId(last_index, log.epoch_at(last_index), log.closed)


def last_control(has: EventId) -> bytes:
    """The event for a reader that has everything, to the response's end."""
    return b"event: control\ndata:%b\n\n" % dumps(
        {"streamNextOffset": offset_of(has), "streamClosed": True, "upToDate": True}
    )


class _EntryEvents:
    """Writes the two events of an entry, except the end of the second one."""

    __slots__ = ("_delta", "_event", "_frames")

    def __init__(self, stream: ResponseStream, epoch: int, cursor: bytes) -> None:
        self._frames = V1Encoder(stream.channel.session, stream.response_id)
        # Templates. The last placeholder is for the next index.
        suffix = cursor.replace(b"%", b"%%")
        self._delta = _events(self._frames.template, offsets_of(epoch)) + suffix
        self._event = _events(b"%b", offsets_of(epoch)) + suffix

    def delta(self, text: str, first: int, last: int) -> bytes:
        """The events for `text`, which is one entry."""
        return self._delta % (dumps(text), last, last + 1)

    def event(self, part: Part, first: int, last: int) -> bytes:
        """The events for `part`."""
        return self._event % (self._frames.event(part, first, last), last + 1)


class StreamEvents(FrameEvents):
    """Encodes a response as server-sent events: after each message, where the reader is.

    Args:
        point: where to begin.
        max_bytes: about the most that `take` returns.
        cursor: the cursor of this read, from `live_cursor`.
    """

    __slots__ = ("_cursor",)

    def __init__(
        self, stream: ResponseStream, point: ResumePoint, max_bytes: int, cursor: str
    ) -> None:
        self._cursor = b',"streamCursor":%b' % dumps(cursor)
        super().__init__(stream, point, 0, max_bytes)
        if not (self.cursor.behind or stream.log.closed or point.restarted):
            has = EventId(self.cursor.after, self.epoch)
            self.opening = _control(offset_of(has).encode()) + self._cursor + self._rest()

    def take(self) -> bytes:
        """The new messages as events. Empty if there are none."""
        frames = self._frames
        if events := frames.take_only():
            # Nearly every call is like this.
            return events + (_UP_TO_DATE if self._stream.log.state is None else _MORE)
        parts, size = list[bytes](), 0
        while size < self._most and (frame := frames.take()):
            events = self._events_of(frame)
            parts += (events, self._rest())
            size += len(events)
        return b"".join(parts)

    def queued(self, place: QueuePlace) -> bytes:
        """A comment."""
        return queued_comment(place)

    def failure(self, error: EvenflowError) -> bytes:
        """As of `FrameEncoder`, in an event that other clients ignore."""
        frame = self._frames.failure(error)
        return b"event: error\ndata:%b\n\n" % frame if frame else b""

    def _writer(self, stream: ResponseStream, epoch: int) -> EntryEncoder:
        cursor = self._cursor
        return stream.readers.encoder(
            (_EntryEvents, epoch, cursor), lambda: _EntryEvents(stream, epoch, cursor)
        )

    def _write(self, frame: bytes) -> bytes:
        frames = self._frames
        last_index = frames.last if not frames.ended else frames.cursor.after
        has = EventId(last_index, frames.epoch, frames.ended)
        events = _events(frame, offset_of(has).encode())
        return events if frames.ended else events + self._cursor

    def _rest(self) -> bytes:
        """The end of a control event, which states whether there is more."""
        if self._frames.ended:
            return b',"streamClosed":true,"upToDate":true}\n\n'
        if self.cursor.behind or self._stream.log.closed:
            return _MORE
        return _UP_TO_DATE


def _events(message: bytes, offset: bytes) -> bytes:
    return b"event: data\ndata:[%b]\n\n%b" % (message, _control(offset))


def _control(offset: bytes) -> bytes:
    """A control event, without its end."""
    return b'event: control\ndata:{"streamNextOffset":"%b"' % offset
