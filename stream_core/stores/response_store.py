"""The port of the response store, by which processes share responses.

What every implementation must guarantee (tests/integration/stores checks it):

- A response has one owner at a time, under a **lease** with an **epoch**. Taking over raises the
  epoch. From then on no reader sees what the earlier owner writes, however late it arrives.
- A node's lease covers everything that it owns. Once the node has released it, or another has
  declared it **lost**, it is never in force again: the node takes another name. A store never
  decides by a clock that a lease has expired: the node that declares it lost does.
- Readers get a gapless prefix of the log. An entry that has not arrived is a delay, never a gap.
- What has expired is not returned, whether or not it has been deleted.
- Entries are kept in a **form**, which a later version of this program may change. A response whose
  form is newer than `NEWEST_FORM` is neither read nor taken over by this version.

What the writer must guarantee: under one epoch an index always has the same entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from evenflow.stream_core.log.entries import LogEntry, Part
from evenflow.stream_core.log.response_log import ResponseState

LIFETIME_SECONDS = 86_400.0
"""How long a store keeps a response that never ends, and the minimum for a session. It is longer
than any answer, and than the validity of any token."""

TEXT_FORM = 1
"""The form of text and restarts."""
TYPED_FORM = 2
"""The form with parts."""
NEWEST_FORM = TYPED_FORM
"""The newest form that this version reads."""


class LeaseLost(Exception):
    """Another node owns the response now, or may. What was written before that is kept."""


class StoreUnavailable(Exception):
    """The store failed, also on a retry. The state is unknown: try again later."""


class Unwritable(Exception):
    """The store rejects chunks permanently.

    Args:
        chunks: the rejected chunks. The others of the call were written, or are in `left`.
        left: chunks that were not written yet, and may be written later.
    """

    def __init__(self, chunks: Sequence[Chunk], left: Sequence[Chunk]) -> None:
        super().__init__(f"the store refuses chunks of {chunks[0].response_id}")
        self.chunks = chunks
        self.left = left


class NewerForm(StoreUnavailable):
    """A newer version of this program writes the response, and this one can't read it.

    Nothing is lost: a node of that version continues it.
    """


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to write one response. `epoch` counts its owners, from 1."""

    response_id: str
    owner: str
    epoch: int

    def __reduce__(self) -> tuple[Any, ...]:
        return Lease, (self.response_id, self.owner, self.epoch)


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a response with `next_index` entries. `ended_at`: seconds since the epoch."""

    state: ResponseState
    next_index: int
    ended_at: float
    finish_reason: str | None = None
    usage: Mapping[str, int] | None = None
    error: Mapping[str, Any] | None = None
    degraded: bool = False


@dataclass(frozen=True, slots=True)
class Chunk:
    """Consecutive entries of a log, written at once under one epoch.

    `began_at`: when the response's first delta came, in seconds since the epoch.
    """

    response_id: str
    epoch: int
    first_index: int
    entries: Sequence[LogEntry]
    began_at: float

    @property
    def last_index(self) -> int:
        """The index of the last entry."""
        return self.first_index + len(self.entries) - 1

    @property
    def form(self) -> int:
        """The oldest form that can hold its entries."""
        typed = any(isinstance(entry, Part) for entry in self.entries)
        return TYPED_FORM if typed else TEXT_FORM


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """A response without its entries. Times are in seconds since the epoch.

    Args:
        starts: the first index of each epoch's entries. An epoch without a write has none.
        polls: the number of calls of `note_read`, and of polls that a function has answered. It
            shows an owner that there are readers elsewhere.
        session_polls, share_polls: the polls that a function has answered, with the session's token
            and with share tokens.
        hand_overs: the number of owners that left in order.
        form: the newest form of its entries.
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
    session_polls: int = 0
    share_polls: int = 0
    hand_overs: int = 0
    ending: Ending | None = None
    form: int = TEXT_FORM

    @property
    def lease(self) -> Lease:
        """The lease of the owner."""
        return Lease(self.response_id, self.owner, self.epoch)

    @property
    def losses(self) -> int:
        """The number of owners that were lost."""
        return max(0, self.epoch - 1 - self.hand_overs)

    @property
    def is_readable(self) -> bool:
        """Whether this version reads the form of its entries."""
        return self.form <= NEWEST_FORM

    def first_index_after(self, epoch: int) -> int | None:
        """The first index of the owners after `epoch`. None when none of them has written."""
        return min((start for later, start in self.starts.items() if later > epoch), default=None)

    def counts(self, epoch: int, index: int) -> bool:
        """Whether the entry written as `index` under `epoch` is part of the response."""
        start = self.starts.get(epoch)
        if start is None or index < start:
            return False
        return all(index < self.starts[later] for later in self.starts if later > epoch)


@dataclass(frozen=True, slots=True)
class StoredEntries:
    """A gapless run of entries from an index on.

    Args:
        began_at: when the first delta came, in seconds since the epoch, by the chunks that were
            read. None: none was read.
        head: the response at that moment. None: there is none.
    """

    first_index: int
    entries: Sequence[LogEntry]
    began_at: float | None
    head: ResponseHead | None = None

    @property
    def next_index(self) -> int:
        """The index after the run."""
        return self.first_index + len(self.entries)


@dataclass(frozen=True, slots=True)
class NodeLease:
    """A node's lease until `until`, in seconds since the epoch by its own clock.

    Each renewal has a later `until`.

    Args:
        lost: whether it was released or declared lost. Then it is never in force again.
        address: where the node listens.
    """

    owner: str
    until: float
    lost: bool = False
    address: str | None = None


class ResponseStore(Protocol):
    """Keeps responses for all processes. `now` is in seconds since the epoch.

    Every method may raise StoreUnavailable. `append` writes up to `chunks_per_write` chunks in one
    request. More than that take several requests, one after the other. A node should write at most
    `chunks_per_second`, so that it has time for delivery.
    """

    @property
    def chunks_per_write(self) -> int: ...

    @property
    def chunks_per_second(self) -> int: ...

    async def append(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """Write chunks of any responses, in any order. Returns those that were not written.

        Raises:
            Unwritable: the store rejects some of them permanently. The others are not affected.
        """

    async def finish(self, lease: Lease, ending: Ending, expires_at: float) -> None:
        """Close a response when all of its entries are written. Later endings change nothing.

        Raises:
            LeaseLost: the response has another owner, or is no longer kept.
        """

    async def renew(self, owner: str, until: float, address: str | None = None) -> None:
        """Extend the lease of `owner` to `until`. An earlier `until` than before changes nothing.

        Args:
            address: where other nodes reach the owner, `http://host:port`.

        Raises:
            LeaseLost: the lease was released or declared lost. That holds after `forget`, too.
        """

    async def release(self, owner: str) -> None:
        """End the lease of a draining node. Any node may take over its unfinished responses."""

    async def declare_lost(self, lease: NodeLease) -> bool:
        """Declare a lease lost, unless it was renewed since it was read.

        Returns:
            Whether it is lost.
        """

    async def lease(self, owner: str) -> NodeLease | None:
        """The lease of a node. None if it has none."""

    async def leases(self) -> Sequence[NodeLease]:
        """The leases of all nodes that are not forgotten, expired ones included."""

    async def unfinished(self, owner: str) -> Sequence[str]:
        """The ids of the responses of `owner` without an ending.

        A response that was accepted or ended just before may be missing or still listed.
        """

    async def forget(self, owner: str) -> None:
        """Remove a lost lease without unfinished responses. Any other lease stays."""

    async def hand_over(self, lease: Lease) -> None:
        """Record that a response's owner drains, so that it does not count as lost.

        A repetition changes nothing.

        Raises:
            LeaseLost: the response has another owner.
        """

    async def take_over(self, response_id: str, owner: str, now: float) -> StoredEntries | None:
        """Become the owner of a response after its owner lost its lease, or never had one.

        Returns:
            All entries on record, with a head that has the new lease. None when the response has
            ended, its owner's lease isn't lost, or its form is too new. For the owner itself, the
            same again.

        The earlier owner's entries count up to the gapless prefix at that moment. The head's
        `starts` has the first index of the new epoch. Repeat the call if it was interrupted.
        """

    async def head(self, response_id: str, now: float) -> ResponseHead | None:
        """The response without its entries. None when there is none, or it has expired."""

    async def note_read(self, response_id: str, now: float) -> ResponseHead | None:
        """Like `head`, and count a poll."""

    async def entries(self, response_id: str, from_index: int, now: float) -> StoredEntries:
        """The gapless run of the response's entries from `from_index` on.

        Raises:
            NewerForm: the response is in a form that this version can't read.
        """

    async def delete(self, response_ids: Sequence[str]) -> None:
        """Delete responses with their entries. Unknown ones are ignored.

        The owner of an unfinished one loses it. What it still writes expires.
        """


def gapless(head: ResponseHead, chunks: Iterable[Chunk], from_index: int) -> StoredEntries:
    """The gapless run of entries in `chunks` from `from_index` on.

    `head` must have been read after `chunks`. Then a chunk of the head's epoch was written before
    any take-over, and the new owner has seen it too.

    Raises:
        NewerForm: the response is in a form that this version can't read.
    """
    if not head.is_readable:
        raise NewerForm(
            f"response {head.response_id} is kept in form {head.form}, and this version reads "
            f"forms up to {NEWEST_FORM}; nothing was changed"
        )
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
