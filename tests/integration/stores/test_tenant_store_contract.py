"""What the port of the tenants' records promises, held against each implementation."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from evenflow.stream_aws.dynamodb_tenant_store import DynamoDBTenantStore
from evenflow.stream_aws.tenant_items import change
from evenflow.stream_core.base.agents import ServiceClass
from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.tenants.tenant import ApiKey, QuotaLimits, Scope, Tenant
from evenflow.stream_core.tenants.tenant_store import StoredTenants, TenantChanged, TenantStore
from tests.integration.stores.conftest import DynamoDBStores
from tests.integration.stores.stores import NOW

ACME = Tenant(
    id="acme",
    keys=(
        ApiKey.of_text("k1", "first", expires_at=NOW + 0.5, scopes=frozenset({Scope.READ})),
        ApiKey.of_text("k2", "second", limits=QuotaLimits(requests_per_minute=3)),
    ),
    weight=2.5,
    service_class=ServiceClass.BATCH,
    limits=QuotaLimits(tokens_per_minute=100_000, dollars_per_month=12.34),
    models=("demo",),
    filtering="hold",
    shadow=True,
)
GLOBEX = Tenant(id="globex")


async def test_at_first_there_are_no_records_and_the_revision_is_0(tenants: TenantStore) -> None:
    assert await tenants.load() == StoredTenants((), 0)
    assert await tenants.revision() == 0


async def test_a_record_is_read_as_it_was_written_and_all_by_their_ids(
    tenants: TenantStore,
) -> None:
    await tenants.put(GLOBEX, 0)
    await tenants.put(ACME, 1)
    assert await tenants.load() == StoredTenants((ACME, GLOBEX), 2)
    assert await tenants.revision() == 2


async def test_a_record_is_written_over_the_one_that_is_there(tenants: TenantStore) -> None:
    await tenants.put(ACME, 0)
    heavier = ACME.model_copy(update={"weight": 4.0})
    await tenants.put(heavier, 1)
    assert (await tenants.load()).records == (heavier,)


async def test_a_deleted_record_is_known_to_be_gone_and_may_be_made_again(
    tenants: TenantStore,
) -> None:
    await tenants.put(ACME, 0)
    await tenants.put(GLOBEX, 1)
    await tenants.delete("acme", 2)
    assert await tenants.load() == StoredTenants((GLOBEX,), 3, frozenset({"acme"}))
    await tenants.put(ACME, 3)
    assert await tenants.load() == StoredTenants((ACME, GLOBEX), 4)


async def test_who_has_not_seen_the_newest_change_changes_nothing(tenants: TenantStore) -> None:
    await tenants.put(ACME, 0)
    for stale in (0, 2):
        with pytest.raises(TenantChanged):
            await tenants.put(GLOBEX, stale)
        with pytest.raises(TenantChanged):
            await tenants.delete("acme", stale)
    assert await tenants.load() == StoredTenants((ACME,), 1)


async def test_of_two_administrators_at_once_one_has_to_load_again(tenants: TenantStore) -> None:
    await tenants.put(ACME, 0)
    versions = [ACME.model_copy(update={"weight": weight}) for weight in (2.0, 3.0)]
    outcomes = await asyncio.gather(
        *(tenants.put(each, 1) for each in versions), return_exceptions=True
    )
    assert sorted(isinstance(it, TenantChanged) for it in outcomes) == [False, True]
    kept = versions[outcomes.index(None)]
    assert await tenants.load() == StoredTenants((kept,), 2)


@pytest.mark.parametrize("whole_after", [2, 99])
async def test_half_of_a_change_in_dynamodb_is_never_taken_for_all_of_it(
    dynamodb_stores: DynamoDBStores, whole_after: int
) -> None:
    """The row of the revision shows first, and that of the record some looks later."""
    client, table = dynamodb_stores.client, str(dynamodb_stores.tables.tenants)
    store = DynamoDBTenantStore(client, table, lambda: None)
    await store.put(GLOBEX, 0)
    of_revision, of_record = change(table, ACME, 1)
    await client.transact_write_items(TransactItems=[of_revision])
    looks = 0

    async def query(**request: object) -> object:
        nonlocal looks
        looks += 1
        if looks == whole_after:
            await client.transact_write_items(TransactItems=[of_record])
        return await client.query(**request)

    loading = DynamoDBTenantStore(SimpleNamespace(query=query), table, lambda: None).load()
    if whole_after == 2:
        assert await loading == StoredTenants((ACME, GLOBEX), 2)
        assert looks == 2
    else:
        with pytest.raises(StoreUnavailable):
            await loading
