"""A response's log: numbered entries and its end; and where a reader resumes in it."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from evenflow.stream_core.log.entries import Content, LogEntry, Part, Restart, differ_only_in_text


class ResponseState(StrEnum):
    """The state of a response. The value is the `status` that clients receive."""

    QUEUED = "queued"
    STREAMING = "streaming"
    COMPLETED = "completed"
    ERROR = "error"
    CANCELLED = "cancelled"

    @property
    def terminal(self) -> bool:
        """Whether the response has ended."""
        return self in _TERMINAL


class ResponseEvent(StrEnum):
    """An event of a response, which changes its state."""

    START = "start"  # it was taken from the queue
    RESTART = "restart"  # the attempt failed, the next one begins
    COMPLETE = "complete"  # the model has finished, or a fallback took its place
    FAIL = "fail"  # no attempt is left
    CANCEL = "cancel"  # a client requested it, or there is no reader


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
    """An event came in a state that has no transition for it. The state is unchanged."""


def next_response_state(state: ResponseState, event: ResponseEvent) -> ResponseState:
    """The state after `event`.

    Raises:
        IllegalTransition: `RESPONSE_TRANSITIONS` has no row for it.
    """
    try:
        return RESPONSE_TRANSITIONS[state, event]
    except KeyError:
        raise IllegalTransition(f"a {state} response cannot {event}") from None


class LogClosed(Exception):
    """Something was written after the terminal event. The log is unchanged."""


@dataclass(frozen=True, slots=True)
class LogSlice:
    """Consecutive entries of a log, without replaced ones.

    Where `restarted` is set, `contents` replace what the reader has after its `from_index`.
    Otherwise they are appended. Replaced contents are left out.

    Args:
        contents: with their indexes.
    """

    contents: tuple[tuple[int, Content], ...]
    last_index: int
    restarted: Restart | None

    @property
    def text(self) -> str:
        """The text of the answer."""
        return "".join(content for _, content in self.contents if isinstance(content, str))

    @property
    def parts(self) -> tuple[tuple[int, Part], ...]:
        """All but the text of the answer, with the indexes."""
        return tuple(
            (index, content) for index, content in self.contents if isinstance(content, Part)
        )

    @property
    def current(self) -> tuple[Content, ...]:
        """The current contents, without their indexes."""
        return tuple(content for _, content in self.contents)


def slice_of(entries: Sequence[LogEntry], first_index: int) -> LogSlice:
    """`entries` without replaced ones. `first_index` is the index of the first."""
    current: list[tuple[int, Content]] = []
    outer: Restart | None = None
    for index, entry in enumerate(entries, first_index):
        if isinstance(entry, Restart):
            while current and current[-1][0] > entry.from_index:
                current.pop()
            if entry.from_index < (outer.from_index if outer else first_index - 1):
                outer = entry
        else:
            current.append((index, entry))
    return LogSlice(tuple(current), first_index + len(entries) - 1, outer)


_EMPTY_TEXT_BYTES = sys.getsizeof("")
# Of all folded logs: nothing is appended to a closed one.
_FOLDED: list[LogEntry] = []


class ResponseLog:
    """The entries of one response, numbered 0, 1, 2 …, append-only, closed by exactly one
    terminal event.
    """

    __slots__ = (
        "_open",
        "_owners",
        "entries",
        "parts",
        "restarts",
        "state",
        "text_bytes",
        "wide_bytes",
        "withdrawals",
    )

    def __init__(self) -> None:
        self._open: list[LogEntry] = []
        self.entries: Sequence[LogEntry] = self._open
        """A list until the log is folded."""
        self.restarts: tuple[tuple[int, int], ...] = ()
        """Of each restart: the index of its marker, and its `from_index`."""
        # Of each later owner: its first index, its epoch.
        self._owners: tuple[tuple[int, int], ...] = ()
        self.withdrawals = 0
        """The number of restarts that withdrew text."""
        self.parts = 0
        """The number of entries that are parts, with replaced ones."""
        self.text_bytes = 0
        """UTF-8 bytes of all deltas, and the sizes of all parts, with replaced ones."""
        self.wide_bytes = 0
        """Further bytes of memory. With an emoji each character of its delta takes four."""
        self.state: ResponseState | None = None
        """The terminal state. None until the log is closed."""

    @property
    def next_index(self) -> int:
        """The index of the next entry."""
        return len(self.entries)

    @property
    def closed(self) -> bool:
        """Whether the log has its terminal event."""
        return self.state is not None

    @property
    def text(self) -> str:
        """The text of the answer, without replaced text."""
        return self.read(0).text

    def bytes_from(self, index: int) -> int:
        """The estimated bytes of the entries from `index` on, by the average of all."""
        entries = self.next_index
        return self.text_bytes * (entries - index) // entries if index < entries else 0

    def read(self, from_index: int) -> LogSlice:
        """All entries from `from_index` on, without replaced ones."""
        return slice_of(self.entries[from_index:], from_index)

    def append(self, text: str) -> None:
        """Add text of the answer.

        Raises:
            LogClosed: the response has ended.
        """
        if self.state is not None:
            raise LogClosed(
                "a delta came after the end of its response; the log keeps what it held"
            )
        self._open.append(text)
        self.text_bytes += len(text) if text.isascii() else self._size_of_wide(text)

    def append_part(self, part: Part) -> None:
        """Add a part.

        Raises:
            LogClosed: the response has ended.
        """
        if self.state is not None:
            raise LogClosed("a part came after the end of its response; the log keeps what it held")
        self._open.append(part)
        self.parts += 1
        self.text_bytes += part.size
        if not part.text.isascii():
            self._size_of_wide(part.text)

    def _size_of_wide(self, text: str) -> int:
        size = len(text.encode())
        self.wide_bytes += max(0, sys.getsizeof(text) - _EMPTY_TEXT_BYTES - size)
        return size

    def restart(
        self, from_index: int, attempt: int, epoch: int = 0, *, withdraws: bool = False
    ) -> None:
        """Add a marker: what follows replaces the text after `from_index` (-1: all of it).

        Args:
            withdraws: whether the replaced entries are withdrawn. They become empty texts.

        Raises:
            LogClosed: the response has ended.
        """
        if self.state is not None:
            raise LogClosed(
                "a restart came after the end of its response; the log keeps what it held"
            )
        if epoch:
            self._owners += ((len(self.entries), epoch),)
        if withdraws:
            self.withdrawals += 1
            for index in range(from_index + 1, len(self._open)):
                if not isinstance(self._open[index], Restart):
                    self._open[index] = ""
        self.restarts += ((len(self.entries), from_index),)
        self._open.append(Restart(from_index, attempt, epoch, withdraws))

    def extend(self, entries: Iterable[LogEntry]) -> None:
        """Add entries of another copy of this log.

        Raises:
            LogClosed: the response has ended.
        """
        for entry in entries:
            if isinstance(entry, str):
                self.append(entry)
            elif isinstance(entry, Part):
                self.append_part(entry)
            else:
                self.restart(
                    entry.from_index, entry.attempt, entry.epoch, withdraws=entry.withdraws
                )

    def epoch_at(self, index: int) -> int:
        """The epoch of the owner of the entry at `index`, which may be the next one."""
        if not self._owners:
            return 1
        return next((epoch for first, epoch in reversed(self._owners) if first <= index), 1)

    def first_index_after(self, epoch: int) -> int | None:
        """The first index of the owners after `epoch`. None when there are none."""
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

    def fold(self, entries: Sequence[LogEntry]) -> None:
        """Replace the entries of a closed log by the same ones in another representation.

        Cursors are not affected.
        """
        self.entries = entries
        self._open = _FOLDED


# The entries that a cursor copies at once to join them.
_LOOK_AHEAD_ENTRIES = 64


class Cursor:
    """A reader's place in a log: the next index that it has not received.

    Args:
        next_index: where to begin, from 0 to `log.next_index`.
        most: the most characters in joined deltas. A single delta may be longer.
    """

    __slots__ = ("_entries", "_log", "_most", "began_at", "first", "last", "next_index")

    def __init__(self, log: ResponseLog, next_index: int, most: int) -> None:
        self._log = log
        self._entries = log.entries
        self._most = most
        self.began_at = next_index
        self.next_index = next_index
        self.first = next_index
        """The first index of what `next_entry` returned last."""
        self.last = next_index - 1
        """The last index of what `next_entry` returned last."""

    @property
    def after(self) -> int:
        """The last index that the reader has, -1 before the first."""
        return self.next_index - 1

    @property
    def behind(self) -> int:
        """The number of entries that the reader has not received."""
        return len(self._log.entries) - self.next_index

    @property
    def at_end_of_log(self) -> bool:
        """Whether the reader has received all entries so far."""
        return self.next_index == len(self._log.entries)

    @property
    def at_end(self) -> bool:
        """Whether the response has ended and the reader has received everything."""
        return self._log.closed and self.behind == 0

    def next_entry(self, until: int = sys.maxsize) -> LogEntry | None:
        """Read the next entry, or several joined. None when there is nothing new.

        Reads nothing at or after index `until`. Joins neighbours that join, up to `most`
        characters. Afterwards `first` and `last` are the indexes of what it returned.
        """
        entries = self._entries
        first = self.next_index
        count = min(len(entries), until) - first
        if count <= 0:
            return None
        entry = entries[first]
        self.first = self.last = first
        self.next_index = first + 1
        if count == 1 or isinstance(entry, Restart):
            return entry
        if isinstance(entry, str):
            return self._join(entry, first + 1, until)
        return self._join_parts(entry, first + 1, until)

    def _join(self, text: str, index: int, until: int) -> str:
        entries, most = self._entries, self._most
        parts = [text]
        size = len(text)
        until = min(until, len(entries))
        # A few at a time: entries that don't fit are not copied.
        while index < until and size < most:
            for entry in entries[index : min(index + _LOOK_AHEAD_ENTRIES, until)]:
                if not isinstance(entry, str) or size + len(entry) > most:
                    until = index
                    break
                size += len(entry)
                parts.append(entry)
                index += 1
        self.next_index = index
        self.last = index - 1
        return "".join(parts)

    def _join_parts(self, part: Part, index: int, until: int) -> Part:
        entries, most = self._entries, self._most
        texts = [part.text]
        size = len(part.text)
        until = min(until, len(entries))
        while index < until:
            entry = entries[index]
            if not (isinstance(entry, Part) and differ_only_in_text(part, entry)):
                break
            size += len(entry.text)
            if size > most:
                break
            texts.append(entry.text)
            index += 1
        self.next_index = index
        self.last = index - 1
        return part if len(texts) == 1 else part.with_text("".join(texts))


NOTHING_YET = -1
"""The last index of a reader that has no entries yet."""

REPLACES_ALL = -1
"""The `from_index` of a restart that replaces all entries, and the index of its frame."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """The place at which a reader resumes: the next index to deliver.

    `restarted`, if it is set, is delivered first and replaces everything that the reader has. It is
    not in the log, and its index is `REPLACES_ALL`.
    """

    next_index: int
    restarted: Restart | None = None


def resume_point(log: ResponseLog, after: int, epoch: int | None) -> ResumePoint | None:
    """The place at which a reader resumes. None where the log can't determine it yet.

    An owner may be lost before what it delivered is on record. The next owner then writes other
    entries under the same indexes. A reader that has such entries begins again: it can't cut them
    out of frames that join several.

    Args:
        after: the last index that the reader has, -1 for none.
        epoch: the newest epoch that the reader received. None if it doesn't say: then it begins
            again if it has entries from where a later owner begins.
    """
    if epoch is not None and epoch > log.epoch_at(log.next_index):
        return None  # the reader knows a later owner: this copy may be of one that is lost
    later_owner_begins_at = log.first_index_after(epoch if epoch is not None else 1)
    if later_owner_begins_at is not None and later_owner_begins_at <= after:
        return _from_the_beginning(log)
    if after < log.next_index:
        return ResumePoint(after + 1)
    return None  # the reader is ahead of this copy


def _from_the_beginning(log: ResponseLog) -> ResumePoint:
    markers = [entry for entry in log.entries if isinstance(entry, Restart)]
    attempt = markers[-1].attempt if markers else 1
    return ResumePoint(0, Restart(REPLACES_ALL, attempt, log.epoch_at(log.next_index)))
