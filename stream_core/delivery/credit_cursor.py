"""A cursor that credit can limit."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.log.entries import LogEntry, Restart, size_of
from evenflow.stream_core.log.response_log import Cursor, ResponseLog


@dataclass(frozen=True, slots=True)
class FlowControl:
    """The pause and credit of a client. It outlives the cursor, so a resumed reader keeps it.

    `credit`: the number of entries that it may still receive. None: any number.
    """

    paused: bool = False
    credit: int | None = None


class CreditCursor(Cursor):
    """A cursor that may be limited by credit. Each entry costs one, a restart marker too.

    Without credit it is a plain cursor. The terminal event costs nothing.

    Args:
        credit: the number of entries that it may take until more are granted. None: any number.
        most_credit: the limit of granted, unused credit.

    Raises:
        InvalidRequest: `credit` is more than that.
    """

    __slots__ = ("_byte", "_most_credit", "_until")

    def __init__(
        self, log: ResponseLog, next_index: int, most: int, *, credit: int | None, most_credit: int
    ) -> None:
        super().__init__(log, next_index, most)
        self._most_credit = most_credit
        self._until: int | None = None
        self._byte = 0  # its place in the log's text in bytes, known only while it has a credit
        if credit is not None:
            self.grant(credit)

    @property
    def credit(self) -> int | None:
        """The number of entries that it may take. None: any number."""
        return None if self._until is None else self._until - self.next_index

    @property
    def starved(self) -> bool:
        """Whether it needs credit before anything but the end can come."""
        return self._until is not None and self.next_index >= self._until

    @property
    def unread_bytes(self) -> int:
        """UTF-8 bytes of text between the cursor and the end of the log. Only with credit."""
        return self._log.text_bytes - self._byte

    def grant(self, credit: int) -> None:
        """Let it take `credit` more entries. The first grant counts from the cursor's place.

        Raises:
            InvalidRequest: that is more than may be granted ahead. Nothing was changed.
        """
        left = self.credit or 0
        if left + credit > self._most_credit:
            raise InvalidRequest(
                f"at most {self._most_credit} entries may be granted ahead, and {left} are now; "
                "nothing was changed, grant more when some have come",
                code="invalid_field",
                param="n",
            )
        if self._until is None:
            self._until = self.next_index
            self._count_unread()
        self._until += credit

    def lift(self) -> None:
        """Remove the limit: it may take everything from now on."""
        self._until = None

    def next_entry(self, until: int = sys.maxsize) -> LogEntry | None:
        """Read as `Cursor.next_entry`. None without credit, too."""
        if self._until is None:
            return super().next_entry(until)
        entry = super().next_entry(min(until, self._until))
        if isinstance(entry, str):
            self._byte += len(entry.encode())
        elif isinstance(entry, Restart) and entry.withdraws:
            self._count_unread()  # entries that were withdrawn are empty now
        elif entry is not None:
            self._byte += sum(map(size_of, self._entries[self.first : self.next_index]))
        return entry

    def _count_unread(self) -> None:
        unread = self._entries[self.next_index :]
        self._byte = self._log.text_bytes - sum(map(size_of, unread))
