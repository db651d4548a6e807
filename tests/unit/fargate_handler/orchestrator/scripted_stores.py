"""A store behind a network: calls can be held up, fail, or be done and their answers lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.stores.conversation_tree import MessageLink
from evenflow.stream_core.stores.response_store import (
    Chunk,
    Ending,
    Lease,
    NodeLease,
    ResponseHead,
    ResponseStore,
    StoredEntries,
    StoreUnavailable,
)
from evenflow.stream_core.stores.session_store import LedgerEntry, SessionStore, StoredConversation
from evenflow.stream_core.upstream.node_reports import NodeReport, NodeReports

UNREACHABLE = StoreUnavailable("nobody answers")


class Network:
    """What calls of these names meet: `failures` before they are done, `lost_answers` after.

    `cut`: nothing comes through any more. `turns` says how many turns of the loop a call takes each
    way, `loses` whether it is lost there.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.failures: dict[str, Exception] = {}
        self.lost_answers: dict[str, Exception] = {}
        self.cut = False
        self.turns: Callable[[], int] = int
        self.loses: Callable[[], bool] = bool
        self._held: set[str] = set()
        self._released = asyncio.Event()

    def hold(self, *names: str) -> None:
        """Calls of these names wait until `release`."""
        self._held.update(names)

    def release(self) -> None:
        """Everything that waits goes on."""
        self._held.clear()
        self._released.set()
        self._released = asyncio.Event()

    @asynccontextmanager
    async def call(self, name: str) -> AsyncIterator[None]:
        """The way there, what is done there, and the way back."""
        self.calls[name] += 1
        await self._travel()
        if name in self._held:
            await self._released.wait()
        if name in self.failures:
            raise _another(self.failures[name])
        yield
        if name in self.lost_answers:
            raise _another(self.lost_answers[name])
        await self._travel()

    async def _travel(self) -> None:
        if self.cut or self.loses():
            raise _another(UNREACHABLE)
        for _ in range(self.turns()):
            await asyncio.sleep(0)


class ScriptedResponseStore:
    """`refuses` says which chunks it does not take; `says_refused` which of those that it took
    it says it hasn't.
    """

    chunks_per_write = 25
    chunks_per_second = 2_500

    def __init__(self, behind: ResponseStore) -> None:
        self._behind = behind
        self.network = Network()
        self.refuses: Callable[[Chunk], bool] = lambda _: False
        self.says_refused: Callable[[Chunk], bool] = lambda _: False
        self.requests: list[Sequence[Chunk]] = []
        """Every `append`, also what was refused."""
        self.renewals: list[float] = []
        """Every `until` of a renewal that came through."""

    async def append(self, chunks: Sequence[Chunk]) -> Sequence[Chunk]:
        """See the port."""
        self.requests.append(chunks)
        async with self.network.call("append"):
            refused = [chunk for chunk in chunks if self.refuses(chunk)]
            await self._behind.append([chunk for chunk in chunks if chunk not in refused])
        return refused + [
            chunk for chunk in chunks if chunk not in refused and self.says_refused(chunk)
        ]

    async def finish(self, lease: Lease, ending: Ending, expires_at: float) -> None:
        """See the port."""
        async with self.network.call("finish"):
            await self._behind.finish(lease, ending, expires_at)

    async def renew(self, owner: str, until: float, address: str | None = None) -> None:
        """See the port."""
        async with self.network.call("renew"):
            await self._behind.renew(owner, until, address)
            self.renewals.append(until)

    async def release(self, owner: str) -> None:
        """See the port."""
        async with self.network.call("release"):
            await self._behind.release(owner)

    async def declare_lost(self, lease: NodeLease) -> bool:
        """See the port."""
        async with self.network.call("declare_lost"):
            return await self._behind.declare_lost(lease)

    async def lease(self, owner: str) -> NodeLease | None:
        """See the port."""
        async with self.network.call("lease"):
            return await self._behind.lease(owner)

    async def leases(self) -> Sequence[NodeLease]:
        """See the port."""
        async with self.network.call("leases"):
            return await self._behind.leases()

    async def unfinished(self, owner: str) -> Sequence[str]:
        """See the port."""
        async with self.network.call("unfinished"):
            return await self._behind.unfinished(owner)

    async def forget(self, owner: str) -> None:
        """See the port."""
        async with self.network.call("forget"):
            await self._behind.forget(owner)

    async def hand_over(self, lease: Lease) -> None:
        """See the port."""
        async with self.network.call("hand_over"):
            await self._behind.hand_over(lease)

    async def take_over(self, response_id: str, owner: str, now: float) -> StoredEntries | None:
        """See the port."""
        async with self.network.call("take_over"):
            return await self._behind.take_over(response_id, owner, now)

    async def head(self, response_id: str, now: float) -> ResponseHead | None:
        """See the port."""
        async with self.network.call("head"):
            return await self._behind.head(response_id, now)

    async def note_read(self, response_id: str, now: float) -> ResponseHead | None:
        """See the port."""
        async with self.network.call("note_read"):
            return await self._behind.note_read(response_id, now)

    async def entries(self, response_id: str, from_index: int, now: float) -> StoredEntries:
        """See the port."""
        async with self.network.call("entries"):
            return await self._behind.entries(response_id, from_index, now)

    async def delete(self, response_ids: Sequence[str]) -> None:
        """See the port."""
        async with self.network.call("delete"):
            await self._behind.delete(response_ids)


class ScriptedSessionStore:
    """The same for sessions."""

    def __init__(self, behind: SessionStore) -> None:
        self._behind = behind
        self.network = Network()

    async def load(self, channel: Channel, now: float) -> StoredConversation:
        """See the port."""
        async with self.network.call("load"):
            return await self._behind.load(channel, now)

    async def head(self, channel: Channel, now: float) -> StoredConversation:
        """See the port."""
        async with self.network.call("head"):
            return await self._behind.head(channel, now)

    async def message(self, channel: Channel, message_id: str, now: float) -> LedgerEntry | None:
        """See the port."""
        async with self.network.call("message"):
            return await self._behind.message(channel, message_id, now)

    async def links(
        self, channel: Channel, last_message_id: str, now: float
    ) -> Sequence[MessageLink]:
        """See the port."""
        async with self.network.call("links"):
            return await self._behind.links(channel, last_message_id, now)

    async def find_ended(self, channels: Collection[Channel], now: float) -> frozenset[Channel]:
        """See the port."""
        async with self.network.call("find_ended"):
            return await self._behind.find_ended(channels, now)

    async def accept(self, channel: Channel, entry: LedgerEntry, now: float) -> Lease:
        """See the port."""
        async with self.network.call("accept"):
            return await self._behind.accept(channel, entry, now)

    async def record_answer(
        self, channel: Channel, message_id: str, answer: str | None, outcome: str = ""
    ) -> None:
        """See the port."""
        async with self.network.call("answered"):
            await self._behind.record_answer(channel, message_id, answer, outcome)

    async def end(self, channel: Channel, now: float) -> Sequence[LedgerEntry]:
        """See the port."""
        async with self.network.call("end"):
            return await self._behind.end(channel, now)


def _another(error: Exception) -> Exception:
    # One that is raised again and again would collect a traceback of all its calls.
    return type(error)(*error.args)


class ScriptedNodeReports:
    """What nodes report to each other."""

    def __init__(self, behind: NodeReports) -> None:
        self._behind = behind
        self.network = Network()

    async def publish(self, report: NodeReport, now: float) -> None:
        """See the port."""
        async with self.network.call("publish"):
            await self._behind.publish(report, now)

    async def read_all(self, now: float) -> Sequence[NodeReport]:
        """See the port."""
        async with self.network.call("read_all"):
            return await self._behind.read_all(now)
