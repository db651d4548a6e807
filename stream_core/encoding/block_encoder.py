"""Encodes a response for a protocol that sends an answer in blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from evenflow.stream_core.base.errors import EvenflowError, UpstreamFailed
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.appended import AppendedContents
from evenflow.stream_core.encoding.blocks import Begin, Block, BlockEvent, Blocks, Delta, End
from evenflow.stream_core.encoding.port import queued_comment
from evenflow.stream_core.log.entries import Part
from evenflow.stream_core.log.response_log import ResumePoint, slice_of


class BlockPlace(NamedTuple):
    """The entries of an event: `first` to `last`. `epoch` is that of the last one.

    With the event, the reader has everything up to `last`. Before any entry both are -1.
    """

    first: int
    last: int
    epoch: int


WriteDelta = Callable[[str, int, int], bytes]
"""Writes more text of one block. The numbers are the `first` and `last` of its `BlockPlace`."""


class BlockObjects(Protocol):
    """How a protocol writes the events of one response for one reader. All return bytes to send."""

    resets: bool
    """Whether the protocol can drop the blocks so far: `reset`."""

    def opening(self, place: BlockPlace, open_blocks: tuple[Block, ...]) -> bytes:
        """Before everything else. `open_blocks` had begun before the reader's place."""

    def begin(self, place: BlockPlace, block: Block) -> bytes:
        """A block begins."""

    def deltas(self, block: Block, epoch: int) -> WriteDelta:
        """What writes more of a block. All but the text and its place is encoded here, once.

        Requested when the block has begun, and again for each `epoch` that continues it.
        """

    def end(self, place: BlockPlace, block: Block) -> bytes:
        """A block ends."""

    def value(self, place: BlockPlace, part: Part, block: Block | None) -> bytes:
        """A result, or data. `block` is the open text or reasoning, if there is one."""

    def reset(self, place: BlockPlace) -> bytes:
        """Drop the blocks so far: others follow. Called only where `resets`."""

    def finish(self, place: BlockPlace, stream: ResponseStream) -> bytes:
        """The end of the answer, behind the ends of its blocks.

        Raises:
            EvenflowError: the response ended otherwise, and `failure` encodes the error.
        """

    def failure(self, error: EvenflowError) -> bytes:
        """An error that ends the stream. Empty if the reader receives it when it comes back."""


class BlockEncoder:
    """Encodes a response in blocks (`LogEncoder`). Sent events are never revised, unless the
    protocol can reset.

    Args:
        point: where to begin. It must not replace what the reader has.
        most: the most characters in one event, and about the most bytes that `take` returns.
        blocks: the class that makes blocks of contents.
    """

    __slots__ = (
        "_blocks",
        "_contents",
        "_make_blocks",
        "_most",
        "_objects",
        "_stream",
        "_text",
        "_write_delta",
        "_written",
        "cursor",
        "ended",
        "opening",
    )

    def __init__(
        self,
        objects: BlockObjects,
        stream: ResponseStream,
        point: ResumePoint,
        most: int,
        blocks: type[Blocks] = Blocks,
    ) -> None:
        self.ended = False
        self._make_blocks = blocks
        self._objects = objects
        self._stream = stream
        self._most = most
        self._written: tuple[Block, int] | None = None
        self._write_delta: WriteDelta
        """For the block and the epoch of `_written`."""
        self._text: Block | None = None
        """What `_open_text` gave, until anything else is taken. `_write_delta` is for it."""
        self._read(AppendedContents(stream.log, point.next_index, most))
        self._blocks = blocks(slice_of(stream.log.entries[: point.next_index], 0).current)
        last = point.next_index - 1
        place = BlockPlace(last, last, self.epoch)
        self.opening = objects.opening(place, tuple(self._blocks.open))

    @property
    def epoch(self) -> int:
        """The epoch of the last entry that the reader has. Restarts are not sent."""
        return self._stream.log.epoch_at(self.cursor.after)

    def take(self) -> bytes:
        """What is new, as events. Empty when there is nothing.

        Raises:
            EvenflowError: the response ended without an answer, or was replaced.
        """
        cursor, entries = self.cursor, self._stream.log.entries
        index = cursor.next_index
        if index + 1 == len(entries):
            entry = entries[index]
            if isinstance(entry, str) and (text := self._text or self._open_text()):
                # Nearly every call is like this.
                cursor.first = cursor.last = index
                cursor.next_index = index + 1
                text.pieces.append(entry)
                return self._write_delta(entry, index, index)
        self._text = None
        try:
            return self._take()
        except UpstreamFailed as replaced:
            if replaced.code != "response_restarted" or not self._objects.resets:
                raise
            return self._reset()

    def _take(self) -> bytes:
        contents, blocks = self._contents, self._blocks
        content = contents.take()
        if isinstance(content, str) and self.cursor.at_end_of_log and (text := blocks.text):
            text.pieces.append(content)
            place = self._place()
            return self._writer_of(text, place.epoch)(content, place.first, place.last)
        parts, size = list[bytes](), 0
        while content is not None:
            place = self._place()
            events = b"".join([self._write(place, event) for event in blocks.take(content)])
            parts.append(events)
            size += len(events)
            content = contents.take() if size < self._most else None
        return b"".join(parts) or self._end()

    def go_on(self, stream: ResponseStream, point: ResumePoint) -> None:
        """Read another copy of the response. Compares it with what the reader has."""
        self._stream = stream
        self._text = None
        self._read(self._contents.going_on(stream.log, point))

    def queued(self, place: QueuePlace) -> bytes:
        """A comment."""
        return queued_comment(place)

    def failure(self, error: EvenflowError) -> bytes:
        """Encode an error that ends the stream."""
        return self._objects.failure(error)

    def _read(self, contents: AppendedContents) -> None:
        self._contents = contents
        self.cursor = contents.cursor
        """The reader's place in the log."""

    def _open_text(self) -> Block | None:
        """The open text to which the log's last entry, a text, only adds. None if there is none.

        It holds until anything else is read: what changes it or the epoch is an entry, too.
        """
        text = self._blocks.text
        if text is None or self._contents.knows_more:
            return None
        self._writer_of(text, self._stream.log.epoch_at(self.cursor.next_index))
        self._text = text
        return text

    def _writer_of(self, block: Block, epoch: int) -> WriteDelta:
        """What writes more of `block`. The one used last is kept: it is mostly the next one."""
        if self._written is None or self._written[0] is not block or self._written[1] != epoch:
            self._written, self._write_delta = (block, epoch), self._objects.deltas(block, epoch)
        return self._write_delta

    def _reset(self) -> bytes:
        place = self._place()
        self._read(AppendedContents(self._stream.log, 0, self._most))
        self._blocks = self._make_blocks()
        return self._objects.reset(place) + self._take()

    def _end(self) -> bytes:
        if self.ended or not self.cursor.at_end:
            return b""
        self._contents.check_whole()
        last = self.cursor.after
        place = BlockPlace(last, last, self.epoch)
        if released := self._blocks.release():  # also if the answer ends with an error
            return b"".join([self._write(place, event) for event in released])
        final = self._objects.finish(place, self._stream)
        self.ended = True
        ends = [self._write(place, event) for event in self._blocks.end()]
        return b"".join([*ends, final])

    def _write(self, place: BlockPlace, event: BlockEvent) -> bytes:
        objects = self._objects
        if isinstance(event, Delta):
            return self._writer_of(event.block, place.epoch)(event.text, place.first, place.last)
        if isinstance(event, Begin):
            return objects.begin(place, event.block)
        if isinstance(event, End):
            return objects.end(place, event.block)
        return objects.value(place, event.part, event.block)

    def _place(self) -> BlockPlace:
        cursor = self.cursor
        return BlockPlace(cursor.first, cursor.last, self._stream.log.epoch_at(cursor.last))
