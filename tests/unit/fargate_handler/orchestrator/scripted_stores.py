"""The stores in memory, with a network between: calls can be held up, fail, or be done and their answers lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence

from stream_core.channel import Channel
from stream_core.memory_store import MemoryResponseStore, MemorySessionStore
from stream_core.response_store import Chunk, Ending, Lease, ResponseHead, StoreUnavailable
from stream_core.session_store import LedgerEntry, StoredConversation

UNREACHABLE = StoreUnavailable("nobody answers")


class Network:
    """What calls of these names meet: `failures` before they are done, `lost_answers` after."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.failures: dict[str, Exception] = {}
        self.lost_answers: dict[str, Exception] = {}
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

    async def go(self, name: str) -> None:
        """On the way there."""
        self.calls[name] += 1
        if name in self._held:
            await self._released.wait()
        if name in self.failures:
            raise _another(self.failures[name])

    def come_back(self, name: str) -> None:
        """On the way back."""
        if name in self.lost_answers:
            raise _another(self.lost_answers[name])


class ScriptedResponseStore(MemoryResponseStore):
    """`refuses` says which chunks it does not take; `says_refused` which of those that it took it says it hasn't."""

    def __init__(self) -> None:
        super().__init__()
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
        await self.network.go("append")
        refused = [chunk for chunk in chunks if self.refuses(chunk)]
        await super().append([chunk for chunk in chunks if chunk not in refused])
        self.network.come_back("append")
        return refused + [chunk for chunk in chunks if chunk not in refused and self.says_refused(chunk)]

    async def finish(self, lease: Lease, ending: Ending, expires_at: float) -> None:
        """See the port."""
        await self.network.go("finish")
        await super().finish(lease, ending, expires_at)
        self.network.come_back("finish")

    async def renew(self, owner: str, until: float) -> None:
        """See the port."""
        await self.network.go("renew")
        self.renewals.append(until)
        await super().renew(owner, until)

    async def head(self, response_id: str, now: float) -> ResponseHead | None:
        """See the port."""
        await self.network.go("head")
        return await super().head(response_id, now)


class ScriptedSessionStore(MemorySessionStore):
    """Shared by as many tasks as a test has."""

    def __init__(self, responses: MemoryResponseStore) -> None:
        super().__init__(responses)
        self.network = Network()

    async def load(self, channel: Channel, now: float) -> StoredConversation:
        """See the port."""
        await self.network.go("load")
        return await super().load(channel, now)

    async def accept(self, channel: Channel, entry: LedgerEntry, now: float) -> Lease:
        """See the port."""
        await self.network.go("accept")
        lease = await super().accept(channel, entry, now)
        self.network.come_back("accept")
        return lease

    async def answered(self, channel: Channel, message_id: str, answer: str | None) -> None:
        """See the port."""
        await self.network.go("answered")
        await super().answered(channel, message_id, answer)


def _another(error: Exception) -> Exception:
    # One that is raised again and again would collect a traceback of all its calls.
    return type(error)(*error.args)
