"""The tenants' records in DynamoDB."""

from __future__ import annotations

from collections.abc import Callable

from botocore.exceptions import ClientError

from evenflow.stream_aws.dynamodb import Client, condition_failed, query_all, repeated, transact
from evenflow.stream_aws.tenant_items import (
    change,
    read_records,
    read_revision,
    records_request,
    revision_request,
)
from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.tenants.tenant import Tenant
from evenflow.stream_core.tenants.tenant_store import StoredTenants, TenantChanged

# To apply the rest of a transaction takes DynamoDB milliseconds.
_MOST_LOOKS = 5


class DynamoDBTenantStore:
    """The tenants' records in DynamoDB (`TenantStore`).

    Args:
        client: an aiobotocore client made with `client_config`.
        on_retry: called before each retry.
    """

    def __init__(self, client: Client, table: str, on_retry: Callable[[], None]) -> None:
        self._client = client
        self._table = table
        self._on_retry = on_retry

    async def revision(self) -> int:
        request = revision_request(self._table)
        answer = await repeated(lambda: self._client.get_item(**request), self._on_retry)
        return read_revision(answer.get("Item"))

    async def load(self) -> StoredTenants:
        request = records_request(self._table)
        for _ in range(_MOST_LOOKS):
            stored = read_records(await query_all(self._client, request, self._on_retry))
            if stored is not None:
                return stored
        raise StoreUnavailable("DynamoDB has shown half of a change of the tenants' records")

    async def put(self, tenant: Tenant, revision: int) -> None:
        actions = change(self._table, tenant, revision)
        try:
            await transact(self._client, actions, self._on_retry)
        except ClientError as error:
            if not condition_failed(error):
                raise
            raise TenantChanged(f"the records are no longer at revision {revision}") from error

    async def delete(self, tenant_id: str, revision: int) -> None:
        await self.put(Tenant(id=tenant_id, removed=True), revision)
