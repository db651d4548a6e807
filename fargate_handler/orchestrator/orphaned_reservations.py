"""Releases the reservations of lost nodes for answers that no node continues."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from evenflow.fargate_handler.orchestrator.budget_reservations import BudgetReservations
from evenflow.fargate_handler.orchestrator.leases import LeaseKeeper, LeaseView
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.sweep import Sweep
from evenflow.stream_core.stores.response_store import ResponseStore, StoreUnavailable
from evenflow.stream_core.tenants.budget import Reservation, has_budgets
from evenflow.stream_core.tenants.usage_store import UsageStore

_logger = logging.getLogger(__name__)

_SWEEP_SECONDS, _LOOK_SECONDS = (4.0, 6.0), 0.5


class OrphanedReservations:
    """Finds reservations that no node will settle, and releases them.

    Args:
        responses: the responses of all nodes.
        keeper, leases: the lease of this node, and its view of all leases.
        usage: the reservations of this node.
    """

    def __init__(
        self,
        context: NodeContext,
        store: UsageStore,
        *,
        responses: ResponseStore,
        keeper: LeaseKeeper,
        leases: LeaseView,
        usage: BudgetReservations,
    ) -> None:
        self._store = store
        self._responses = responses
        self._keeper = keeper
        self._leases = leases
        self._usage = usage
        self._tenants = context.tenants
        self._wall_time = context.wall_time
        self._sweep = Sweep(
            context, self._release_orphans, every=_SWEEP_SECONDS, look=_LOOK_SECONDS
        )

    def start(self) -> None:
        """Start the sweep."""
        self._sweep.start()

    async def aclose(self) -> None:
        """Stop the sweep."""
        await self._sweep.aclose()

    async def _release_orphans(self) -> None:
        try:
            self._usage.drop_others()
            on_other_nodes = await self._on_other_nodes()
            owners = {reservation.owner for reservation in on_other_nodes}
            gone = {owner for owner in owners if await self._is_lost(owner)}
            orphans = [each for each in on_other_nodes if each.owner in gone]
            if orphans:
                await self._release_ended(orphans)
        except StoreUnavailable:
            _logger.info("the reservations can't be read from the store now")

    async def _on_other_nodes(self) -> Sequence[Reservation]:
        """The reservations for answers that are not this node's."""
        return [
            reservation
            for tenant in self._tenants.records
            if has_budgets(tenant)
            for reservation in await self._store.reservations(tenant.id)
            if not self._usage.is_here(reservation.response_id)
        ]

    async def _is_lost(self, owner: str) -> bool:
        """Whether a node is lost. This one counts as lost: what it lacks it has forgotten."""
        if owner == self._keeper.owner:
            return True
        lease = await self._leases.of(owner)
        return lease is None or await self._leases.declare_lost_if_expired(lease)

    async def _release_ended(self, orphans: Iterable[Reservation]) -> None:
        """Release these reservations, except those whose answers still run."""
        # A lost node leaves hundreds, just when the store is busy. So running answers are read
        # together.
        running: set[str] = set()
        for owner in tuple(await self._leases.all()):
            running.update(await self._responses.unfinished(owner))
        for reservation in orphans:
            response_id = reservation.response_id
            if response_id not in running and await self._has_ended(response_id):
                _logger.info("the reservation of %s is released", response_id)
                await self._store.release(reservation.tenant, response_id)

    async def _has_ended(self, response_id: str) -> bool:
        head = await self._responses.head(response_id, self._wall_time())
        return head is None or head.ending is not None
