"""Ends what goes on when its key, tenant, session or token is no longer valid."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial

from evenflow.fargate_handler.gateway.access_grant import AccessGrant
from evenflow.fargate_handler.gateway.connection_registry import OpenConnection
from evenflow.fargate_handler.gateway.context import GatewayContext
from evenflow.stream_core.protocol.ending_frames import CloseCode
from evenflow.stream_core.protocol.errors import EvenflowError, NotPermitted

_logger = logging.getLogger(__name__)

# They take the loop about half a millisecond. Their sessions are one read of the store.
_AT_ONCE = 100

_Opened = tuple[AccessGrant, Callable[[EvenflowError], None]]
"""What a connection or a stream was opened with, and what ends it."""


class Revocation:
    """Looks at each connection, stream and running answer once a heartbeat, and as soon as the
    tenants in force have changed.
    """

    def __init__(self, context: GatewayContext) -> None:
        self._context = context
        self._every = context.limits.heartbeat_seconds
        self._look_at = context.monotonic() + self._every
        self._changes = context.tenants.changes
        self._looks = False

    def sweep(self, now: float) -> None:
        """Begin a look, if it is time. Called about once a second."""
        changes = self._context.tenants.changes
        if self._looks or (now < self._look_at and changes == self._changes):
            return
        self._look_at, self._changes = now + self._every, changes
        self._looks = True
        self._context.background.run(self._look())

    async def _look(self) -> None:
        registry = self._context.registry
        try:
            await self._context.orchestrator.cancel_revoked()
            opened: list[_Opened] = [(it.grant, partial(_close, it)) for it in registry]
            opened += [(it.grant, it.revoke) for it in registry.streams if it.grant is not None]
            for first in range(0, len(opened), _AT_ONCE):
                await self._look_at_some(opened[first : first + _AT_ONCE])
                await asyncio.sleep(0)
        except Exception:
            _logger.exception("what was revoked is looked for again at the next heartbeat")
        finally:
            self._looks = False

    async def _look_at_some(self, opened: Sequence[_Opened]) -> None:
        context = self._context
        sessions = {it.session for it, _ in opened if it.session is not None}
        await context.orchestrator.ended_sessions.look_at(sessions)
        for grant, end in opened:
            try:
                context.check_grant(grant)
            except EvenflowError as error:
                end(error)


def _close(connection: OpenConnection, error: EvenflowError) -> None:
    # Who shows a new token may come back. To one of a removed tenant that is of no use.
    code = CloseCode.POLICY if isinstance(error, NotPermitted) else CloseCode.DONE
    connection.close(code, error.message)
