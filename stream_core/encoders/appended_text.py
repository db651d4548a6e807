"""A response for clients that can only append text."""

from __future__ import annotations

import sys

from stream_core.log.response_log import Cursor, ResponseLog, ResumePoint, slice_of
from stream_core.protocol.errors import UpstreamFailed


class AppendedText:
    """A cursor for a client that can't take text back.

    It leaves out text that has been replaced. After a restart it compares the new text with
    what the client has: what is the same is left out, and the client is given what goes beyond.

    Args:
        log: the log to read.
        next_index: where to begin.
        most: the most characters in one piece. A single delta may be longer.
        ahead: what the client has beyond the log's text before `next_index`.
    """

    def __init__(self, log: ResponseLog, next_index: int, most: int, ahead: str = "") -> None:
        self.cursor = Cursor(log, next_index, most)
        self._log = log
        self._most = most
        self._ahead = ahead

    def check_whole(self) -> None:
        """Check at the end that the client has the answer and nothing more.

        Raises:
            UpstreamFailed: the model began again, and its new answer is shorter.
        """
        if self._ahead:
            raise _replaced()

    def take(self) -> str | None:
        """The next piece to append. None when there is nothing new.

        Raises:
            UpstreamFailed: the model began again, and its new answer is different.
        """
        cursor, log = self.cursor, self._log
        index, head = cursor.next_index, len(log.entries)
        if index == head:
            return None
        if index + 1 == head and not (log.restarts or self._ahead):
            only = log.entries[index]
            if isinstance(only, str):
                # Nearly every call is like this.
                cursor.next_index = index + 1
                return only
        while (taken := cursor.take(self._stands_until())) is not None:
            if isinstance(taken, str) and (text := self._beyond(taken)):
                return text
        return None

    def going_on(self, log: ResponseLog, point: ResumePoint) -> AppendedText:
        """Go on at `point` in another copy of the log."""
        if point.restarted is None:
            return AppendedText(log, point.next_index, self._most, self._ahead)
        has = slice_of(self._log.entries[: self.cursor.next_index], 0).text + self._ahead
        return AppendedText(log, point.next_index, self._most, has)

    def _stands_until(self) -> int:
        """The index at which the next text that will be replaced begins.

        Where text has been replaced that the client has, the cursor moves to the marker.
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
        entries = self._log.entries
        has = slice_of(entries[: self.cursor.next_index], 0).text + self._ahead
        kept = slice_of(entries[: marker + 1], 0).text
        self._ahead = has[len(kept) :]
        self.cursor.next_index = marker

    def _beyond(self, text: str) -> str:
        ahead = self._ahead
        if ahead.startswith(text):
            self._ahead = ahead[len(text) :]
            return ""
        if not text.startswith(ahead):
            raise _replaced()
        self._ahead = ""
        return text[len(ahead) :]


def _replaced() -> UpstreamFailed:
    return UpstreamFailed(
        "the model failed and began again, and its new answer does not begin with the part that "
        "you have; drop that part, and ask again",
        code="response_restarted",
    )
