"""A cursor for clients that can only append text."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from evenflow.stream_core.base.errors import UpstreamFailed
from evenflow.stream_core.log.entries import (
    Content,
    Part,
    behind,
    joined,
    joins,
    text_of,
    with_text,
)
from evenflow.stream_core.log.response_log import Cursor, ResponseLog, ResumePoint, slice_of


class AppendedContents:
    """A cursor for a client that can't take anything back.

    It leaves out replaced contents. After a restart it compares the new contents with those of the
    client: the same beginning is left out, and only the rest goes to the client.

    Args:
        log: the log to read.
        next_index: where to begin.
        most: the most characters in one piece. A single entry may be longer.
        ahead: contents of the client beyond the log's contents before `next_index`, joined.
    """

    __slots__ = ("_ahead", "_log", "_most", "cursor")

    def __init__(
        self, log: ResponseLog, next_index: int, most: int, ahead: Sequence[Content] = ()
    ) -> None:
        self.cursor = Cursor(log, next_index, most)
        """The client's place. Its `first` and `last` are the indexes of what `take` returned."""
        self._log = log
        self._most = most
        self._ahead = tuple(ahead)

    def check_whole(self) -> None:
        """Check at the end that the client has the answer and nothing more.

        Raises:
            UpstreamFailed: the model began again, and its new answer is shorter.
        """
        if self._ahead:
            raise _replaced()

    @property
    def knows_more(self) -> bool:
        """Whether the client has contents beyond its place in the log."""
        return bool(self._ahead)

    def take(self) -> Content | None:
        """The next piece to append. None when there is nothing new.

        Raises:
            UpstreamFailed: the model began again, and its new answer is different.
        """
        cursor, log = self.cursor, self._log
        index, end = cursor.next_index, len(log.entries)
        if index == end:
            return None
        if index + 1 == end and not (log.restarts or self._ahead):
            only = log.entries[index]
            if isinstance(only, str):
                # Nearly every call is like this.
                cursor.first = cursor.last = index
                cursor.next_index = end
                return only
        while (entry := cursor.next_entry(self._next_replaced())) is not None:
            if isinstance(entry, str | Part) and (new := self._beyond(entry)) is not None:
                return new
        return None

    def going_on(self, log: ResponseLog, point: ResumePoint) -> AppendedContents:
        """Go on at `point` in another copy of the log."""
        if point.restarted is None:
            return AppendedContents(log, point.next_index, self._most, self._ahead)
        return AppendedContents(log, point.next_index, self._most, self._has())

    def _has(self) -> tuple[Content, ...]:
        """The contents of the client, joined."""
        current = slice_of(self._log.entries[: self.cursor.next_index], 0).current
        return tuple(joined((*current, *self._ahead)))

    def _next_replaced(self) -> int:
        """The index of the next contents that a restart replaces.

        Where contents of the client have been replaced, the cursor moves to the marker.
        """
        if not self._log.restarts:
            return sys.maxsize
        at = self.cursor.next_index
        ahead = [(marker, kept) for marker, kept in self._log.restarts if marker >= at]
        replacing = [marker for marker, kept in ahead if kept < at]
        if not replacing:
            return min((kept + 1 for _, kept in ahead), default=sys.maxsize)
        self._skip_to(replacing[-1])
        return replacing[-1] + 1

    def _skip_to(self, marker: int) -> None:
        kept = slice_of(self._log.entries[: marker + 1], 0).current
        self._ahead = behind(self._has(), joined(kept))
        self.cursor.next_index = marker

    def _beyond(self, new: Content) -> Content | None:
        """The part of `new` that the client does not have. None: it has all of it."""
        if not self._ahead:
            return new
        has, *others = self._ahead
        if not joins(has, new):
            if has != new:
                raise _replaced()
            self._ahead = tuple(others)
            return None
        text, known = text_of(new), text_of(has)
        if known.startswith(text):
            rest = [with_text(has, known[len(text) :])] if len(known) > len(text) else []
            self._ahead = (*rest, *others)
            return None
        if others or not text.startswith(known):
            raise _replaced()
        self._ahead = ()
        return with_text(new, text[len(known) :])


def _replaced() -> UpstreamFailed:
    return UpstreamFailed(
        "the model failed and began again, and its new answer does not begin with the part that "
        "you have; drop that part, and ask again",
        code="response_restarted",
    )
