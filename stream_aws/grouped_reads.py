"""Reads of single items, several of them in one request where many are made at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evenflow.stream_aws.attributes import Item
from evenflow.stream_aws.dynamodb import MOST_READS, Client, get_all, repeated
from evenflow.stream_aws.grouped_calls import GroupedCalls

# Requests under way at once. With one, a reply that never comes would hold up all further reads.
_AT_ONCE = 2


class GroupedReads:
    """Reads items of one table.

    A read that comes alone is a GetItem. Those that come while requests are under way are read
    together after them, in one BatchGetItem: when hundreds of clients reconnect, one of 50 costs
    this node and DynamoDB's front end a twentieth of 50 requests, and the same read units.

    Args:
        client: an aiobotocore client made with `client_config`.
        on_retry: called before each retry.
        consistent: whether writes of the last second are seen, at twice the price.
    """

    def __init__(
        self, client: Client, table: str, on_retry: Callable[[], None], *, consistent: bool = True
    ) -> None:
        self._client = client
        self._table = table
        self._on_retry = on_retry
        self._consistent = consistent
        self._calls: GroupedCalls[Item, Item | None] = GroupedCalls(self._read, MOST_READS)
        self._waiting = [0] * _AT_ONCE

    async def get(self, key: Item) -> Item | None:
        """The item with this key. None if there is none.

        Raises:
            StoreUnavailable: every attempt failed.
            ClientError: the call failed in another way.
        """
        lane = self._waiting.index(min(self._waiting))
        self._waiting[lane] += 1
        try:
            return await self._calls.do(str(lane), key)
        finally:
            self._waiting[lane] -= 1

    async def _read(self, _lane: str, keys: Sequence[Item]) -> list[Item | None]:
        # A BatchGetItem with the same key twice is refused.
        distinct = {str(key): key for key in keys}
        if len(distinct) == 1 and self._consistent:
            request = {"TableName": self._table, "Key": keys[0], "ConsistentRead": True}
            answer = await repeated(lambda: self._client.get_item(**request), self._on_retry)
            return [answer.get("Item")] * len(keys)
        items = await get_all(
            self._client,
            self._table,
            list(distinct.values()),
            self._on_retry,
            consistent=self._consistent,
        )
        names = tuple(keys[0])
        items_by_key = {str({name: item[name] for name in names}): item for item in items}
        return [items_by_key.get(str(key)) for key in keys]
