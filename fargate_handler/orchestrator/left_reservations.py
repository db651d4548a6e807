"""Releases what lost tasks had reserved for answers that nobody gives."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Sequence

from fargate_handler.background import Background
from fargate_handler.node_context import NodeContext
from fargate_handler.orchestrator.leases import LeaseKeeper, LeaseView
from fargate_handler.orchestrator.tenant_usage import TenantUsage
from stream_core.ports.response_store import ResponseStore, StoreUnavailable
from stream_core.ports.usage_store import UsageStore
from stream_core.tenants.budget import Reservation, has_budgets

_logger = logging.getLogger(__name__)

_SWEEP_SECONDS = (4.0, 6.0)
# How often to see whether a sweep is due. An overloaded wheel turns slower than time passes.
_LOOK_SECONDS = 0.5


class LeftReservations:
    """Looks for reservations that nobody settles, and releases them.

    Args:
        responses: the responses of all tasks.
        keeper, leases: this task's lease, and its view of those of others.
        usage: what this task has reserved.
    """

    def __init__(
        self,
        context: NodeContext,
        store: UsageStore,
        *,
        responses: ResponseStore,
        keeper: LeaseKeeper,
        leases: LeaseView,
        usage: TenantUsage,
    ) -> None:
        self._store = store
        self._responses = responses
        self._keeper = keeper
        self._leases = leases
        self._usage = usage
        self._tenants = context.tenants
        self._clock = context.clock
        self._monotonic = context.monotonic
        self._wall_time = context.wall_time
        self._sweep_at = 0.0
        self._sweeping = False
        self._background = Background()

    def start(self) -> None:
        """Begin to look."""
        self._sweep_at = self._monotonic() + random.uniform(*_SWEEP_SECONDS)
        self._clock.put_after(self, _LOOK_SECONDS)

    def on_due(self, _slot: int) -> None:
        """Sweep, if it is time to."""
        self._clock.put_after(self, _LOOK_SECONDS)
        if self._monotonic() >= self._sweep_at and not self._sweeping:
            self._sweep_at = self._monotonic() + random.uniform(*_SWEEP_SECONDS)
            self._background.run(self._sweep())

    async def aclose(self) -> None:
        """Stop looking."""
        await self._background.aclose()

    async def _sweep(self) -> None:
        self._sweeping = True
        try:
            self._usage.let_go_of_others()
            elsewhere = await self._elsewhere()
            owners = {reservation.owner for reservation in elsewhere}
            gone = {owner for owner in owners if await self._is_gone(owner)}
            doubtful = [each for each in elsewhere if each.owner in gone]
            if doubtful:
                await self._release_left(doubtful)
        except StoreUnavailable:
            _logger.info("what is reserved can't be read from the store now")
        finally:
            self._sweeping = False

    async def _elsewhere(self) -> Sequence[Reservation]:
        """The reservations for answers that are not this task's."""
        return [
            reservation
            for tenant in self._tenants.records
            if has_budgets(tenant)
            for reservation in await self._store.reservations(tenant.id)
            if not self._usage.is_here(reservation.response_id)
        ]

    async def _is_gone(self, owner: str) -> bool:
        """Whether the task is lost, or is this one: what it doesn't have here it has forgotten."""
        if owner == self._keeper.owner:
            return True
        lease = await self._leases.of(owner)
        return lease is None or await self._leases.is_lost(lease)

    async def _release_left(self, doubtful: Iterable[Reservation]) -> None:
        """Release those of these reservations whose answers no task has."""
        # A lost task leaves hundreds, and just then the store has much to do. So the answers that
        # run are read together.
        running: set[str] = set()
        for owner in tuple(await self._leases.all()):
            running.update(await self._responses.unfinished(owner))
        for reservation in doubtful:
            response_id = reservation.response_id
            if response_id not in running and await self._has_ended(response_id):
                _logger.info("the reservation of %s is released", response_id)
                await self._store.release(reservation.tenant, response_id)

    async def _has_ended(self, response_id: str) -> bool:
        head = await self._responses.head(response_id, self._wall_time())
        return head is None or head.ending is not None
