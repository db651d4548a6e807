"""The leases of nodes in DynamoDB, in one partition of the responses' table: one Query reads all.

A lease covers all responses of a node, so renewing costs one write however many there are.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from botocore.exceptions import ClientError

from evenflow.stream_aws.attributes import Item, flag, number, seconds, text
from evenflow.stream_aws.dynamodb import Client, condition_failed, query_all, repeated
from evenflow.stream_aws.tables import TTL_ATTRIBUTE
from evenflow.stream_core.stores.response_store import LIFETIME_SECONDS, LeaseLost, NodeLease

_PARTITION = "leases"


class DynamoDBLeases:
    """The part of `ResponseStore` that is about nodes.

    Args:
        client: an aiobotocore client made with `client_config`.
        table: the table of responses.
        on_retry: called before each retry.
    """

    def __init__(self, client: Client, table: str, on_retry: Callable[[], None]) -> None:
        self._client = client
        self._table = table
        self._on_retry = on_retry
        self._renewed_owners: set[str] = set()
        self.known_lost: set[str] = set()
        """Owners that have lost their lease. That is final, so it is not read again."""

    async def renew(self, owner: str, until: float, address: str | None) -> None:
        item = {
            **_key(owner),
            "owned_until": number(until),
            TTL_ATTRIBUTE: seconds(until + LIFETIME_SECONDS),
        }
        if address is not None:
            item["address"] = text(address)
        # A renewal that was delayed on its way must not shorten a later one.
        condition = "owned_until <= :until AND attribute_not_exists(lost)"
        # If this node took the lease and it is gone, then it was lost and has been forgotten.
        if owner not in self._renewed_owners:
            condition = f"attribute_not_exists(owned_until) OR ({condition})"
        request = {
            "TableName": self._table,
            "Item": item,
            "ConditionExpression": condition,
            "ExpressionAttributeValues": {":until": number(until)},
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        try:
            await repeated(lambda: self._client.put_item(**request), self._on_retry)
        except ClientError as error:
            if not condition_failed(error):
                raise
            stored_item = error.response.get("Item")
            if stored_item is None or _read(stored_item).lost:
                raise LeaseLost(f"the lease of {owner} is lost; take another name") from error
        self._renewed_owners.add(owner)

    async def release(self, owner: str) -> None:
        await self._update(
            owner, "SET lost = :true", "attribute_exists(owned_until)", {":true": flag(True)}
        )

    async def declare_lost(self, owner: str, until: float | None, now: float) -> bool:
        """Declare a lease lost if it was never taken, or not renewed since it was until `until`.

        Returns:
            Whether it is lost.
        """
        if owner not in self.known_lost:
            update = (
                "SET lost = :true, owned_until = if_not_exists(owned_until, :never), "
                f"{TTL_ATTRIBUTE} = if_not_exists({TTL_ATTRIBUTE}, :expires)"
            )
            condition = "attribute_not_exists(owned_until) OR lost = :true"
            values = {
                ":true": flag(True),
                ":never": number(0),
                ":expires": seconds(now + LIFETIME_SECONDS),
            }
            if until is not None:
                condition += " OR owned_until = :until"
                values[":until"] = number(until)
            if not await self._update(owner, update, condition, values):
                return False
            self.known_lost.add(owner)
        return True

    async def lease(self, owner: str) -> NodeLease | None:
        request = {"TableName": self._table, "Key": _key(owner), "ConsistentRead": True}
        answer = await repeated(lambda: self._client.get_item(**request), self._on_retry)
        return _read(answer["Item"]) if "Item" in answer else None

    async def leases(self) -> Sequence[NodeLease]:
        request = {
            "TableName": self._table,
            "ConsistentRead": True,
            "KeyConditionExpression": "response_id = :leases",
            "ExpressionAttributeValues": {":leases": text(_PARTITION)},
        }
        leases = [_read(item) for item in await query_all(self._client, request, self._on_retry)]
        self.known_lost = {lease.owner for lease in leases if lease.lost}
        return leases

    async def forget(self, owner: str) -> None:
        request = {
            "TableName": self._table,
            "Key": _key(owner),
            "ConditionExpression": "lost = :true",
            "ExpressionAttributeValues": {":true": flag(True)},
        }
        await self._holds(lambda: self._client.delete_item(**request))

    async def _update(self, owner: str, update: str, condition: str, values: Item) -> bool:
        """Update a lease. Returns whether the condition held."""
        request = {
            "TableName": self._table,
            "Key": _key(owner),
            "UpdateExpression": update,
            "ConditionExpression": condition,
            "ExpressionAttributeValues": values,
        }
        return await self._holds(lambda: self._client.update_item(**request))

    async def _holds(self, call: Callable[[], Awaitable[object]]) -> bool:
        """Make a call. Returns whether its condition held."""
        try:
            await repeated(call, self._on_retry)
        except ClientError as error:
            if not condition_failed(error):
                raise
            return False
        return True


def _key(owner: str) -> Item:
    return {"response_id": text(_PARTITION), "position": text(owner)}


def _read(item: Item) -> NodeLease:
    return NodeLease(
        owner=item["position"]["S"],
        until=float(item["owned_until"]["N"]),
        lost="lost" in item,
        address=item["address"]["S"] if "address" in item else None,
    )
