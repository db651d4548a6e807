"""One response's way into the store: how much of its log is there, and what goes there next."""

from __future__ import annotations

from collections.abc import Sequence

from stream_core.log.conversation import REMEMBERED
from stream_core.log.response_log import LogEntry
from stream_core.log.response_stream import ResponseStream
from stream_core.ports.response_store import Chunk, Ending, Lease

# An item of DynamoDB may have 400 KB, and a byte of text take six there.
_CHUNK_BYTES = 16_384


class Recording:
    """A cursor over the log that the store is behind."""

    __slots__ = (
        "_began_at",
        "due_at",
        "failures",
        "lease",
        "polls",
        "sent",
        "sent_bytes",
        "stored_bytes",
        "stream",
        "waiting_since",
        "writing",
        "writing_since",
        "written",
    )

    def __init__(self, stream: ResponseStream, lease: Lease, written: int, now: float) -> None:
        self.stream = stream
        self.lease = lease
        self.written = written
        """The next index that the store does not have."""
        self.sent = written
        """The next index that is not on its way there."""
        self.stored_bytes = self.sent_bytes = sum(map(_size, stream.log.entries[:written]))
        # When the first delta came, in seconds since the epoch; the same in every chunk.
        self._began_at: float | None = None
        self.writing = False
        self.due_at = now
        """Not before, after a write that was not taken."""
        self.waiting_since: float | None = None
        """Since when there is something that should be written and isn't on its way."""
        self.writing_since = now
        """Since when what is on its way should have been written."""
        self.failures = 0
        self.polls = 0

    @property
    def missing(self) -> int:
        """How many deltas the store does not have."""
        return self.stream.log.next_index - self.written

    def send(self, began_at: float) -> Chunk:
        """What to write next, on its way from now on: all that is new, up to the size of a chunk.

        Args:
            began_at: when the first delta came, in seconds since the epoch; said once, it stands.
        """
        if self._began_at is not None:
            began_at = self._began_at
        elif self.stream.first_delta_at is not None:
            self._began_at = began_at
        return Chunk(self.lease.response_id, self.lease.epoch, self.written, self._send(), began_at)

    def ending(self, ended_at: float) -> Ending:
        """How the response ended, at `ended_at` in seconds since the epoch."""
        stream = self.stream
        return Ending(
            state=stream.state,
            next_index=stream.log.next_index,
            ended_at=ended_at,
            finish_reason=stream.finish_reason,
            usage=stream.usage.counted() if stream.usage else None,
            error=stream.error,
            degraded=stream.degraded,
        )

    def answer(self, most_bytes: int) -> str | None:
        """What the conversation should remember of it."""
        stream = self.stream
        if stream.state not in REMEMBERED or stream.degraded:
            return None
        text = stream.log.text
        return text if len(text.encode()) <= most_bytes else None

    def take_back(self) -> None:
        """What was on its way did not arrive."""
        self.sent = self.written
        self.waiting_since = self.writing_since

    def take_note(self) -> None:
        """The store has what was on its way."""
        self.failures = 0
        self.written = self.sent
        self.stored_bytes = self.sent_bytes

    def _send(self) -> Sequence[LogEntry]:
        log = self.stream.log
        entries = log.entries[self.written :]
        self.sent_bytes = log.text_bytes
        if self.sent_bytes - self.stored_bytes > _CHUNK_BYTES:
            entries = self._cut(entries)
        self.sent = self.written + len(entries)
        if self.waiting_since is not None:
            self.writing_since, self.waiting_since = self.waiting_since, None
        return entries

    def _cut(self, entries: list[LogEntry]) -> list[LogEntry]:
        """The first of them, up to the size of a chunk; one at least."""
        self.sent_bytes = self.stored_bytes
        for count, entry in enumerate(entries):
            size = _size(entry)
            if count and self.sent_bytes + size - self.stored_bytes > _CHUNK_BYTES:
                return entries[:count]
            self.sent_bytes += size
        return entries


def _size(entry: LogEntry) -> int:
    return len(entry.encode()) if isinstance(entry, str) else 0
