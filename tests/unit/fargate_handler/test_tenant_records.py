"""What the log says of tenants' records when they are read."""

from __future__ import annotations

import logging

import pytest

from evenflow.fargate_handler.tenant_records import TenantRecords
from evenflow.stream_core.policy.model_prices import ModelPrices, Price
from evenflow.stream_core.ports.memory_tenant_store import MemoryTenantStore
from evenflow.stream_core.tenants.registry import Tenants
from evenflow.stream_core.tenants.tenant import QuotaLimits, Tenant

PRICES = ModelPrices({"large": Price(2.5, 10.0, 2.5, 2.5)})
SERVED = {"fast": "org/small", "large": "large"}
DOLLARS = QuotaLimits(dollars_per_month=5)


async def test_a_budget_in_dollars_of_a_model_without_a_price_is_told_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryTenantStore()
    records = TenantRecords(store, Tenants(), PRICES, SERVED)
    caplog.set_level(logging.WARNING)

    async def warnings_after(*tenants: Tenant) -> list[str]:
        caplog.clear()
        for tenant in tenants:
            await store.put(tenant, await store.revision())
            await records.look()
        return caplog.messages

    (warning,) = await warnings_after(
        Tenant(id="acme", limits=DOLLARS),
        Tenant(id="acme", limits=DOLLARS, weight=2),
        Tenant(id="globex", limits=DOLLARS, models=("large",)),
        Tenant(id="initech", limits=QuotaLimits(tokens_per_day=5)),
    )
    assert "acme" in warning
    assert "org/small" in warning
    assert "large" not in warning
    assert "EVENFLOW_MODEL_PRICES" in warning
    (of_users,) = await warnings_after(Tenant(id="globex", user_limits=DOLLARS))
    assert "globex" in of_users
    assert await warnings_after(Tenant(id="acme")) == []
    (again,) = await warnings_after(Tenant(id="acme", limits=DOLLARS))
    assert again == warning
