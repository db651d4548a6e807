"""The entries of an ended response, in little more memory than their text takes."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import overload

from stream_core.log.response_log import LogEntry, Restart
from stream_core.policy.memory_bound import PIECE_DELTAS

# A size that stands for a restart, unless it is that of a delta.
_OTHER = 255
_LARGEST = 65_535
# Pieces of common deltas stay below 512 bytes: Python puts those together. Larger ones would leave
# holes in the heap, as large as what they keep.
_PIECE = PIECE_DELTAS


class FoldedEntries(Sequence[LogEntry]):
    """Entries of a log as pieces of text, with a byte or two for the size of each entry.

    It reads like the list that it is made of.
    """

    __slots__ = ("_others", "_sizes", "text")

    def __init__(self, entries: Sequence[LogEntry]) -> None:
        parts = [b"" if isinstance(entry, Restart) else entry.encode() for entry in entries]
        self.text = tuple(
            b"".join(parts[first : first + _PIECE]) for first in range(0, len(parts), _PIECE)
        )
        """The text of all deltas, as pieces of UTF-8."""
        others: dict[int, Restart | int] = {
            index: entry if isinstance(entry, Restart) else len(part)
            for index, (entry, part) in enumerate(zip(entries, parts, strict=True))
            if isinstance(entry, Restart) or len(part) > _LARGEST
        }
        sizes = [_OTHER if index in others else len(part) for index, part in enumerate(parts)]
        self._sizes: Sequence[int] = (
            bytes(sizes) if max(sizes, default=0) <= _OTHER else array("H", sizes)
        )
        self._others = others or None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._sizes)

    @overload
    def __getitem__(self, place: int) -> LogEntry: ...
    @overload
    def __getitem__(self, place: slice) -> list[LogEntry]: ...
    def __getitem__(self, place: int | slice) -> LogEntry | list[LogEntry]:
        indexes = range(len(self._sizes))[place]
        if isinstance(indexes, int):
            return self._entry(indexes)
        if indexes.step != 1:
            return [self[index] for index in indexes]
        return list(self._walk(indexes))

    def __iter__(self) -> Iterator[LogEntry]:
        return self._walk(range(len(self._sizes)))

    def _entry(self, index: int) -> LogEntry:
        """One entry, without a step for each that is before it in its piece.

        Another task reads a log entry by entry.
        """
        place = index % _PIECE
        sizes = self._sizes[index - place : index + 1]
        if _OTHER in sizes:
            return next(self._walk(range(index, index + 1)))
        end = sum(sizes)
        return self.text[index // _PIECE][end - sizes[place] : end].decode()

    def _walk(self, indexes: range) -> Iterator[LogEntry]:
        """The entries at consecutive indexes."""
        text, sizes, others = self.text, self._sizes, self._others
        # The first one's piece is walked from its beginning.
        before = indexes.start % _PIECE if indexes else 0
        place = 0
        for index in range(indexes.start - before, indexes.stop):
            if not index % _PIECE:
                place = 0
            size: int | Restart = sizes[index]
            if size == _OTHER and others is not None:
                size = others.get(index, size)
            if isinstance(size, Restart):
                if index in indexes:
                    yield size
                continue
            if index in indexes:
                yield text[index // _PIECE][place : place + size].decode()
            place += size
