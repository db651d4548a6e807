"""This node's lease, and what this node has seen of the leases of others."""

from __future__ import annotations

import asyncio
import logging
import random
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from math import inf

from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.protocols.evenflow.peer_log import PeerLog
from evenflow.stream_core.stores.response_store import (
    LeaseLost,
    NodeLease,
    ResponseStore,
    StoreUnavailable,
)

_logger = logging.getLogger(__name__)

_RENEWALS_PER_LEASE = 3.0
# While one is under way, so that a store which takes most of a lease keeps it in force.
_RENEWALS_IF_SLOW = 6.0
# How often to see whether a renewal is due. An overloaded wheel turns slower than time passes.
_LOOK_SECONDS = 0.05
# Renewals under way: one that is slow, or never returns, must not hold up the next.
_AT_ONCE = 6
_AGAIN_SECONDS = (0.1, 0.3)
# Two renewals further apart than this share of a lease are a break: perhaps no node could renew.
_BREAK_SHARE = 0.7
# Each renewal must differ from the one before, also when the wall clock was set back.
_STEP_SECONDS = 0.001
# The number that is added to a node's name after a lost lease.
_NUMBER = re.compile(r"-\d+\Z")


class LeaseKeeper:
    """Renews this node's lease. After a lost lease the node continues under another name.

    Args:
        name: this node's name. Each lost lease adds a number to it.
        address: where other nodes reach this one, `http://host:port`.
        on_lost: called after a lease was lost and the name has changed.
    """

    def __init__(
        self,
        context: NodeContext,
        store: ResponseStore,
        *,
        name: str,
        address: str | None,
        on_lost: Callable[[], None],
    ) -> None:
        self.owner = name
        """The name under which this node owns responses now."""
        self._store = store
        self._name = name
        self._names = 1
        self.address = address
        """Where other nodes reach this one. None if they can't."""
        self._clock = context.clock
        self._seconds = context.limits.lease_seconds
        self._monotonic = context.monotonic
        self._wall_time = context.wall_time
        self._on_lost = on_lost
        self._in_force_until = -inf
        self._until = -inf
        self._renew_at = -inf
        self._renewed_at = -inf
        self._steady_since = inf
        self._released = self._is_failing = False
        self._under_way = 0
        self._background = Background()

    @property
    def in_force(self) -> bool:
        """Whether no other node may take over what this one owns."""
        return not self._released and self._monotonic() < self._in_force_until

    @property
    def lapsed_for(self) -> float:
        """The seconds since the lease ran out without a renewal. 0 while it is in force."""
        return 0.0 if self._released else max(0.0, self._monotonic() - self._in_force_until)

    @property
    def steady_since(self) -> float:
        """Since when the lease is renewed without a break, on the monotonic clock.

        Infinite during a break: then unrenewed leases of others prove nothing.
        """
        return inf if self._is_break(self._monotonic()) else self._steady_since

    async def start(self) -> None:
        """Take the lease, and keep renewing it.

        Raises:
            StoreUnavailable: the store can't be reached.
        """
        self._renew_at = self._monotonic() + self._seconds / _RENEWALS_PER_LEASE
        await self._renew(self.owner)
        self._clock.put_after(self, _LOOK_SECONDS)

    async def release(self) -> None:
        """Give the lease up: other nodes may take over at once what isn't finished.

        Raises:
            StoreUnavailable: the store can't be reached. The lease runs out by itself.
        """
        self._released = True
        await self._store.release(self.owner)

    async def aclose(self) -> None:
        """Stop renewing. A lease that wasn't released runs out by itself."""
        self._released = True
        await self._background.aclose()

    def on_due(self, _slot: int) -> None:
        """Renew the lease when it is time."""
        if self._released:
            return
        self._clock.put_after(self, _LOOK_SECONDS)
        now = self._monotonic()
        if now >= self._renew_at and self._under_way < _AT_ONCE:
            per_lease = _RENEWALS_IF_SLOW if self._under_way else _RENEWALS_PER_LEASE
            self._renew_at = now + self._seconds / per_lease
            self._background.run(self._keep())

    async def _keep(self) -> None:
        owner = self.owner
        self._under_way += 1
        try:
            # A renewal that took longer would be of no use.
            async with asyncio.timeout(self._seconds):
                await self._renew(owner)
        except (StoreUnavailable, TimeoutError):
            now = self._monotonic()
            if not (self._is_failing or self._is_break(now)):
                _logger.warning(
                    "the lease of this node could not be renewed; it is tried again, and in %.1f s "
                    "what it answers may be taken over",
                    max(0.0, self._in_force_until - now),
                )
            self._is_failing = True
            self._renew_at = min(self._renew_at, now + random.uniform(*_AGAIN_SECONDS))
        except LeaseLost:
            await self._lose(owner)
        finally:
            self._under_way -= 1

    async def _lose(self, owner: str) -> None:
        if self._released or owner != self.owner:
            return  # another renewal has noticed it before
        _logger.warning(
            "the lease of this node was lost: other nodes go on with what it was answering"
        )
        self._names += 1
        self.owner = f"{self._name}-{self._names}"
        self._in_force_until = self._monotonic()
        self._on_lost()
        await self._keep()

    async def _renew(self, owner: str) -> None:
        # From before the call, which may take long.
        started_at = self._monotonic()
        self._until = max(self._wall_time() + self._seconds, self._until + _STEP_SECONDS)
        await self._store.renew(owner, self._until, self.address)
        if self._is_failing:
            _logger.warning("the store answers again: the lease of this node was renewed")
        self._is_failing = False
        if owner != self.owner:
            return
        self._in_force_until = max(self._in_force_until, started_at + self._seconds)
        now = self._monotonic()
        if self._is_break(now):
            self._steady_since = now
        self._renewed_at = now

    def _is_break(self, now: float) -> bool:
        return now - self._renewed_at > self._seconds * _BREAK_SHARE


# How long leases that were read count as fresh.
_FRESH_SECONDS = 0.3
# The longest that a lease is waited for, in leases of this node's own length: another node's may be
# longer, and its clock may be ahead.
_LONGEST = 3.0


@dataclass(frozen=True, slots=True)
class _ObservedLease:
    """A stored lease, when this state was first seen, and its length.

    Args:
        at: on the monotonic clock.
        seconds: its length.
    """

    lease: NodeLease
    at: float
    seconds: float


class LeaseView:
    """What this node has seen of all leases. It judges them by its own monotonic clock.

    A lease has run out when it was seen unchanged for its length, while this node renewed its own
    without a break. So clocks of hosts may differ, and jump.

    Args:
        keeper: this node's own lease.
    """

    def __init__(self, context: NodeContext, store: ResponseStore, keeper: LeaseKeeper) -> None:
        self._store = store
        self._keeper = keeper
        self._seconds = context.limits.lease_seconds
        self._monotonic = context.monotonic
        self._wall_time = context.wall_time
        self._seen: dict[str, _ObservedLease] = {}
        self._leases: dict[str, NodeLease] = {}
        self._read_at = -inf
        self._reading: asyncio.Task[None] | None = None
        self._declaring: dict[NodeLease, asyncio.Task[bool]] = {}
        self._background = Background()

    async def all(self, age: float = _FRESH_SECONDS) -> Mapping[str, NodeLease]:
        """The leases by owner, as they were at most `age` seconds ago.

        Raises:
            StoreUnavailable: the store can't be reached.
        """
        if self._monotonic() - self._read_at >= age:
            if self._reading is None:
                self._reading = self._background.run(self._read())
            await asyncio.shield(self._reading)
        return self._leases

    async def without_lease(self, nodes: Collection[str]) -> Collection[str]:
        """The nodes among these, by their first names, that have no lease in force now.

        Raises:
            StoreUnavailable: the store can't be reached.
        """
        leases = (await self.all(0.0)).values() if nodes else ()
        present = {_NUMBER.sub("", lease.owner) for lease in leases if self.seconds_left(lease)}
        return {node for node in nodes if node not in present}

    async def of(self, owner: str, age: float = _FRESH_SECONDS) -> NodeLease | None:
        """The lease of a node, as it was at most `age` seconds ago. None if it has none.

        Raises:
            StoreUnavailable: the store can't be reached.
        """
        leases = await self.all(age)
        if owner in leases:
            return leases[owner]
        # A lease that is not in the view may be new.
        lease = await self._store.lease(owner)
        if lease is not None:
            self._seen[owner] = self._observe(lease)
        return lease

    def other_addresses(self) -> list[str]:
        """Where the other nodes are, as far as the leases that were read last say."""
        own = self._keeper.address
        addresses = {lease.address for lease in self._leases.values() if not lease.lost}
        return [address for address in addresses if address not in (None, own)]

    def unchanged_for(self, lease: NodeLease) -> float:
        """The seconds for which this node has seen the lease unchanged. Negative during a break."""
        seen = self._seen.get(lease.owner)
        if seen is None or seen.lease != lease:
            return 0.0
        return self._monotonic() - max(seen.at, self._keeper.steady_since)

    def seconds_left(self, lease: NodeLease) -> float:
        """The seconds until the lease runs out, unless it is renewed. Infinite during a break."""
        if lease.lost:
            return 0.0
        seen = self._seen.get(lease.owner)
        length = self._seconds if seen is None else seen.seconds
        return max(0.0, length - self.unchanged_for(lease))

    async def declare_lost_if_expired(self, lease: NodeLease) -> bool:
        """Declare a lease lost in the store if it has run out. Returns whether it is lost.

        Raises:
            StoreUnavailable: the store can't be reached.
        """
        known = self._leases.get(lease.owner)
        if lease.lost or (known is not None and known.lost):
            return True
        if self.seconds_left(lease) > 0:
            return False
        # The readers of hundreds of responses ask at the same moment.
        declaring = self._declaring.get(lease)
        if declaring is None:
            declaring = self._declaring[lease] = self._background.run(self._declare_lost(lease))
            declaring.add_done_callback(lambda _: self._declaring.pop(lease))
        return await asyncio.shield(declaring)

    async def _declare_lost(self, lease: NodeLease) -> bool:
        if not await self._store.declare_lost(lease):
            self._read_at = -inf  # it was renewed after all
            return False
        lost = replace(lease, lost=True)
        self._leases[lease.owner], self._seen[lease.owner] = lost, self._observe(lost)
        return True

    async def aclose(self) -> None:
        """Stop reading."""
        await self._background.aclose()

    async def _read(self) -> None:
        started_at = self._monotonic()
        try:
            leases = {lease.owner: lease for lease in await self._store.leases()}
            self._seen = {owner: self._observe(lease) for owner, lease in leases.items()}
            self._leases = leases
            self._read_at = started_at
        finally:
            self._reading = None

    def _observe(self, lease: NodeLease) -> _ObservedLease:
        seen = self._seen.get(lease.owner)
        if seen is not None and seen.lease == lease:
            return seen
        # From when it was read: its owner counts from before it asked for the renewal.
        at = self._monotonic()
        seconds = min(max(self._seconds, lease.until - self._wall_time()), self._seconds * _LONGEST)
        return _ObservedLease(lease, at, seconds)


@dataclass(frozen=True, slots=True)
class Ownership:
    """What decides which node owns a response, and reaches its owner.

    Args:
        responses: the responses of all nodes.
        keeper: this node's own lease.
        leases: a view of all leases.
        peers: the others' logs, where they can be reached.
    """

    responses: ResponseStore
    keeper: LeaseKeeper
    leases: LeaseView
    peers: PeerLog
