"""Readers, and their cursors: what is sent together, and at whose pace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from stream_core.log.response_log import Cursor, ResponseLog, Restart
from stream_core.protocol.errors import InvalidRequest


class Reader(Protocol):
    """A cursor with a transport behind it."""

    @property
    def holds_model(self) -> bool:
        """Whether it pauses, and the log is the pause window ahead of it (rule 6)."""

    def deliver(self, now: float, jitter: float | None) -> None:
        """Give it what it may have: the log has grown, or ended. Must not wait, and must not raise.

        `jitter` is by how many seconds this delivery misses its time, None where it has none: the first one, or a
        call for another reason.
        """

    def lost(self) -> None:
        """This copy of the response goes on no more: find the response again, and resume. Must not wait or raise."""


class Batcher:
    """Tokens of one response that wait for the end of their window.

    Whether a token waits at all is the stream's business: the first one doesn't, nor does one after a silence.
    """

    __slots__ = ("_most", "_tokens")

    def __init__(self, most_tokens: int) -> None:
        self._tokens: list[str] = []
        self._most = most_tokens

    def add(self, token: str) -> bool:
        """Take a token; whether the batch is full, so that a delta must be cut now."""
        self._tokens.append(token)
        return len(self._tokens) >= self._most

    def cut(self) -> str:
        """The text of the delta, which is empty when no token waits."""
        tokens = self._tokens
        text = tokens[0] if len(tokens) == 1 else "".join(tokens)
        tokens.clear()
        return text


@dataclass(frozen=True, slots=True)
class Pace:
    """What a client asked for, which outlives the cursor that kept it.

    `credit`: how many entries more it may be given, None for any number.
    """

    paused: bool = False
    credit: int | None = None


class PacedCursor(Cursor):
    """Without credit it is a plain cursor. An index is an entry, a restart marker too; the terminal event is none.

    Args:
        log, next_index, most: of the `Cursor`.
        credit: how many entries it may take until more are granted; None for any number.
        most_credit: how many may be granted ahead.

    Raises:
        InvalidRequest: `credit` is more than that.
    """

    __slots__ = ("_byte", "_most_credit", "_until")

    def __init__(self, log: ResponseLog, next_index: int, most: int, *, credit: int | None, most_credit: int) -> None:
        super().__init__(log, next_index, most)
        self._most_credit = most_credit
        self._until: int | None = None
        self._byte = 0  # where in the log's text it stands, which is known while there is a credit
        if credit is not None:
            self.grant(credit)

    @property
    def credit(self) -> int | None:
        """How many entries it may take; None for any number."""
        return None if self._until is None else self._until - self.next_index

    @property
    def starved(self) -> bool:
        """Whether more credit is needed before anything but the end can come."""
        return self._until is not None and self.next_index >= self._until

    @property
    def unread_bytes(self) -> int:
        """How far the log is ahead of it, while there is a credit: UTF-8 bytes of text."""
        return self._log.text_bytes - self._byte

    def grant(self, credit: int) -> None:
        """It may take so many entries more. The first time it counts from where the cursor is.

        Raises:
            InvalidRequest: that would be more ahead than may be; nothing was changed.
        """
        left = self.credit or 0
        if left + credit > self._most_credit:
            raise InvalidRequest(
                f"at most {self._most_credit} entries may be granted ahead, and {left} are; nothing was changed, "
                "grant more when some have come",
                code="invalid_field",
                param="n",
            )
        if self._until is None:
            self._until = self.next_index
            unread = self._entries[self.next_index :]
            self._byte = self._log.text_bytes - sum(len(text.encode()) for text in unread if isinstance(text, str))
        self._until += credit

    def lift(self) -> None:
        """It may take everything from now on."""
        self._until = None

    def take(self, until: int | None = None) -> str | Restart | None:
        """What comes next, joined; None where there is nothing, or no credit for it."""
        if self._until is None:
            return super().take()
        taken = super().take(self._until)
        if isinstance(taken, str):
            self._byte += len(taken.encode())
        return taken
