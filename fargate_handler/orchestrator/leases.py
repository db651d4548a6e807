"""This task's lease, and a view of the leases of others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fargate_handler.background import Background
from fargate_handler.node_context import NodeContext
from stream_core.log.peer_log import PeerLog
from stream_core.ports.response_store import LeaseLost, ResponseStore, StoreUnavailable, TaskLease

_logger = logging.getLogger(__name__)

_RENEWALS_PER_LEASE = 3.3


class LeaseKeeper:
    """Renews this task's lease. After a lost one the task goes on under another name.

    Args:
        name: this task's name. Each lost lease adds a number to it.
        address: where other tasks reach this one, `http://host:port`.
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
        """The name under which this task owns responses now."""
        self._store = store
        self._name = name
        self._names = 1
        self._address = address
        self._clock = context.clock
        self._seconds = context.limits.lease_seconds
        self._monotonic = context.monotonic
        self._wall_time = context.wall_time
        self._on_lost = on_lost
        self._in_force_until = 0.0
        self._released = False
        self._renewing = False
        self._background = Background()

    @property
    def in_force(self) -> bool:
        """Whether no other task may take over what this one owns."""
        return not self._released and self._monotonic() < self._in_force_until

    async def start(self) -> None:
        """Take the lease, and keep renewing it.

        Raises:
            StoreUnavailable: the store can't be reached.
        """
        await self._renew()
        self._clock.put_after(self, self._seconds / _RENEWALS_PER_LEASE)

    async def release(self) -> None:
        """Give the lease up: other tasks may take over at once what isn't finished.

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
        """Renew the lease."""
        if self._released:
            return
        self._clock.put_after(self, self._seconds / _RENEWALS_PER_LEASE)
        if not self._renewing:
            self._background.run(self._keep())

    async def _keep(self) -> None:
        self._renewing = True
        try:
            await self._renew()
        except StoreUnavailable:
            _logger.warning(
                "the lease of this task could not be renewed; what it answers may be taken over"
            )
        except LeaseLost:
            if self._released:
                return
            _logger.warning(
                "the lease of this task was lost: other tasks go on with what it was answering"
            )
            self._names += 1
            self.owner = f"{self._name}-{self._names}"
            self._in_force_until = 0.0
            self._on_lost()
            await self._keep()
        finally:
            self._renewing = False

    async def _renew(self) -> None:
        # From before the call, which may take long.
        begun = self._monotonic()
        await self._store.renew(self.owner, self._wall_time() + self._seconds, self._address)
        self._in_force_until = max(self._in_force_until, begun + self._seconds)


# For so long a lease counts as fresh. If it was renewed meanwhile it only looks shorter, and a
# take-over asks the store in any case.
_FRESH_SECONDS = 0.3


class LeaseView:
    """A view of all tasks' leases.

    Args:
        monotonic: seconds.
    """

    def __init__(self, store: ResponseStore, monotonic: Callable[[], float]) -> None:
        self._store = store
        self._monotonic = monotonic
        self._leases: Mapping[str, TaskLease] = {}
        self._fresh_until = 0.0
        self._reading: asyncio.Task[None] | None = None
        self._background = Background()

    async def all(self) -> Mapping[str, TaskLease]:
        """The leases by owner.

        Raises:
            StoreUnavailable: the store can't be reached.
        """
        if self._monotonic() >= self._fresh_until:
            if self._reading is None:
                self._reading = self._background.run(self._read())
            await asyncio.shield(self._reading)
        return self._leases

    async def of(self, owner: str) -> TaskLease | None:
        """The lease of a task. None if it has none.

        Raises:
            StoreUnavailable: the store can't be reached.
        """
        leases = await self.all()
        # A lease that is not in the view may be new.
        return leases[owner] if owner in leases else await self._store.lease(owner)

    async def aclose(self) -> None:
        """Stop reading."""
        await self._background.aclose()

    async def _read(self) -> None:
        asked = self._monotonic()
        try:
            self._leases = {lease.owner: lease for lease in await self._store.leases()}
            self._fresh_until = asked + _FRESH_SECONDS
        finally:
            self._reading = None


@dataclass(frozen=True, slots=True)
class OtherTasks:
    """What this task needs of the others.

    Args:
        responses: the responses of all tasks.
        keeper: this task's own lease.
        leases: a view of all leases.
        peers: the others' logs, where they can be reached.
    """

    responses: ResponseStore
    keeper: LeaseKeeper
    leases: LeaseView
    peers: PeerLog
