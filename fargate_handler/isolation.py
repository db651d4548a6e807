"""Sends the clients of a node away that alone can't reach the store."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from evenflow.fargate_handler.gateway.connections.connection_registry import (
    ConnectionRegistry,
    Movable,
)
from evenflow.fargate_handler.orchestrator.leases import LeaseKeeper, LeaseView
from evenflow.fargate_handler.orchestrator.orchestrator import Orchestrator
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.departures import departure_times
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode

_logger = logging.getLogger(__name__)

REASON = "this node can't reach its store, and others can"
# How many of the other nodes are asked. One that can reach the store is enough.
_ASKED = 3
# A client that was asked to reconnect, and has not by then, is disconnected.
_PATIENCE_SECONDS = 2.0


class Isolation:
    """Notices that this node can't reach the store while another one can.

    Its readers would wait on a live socket: other nodes take its answers over, and it can't end
    any. So it takes no new clients, and sends its own away, until it has its lease again. While no
    node reaches the store all stay where they are: no other place would be better.

    Args:
        holds_lease: asks the node at an address whether its lease is in force.
    """

    def __init__(
        self,
        limits: Limits,
        keeper: LeaseKeeper,
        leases: LeaseView,
        holds_lease: Callable[[str], Awaitable[bool]],
        orchestrator: Orchestrator,
        registry: ConnectionRegistry,
        background: Background,
    ) -> None:
        self._limits = limits
        self._keeper = keeper
        self._leases = leases
        self._holds_lease = holds_lease
        self._orchestrator = orchestrator
        self._registry = registry
        self._background = background
        self._asking: asyncio.Task[None] | None = None
        self.is_isolated = False
        """Whether this node alone can't reach the store."""

    def check_lease(self) -> None:
        """Look at the lease. Called once a second."""
        if self._keeper.in_force:
            if self.is_isolated:
                self.is_isolated = False
                self._orchestrator.accept_again()
                _logger.warning("this node reaches its store again, and takes clients")
            return
        has_lapsed = self._keeper.lapsed_for >= self._limits.lease_seconds
        is_asking = self._asking is not None and not self._asking.done()
        if not has_lapsed or is_asking or self._orchestrator.draining:
            return
        if addresses := self._leases.other_addresses():
            self._asking = self._background.run(self._look_at_others(addresses))

    async def _look_at_others(self, addresses: list[str]) -> None:
        random.shuffle(addresses)
        for address in addresses[:_ASKED]:
            if await self._holds_lease(address):
                break
        else:
            return
        if self._keeper.in_force or self._orchestrator.draining:
            return
        self.is_isolated = True
        self._orchestrator.stop_accepting()
        _logger.error(
            "this node can't reach its store, and the one at %s can: other nodes go on with its "
            "answers, and its %d clients are sent to them. It takes none until its lease is in "
            "force again; check its network",
            address, len(self._registry),
        )  # fmt: skip
        await self._send_away()

    async def _send_away(self) -> None:
        """Send the clients away one by one, as a leaving node does, but also those that read."""
        clients: list[Movable] = [*self._registry, *self._registry.streams]
        random.shuffle(clients)
        loop = asyncio.get_running_loop()
        began_at = loop.time()
        times = departure_times(
            len(clients),
            self._limits.drain_connections_per_second,
            self._limits.drain_seconds,
        )
        for client, departs_at in zip(clients, times, strict=True):
            early = began_at + departs_at - loop.time()
            if early > 0:
                await asyncio.sleep(early)
            if not self.is_isolated:
                return
            client.ask_to_reconnect(REASON, 0)
        await asyncio.sleep(_PATIENCE_SECONDS)
        if self.is_isolated:
            self._registry.close_all(CloseCode.GOING_AWAY, REASON)
