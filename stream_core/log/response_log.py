"""A response's log: numbered text, restarts and its end; and where a reader goes on in it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Union


class ResponseState(StrEnum):
    """Where a response is; the value is the `status` that clients see."""

    QUEUED = "queued"
    STREAMING = "streaming"
    COMPLETED = "completed"
    ERROR = "error"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether nothing follows."""
        return self in _TERMINAL


class ResponseEvent(StrEnum):
    """What happens to a response."""

    START = "start"  # it was taken from the queue
    RESTART = "restart"  # the attempt failed, the next one begins
    COMPLETE = "complete"  # the model has finished, or a fallback answer stands in
    FAIL = "fail"  # no attempt is left
    CANCEL = "cancel"  # the client said so, or nobody reads it any more


_TERMINAL = frozenset({ResponseState.COMPLETED, ResponseState.ERROR, ResponseState.CANCELLED})

RESPONSE_TRANSITIONS: dict[tuple[ResponseState, ResponseEvent], ResponseState] = {
    (ResponseState.QUEUED, ResponseEvent.START): ResponseState.STREAMING,
    (ResponseState.QUEUED, ResponseEvent.FAIL): ResponseState.ERROR,
    (ResponseState.QUEUED, ResponseEvent.CANCEL): ResponseState.CANCELLED,
    (ResponseState.STREAMING, ResponseEvent.RESTART): ResponseState.STREAMING,
    (ResponseState.STREAMING, ResponseEvent.COMPLETE): ResponseState.COMPLETED,
    (ResponseState.STREAMING, ResponseEvent.FAIL): ResponseState.ERROR,
    (ResponseState.STREAMING, ResponseEvent.CANCEL): ResponseState.CANCELLED,
}


class IllegalTransition(Exception):
    """An event came in a state that has no row for it. The state stays."""


def next_response_state(state: ResponseState, event: ResponseEvent) -> ResponseState:
    """The state after `event`.

    Raises:
        IllegalTransition: the table has no such row.
    """
    try:
        return RESPONSE_TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(f"a {state} response cannot {event}") from None


LogEntry = Union["str", "Restart"]
"""One index of a log: a delta's text, or the marker of a restart."""


class LogClosed(Exception):
    """Something was written behind the terminal event. The log keeps what it held."""


@dataclass(frozen=True, slots=True)
class Restart:
    """A marker with an index of its own: the text after `from_index` is replaced by what follows the marker.

    `epoch`: where a new owner's part begins, that owner's epoch; 0 for a restart by the same owner. From such a marker on
    an earlier owner, lost before all was on record, may have delivered other entries under the same indexes.
    """

    from_index: int
    attempt: int
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class LogSlice:
    """A piece of a log, read at once.

    `restarted`: what the reader holds after its `from_index` is replaced by `text` (None: `text` is appended).
    """

    text: str
    last_index: int
    restarted: Restart | None


def slice_of(entries: Sequence[LogEntry], first_index: int) -> LogSlice:
    """`entries`, the first of which is `first_index`, as one text without what a restart replaced."""
    standing: list[tuple[int, str]] = []
    outer: Restart | None = None
    for index, entry in enumerate(entries, first_index):
        if isinstance(entry, Restart):
            while standing and standing[-1][0] > entry.from_index:
                standing.pop()
            if entry.from_index < (outer.from_index if outer else first_index - 1):
                outer = entry
        else:
            standing.append((index, entry))
    return LogSlice("".join(text for _, text in standing), first_index + len(entries) - 1, outer)


class ResponseLog:
    """The deltas of one response, numbered 0, 1, 2 …, append-only, closed by exactly one terminal event."""

    __slots__ = ("_owners", "entries", "restarts", "state", "text_bytes")

    def __init__(self) -> None:
        self.entries: list[LogEntry] = []
        self.restarts: list[tuple[int, int]] = []
        """Of each restart the marker's index, and its `from_index`."""
        self._owners: list[tuple[int, int]] = []  # where each owner after the first begins, and its epoch
        self.text_bytes = 0
        """UTF-8 bytes of all deltas, replaced ones included."""
        self.state: ResponseState | None = None
        """The terminal state, once closed."""

    @property
    def next_index(self) -> int:
        """The index that the next entry gets."""
        return len(self.entries)

    @property
    def closed(self) -> bool:
        """Whether the terminal event has come."""
        return self.state is not None

    @property
    def text(self) -> str:
        """The text that stands: deltas in order, without what a restart replaced."""
        return self.read(0).text

    def read(self, from_index: int) -> LogSlice:
        """Everything from `from_index` on, as one text without what a restart replaced."""
        return slice_of(self.entries[from_index:], from_index)

    def append(self, text: str) -> None:
        """Add a delta.

        Raises:
            LogClosed: the terminal event has come already.
        """
        if self.state is not None:
            raise LogClosed("a delta came after the end of its response; the log keeps what it held")
        self.entries.append(text)
        self.text_bytes += len(text) if text.isascii() else len(text.encode())

    def restart(self, from_index: int, attempt: int, epoch: int = 0) -> None:
        """Declare the text after `from_index` (-1: all of it) replaced by what follows; see `Restart`.

        Raises:
            LogClosed: the terminal event has come already.
        """
        if self.state is not None:
            raise LogClosed("a restart came after the end of its response; the log keeps what it held")
        if epoch:
            self._owners.append((len(self.entries), epoch))
        self.restarts.append((len(self.entries), from_index))
        self.entries.append(Restart(from_index, attempt, epoch))

    def extend(self, entries: Iterable[LogEntry]) -> None:
        """Add what stands in another copy of this log.

        Raises:
            LogClosed: the terminal event has come already.
        """
        for entry in entries:
            if isinstance(entry, Restart):
                self.restart(entry.from_index, entry.attempt, entry.epoch)
            else:
                self.append(entry)

    def epoch_at(self, index: int) -> int:
        """The epoch of the owner that wrote the entry at `index` (or would write it)."""
        if not self._owners:
            return 1
        return next((epoch for first, epoch in reversed(self._owners) if first <= index), 1)

    def first_index_after(self, epoch: int) -> int | None:
        """Where the owners that came after `epoch` begin; None when there are none."""
        return next((first for first, later in self._owners if later > epoch), None)

    def close(self, state: ResponseState) -> None:
        """Write the terminal event.

        Raises:
            LogClosed: there is one already.
            ValueError: `state` is not a terminal state.
        """
        if self.state is not None:
            raise LogClosed("a response ends once; the log keeps its first terminal event")
        if not state.terminal:
            raise ValueError(f"{state} does not end a response")
        self.state = state


class Cursor:
    """A reader's position: the next index that it has not been given.

    Args:
        log: the log to read.
        next_index: where to begin, 0 … `log.next_index`.
        most: characters of text in one joined delta; a single delta may be longer.
    """

    __slots__ = ("_entries", "_log", "_most", "began_at", "first", "last", "next_index")

    def __init__(self, log: ResponseLog, next_index: int, most: int) -> None:
        self._log = log
        self._entries = log.entries
        self._most = most
        self.began_at = next_index
        self.next_index = next_index
        self.first = next_index
        """First index of what `take` returned last."""
        self.last = next_index - 1
        """Last index of what `take` returned last."""

    @property
    def behind(self) -> int:
        """Entries in the log that this reader has not been given."""
        return len(self._log.entries) - self.next_index

    @property
    def at_end(self) -> bool:
        """Whether the response has ended and everything was given."""
        return self._log.closed and self.behind == 0

    def take(self, until: int = sys.maxsize) -> str | Restart | None:
        """The next delta, or several joined, or a restart marker; None when there is nothing new before index `until`.

        `first` and `last` then say which indexes it covers. Joining stops before a restart marker and before the text
        would exceed `most` characters.
        """
        entries = self._entries
        first = self.next_index
        count = min(len(entries), until) - first
        if count <= 0:
            return None
        taken = entries[first]
        self.first = self.last = first
        self.next_index = first + 1
        if count == 1 or isinstance(taken, Restart):
            return taken
        return self._join(taken, first + 1, until)

    def _join(self, text: str, index: int, until: int) -> str:
        parts = [text]
        size = len(text)
        for entry in self._log.entries[index:until]:
            if isinstance(entry, Restart):
                break
            size += len(entry)
            if size > self._most:
                break
            parts.append(entry)
        self.next_index += len(parts) - 1
        self.last = self.next_index - 1
        return "".join(parts)


EVERYTHING = -1
"""The `from_index` of a restart that replaces all of the text, and the `after` of a reader that has none of it."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The next index to deliver.

    `restarted`: told before that, it replaces everything that the reader holds. It is no entry of the log: its index is
    `EVERYTHING`.
    """

    next_index: int
    restarted: Restart | None = None


def resume_point(log: ResponseLog, after: int, epoch: int | None) -> ResumePoint | None:
    """Where a reader goes on that holds everything up to `after`; None where the log doesn't tell yet.

    What an owner delivered and did not get on record before it was lost, the next owner writes anew under the same
    indexes. A reader that holds such entries begins again, since it can't cut them out of a frame that joined several.

    Args:
        after: the last index that the reader holds, -1 for none.
        epoch: the newest that it was told of; None when it doesn't say. Then it can't be told whether what it holds behind
            the beginning of a later owner is of that one, and it begins again.
    """
    if epoch is not None and epoch > log.epoch_at(log.next_index):
        return None  # it knows a later owner than this copy does, which may be one that was lost and hasn't noticed
    later_owner_begins_at = log.first_index_after(epoch if epoch is not None else 1)
    if later_owner_begins_at is not None and later_owner_begins_at <= after:
        return _from_the_beginning(log)
    if after < log.next_index:
        return ResumePoint(after + 1)
    return None  # it is ahead of this copy of the log


def _from_the_beginning(log: ResponseLog) -> ResumePoint:
    markers = [entry for entry in log.entries if isinstance(entry, Restart)]
    attempt = markers[-1].attempt if markers else 1
    return ResumePoint(0, Restart(EVERYTHING, attempt, log.epoch_at(log.next_index)))
