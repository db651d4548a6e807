"""A response that another task owns, copied for the readers here: from its owner if that can be reached, else from the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from fargate_handler.orchestrator.lease_keeper import LeaseKeeper
from stream_core.channel import Channel
from stream_core.limits import Limits
from stream_core.messages import ResponseCompleted, ResponseDelta, ResponseFailed, Usage
from stream_core.peer_log import PeerEvent, PeerLog, PeerResponse, PeerUnreachable
from stream_core.response_log import LogEntry, Restart
from stream_core.response_state import ResponseState
from stream_core.response_store import Ending, ResponseHead, ResponseStore, StoredEntries, StoreUnavailable
from stream_core.response_stream import ResponseStream

_logger = logging.getLogger(__name__)

# The owner is tried again so long after it could not be reached; meanwhile what is on record is read.
_OWNER_AGAIN_SECONDS = 2.0
_READS_NOTED_PER_GRACE = 3.0


class Diverged(Exception):
    """This copy holds entries that are no longer part of the response: its owner was lost before they were on record."""


class Following:
    """Copies one response into a stream.

    Args:
        stream: the copy, empty at first.
        store, peers: where the original is.
        keeper: of this task's own name.
        monotonic, wall_time: seconds, the second ones since the epoch.
        pause: says how many seconds to let pass before the store is read again.
        take_over: called with the response's id when its owner's lease is no longer in force; whether this task owns it now.
    """

    def __init__(
        self,
        *,
        stream: ResponseStream,
        head: ResponseHead,
        store: ResponseStore,
        keeper: LeaseKeeper,
        peers: PeerLog,
        limits: Limits,
        monotonic: Callable[[], float],
        wall_time: Callable[[], float],
        pause: Callable[[], float],
        take_over: Callable[[str], Awaitable[bool]],
    ) -> None:
        self.stream = stream
        self.filled = asyncio.Event()
        """Set when the copy has what there was when it began."""
        self._head = head
        self._store = store
        self._keeper = keeper
        self._peers = peers
        self._limits = limits
        self._monotonic = monotonic
        self._wall_time = wall_time
        self._pause = pause
        self._take_over = take_over
        self._note_at = monotonic()
        self._channel = Channel(*head.channel.split(":"))

    async def run(self) -> None:
        """Copy until the response has ended, or this task owns it.

        Raises:
            Diverged: see there; nothing was added.
        """
        while not self.stream.log.closed:
            try:
                if self._head.ending is None and await self._changes_hands():
                    return
                if self.stream.log.closed:
                    return
                await self._follow_store(self._monotonic() + _OWNER_AGAIN_SECONDS)
            except StoreUnavailable:
                await asyncio.sleep(self._pause())

    async def _changes_hands(self) -> bool:
        """Follow the owner as long as that can be done; whether this task is the owner now."""
        owner = self._head.owner
        lease = await self._store.lease(owner) if owner != self._keeper.owner else None
        if lease is None or not lease.in_force(self._wall_time()):
            return await self._take_over(self.stream.response_id)
        if lease.address is not None:
            await self._follow_owner(lease.address)
        return False

    # -- from the owner ------------------------------------------------------------------------------------------

    async def _follow_owner(self, address: str) -> None:
        log = self.stream.log
        there = PeerResponse(address, self._channel, self.stream.response_id, log.epoch_at(log.next_index))
        try:
            async with aclosing(self._peers.events(there, log.next_index - 1)) as stream:
                async for events in stream:
                    self.stream.via = "peer"
                    self._add(events)
                    self.filled.set()
                    if log.closed:
                        return
        except PeerUnreachable as error:
            _logger.debug("response %s can't be followed at its owner: %s", self.stream.response_id, error)

    def _add(self, events: list[PeerEvent]) -> None:
        log, entries = self.stream.log, list[LogEntry]()
        epoch = log.epoch_at(log.next_index)
        for event in events:
            if isinstance(event, ResponseCompleted | ResponseFailed):
                self.stream.follow(entries)
                self._end_like(event)
                return
            if event.index != log.next_index + len(entries):
                raise Diverged
            if isinstance(event, ResponseDelta):
                entries.append(event.delta)
            else:
                entries.append(Restart(event.from_index, event.attempt, event.epoch if event.epoch > epoch else 0))
                epoch = event.epoch
        self.stream.follow(entries)

    def _end_like(self, event: ResponseCompleted | ResponseFailed) -> None:
        if isinstance(event, ResponseFailed):
            self.stream.end_like(ResponseState.ERROR, error=event.error)
            return
        state = ResponseState.CANCELLED if event.finish_reason == "cancelled" else ResponseState.COMPLETED
        self.stream.end_like(state, finish_reason=event.finish_reason, usage=event.usage, degraded=event.degraded)

    # -- from the store ------------------------------------------------------------------------------------------

    async def _follow_store(self, until: float) -> None:
        """Read what is on record, as often as it is written, until that moment or the response's end."""
        log = self.stream.log
        while True:
            read = await self._store.entries(self.stream.response_id, log.next_index, self._wall_time())
            self._take(read)
            self.filled.set()
            if log.closed or self._monotonic() >= until:
                return
            if self._monotonic() >= self._note_at:
                self._note_at = self._monotonic() + self._limits.grace_seconds / _READS_NOTED_PER_GRACE
                await self._store.note_read(self.stream.response_id, self._wall_time())
            await asyncio.sleep(self._pause())

    def _take(self, read: StoredEntries) -> None:
        log, head = self.stream.log, read.head
        if head is None:
            raise Diverged  # it has expired
        known = log.epoch_at(log.next_index)
        if any(start < log.next_index for epoch, start in head.starts.items() if epoch > known):
            raise Diverged
        self._head = head
        self.stream.via = "store"
        self.stream.follow(read.entries)
        if head.ending is not None and log.next_index >= head.ending.next_index:
            self._end_as(head.ending)

    def _end_as(self, ending: Ending) -> None:
        self.stream.end_like(
            ending.state,
            finish_reason=ending.finish_reason,
            usage=Usage(**ending.usage) if ending.usage else None,
            error=dict(ending.error) if ending.error else None,
            degraded=ending.degraded,
        )
        self.stream.ended_at = self._monotonic() - max(0.0, self._wall_time() - ending.ended_at)
