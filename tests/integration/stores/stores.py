"""The implementations of the store ports, as the contract tests see them."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.log.entries import LogEntry
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.stores.response_store import (
    Chunk,
    Ending,
    Lease,
    ResponseStore,
    StoredEntries,
)
from evenflow.stream_core.stores.session_store import LedgerEntry, SessionStore

NOW = 1_800_000_000.0
"""When the tests play, in seconds since the epoch."""

LIFETIME = 86_400.0
"""How long an unfinished response, and a session after its last message, are kept."""

LONG_LIFETIME = 30 * LIFETIME
"""How long the messages of chats are kept, where a setting says so."""


@dataclass(frozen=True, slots=True)
class Stores:
    """Both stores of one implementation, and what makes tests with them short."""

    responses: ResponseStore
    sessions: SessionStore

    def of_another_task(self) -> ResponseStore:
        """The responses as a task sees them that has done nothing yet."""
        return self.responses

    async def begin(self, owner: str) -> Lease:
        """A new response of a new session, accepted at `NOW`."""
        return await self.sessions.accept(new_channel(), new_message(None, owner=owner), NOW)

    async def lose(self, owner: str) -> None:
        """Another task has waited for the end of this owner's lease, and declares it lost."""
        lease = await self.responses.lease(owner)
        assert lease is not None
        assert await self.of_another_task().declare_lost(lease)

    async def write(self, lease: Lease, first_index: int, entries: Sequence[LogEntry]) -> None:
        """Write one chunk, which must be taken."""
        assert list(await self.responses.append([chunk(lease, first_index, entries)])) == []

    async def read(self, response_id: str, from_index: int = 0, now: float = NOW) -> list[LogEntry]:
        """What a reader gets."""
        return list((await self.responses.entries(response_id, from_index, now)).entries)


def new_name(prefix: str) -> str:
    """A name that nothing else has."""
    return f"{prefix}-{uuid.uuid4().hex[:12]}"


def new_channel() -> Channel:
    """A session that nobody has heard of."""
    return Channel("tenant", "agent", new_name("session"))


def new_message(
    previous: LedgerEntry | None, text: str = "hello", owner: str = "task-a"
) -> LedgerEntry:
    """A message that follows `previous`."""
    previous_id = previous.message_id if previous else None
    return LedgerEntry(new_name("message"), previous_id, text, new_name("response"), owner)


def lease_of(taken: StoredEntries | None) -> Lease | None:
    """The lease under which a response was taken over."""
    assert taken is None or (taken.head is not None and taken.first_index == 0)
    return taken.head.lease if taken is not None and taken.head is not None else None


def chunk(
    lease: Lease, first_index: int, entries: Sequence[LogEntry], began_at: float = NOW
) -> Chunk:
    """A chunk of a response whose first delta came at `began_at`."""
    return Chunk(lease.response_id, lease.epoch, first_index, entries, began_at)


def completed(next_index: int) -> Ending:
    """The ending of an answer that went well."""
    return Ending(ResponseState.COMPLETED, next_index, NOW, "stop")
