"""Counts the bytes of each tenant's messages in DynamoDB and S3, over all nodes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from evenflow.stream_aws.attributes import number, seconds, text
from evenflow.stream_aws.dynamodb import Client, query_all, repeated
from evenflow.stream_aws.tables import TTL_ATTRIBUTE
from evenflow.stream_aws.usage_items import key_of
from evenflow.stream_core.stores.session_store import StoreFull
from evenflow.stream_core.tenants.budget import day_of

_logger = logging.getLogger(__name__)

# The rows are named by this and the day on which what they count expires.
_ROW = "kept#"
_DAY_SECONDS = 86_400.0
# While messages come, a tenant's counts are exchanged this often, or when a node has accepted one
# part of this many of the bound.
_EXCHANGE_SECONDS = 30.0
_UNSENT_PART = 64
# Where no key is needed, clients choose the names of tenants.
_MOST_TENANTS = 16_384


@dataclass(slots=True)
class _TenantBytes:
    """The bytes of one tenant as this node knows them, by the day on which they expire."""

    stored: Counter[str] = field(default_factory=Counter)
    """As the table had them at the last exchange."""
    unsent: Counter[str] = field(default_factory=Counter)
    """What this node has accepted since."""
    exchanged_at: float = 0.0
    is_exchanging: bool = False

    def bytes_from(self, day: str) -> int:
        """The bytes that have not expired on this day."""
        counts = (*self.stored.items(), *self.unsent.items())
        return sum(size for expires_on, size in counts if expires_on >= day)


class DynamoDBKeptBytes:
    """Counts the bytes of each tenant's messages, and rejects messages above the bound.

    A node decides by the counts it has, without a call. In the background it adds what it has
    accepted to rows that all nodes share, one for each day of expiry, and reads what other nodes
    have added. So a tenant may exceed its bound by what it sends in half a minute.

    Args:
        client: an aiobotocore client made with `client_config`.
        table: the table of tenants.
        on_retry: called before each retry.
        most_bytes: the bound of each tenant.
    """

    def __init__(
        self, client: Client, table: str, on_retry: Callable[[], None], most_bytes: int
    ) -> None:
        self._client = client
        self._table = table
        self._on_retry = on_retry
        self._most_bytes = most_bytes
        self._tenants: dict[str, _TenantBytes] = {}
        self._exchanges: set[asyncio.Task[None]] = set()

    def check(self, tenant: str, size: int, now: float) -> None:
        """Check that a message of `size` bytes may be kept.

        Raises:
            StoreFull: the tenant would exceed its bound.
        """
        tenant_bytes = self._tenants.get(tenant)
        if (
            tenant_bytes is not None
            and tenant_bytes.bytes_from(day_of(now)) + size > self._most_bytes
        ):
            self._begin_exchange(tenant, tenant_bytes, now)
            raise StoreFull

    def add(self, tenant: str, size: int, expires_at: float, now: float) -> None:
        """Add the bytes of an accepted message until it expires. Deleted bytes are less than 0."""
        tenant_bytes = self._tenants.pop(tenant, None) or _TenantBytes()
        self._tenants[tenant] = tenant_bytes
        tenant_bytes.unsent[day_of(expires_at)] += size
        self._begin_exchange(tenant, tenant_bytes, now)
        if len(self._tenants) > _MOST_TENANTS:
            del self._tenants[next(iter(self._tenants))]

    def _begin_exchange(self, tenant: str, tenant_bytes: _TenantBytes, now: float) -> None:
        is_much = tenant_bytes.unsent.total() > self._most_bytes // _UNSENT_PART
        is_due = is_much or now - tenant_bytes.exchanged_at >= _EXCHANGE_SECONDS
        if tenant_bytes.is_exchanging or not is_due:
            return
        tenant_bytes.is_exchanging, tenant_bytes.exchanged_at = True, now
        exchange = asyncio.get_running_loop().create_task(self._exchange(tenant, tenant_bytes, now))
        self._exchanges.add(exchange)
        exchange.add_done_callback(self._exchanges.discard)

    async def _exchange(self, tenant: str, tenant_bytes: _TenantBytes, now: float) -> None:
        unsent, tenant_bytes.unsent = tenant_bytes.unsent, Counter()
        tenant_bytes.stored.update(unsent)
        try:
            for day, size in [*unsent.items()]:
                await self._add(tenant, day, size)
                del unsent[day]
            tenant_bytes.stored = await self._read(tenant, now)
        except Exception as error:
            tenant_bytes.stored.subtract(unsent)
            tenant_bytes.unsent.update(unsent)
            _logger.warning(
                "the bytes that tenants have in the store can't be exchanged between nodes; they "
                "are counted here, and the next exchange adds them: %s",
                error,
            )
        finally:
            tenant_bytes.is_exchanging = False

    async def _add(self, tenant: str, day: str, size: int) -> None:
        day_begins_at = datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()
        request = {
            "TableName": self._table,
            "Key": key_of(tenant, f"{_ROW}{day}"),
            "UpdateExpression": "SET #expires = :expires ADD kept :size",
            "ExpressionAttributeNames": {"#expires": TTL_ATTRIBUTE},
            "ExpressionAttributeValues": {
                # The row is read until its day has ended.
                ":expires": seconds(day_begins_at + 2 * _DAY_SECONDS),
                ":size": number(size),
            },
        }
        await repeated(lambda: self._client.update_item(**request), self._on_retry)

    async def _read(self, tenant: str, now: float) -> Counter[str]:
        request = {
            "TableName": self._table,
            "ConsistentRead": True,
            "KeyConditionExpression": "tenant = :tenant AND #row BETWEEN :first AND :last",
            "ExpressionAttributeNames": {"#row": "row"},
            "ExpressionAttributeValues": {
                ":tenant": text(tenant),
                ":first": text(f"{_ROW}{day_of(now)}"),
                ":last": text(f"{_ROW}\uffff"),
            },
        }
        items = await query_all(self._client, request, self._on_retry)
        return Counter(
            {item["row"]["S"].removeprefix(_ROW): int(item["kept"]["N"]) for item in items}
        )
