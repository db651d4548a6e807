"""A replica of a response that another node owns: from its owner, or otherwise from the store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from evenflow.fargate_handler.orchestrator.leases import Ownership
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import LogEntry, Restart
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.protocols.evenflow.messages import (
    ResponseCompleted,
    ResponseDelta,
    ResponseFailed,
    ResponsePart,
    ResponseQueued,
)
from evenflow.stream_core.protocols.evenflow.peer_log import (
    PeerConnectionLost,
    PeerEvent,
    PeerResponse,
    PeerUnreachable,
)
from evenflow.stream_core.stores.response_store import (
    Ending,
    NewerForm,
    NodeLease,
    ResponseHead,
    StoredEntries,
    StoreUnavailable,
)

_logger = logging.getLogger(__name__)

# How long to read the store before the next call of an owner that could not be reached.
_OWNER_AGAIN_SECONDS = 2.0
# A lease with less than this share left was not renewed in time: most likely its owner is lost.
_UNRENEWED_SHARE = 0.4
# How often to check whether an owner that seems lost renews its lease.
_LOOK_SECONDS = 0.3
_CANCELLED = ("cancelled", "abandoned")
# The leases are read at once when a connection breaks, but once for all that break together.
_AT_ONCE_SECONDS = 0.05


class Diverged(Exception):
    """The replica has entries that the response lacks: their owner was lost before writing them."""


class ResponseReplication:
    """Replicates one response into a stream.

    Args:
        stream: the replica, empty at first.
        pause: returns the seconds until the next read of the store.
        take_over: tries to take the response over, by its id, when its owner's lease has run out.
            Returns whether this node owns it now.
        prepare: reads ahead what `take_over` will need, when the owner seems lost.
    """

    def __init__(
        self,
        context: NodeContext,
        ownership: Ownership,
        stream: ResponseStream,
        head: ResponseHead,
        *,
        pause: Callable[[], float],
        take_over: Callable[[str], Awaitable[bool]],
        prepare: Callable[[str, Channel], Awaitable[None]],
    ) -> None:
        self.stream = stream
        self.filled = asyncio.Event()
        """Set once the replica has caught up with the response as it was at the beginning."""
        self.reads_store = False
        """Whether it polls the store."""
        self.owner_at: str | None = None
        """The address of the owner that was last reached."""
        self._head = head
        self._store = ownership.responses
        self._keeper = ownership.keeper
        self._leases = ownership.leases
        self._peers = ownership.peers
        self._limits = context.limits
        self._monotonic = context.monotonic
        self._wall_time = context.wall_time
        self._pause = pause
        self._take_over = take_over
        self._prepare = prepare
        self._cut_off = False  # the owner lives, and can't be reached
        self._note_at = context.monotonic()
        self._channel = Channel(*head.channel.split(":"))

    async def run(self) -> None:
        """Replicate until the response has ended, or this node owns it.

        Raises:
            Diverged: the replica has entries that are not in the response. It is unchanged.
            NewerForm: a newer version writes the response, in a form that can't be read here.
        """
        while not self.stream.log.closed:
            try:
                lease = await self._lease_of_owner()
                if lease is not None and lease.address is not None:
                    is_broken = await self._replicate_from_owner(lease.address)
                    if self.stream.log.closed:
                        return
                    # The sooner its last renewal is seen, the sooner a lost owner is missed.
                    lease = await self._lease_of_owner(_AT_ONCE_SECONDS)
                    if is_broken and not self._cut_off:
                        lease = await self._renewed(lease)
                        self._cut_off = lease is not None
                    if lease is None:
                        continue
                elif (
                    lease is None
                    and self._head.ending is None
                    and await self._take_over(self.stream.response_id)
                ):
                    return
                await self._replicate_from_store(lease)
            except NewerForm:
                raise
            except StoreUnavailable:
                await asyncio.sleep(self._pause())

    async def _lease_of_owner(self, age: float = _LOOK_SECONDS) -> NodeLease | None:
        """The owner's lease, if it isn't lost and not this node's. It may be `age` seconds old."""
        owner = self._head.owner
        if self._head.ending is not None or owner == self._keeper.owner:
            return None
        lease = await self._leases.of(owner, age)
        return None if lease is None or await self._leases.declare_lost_if_expired(lease) else lease

    async def _renewed(self, lease: NodeLease | None) -> NodeLease | None:
        """Wait until an owner that seems lost renews its lease, or loses it. None if it is lost.

        Hundreds may wait for that, so what the store has is read only once, and now: when the lease
        has run out, everything is to be taken over at the same moment.
        """
        if lease is None:
            return None
        owner, until = self._head.owner, self._monotonic() + self._limits.lease_seconds
        await self._read_store()
        if self.stream.log.closed or self._head.owner != owner:
            return None
        await self._prepare(self.stream.response_id, self._channel)
        found: NodeLease | None = lease
        while found == lease and self._monotonic() < until:
            await asyncio.sleep(min(self._leases.seconds_left(lease), _LOOK_SECONDS))
            found = await self._lease_of_owner()
        return found

    # -- from the owner ----------------------------------------------------------------------------

    async def _replicate_from_owner(self, address: str) -> bool:
        """Replicate what the owner sends. Returns whether the connection is lost."""
        log = self.stream.log
        there = PeerResponse(
            address,
            self._channel,
            self.stream.response_id,
            log.epoch_at(log.next_index),
            self._keeper.address,
        )
        self.owner_at = address
        self.stream.clear_place()
        try:
            async with aclosing(self._peers.events(there, log.next_index - 1)) as stream:
                async for events in stream:
                    self.stream.set_source("peer")
                    self._cut_off = False
                    self._add(events)
                    self.filled.set()
                    if log.closed:
                        break
        except PeerUnreachable as error:
            _logger.debug(
                "response %s can't be replicated from its owner: %s", self.stream.response_id, error
            )
            return isinstance(error, PeerConnectionLost)
        return False

    def _add(self, events: list[PeerEvent]) -> None:
        log, entries = self.stream.log, list[LogEntry]()
        epoch = log.epoch_at(log.next_index)
        place: QueuePlace | None = None
        for event in events:
            if isinstance(event, ResponseQueued):
                place = QueuePlace(event.position, event.expected_seconds)
                continue
            place = None  # it has begun since
            if isinstance(event, ResponseCompleted | ResponseFailed):
                self.stream.follow(entries)
                self._end_like(event)
                return
            if event.index != log.next_index + len(entries):
                raise Diverged
            if isinstance(event, ResponseDelta):
                entries.append(event.delta)
            elif isinstance(event, ResponsePart):
                entries.append(event.to_part())
            else:
                entries.append(
                    Restart(
                        event.from_index,
                        event.attempt,
                        event.epoch if event.epoch > epoch else 0,
                        event.withdrawn,
                    )
                )
                epoch = event.epoch
        self.stream.follow(entries)
        if place is not None and place.position:
            self.stream.publish_place(place)
        elif place is not None:
            self.stream.leave_queue()

    def _end_like(self, event: ResponseCompleted | ResponseFailed) -> None:
        if isinstance(event, ResponseFailed):
            self.stream.copy_ending(ResponseState.ERROR, error=event.error)
            return
        state = (
            ResponseState.CANCELLED
            if event.finish_reason in _CANCELLED
            else ResponseState.COMPLETED
        )
        self.stream.copy_ending(
            state, finish_reason=event.finish_reason, usage=event.usage, degraded=event.degraded
        )

    # -- from the store ----------------------------------------------------------------------------

    async def _replicate_from_store(self, lease: NodeLease | None) -> None:
        """Poll the store until the owner is due again, or has changed, or the response ends."""
        log, owner = self.stream.log, self._head.owner
        until = self._monotonic() + _OWNER_AGAIN_SECONDS
        seconds_left = self._seconds_until_lost(lease)
        self.reads_store = not seconds_left
        try:
            while True:
                await self._read_store()
                if log.closed or self._head.owner != owner:
                    return
                if self._monotonic() >= self._note_at:
                    self._note_at = self._monotonic() + self._limits.reader_sign_seconds
                    await self._store.note_read(self.stream.response_id, self._wall_time())
                # An owner that is lost writes nothing, and many may wait for the end of its lease.
                await asyncio.sleep(seconds_left or self._pause())
                if seconds_left or self._monotonic() >= until:
                    return
        finally:
            self.reads_store = False

    async def _read_store(self) -> None:
        log = self.stream.log
        self._take(
            await self._store.entries(self.stream.response_id, log.next_index, self._wall_time())
        )
        self.filled.set()

    def _seconds_until_lost(self, lease: NodeLease | None) -> float:
        """The seconds left of a lease whose owner is most likely lost. Otherwise 0."""
        left = self._leases.seconds_left(lease) if lease is not None else 0.0
        return left if 0 < left < self._limits.lease_seconds * _UNRENEWED_SHARE else 0.0

    def _take(self, read: StoredEntries) -> None:
        log, head = self.stream.log, read.head
        if head is None:
            raise Diverged  # it has expired
        known = log.epoch_at(log.next_index)
        if any(start < log.next_index for epoch, start in head.starts.items() if epoch > known):
            raise Diverged
        self._head = head
        self.stream.set_source("store")
        self.stream.follow(read.entries)
        if head.ending is not None and log.next_index >= head.ending.next_index:
            self._end_as(head.ending)

    def _end_as(self, ending: Ending) -> None:
        self.stream.copy_ending(
            ending.state,
            finish_reason=ending.finish_reason,
            usage=Usage(**ending.usage) if ending.usage else None,
            error=dict(ending.error) if ending.error else None,
            degraded=ending.degraded,
            ended_at=self._monotonic() - max(0.0, self._wall_time() - ending.ended_at),
        )
