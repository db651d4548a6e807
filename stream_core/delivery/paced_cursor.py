"""The port of readers, and a cursor that credit can limit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from evenflow.stream_core.base.answer import Transport
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.log.entries import LogEntry, Restart, size_of
from evenflow.stream_core.log.response_log import Cursor, ResponseLog


class Reader(Protocol):
    """A cursor with a transport behind it."""

    @property
    def transport(self) -> Transport:
        """The transport that brings entries to the client."""

    @property
    def user(self) -> str | None:
        """The user of the reader's token, empty if unknown. None: it is not a client's reader."""

    @property
    def next_index(self) -> int:
        """The next index to deliver. 0 for a reader that is only notified of news."""

    @property
    def pauses_model(self) -> bool:
        """Whether it pauses, and the log is the pause window ahead of it."""

    def deliver(self, now: float, jitter: float | None) -> None:
        """Give the reader what is new: the log has grown, or ended. Must not wait or raise.

        `jitter` is the difference in seconds between this delivery and its due time. None for the
        first delivery, and for a call that no due time belongs to.
        """

    def queued(self, place: QueuePlace) -> None:
        """The response waits for the model at this place. Must not wait or raise."""

    def announce_start(self) -> None:
        """Announce the changed beginning of the answer, before its text. Must not wait or raise."""

    def lost(self) -> None:
        """This copy is lost: find the response again and resume. Must not wait or raise."""


@dataclass(frozen=True, slots=True)
class Pace:
    """The pause and credit of a client. It outlives the cursor, so a resumed reader keeps it.

    `credit`: how many more entries it may be given. None: any number.
    """

    paused: bool = False
    credit: int | None = None


class PacedCursor(Cursor):
    """A cursor that may be limited by credit. Each entry costs one, a restart marker too.

    Without credit it is a plain cursor. The terminal event costs nothing.

    Args:
        credit: how many entries it may take until more are granted. None: any number.
        most_credit: the most credit that may be granted and not used.

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
        """How many entries it may take. None: any number."""
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

    def next_entry(self, until: int | None = None) -> LogEntry | None:
        """Read the next entry, joined. None without a new entry or without credit."""
        if self._until is None:
            return super().next_entry()
        entry = super().next_entry(self._until)
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
