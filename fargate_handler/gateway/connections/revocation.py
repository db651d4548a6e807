"""Ends connections, streams and answers whose key, tenant, session or token is no longer valid."""

from __future__ import annotations

import asyncio
import logging

from evenflow.fargate_handler.gateway.connections.connection_registry import Granted
from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.stream_core.base.errors import EvenflowError

_logger = logging.getLogger(__name__)

# Checks per turn of the event loop: about half a millisecond. Their sessions are one read.
_BATCH_SIZE = 100


class Revocation:
    """Checks all connections, streams and running answers once a heartbeat, and as soon as a
    tenant's record or key has changed.
    """

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._interval_s = context.limits.heartbeat_seconds
        self._next_check_at = context.monotonic() + self._interval_s
        self._checked_changes = context.tenants.changes
        self._is_checking = False

    def sweep(self, now: float) -> None:
        """Begin a check, if it is due. Called about once a second."""
        changes = self._context.tenants.changes
        is_due = now >= self._next_check_at or changes != self._checked_changes
        if self._is_checking or not is_due:
            return
        self._next_check_at, self._checked_changes = now + self._interval_s, changes
        self._is_checking = True
        self._context.background.run(self._check_all())

    async def _check_all(self) -> None:
        try:
            await self._check_connections()  # first without the store, which may be slow
            await self._context.orchestrator.cancel_revoked()
            await self._check_connections(refreshes_sessions=True)
        except Exception:
            _logger.exception("revoked credentials are looked for again at the next heartbeat")
        finally:
            self._is_checking = False

    async def _check_connections(self, *, refreshes_sessions: bool = False) -> None:
        registry = self._context.registry
        connections: list[Granted] = [*registry, *registry.streams]
        for first in range(0, len(connections), _BATCH_SIZE):
            batch = connections[first : first + _BATCH_SIZE]
            granted = [(each, grant) for each in batch if (grant := each.grant) is not None]
            if refreshes_sessions:
                sessions = {grant.session for _, grant in granted if grant.session is not None}
                await self._context.orchestrator.ended_sessions.refresh(sessions)
            for each, grant in granted:
                try:
                    self._context.access.check_grant(grant)
                except EvenflowError as error:
                    each.revoke(error)
            await asyncio.sleep(0)
