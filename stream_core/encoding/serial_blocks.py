"""Serializes blocks, for a protocol in which a block begins after the previous one has ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from evenflow.stream_core.encoding.blocks import Begin, Block, BlockEvent, End, SealingBlocks
from evenflow.stream_core.log.entries import Content


class SerialBlocks(SealingBlocks):
    """Reorders the events of blocks, so that those of one block are together.

    The blocks keep the order in which they begin. The events of a block wait until all blocks
    before it have ended: in a log, several calls may be open, and text may come within a call.
    """

    __slots__ = ("_current", "_waiting")

    def __init__(self, contents: Iterable[Content] = ()) -> None:
        self._current: Block | None = None
        self._waiting: list[BlockEvent] = []
        super().__init__(contents)

    @property
    def open(self) -> Sequence[Block]:
        """The block that has begun and not ended, if there is one."""
        return [] if self._current is None else [self._current]

    @property
    def text(self) -> Block | None:
        """The open text block, which more text of the answer extends. None: there is none."""
        text = super().text
        return text if text is self._current else None

    def take(self, content: Content) -> list[BlockEvent]:
        """Take the next content. Returns its events, as far as they need not wait."""
        return self._in_turn(super().take(content))

    def end(self) -> list[BlockEvent]:
        """End the answer, and with it all open blocks."""
        waiting = [*self._waiting, *(End(block) for block in super().open)]
        self._waiting, self._plain = [], None
        self._calls.clear()
        return self._in_turn(waiting)

    def release(self) -> list[BlockEvent]:
        """At the end of the log: the events that waited for other blocks, and all ends."""
        return self.end() if self._waiting else []

    def _in_turn(self, events: list[BlockEvent]) -> list[BlockEvent]:
        """The events of the current block, and those that its end releases."""
        ready: list[BlockEvent] = []
        for event in events:
            if self._current is None and isinstance(event, Begin):
                self._current = event.block
            if event.block is not None and event.block is not self._current:
                self._waiting.append(event)
                continue
            ready.append(event)
            if isinstance(event, End):
                self._current = None
                waiting, self._waiting = self._waiting, []
                ready += self._in_turn(waiting)
        return ready
