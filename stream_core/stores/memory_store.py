"""The stores in the memory of one process.

Each class names its port, and its methods do what the port's do. Accepting a message drops what has
expired, so that memory doesn't grow for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import Generic, TypeVar

from evenflow.stream_core.base.channel import Channel, MessageKind
from evenflow.stream_core.log.folded_entries import FoldedEntries
from evenflow.stream_core.stores.conversation_tree import MessageLink, in_causal_order
from evenflow.stream_core.stores.response_store import (
    LIFETIME_SECONDS,
    Chunk,
    Ending,
    Lease,
    LeaseLost,
    NodeLease,
    ResponseHead,
    StoredEntries,
    gapless,
)
from evenflow.stream_core.stores.session_store import (
    LARGE_TEXT_SECONDS,
    LedgerEntry,
    NotAccepted,
    StoredConversation,
    kept_seconds,
)

Key = TypeVar("Key")


class _Expiries(Generic[Key]):
    """Keys by the time at which they may expire."""

    def __init__(self) -> None:
        self._moments: list[tuple[float, int, Key]] = []
        self._added = 0

    def add(self, expires_at: float, key: Key) -> None:
        """Return `key` from `take` at `expires_at`."""
        self._added += 1  # keys have no order of their own
        heappush(self._moments, (expires_at, self._added, key))

    def take(self, now: float) -> list[Key]:
        """The keys that expire by `now`. Each is returned once."""
        due: list[Key] = []
        while self._moments and self._moments[0][0] <= now:
            due.append(heappop(self._moments)[2])
        return due


class MemoryResponseStore:
    """The response store in memory (`ResponseStore`)."""

    chunks_per_write = 1_000
    chunks_per_second = 1_000

    def __init__(self) -> None:
        self._heads: dict[str, ResponseHead] = {}
        self._chunks: dict[str, list[Chunk]] = {}
        self._leases: dict[str, NodeLease] = {}
        self._forgotten: set[str] = set()
        self._handed_over: dict[str, int] = {}
        self._expiries: _Expiries[str] = _Expiries()

    def create(self, head: ResponseHead) -> None:
        """Begin a response. It is a part of accepting its message."""
        self._drop_expired(head.created_at)
        self._heads[head.response_id] = head
        self._chunks[head.response_id] = []
        self._expiries.add(head.expires_at, head.response_id)

    async def append(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        for chunk in chunks:
            if (known := self._chunks.get(chunk.response_id)) is not None:
                known.append(chunk)
                head = self._heads[chunk.response_id]
                if chunk.form > head.form and chunk.epoch == head.epoch:
                    self._heads[chunk.response_id] = replace(head, form=chunk.form)
        return ()

    async def finish(self, lease: Lease, ending: Ending, expires_at: float) -> None:
        head = self._heads.get(lease.response_id)
        if head is None or head.lease != lease:
            raise LeaseLost(f"response {lease.response_id} has another owner; nothing was written")
        if head.ending is None:
            self._fold(head, ending)
            self._heads[lease.response_id] = replace(head, ending=ending, expires_at=expires_at)
            self._expiries.add(expires_at, lease.response_id)

    async def renew(self, owner: str, until: float, address: str | None = None) -> None:
        known = self._leases.get(owner, NodeLease(owner, until, address=address))
        if known.lost or owner in self._forgotten:
            raise LeaseLost(f"the lease of {owner} is lost; take another name")
        if until >= known.until:
            self._leases[owner] = NodeLease(owner, until, address=address)

    async def release(self, owner: str) -> None:
        if (known := self._leases.get(owner)) is not None:
            self._leases[owner] = replace(known, lost=True)

    async def declare_lost(self, lease: NodeLease) -> bool:
        return self._declare_lost(lease.owner, lease.until)

    def _declare_lost(self, owner: str, until: float | None) -> bool:
        """Declare the lease lost if this is its last renewal, or there is none."""
        known = self._leases.get(owner, NodeLease(owner, 0.0, lost=True))
        if not known.lost and known.until != until:
            return False
        self._leases[owner] = replace(known, lost=True)
        return True

    async def lease(self, owner: str) -> NodeLease | None:
        return self._leases.get(owner)

    async def leases(self) -> Sequence[NodeLease]:
        return tuple(self._leases.values())

    async def unfinished(self, owner: str) -> Sequence[str]:
        return [
            head.response_id
            for head in self._heads.values()
            if head.owner == owner and head.ending is None
        ]

    async def forget(self, owner: str) -> None:
        if (known := self._leases.get(owner)) is not None and known.lost:
            del self._leases[owner]
            self._forgotten.add(owner)

    async def hand_over(self, lease: Lease) -> None:
        head = self._heads.get(lease.response_id)
        if head is None or head.lease != lease:
            raise LeaseLost(f"response {lease.response_id} has another owner; nothing was changed")
        if self._handed_over.get(lease.response_id) != lease.epoch:
            self._handed_over[lease.response_id] = lease.epoch
            self._heads[lease.response_id] = replace(head, hand_overs=head.hand_overs + 1)

    async def take_over(self, response_id: str, owner: str, now: float) -> StoredEntries | None:
        head = await self.head(response_id, now)
        if head is None or head.ending is not None or not head.is_readable:
            return None
        if head.owner == owner:
            return gapless(head, self._chunks[response_id], 0)
        if not self._declare_lost(head.owner, None):
            return None
        left = gapless(head, self._chunks[response_id], 0)
        epoch = head.epoch + 1
        head = replace(
            head, owner=owner, epoch=epoch, starts={**head.starts, epoch: left.next_index}
        )
        self._heads[response_id] = head
        return replace(left, head=head)

    async def head(self, response_id: str, now: float) -> ResponseHead | None:
        head = self._heads.get(response_id)
        return head if head is not None and head.expires_at > now else None

    async def note_read(self, response_id: str, now: float) -> ResponseHead | None:
        head = await self.head(response_id, now)
        if head is None:
            return None
        self._heads[response_id] = head = replace(head, polls=head.polls + 1)
        return head

    async def entries(self, response_id: str, from_index: int, now: float) -> StoredEntries:
        head = await self.head(response_id, now)
        if head is None:
            return StoredEntries(from_index, (), None)
        read = (chunk for chunk in self._chunks[response_id] if chunk.last_index >= from_index - 1)
        return gapless(head, read, from_index)

    async def delete(self, response_ids: Sequence[str]) -> None:
        for response_id in response_ids:
            self._delete(response_id)

    def _delete(self, response_id: str) -> None:
        self._heads.pop(response_id, None)
        self._chunks.pop(response_id, None)
        self._handed_over.pop(response_id, None)

    def expires_at(self, response_id: str) -> float:
        """Until when a response is kept, in seconds since the epoch. 0 for an unknown one."""
        head = self._heads.get(response_id)
        return head.expires_at if head is not None else 0.0

    def _fold(self, head: ResponseHead, ending: Ending) -> None:
        """Keep the entries as one chunk for each owner, unless some are still to come."""
        whole = gapless(head, self._chunks[head.response_id], 0)
        if whole.next_index != ending.next_index or whole.began_at is None:
            return
        starts = sorted(head.starts.items())
        ends = [start for _, start in starts[1:]] + [whole.next_index]
        self._chunks[head.response_id] = [
            Chunk(
                head.response_id,
                epoch,
                start,
                FoldedEntries(whole.entries[start:end]),
                whole.began_at,
            )
            for (epoch, start), end in zip(starts, ends, strict=True)
        ]

    def _drop_expired(self, now: float) -> None:
        for response_id in self._expiries.take(now):
            head = self._heads.get(response_id)
            if head is not None and head.expires_at <= now:
                self._delete(response_id)


@dataclass
class _StoredSession:
    expires_at: float
    last_message_id: str | None = None
    entries: dict[str, LedgerEntry] = field(default_factory=dict)
    ended: bool = False


class MemorySessionStore:
    """The session store in memory (`SessionStore`).

    Args:
        responses: gets the empty response of each accepted message.
        texts: has the large texts of messages.
        lifetime: how long messages of chats are kept, in seconds.
    """

    def __init__(
        self,
        responses: MemoryResponseStore,
        texts: MemoryLargeTexts | None = None,
        lifetime: float = LIFETIME_SECONDS,
    ) -> None:
        self._responses = responses
        self._texts = texts
        self._lifetime = lifetime
        self._sessions: dict[Channel, _StoredSession] = {}
        self._expiries: _Expiries[tuple[Channel, str]] = _Expiries()
        # Texts that are kept as long as their responses.
        self._recalled: _Expiries[tuple[Channel, str]] = _Expiries()

    async def load(self, channel: Channel, now: float) -> StoredConversation:
        session = self._session(channel, now)
        entries = in_causal_order(session.last_message_id, tuple(session.entries.values()))
        return StoredConversation(session.last_message_id, entries, session.ended)

    async def head(self, channel: Channel, now: float) -> StoredConversation:
        session = self._session(channel, now)
        has_versions = any(entry.link.branches for entry in session.entries.values())
        return StoredConversation(session.last_message_id, (), session.ended, has_versions)

    async def message(self, channel: Channel, message_id: str, now: float) -> LedgerEntry | None:
        return self._session(channel, now).entries.get(message_id)

    async def links(
        self, channel: Channel, last_message_id: str, now: float
    ) -> Sequence[MessageLink]:
        entries = self._session(channel, now).entries.values()
        return in_causal_order(last_message_id, [entry.link for entry in entries])

    async def find_ended(self, channels: Collection[Channel], now: float) -> frozenset[Channel]:
        return frozenset(each for each in channels if self._session(each, now).ended)

    async def accept(self, channel: Channel, entry: LedgerEntry, now: float) -> Lease:
        self._drop_expired(now)
        session = self._session(channel, now)
        known = session.entries.get(entry.message_id)
        lease = Lease(entry.response_id, entry.owner, 1)
        if known is not None and known.response_id == entry.response_id:
            return lease
        follows = session.last_message_id == entry.previous_message_id and not session.ended
        if known is not None or not follows:
            raise NotAccepted(
                f"message {entry.message_id} is known already, or doesn't follow the session's "
                "last one"
            )
        expires_at = now + kept_seconds(entry, self._lifetime)
        before = session.entries.get(entry.previous_message_id or "")
        if before is not None and before.ended and _brings_conversation(before):
            # The new message contains that conversation, and readers receive it from now on.
            session.entries[before.message_id] = self._without_text(before)
        session.entries[entry.message_id] = entry
        session.last_message_id = entry.message_id
        session.expires_at = expires_at
        self._sessions[channel] = session
        self._expiries.add(expires_at, (channel, entry.message_id))
        self._responses.create(
            ResponseHead(
                entry.response_id,
                str(channel),
                entry.message_id,
                entry.owner,
                1,
                now,
                now + LIFETIME_SECONDS,
            )
        )
        return lease

    async def record_answer(
        self, channel: Channel, message_id: str, answer: str | None, outcome: str = ""
    ) -> None:
        session = self._sessions.get(channel)
        if session is not None and (entry := session.entries.get(message_id)) is not None:
            kind = MessageKind.from_text(entry.kind)
            if kind.recalled and message_id == session.last_message_id:
                expires_at = self._responses.expires_at(entry.response_id)
                self._recalled.add(expires_at, (channel, message_id))
            elif kind.brings_conversation:
                entry = self._without_text(entry)
            session.entries[message_id] = replace(entry, answer=answer, ended=True, outcome=outcome)

    async def end(self, channel: Channel, now: float) -> Sequence[LedgerEntry]:
        had = self._sessions.get(channel, _StoredSession(now)).entries.values()
        expires_at = now + LIFETIME_SECONDS
        self._sessions[channel] = _StoredSession(expires_at, ended=True)
        self._expiries.add(expires_at, (channel, ""))
        return tuple(had)

    def _without_text(self, entry: LedgerEntry) -> LedgerEntry:
        if self._texts is not None and entry.text_name is not None:
            self._texts.drop(entry.text_name)
        return replace(entry, text="")

    def _session(self, channel: Channel, now: float) -> _StoredSession:
        session = self._sessions.get(channel)
        return session if session is not None and session.expires_at > now else _StoredSession(now)

    def _drop_expired(self, now: float) -> None:
        for channel, message_id in self._recalled.take(now):
            session = self._sessions.get(channel)
            if session is not None and (entry := session.entries.get(message_id)) is not None:
                session.entries[message_id] = self._without_text(entry)
        for channel, message_id in self._expiries.take(now):
            if (session := self._sessions.get(channel)) is not None:
                session.entries.pop(message_id, None)
                if not session.entries and session.expires_at <= now:
                    del self._sessions[channel]


def _brings_conversation(entry: LedgerEntry) -> bool:
    return MessageKind.from_text(entry.kind).brings_conversation


class MemoryLargeTexts:
    """Large texts in memory (`LargeTexts`).

    Args:
        wall_time: seconds since the epoch.
    """

    def __init__(self, wall_time: Callable[[], float]) -> None:
        self._wall_time = wall_time
        self._texts: dict[str, tuple[float, str]] = {}

    async def put(self, name: str, text: str) -> None:
        now = self._wall_time()
        # All are kept equally long, so the first one is the oldest.
        while self._texts and next(iter(self._texts.values()))[0] <= now:
            del self._texts[next(iter(self._texts))]
        self._texts.pop(name, None)
        self._texts[name] = (now + LARGE_TEXT_SECONDS, text)

    async def get(self, name: str) -> str | None:
        expires_at, text = self._texts.get(name, (0.0, None))
        return text if expires_at > self._wall_time() else None

    async def delete(self, name: str) -> None:
        self.drop(name)

    def drop(self, name: str) -> None:
        """Remove a text that is not needed any more."""
        self._texts.pop(name, None)
