"""Encodes a response for a protocol that tells an answer in blocks."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from stream_core.encoders.appended import AppendedContents
from stream_core.encoders.blocks import Begin, Block, BlockEvent, Blocks, Delta, End
from stream_core.log.entries import Part
from stream_core.log.response_log import Cursor, ResumePoint, slice_of
from stream_core.log.response_stream import ResponseStream
from stream_core.protocol.errors import EvenflowError, UpstreamFailed


class Place(NamedTuple):
    """Which entries an event stands for: `first` to `last`. `epoch` is that of the last one.

    With the event, the reader has everything up to `last`. Before any entry both are -1.
    """

    first: int
    last: int
    epoch: int


class BlockObjects(Protocol):
    """How a protocol writes the events of one response for one reader. All return bytes to send."""

    resets: bool
    """Whether the protocol has a word for dropping what was said: `reset`."""

    def opening(self, place: Place, open_blocks: tuple[Block, ...]) -> bytes:
        """Before everything else. `open_blocks`: those in whose middle the reader begins."""

    def begin(self, place: Place, block: Block) -> bytes:
        """A block begins."""

    def delta(self, place: Place, block: Block, text: str) -> bytes:
        """More of a block."""

    def end(self, place: Place, block: Block) -> bytes:
        """A block ends."""

    def value(self, place: Place, part: Part, block: Block | None) -> bytes:
        """A result, or data. `block` is the open text or reasoning, if there is one."""

    def reset(self, place: Place) -> bytes:
        """Drop what was said: it comes again, and otherwise. Called only where `resets`."""

    def finish(self, place: Place, stream: ResponseStream) -> bytes:
        """The end of the answer, behind the ends of its blocks.

        Raises:
            EvenflowError: the response ended otherwise, and `failure` tells it.
        """

    def failure(self, error: EvenflowError) -> bytes:
        """An error that ends the stream. Empty if the reader is told when it comes back."""


class BlockEncoder:
    """Encodes a response in blocks (`LogEncoder`). What was told is never told otherwise, unless
    the protocol can reset.

    Args:
        point: where to begin. It must not replace what the reader has.
        most: the most characters in one event, and about the most bytes that `take` returns.
    """

    __slots__ = ("_blocks", "_contents", "_most", "_objects", "_stream", "ended", "opening")

    def __init__(
        self, objects: BlockObjects, stream: ResponseStream, point: ResumePoint, most: int
    ) -> None:
        self.ended = False
        self._objects = objects
        self._stream = stream
        self._most = most
        self._contents = AppendedContents(stream.log, point.next_index, most)
        self._blocks = Blocks(slice_of(stream.log.entries[: point.next_index], 0).standing)
        last = point.next_index - 1
        place = Place(last, last, self.epoch)
        self.opening = objects.opening(place, tuple(self._blocks.open))

    @property
    def cursor(self) -> Cursor:
        """The reader's place in the log."""
        return self._contents.cursor

    @property
    def epoch(self) -> int:
        """The epoch of the last entry that the reader has. Readers aren't told restarts."""
        return self._stream.log.epoch_at(self._contents.cursor.after)

    def take(self) -> bytes:
        """What is new, as events. Empty when there is nothing.

        Raises:
            EvenflowError: the response ended without an answer, or was replaced.
        """
        try:
            return self._take()
        except UpstreamFailed as replaced:
            if replaced.code != "response_restarted" or not self._objects.resets:
                raise
            return self._reset()

    def _take(self) -> bytes:
        contents, objects, blocks = self._contents, self._objects, self._blocks
        content = contents.take()
        if isinstance(content, str) and contents.cursor.at_head and (block := blocks.text):
            # Nearly every call is like this.
            block.said.append(content)
            return objects.delta(self._place(), block, content)
        parts, size = list[bytes](), 0
        while content is not None:
            place = self._place()
            told = b"".join([self._write(place, event) for event in blocks.take(content)])
            parts.append(told)
            size += len(told)
            content = contents.take() if size < self._most else None
        return b"".join(parts) or self._end()

    def go_on(self, stream: ResponseStream, point: ResumePoint) -> None:
        """Read another copy of the response. Compares it with what the reader has."""
        self._stream = stream
        self._contents = self._contents.going_on(stream.log, point)

    def failure(self, error: EvenflowError) -> bytes:
        """Encode an error that ends the stream."""
        return self._objects.failure(error)

    def _reset(self) -> bytes:
        place = self._place()
        self._contents = AppendedContents(self._stream.log, 0, self._most)
        self._blocks = Blocks()
        return self._objects.reset(place) + self._take()

    def _end(self) -> bytes:
        if self.ended or not self._contents.cursor.at_end:
            return b""
        self._contents.check_whole()
        last = self._contents.cursor.after
        place = Place(last, last, self.epoch)
        final = self._objects.finish(place, self._stream)
        self.ended = True
        ends = [self._write(place, event) for event in self._blocks.end()]
        return b"".join([*ends, final])

    def _write(self, place: Place, event: BlockEvent) -> bytes:
        objects = self._objects
        if isinstance(event, Delta):
            return objects.delta(place, event.block, event.text)
        if isinstance(event, Begin):
            return objects.begin(place, event.block)
        if isinstance(event, End):
            return objects.end(place, event.block)
        return objects.value(place, event.part, event.block)

    def _place(self) -> Place:
        cursor = self._contents.cursor
        return Place(cursor.first, cursor.last, self._stream.log.epoch_at(cursor.last))
