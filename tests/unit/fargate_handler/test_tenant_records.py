"""What the log says of tenants' records when they are read."""

from __future__ import annotations

import logging

import pytest

from evenflow.fargate_handler.tenant_records import TenantRecords
from evenflow.stream_core.base.model_prices import ModelPrices, TokenPrice
from evenflow.stream_core.tenants.memory_tenant_store import MemoryTenantStore
from evenflow.stream_core.tenants.registry import Tenants
from evenflow.stream_core.tenants.tenant import ApiKey, QuotaLimits, Tenant

PRICES = ModelPrices({"large": TokenPrice(2.5, 10.0, 2.5, 2.5)})
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


async def test_the_log_says_who_needs_no_key_and_when_nobody_has_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, tenants = MemoryTenantStore(), Tenants()
    records = TenantRecords(store, tenants, PRICES, SERVED)
    caplog.set_level(logging.WARNING)
    await records.look()
    assert caplog.messages == [], "a server without tenants is meant to be open"
    acme = Tenant(id="acme", keys=(ApiKey.of_text("k1", "evf_1"),))
    await store.put(acme, 0)
    await store.put(Tenant(id="public", open=True), 1)
    for _ in range(2):
        await records.look()
    (opened,) = caplog.messages
    assert "tenant public is open" in opened
    caplog.clear()
    await store.delete("public", 2)
    await store.delete("acme", 3)
    for _ in range(2):
        await records.look()
    (shut,) = caplog.messages
    assert "no tenant is left" in shut
    assert tenants.is_shut
    again = Tenants()
    await TenantRecords(store, again, PRICES, SERVED).read()
    assert again.is_shut, "after a restart, too"
