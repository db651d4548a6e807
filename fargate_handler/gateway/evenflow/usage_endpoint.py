"""`GET /usage`: what the caller's tenant, or the token's user, has used and has left."""

from __future__ import annotations

from aiohttp import web

from evenflow.fargate_handler.gateway.connections.context import GatewayContext
from evenflow.fargate_handler.gateway.http.answers import json_answer
from evenflow.fargate_handler.gateway.http.senders import sender_of
from evenflow.stream_core.base.errors import NotFound, Overloaded
from evenflow.stream_core.protocols.evenflow.usage_report import (
    MOST_DAYS,
    MOST_DAYS_OF_A_USER,
    days_asked,
    usage_report,
)
from evenflow.stream_core.stores.response_store import StoreUnavailable

_RETRY_AFTER_MS = 2_000


class UsageEndpoint:
    """Reports usage: the tenant's to its key, and the user's to a session's token."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def get(self, request: web.Request) -> web.Response:
        """The days from `from` to `to` by model, and the budgets now."""
        context, usage = self._context, self._context.orchestrator.usage
        store = usage.store
        sender = sender_of(request)
        user = None if sender.session is None else sender.user
        if store is None or not context.tenants.is_known(sender.tenant) or user == "":
            raise NotFound(
                "no usage is told here: it is to a tenant's key, and to the token of a session "
                "that was opened for a named user",
                code="usage_not_found",
            )
        now = context.wall_time()
        most_days = MOST_DAYS if user is None else MOST_DAYS_OF_A_USER
        days = days_asked(request.query.get("from"), request.query.get("to"), now, most_days)
        tenant = context.tenants.of(sender.tenant)
        try:
            report = await usage_report(
                store, tenant, days, now, key_id=sender.key, user=user, prices=usage.prices
            )
        except StoreUnavailable as error:
            raise Overloaded(
                "the store of usage cannot be reached; nothing was changed, ask again later",
                code="store_unavailable",
                retry_after_ms=_RETRY_AFTER_MS,
            ) from error
        return json_answer(report.model_dump())
