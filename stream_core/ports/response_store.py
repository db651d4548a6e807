"""The port of the response buffer: responses as other processes see them.

What its implementations owe their callers (tests/integration/stores holds them to it):

- An entry, once written under an epoch, is never written otherwise under it: that is the writer's duty.
- A response has one owner at a time, under a **lease** with an **epoch**. Taking over raises the epoch; from then on
  nothing that the earlier owner writes can be read by anyone, however late it arrives.
- A task's lease covers everything it owns. Once it has run out and somebody else has declared it **lost**, or its task
  released it, it is never in force again: the task goes on under another name.
- Readers get a gapless prefix of the log. A piece that has not arrived is a delay, never a gap.
- What has expired is not there, whether or not it has been deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from stream_core.log.response_log import LogEntry, ResponseState

LIFETIME_SECONDS = 86_400.0
"""How long a store keeps a session after its last message, and a response that is never finished:
longer than any answer takes."""


class LeaseLost(Exception):
    """Another task owns the response now, or may. What was written under the lease before it was lost is kept."""


class StoreUnavailable(Exception):
    """The store did not take or give it, also when asked again. Nothing is known of its state: ask later."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write one response. `epoch` counts its owners, from 1."""

    response_id: str
    owner: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Ending:
    """How a response ended and when (epoch seconds), and the index behind its last entry."""

    state: ResponseState
    next_index: int
    ended_at: float
    finish_reason: str | None = None
    usage: Mapping[str, int] | None = None
    error: Mapping[str, Any] | None = None
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive entries of a log, written at once under the lease of an epoch.

    `began_at`: when the response's first delta came (epoch seconds).
    """

    response_id: str
    epoch: int
    first_index: int
    entries: Sequence[LogEntry]
    began_at: float

    @property
    def last_index(self) -> int:
        """The index of its last entry."""
        return self.first_index + len(self.entries) - 1


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What is known of a response beside its entries. Times are in seconds since the epoch.

    `starts`: epoch → the index from which on its entries count; an epoch without one has not begun to write.
    `polls` counts `note_read`, by which an owner sees that somebody reads elsewhere; `hand_overs` the owners that left in order.
    """

    response_id: str
    channel: str
    message_id: str
    owner: str
    epoch: int
    created_at: float
    expires_at: float
    starts: Mapping[int, int] = field(default_factory=lambda: {1: 0})
    polls: int = 0
    hand_overs: int = 0
    ending: Ending | None = None

    @property
    def lease(self) -> Lease:
        """The lease that is in force."""
        return Lease(self.response_id, self.owner, self.epoch)

    @property
    def losses(self) -> int:
        """How many owners it has lost."""
        return max(0, self.epoch - 1 - self.hand_overs)

    def first_index_after(self, epoch: int) -> int | None:
        """Where the owners that came after `epoch` begin; None when there are none, or they have not begun."""
        return min((start for later, start in self.starts.items() if later > epoch), default=None)

    def counts(self, epoch: int, index: int) -> bool:
        """Whether the entry that was written as `index` under `epoch` is part of the response."""
        start = self.starts.get(epoch)
        if start is None or index < start:
            return False
        return all(index < self.starts[later] for later in self.starts if later > epoch)


@dataclass(frozen=True, slots=True)
class StoredEntries:
    """A gapless run of entries from an index on.

    `began_at`: when the first delta came (epoch seconds), as the entries from the one before `first_index` on tell it;
    None where there are none. `head`: the response as it was when they were read; None when there is none.
    """

    first_index: int
    entries: Sequence[LogEntry]
    began_at: float | None
    head: ResponseHead | None = None

    @property
    def next_index(self) -> int:
        """The index behind the run."""
        return self.first_index + len(self.entries)


@dataclass(frozen=True, slots=True)
class TaskLease:
    """A task's lease: in force until `until` (epoch seconds) unless `lost`. `address` is where other tasks reach it."""

    owner: str
    until: float
    lost: bool = False
    address: str | None = None

    def in_force(self, now: float) -> bool:
        """Whether what it covers is its task's own."""
        return not self.lost and self.until > now


class ResponseStore(Protocol):
    """Where responses are kept for other processes. `now` is in seconds since the epoch.

    `chunks_per_write`: so many chunks make one request of `append`; more in one call wait for each other.
    `chunks_per_second`: so many a task should write at most, to have time for delivering.
    Every method raises StoreUnavailable.
    """

    @property
    def chunks_per_write(self) -> int: ...

    @property
    def chunks_per_second(self) -> int: ...

    async def append(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Write chunks, of any responses, in any order; returns those that the store has not taken (yet)."""

    async def finish(self, lease: Lease, ending: Ending, expires_at: float) -> None:
        """Close a response whose entries have all been written. The first ending stays; a repetition changes nothing.

        Raises:
            LeaseLost: another owner has the response, or nobody knows it any more.
        """

    async def renew(self, owner: str, until: float, address: str | None = None) -> None:
        """All responses of `owner` are its own until then; an earlier moment than one that was told before changes nothing.

        `address` is where other tasks reach it, `http://host:port`.

        Raises:
            LeaseLost: the lease was declared lost, or released; it stays so when it has been forgotten since.
        """

    async def release(self, owner: str) -> None:
        """End the lease of a task that leaves, if it has one: what it owns and has not finished, anybody may take over."""

    async def lease(self, owner: str) -> TaskLease | None:
        """The lease of a task, if there is one."""

    async def leases(self) -> Sequence[TaskLease]:
        """Those of all tasks, also the ones that have run out, until they are forgotten."""

    async def unfinished(self, owner: str) -> Sequence[str]:
        """The ids of the responses of `owner` that have no ending; one that has just been accepted or ended may be
        missing or still be there."""

    async def forget(self, owner: str) -> None:
        """The lost lease of a task that has nothing left to take over need not be remembered; any other stays."""

    async def hand_over(self, lease: Lease) -> None:
        """The owner of a response leaves in order: to take it over from this one is not to have lost it. A repetition
        changes nothing.

        Raises:
            LeaseLost: another owner has the response.
        """

    async def take_over(self, response_id: str, owner: str, now: float) -> StoredEntries | None:
        """Become the owner of a response whose owner's lease has run out; None when that isn't so, or it has ended.

        Returns what is on record, from index 0 on; its head tells the new lease. Who is the owner already is given the
        same. The earlier owner's lease is declared lost.

        What the earlier owner had written counts up to the gapless prefix at that moment; `starts` of the head says where
        the new epoch begins. Who was interrupted in doing this does it again.
        """

    async def head(self, response_id: str, now: float) -> ResponseHead | None:
        """The response; None when there is none, or it has expired."""

    async def note_read(self, response_id: str, now: float) -> ResponseHead | None:
        """Like `head`, and count a poll."""

    async def entries(self, response_id: str, from_index: int, now: float) -> StoredEntries:
        """The gapless run of entries from `from_index` on, all of them part of the response."""


def gapless(head: ResponseHead, chunks: Iterable[Chunk], from_index: int) -> StoredEntries:
    """The run of entries from `from_index` on that `chunks` hold, by the rules of the port.

    `head` must have been read after `chunks`: a chunk of an epoch that was in force when the head was read afterwards had
    been written before anybody took over, and so the one who did saw it too.
    """
    if head.epoch not in head.starts:
        return StoredEntries(from_index, (), None, head)
    counting: dict[int, LogEntry] = {}
    began_at: float | None = None
    for chunk in chunks:
        for index, entry in enumerate(chunk.entries, chunk.first_index):
            if head.counts(chunk.epoch, index):
                counting[index] = entry
                began_at = chunk.began_at if began_at is None else min(began_at, chunk.began_at)
    entries: list[LogEntry] = []
    while (following := counting.get(from_index + len(entries))) is not None:
        entries.append(following)
    return StoredEntries(from_index, entries, began_at, head)
