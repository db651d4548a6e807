"""A cursor over one response for the store: what is stored, and what is written next."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from evenflow.stream_core.base.channel import MessageKind
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import LogEntry, size_of
from evenflow.stream_core.stores.outcome import Outcome, contents_of
from evenflow.stream_core.stores.response_store import Chunk, Ending, Lease

ENDING_WAITS_SECONDS = 10.0
"""How long an answer's end waits until its usage is stored. A write that has begun by then may take
as long again.
"""
UNREPEATABLE_SECONDS = 300.0
"""How long an answer that cannot be requested again is kept, for its readers on other nodes."""
# A DynamoDB item may have 400 KB, and a byte of text can take six there.
_CHUNK_BYTES = 16_384


class Recording:
    """A cursor over a response's log: how much of it the store has, and what is sent next."""

    __slots__ = (
        "_began_at",
        "_has_readers_later",
        "_is_repeatable",
        "backlog_bytes",
        "due_at",
        "end_reported",
        "errors",
        "failures",
        "lease",
        "look_at",
        "polls",
        "sent",
        "sent_bytes",
        "since",
        "stored_bytes",
        "stream",
        "waiting_since",
        "writing",
        "writing_since",
        "written",
        "wrote_at",
    )

    def __init__(
        self,
        stream: ResponseStream,
        lease: Lease,
        written: int,
        now: float,
        *,
        look_at: float,
        kind: MessageKind,
    ) -> None:
        self.stream = stream
        self.lease = lease
        self.since = now
        """The time from which it is written."""
        self._has_readers_later = not kind.brings_conversation
        self._is_repeatable = kind.repeatable
        self.written = written
        """The next index that the store does not have."""
        self.sent = written
        """The next index that has not been sent."""
        self.stored_bytes = self.sent_bytes = sum(map(size_of, stream.log.entries[:written]))
        # The time of the first delta, in seconds since the epoch. The same in every chunk.
        self._began_at: float | None = None
        self.writing = False
        self.due_at = now
        """No write begins before this time. It is later after a failed one."""
        self.wrote_at = now
        """The time at which the last successful write began. Before that, when this began."""
        self.waiting_since: float | None = None
        """The time since which entries wait to be sent. None: none do."""
        self.writing_since = now
        """The time since which the entries that have been sent wait."""
        stream.backpressure.record_stored(self.stored_bytes)
        self.end_reported = False
        """Whether its end is stored, and was reported."""
        self.failures = self.errors = 0
        """Failed writes in a row, and how many of them failed with a reachable store."""
        self.backlog_bytes = 0
        """Bytes of text that the store lacked at the response's last turn."""
        self.look_at = look_at
        """The time at which to look for readers on other nodes."""
        self.polls = 0

    @property
    def is_unread(self) -> bool:
        """Whether it is still generated, and has no reader here."""
        return self.stream.readers.grace_begins_at is not None and not self.stream.state.terminal

    @property
    def missing(self) -> int:
        """The number of entries that the store does not have."""
        return self.stream.log.next_index - self.written

    def is_due(self, now: float, interval: float, polled_interval: float) -> bool:
        """Whether it is time to write what has grown.

        Only polls need the text from the store while its node lives. Without a reader here
        the response may be polled: then its text is fresh first of all at its beginning.

        Args:
            interval: the seconds between two writes.
            polled_interval: the same at the first delta of a response that may be polled. It grows
                by as much with each second.
        """
        stream = self.stream
        if stream.log.closed or stream.log.text_bytes - self.stored_bytes >= _CHUNK_BYTES:
            return True
        if self.is_unread and stream.first_delta_at is not None:
            age = max(0.0, now - stream.first_delta_at)
            interval = min(interval, polled_interval * (1.0 + age))
        return now - self.wrote_at >= interval

    def send(self, began_at: float) -> Chunk:
        """The chunk to send now: all that is new, up to the size of a chunk.

        Args:
            began_at: when the first delta came, in seconds since the epoch. The first value counts.
        """
        if self._began_at is not None:
            began_at = self._began_at
        elif self.stream.first_delta_at is not None:
            self._began_at = began_at
        return Chunk(self.lease.response_id, self.lease.epoch, self.written, self._send(), began_at)

    def ending(self, ended_at: float) -> Ending:
        """The response's ending, at `ended_at` in seconds since the epoch."""
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

    def kept_seconds(self, most: float) -> float:
        """How long the answer is kept after its end, but at most `most` seconds."""
        return most if self._is_repeatable else min(most, UNREPEATABLE_SECONDS)

    def answer(self, most_bytes: int | None) -> str | None:
        """The text for the conversation's history. None: none is kept.

        Args:
            most_bytes: a longer one is not kept. None: any is.
        """
        stream = self.stream
        if not stream.is_remembered:
            return None
        answer = b"".join(stream.answer)
        return None if most_bytes is not None and len(answer) > most_bytes else answer.decode()

    def outcome(self, answer: str | None) -> str:
        """The outcome with its contents, for the session's later readers. Empty: it has none.

        Args:
            answer: the text that the conversation remembers.
        """
        if not self._has_readers_later:
            return ""
        stream = self.stream
        contents = contents_of(stream.log.entries)
        return Outcome(stream.state, contents, stream.finish_reason, stream.error).to_text(answer)

    def roll_back(self) -> None:
        """Roll back to what is stored: the write has failed."""
        self.sent = self.written
        self.waiting_since = self.writing_since

    def confirm(self, wrote_at: float) -> None:
        """Record that the write that began at `wrote_at` has succeeded."""
        self.wrote_at = wrote_at
        self.failures = self.errors = 0
        self.written = self.sent
        self.stored_bytes = self.sent_bytes
        self.stream.backpressure.record_stored(self.stored_bytes)

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

    def _cut(self, entries: Sequence[LogEntry]) -> Sequence[LogEntry]:
        """The first entries, up to the size of a chunk, and at least one."""
        self.sent_bytes = self.stored_bytes
        for count, entry in enumerate(entries):
            size = size_of(entry)
            if count and self.sent_bytes + size - self.stored_bytes > _CHUNK_BYTES:
                return entries[:count]
            self.sent_bytes += size
        return entries


async def failure_to_settle(
    settle: Awaitable[None] | None, seconds_since_end: Callable[[], float]
) -> Exception | None:
    """Store the usage of an answer.

    Args:
        settle: stores it. None: there is nothing to store.

    Returns:
        The failure, if the answer's end has waited for it long enough. Try again after it.

    Raises:
        Exception: the failure, while the answer's end waits.
    """
    if settle is None:
        return None
    try:
        async with asyncio.timeout(ENDING_WAITS_SECONDS):
            await settle
    except Exception as error:
        if not isinstance(error, TimeoutError) and seconds_since_end() < ENDING_WAITS_SECONDS:
            raise
        return error
    return None
