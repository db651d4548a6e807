"""The entries of an ended response, in little more memory than their text."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import overload

from evenflow.stream_core.log.entries import Content, LogEntry, Part, Restart, text_of, with_text

PIECE_DELTAS = 32
"""The number of deltas of an ended response in one piece of text."""


# The size that marks an entry of `_others`: a restart, or a delta that is too large for a byte.
_OTHER = 255
_LARGEST = 65_535
# Pieces of common deltas stay below 512 bytes: Python puts those together. Larger ones would leave
# holes in the heap, as large as what they keep.
_PIECE = PIECE_DELTAS
# The runs of nearly all logs: one run, with an end that no index reaches.
_ONLY_TEXT: tuple[Content, ...] = ("",)
_NO_ENDS = (sys.maxsize,)


class FoldedEntries(Sequence[LogEntry]):
    """Entries of a log as pieces of text, with a byte or two for the size of each entry.

    It reads like the list from which it is made.
    """

    __slots__ = ("_others", "_run_ends", "_runs", "_sizes", "text")

    def __init__(self, entries: Sequence[LogEntry]) -> None:
        texts = [
            b"" if isinstance(entry, Restart) else text_of(entry).encode() for entry in entries
        ]
        self.text = tuple(
            b"".join(texts[first : first + _PIECE]) for first in range(0, len(texts), _PIECE)
        )
        """The text of all deltas and parts, as pieces of UTF-8."""
        others: dict[int, Restart | int] = {
            index: entry if isinstance(entry, Restart) else len(text)
            for index, (entry, text) in enumerate(zip(entries, texts, strict=True))
            if isinstance(entry, Restart) or len(text) > _LARGEST
        }
        sizes = [_OTHER if index in others else len(text) for index, text in enumerate(texts)]
        self._sizes: Sequence[int] = (
            bytes(sizes) if max(sizes, default=0) <= _OTHER else array("H", sizes)
        )
        self._others = others or None
        self._runs, self._run_ends = _runs_of(entries)

    @property
    def runs(self) -> int:
        """The number of runs: entries in a row that differ only in their text."""
        return len(self._runs)

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

        Another node reads a log one entry at a time.
        """
        place = index % _PIECE
        sizes = self._sizes[index - place : index + 1]
        if _OTHER in sizes:
            return next(self._walk(range(index, index + 1)))
        end = sum(sizes)
        text = self.text[index // _PIECE][end - sizes[place] : end].decode()
        return with_text(self._runs[bisect_right(self._run_ends, index)], text)

    def _walk(self, indexes: range) -> Iterator[LogEntry]:
        """The entries at consecutive indexes."""
        text, sizes, others = self.text, self._sizes, self._others
        runs, run_ends = self._runs, self._run_ends
        run = bisect_right(run_ends, indexes.start)
        # The piece of the first one is read from its beginning.
        before = indexes.start % _PIECE if indexes else 0
        place = 0
        for index in range(indexes.start - before, indexes.stop):
            if not index % _PIECE:
                place = 0
            size: int | Restart = sizes[index]
            if size == _OTHER and others is not None:
                size = others.get(index, size)
            if index in indexes:
                if index == run_ends[run]:
                    run += 1
                if isinstance(size, Restart):
                    yield size
                    continue
                entry_text = text[index // _PIECE][place : place + size].decode()
                template = runs[run]
                yield entry_text if isinstance(template, str) else template.with_text(entry_text)
            if not isinstance(size, Restart):
                place += size


def _runs_of(entries: Sequence[LogEntry]) -> tuple[Sequence[Content], Sequence[int]]:
    """Entries that differ only in their text, as one without text; and the index after each run."""
    runs, ends = list[Content](), list[int]()
    for index, entry in enumerate(entries):
        template: Content = entry.with_text("") if isinstance(entry, Part) else ""
        if runs and runs[-1] == template:
            ends[-1] = index + 1
        else:
            runs.append(template)
            ends.append(index + 1)
    return (tuple(runs), tuple(ends)) if len(runs) > 1 or runs != [""] else (_ONLY_TEXT, _NO_ENDS)
