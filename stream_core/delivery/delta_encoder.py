"""The port of encoders that a delivery gives each delta or entry, and one that many readers share.

`LogEncoder` (`encoding/port.py`) is the other port: it takes entries from the log itself, for SSE.
"""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from evenflow.stream_core.log.entries import Part


class DeltaEncoder(Protocol):
    """Writes the deltas of one response for one connection."""

    def delta(self, text: str, first: int, last: int) -> bytes:
        """The frame for `text`, which has the indexes `first` to `last`."""


class EntryEncoder(DeltaEncoder, Protocol):
    """Writes the parts, too."""

    def event(self, part: Part, first: int, last: int) -> bytes:
        """The frame for `part`, which has the indexes `first` to `last`."""


Encoder = TypeVar("Encoder", bound=DeltaEncoder)


class SharedEncoder(Generic[Encoder]):
    """An encoder of many readers of one response. What all of them receive is encoded once."""

    __slots__ = ("_encoder", "_first", "_frame", "_last")

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._first = self._last = -1
        self._frame = b""

    def delta(self, text: str, first: int, last: int) -> bytes:
        """The frame for `text`. The text of two indexes never changes, unless it is withdrawn."""
        if not text:
            return self._encoder.delta(text, first, last)
        if last != self._last or first != self._first:
            self._frame = self._encoder.delta(text, first, last)
            self._first, self._last = first, last
        return self._frame

    def event(self: SharedEncoder[EntryEncoder], part: Part, first: int, last: int) -> bytes:
        """The frame for `part`. The part of two indexes never changes."""
        if last != self._last or first != self._first:
            self._frame = self._encoder.event(part, first, last)
            self._first, self._last = first, last
        return self._frame
