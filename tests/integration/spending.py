"""A tenant with a budget at a real server, and what of it an answer has taken."""

from __future__ import annotations

import asyncio

import aiohttp

from evenflow.stream_core.tenants.tenant import ApiKey, QuotaLimits, Tenant
from evenflow.stream_core.tenants.tenant_store import TenantStore
from evenflow.stream_core.tenants.usage_store import UsageStore
from tests.integration.chat_client import ChatSession, HttpAnswer, call
from tests.integration.local_server import LocalServer, LocalServers

KEY = "evf_acme_0123456789abcdef"
BEARER = {"Authorization": f"Bearer {KEY}"}
BOUND = 1_200
INPUT = 9
"""What the message `hi` is estimated at."""
ENDLESS = ["x "] * 3_000
"""What a model gives that reads none of the names that it was told."""
# A change of a tenant is seen within 5 s.
_SEEN_SECONDS = 6.0


class Spender:
    """The tenant at a server, which `begin` has given a budget of `BOUND` tokens a day."""

    def __init__(self, http: aiohttp.ClientSession, server: LocalServer) -> None:
        self._http, self._server = http, server

    @property
    def _usage(self) -> UsageStore:
        usage = self._server.handler._adapters.stores.usage
        assert usage is not None
        return usage

    async def begin(self, serve: LocalServers) -> None:
        """Give it the budget, and wait until the server knows."""
        tenants: TenantStore | None = self._server.handler._adapters.stores.tenants
        assert tenants is not None
        limits = QuotaLimits(tokens_per_day=BOUND)
        key = ApiKey.of_text("k1", KEY)
        await tenants.put(Tenant(id="acme", keys=(key,), limits=limits), 0)
        await serve.time_passes(_SEEN_SECONDS)

    async def ask(self, path: str, **body: object) -> HttpAnswer:
        """A request with the tenant's key."""
        return await call(
            self._http, "POST", f"{self._server.http_url}{path}", body, headers=BEARER
        )

    async def session(self) -> ChatSession:
        """A session of the tenant."""
        opened = await self.ask("/session", tenant="acme")
        assert opened.status == 201, opened.body
        return ChatSession(self._http, opened.json, None)

    async def committed(self, answers: int = 1) -> int:
        """What is committed once so many answers have been settled, and nothing is reserved."""
        async with asyncio.timeout(20):
            while True:
                totals = await self._usage.totals("acme", "2000-01-01", "2999-12-31")
                reserved = await self._usage.answers_reserved("acme")
                if sum(each.answers for each in totals) == answers and not reserved:
                    break
                await asyncio.sleep(0.02)
        counters = {f"tokens/{each.day}/tenant" for each in totals}
        return sum((await self._usage.committed("acme", counters)).values())
