"""How much the messages of each tenant take in DynamoDB and S3, over all tasks."""

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
from evenflow.stream_core.ports.session_store import StoreFull
from evenflow.stream_core.tenants.budget import day_of

_logger = logging.getLogger(__name__)

# The beginning of the rows: the day follows on which what is counted expires.
_ROW = "kept#"
_DAY_SECONDS = 86_400.0
# A row a tenant is written so often while messages come, or as soon as a task has accepted so much.
_EACH_SECONDS = 30.0
_SENT_PART = 64
# Names of tenants may be anybody's where no key is needed.
_MOST_TENANTS = 16_384


@dataclass(slots=True)
class _Tenant:
    """What a task knows of one: bytes by day."""

    kept: Counter[str] = field(default_factory=Counter)
    """As the table had them last."""
    unsent: Counter[str] = field(default_factory=Counter)
    """What this task has accepted since."""
    sent_at: float = 0.0
    is_sending: bool = False

    def bytes_from(self, day: str) -> int:
        """What has not expired on this day."""
        counts = (*self.kept.items(), *self.unsent.items())
        return sum(size for expires_on, size in counts if expires_on >= day)


class DynamoDBKeptBytes:
    """Counts what is kept of each tenant's messages, and refuses what is over the bound.

    A task decides by what it knows, without a call. It adds what it has accepted to rows that all
    tasks share, one for each day on which something expires, and reads there what others have
    added. So a tenant may have more than its bound by what it sends in half a minute.

    Args:
        client: an aiobotocore client made with `client_config`.
        table: the table of tenants.
        on_retry: called before each retry.
        most_bytes: that each tenant may have.
    """

    def __init__(
        self, client: Client, table: str, on_retry: Callable[[], None], most_bytes: int
    ) -> None:
        self._client = client
        self._table = table
        self._on_retry = on_retry
        self._most_bytes = most_bytes
        self._tenants: dict[str, _Tenant] = {}
        self._sending: set[asyncio.Task[None]] = set()

    def check(self, tenant: str, size: int, now: float) -> None:
        """Check that a message of `size` bytes may be kept.

        Raises:
            StoreFull: the tenant would have more than it may.
        """
        known = self._tenants.get(tenant)
        if known is not None and known.bytes_from(day_of(now)) + size > self._most_bytes:
            self._exchange(tenant, known, now)
            raise StoreFull

    def add(self, tenant: str, size: int, expires_at: float, now: float) -> None:
        """Count what has been accepted, or deleted (less than 0), until it expires."""
        known = self._tenants.pop(tenant, None) or _Tenant()
        self._tenants[tenant] = known
        known.unsent[day_of(expires_at)] += size
        self._exchange(tenant, known, now)
        if len(self._tenants) > _MOST_TENANTS:
            del self._tenants[next(iter(self._tenants))]

    def _exchange(self, tenant: str, known: _Tenant, now: float) -> None:
        is_much = known.unsent.total() > self._most_bytes // _SENT_PART
        if known.is_sending or not (is_much or now - known.sent_at >= _EACH_SECONDS):
            return
        known.is_sending, known.sent_at = True, now
        sending = asyncio.get_running_loop().create_task(self._send(tenant, known, now))
        self._sending.add(sending)
        sending.add_done_callback(self._sending.discard)

    async def _send(self, tenant: str, known: _Tenant, now: float) -> None:
        sent, known.unsent = known.unsent, Counter()
        known.kept.update(sent)
        try:
            for day, size in [*sent.items()]:
                await self._add(tenant, day, size)
                del sent[day]
            known.kept = await self._read(tenant, now)
        except Exception as error:
            known.unsent.update(sent)
            _logger.warning("what tenants have in the store is not known now: %s", error)
        finally:
            known.is_sending = False

    async def _add(self, tenant: str, day: str, size: int) -> None:
        # The row outlives its day, by which it is read.
        began_at = datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()
        request = {
            "TableName": self._table,
            "Key": key_of(tenant, f"{_ROW}{day}"),
            "UpdateExpression": "SET #expires = :expires ADD kept :size",
            "ExpressionAttributeNames": {"#expires": TTL_ATTRIBUTE},
            "ExpressionAttributeValues": {
                ":expires": seconds(began_at + 2 * _DAY_SECONDS),
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
