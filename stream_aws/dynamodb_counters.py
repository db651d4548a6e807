"""Counters of budgets in DynamoDB: one row, or several where a budget is large and new."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from evenflow.stream_aws.attributes import Item, flag, number, seconds
from evenflow.stream_aws.dynamodb import (
    Client,
    condition_failed,
    get_all,
    passes,
    repeated,
    transact,
)
from evenflow.stream_aws.tables import TTL_ATTRIBUTE
from evenflow.stream_aws.usage_items import COUNTER, key_of
from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.tenants.usage_store import COUNTERS_KEPT_SECONDS

SHARDS = 16
"""Rows that a large budget's counter is in."""

_ASKS_PER_SHARD = 50
_MOST_KNOWN = 10_000
_LOOK_SECONDS = 0.1
# Each try reads the state that made the last one fail.
_TRIES = 20


class DynamoDBCounters:
    """The counters of budgets.

    A counter is one row, `committed`. A reservation is made on the condition that there is room, so
    transactions of nodes conflict at a busy tenant's row. So the counter of a large budget begins
    as `SHARDS` rows, each with a share of the bound: its `committed` and its `room`. A node changes
    one of them. When no row has room for an answer, or the bound has changed, the rows are folded
    into one, until the budget's period ends.

    Args:
        client: an aiobotocore client made with `client_config`.
        table: of tenants.
        on_retry: called before each retry.
    """

    def __init__(self, client: Client, table: str, on_retry: Callable[[], None]) -> None:
        self._client = client
        self._table = table
        self._on_retry = on_retry
        # The bound of a counter that is split. None: it is one row.
        self._split: dict[tuple[str, str], int | None] = {}
        self._own_shard: dict[tuple[str, str], int] = {}

    # -- writing -----------------------------------------------------------------------------------

    async def look_at(
        self, tenant: str, amounts: Mapping[str, int], bounds: Mapping[str, int], now: float
    ) -> None:
        """Look up in how many rows these counters are, and create missing ones.

        Args:
            amounts: what an answer may take, by counter.
            bounds: by counter. A counter without one is created as one row.
        """
        if len(self._split) > _MOST_KNOWN:
            self._split.clear()
            self._own_shard.clear()
        for _ in range(_TRIES):
            unknown = [name for name in amounts if (tenant, name) not in self._split]
            if not unknown:
                break
            rows = await self._rows([_key(tenant, name) for name in unknown])
            for name in unknown:
                item, bound = rows.get(_row(name)), bounds.get(name, 0)
                # A user's messages come one by one: there are no conflicts.
                is_large = "/user/" not in name and bound >= _least(amounts[name])
                if item is None and is_large:
                    await self._begin_split(tenant, name, bound, now)
                else:
                    self._note(tenant, name, item)
        else:
            raise _changing(tenant)
        for name, bound in bounds.items():
            if self._split.get((tenant, name), bound) not in (None, bound):
                await self._fold(tenant, name)

    def add(
        self, tenant: str, name: str, added: int, now: float, most_before: int | None = None
    ) -> Item:
        """The action that changes a counter.

        Args:
            most_before: the most that may be committed before, for a counter of one row. None: any.
        """
        if self._split.get((tenant, name)) is None:
            conditions = ["attribute_not_exists(#split)"]
            if most_before is not None:
                conditions.append("(attribute_not_exists(#committed) OR #committed <= :most)")
            return self._update(_key(tenant, name), added, now, conditions, most=most_before)
        conditions = ["attribute_exists(#room)", "attribute_not_exists(#frozen)"]
        if added > 0:
            conditions.append("#room >= :added")
        shard = self._shard(tenant, name)
        if added <= 0:
            # Ending answers use another row than beginning ones, so as not to conflict.
            shard = (shard + SHARDS // 2) % SHARDS
        return self._update(_key(tenant, name, shard), added, now, conditions, room=-added)

    async def learn(
        self, tenant: str, failed: Mapping[str, Item | None], needs: Mapping[str, int]
    ) -> None:
        """Update what is known of counters after their conditions failed.

        Args:
            failed: their rows. None: there is no row.
            needs: the room that one row must have, by counter.
        """
        for name, item in failed.items():
            if self._split.get((tenant, name)) is None or item is None or "frozen" in item:
                self._split.pop((tenant, name), None)
                if item is not None and "frozen" in item:
                    await self._fold(tenant, name)
            else:
                await self._move(tenant, name, needs.get(name, 0))

    # -- reading -----------------------------------------------------------------------------------

    async def committed(self, tenant: str, names: Iterable[str]) -> dict[str, int]:
        """What is committed, by counter. A counter that isn't there is left out."""
        unread, sums = list(names), dict[str, int]()
        for _ in range(_TRIES):
            rows = await self._rows([_key(tenant, name) for name in unread])
            split = [name for name in unread if "split" in rows.get(_row(name), ())]
            sums |= {
                name: _committed(rows[_row(name)])
                for name in unread
                if _row(name) in rows and name not in split
            }
            shards = await self._rows(
                [_key(tenant, name, shard) for name in split for shard in range(SHARDS)]
            )
            unread = []
            for name in split:
                items = [shards.get(_row(name, shard)) for shard in range(SHARDS)]
                if None in items:
                    unread.append(name)  # folded between the two reads
                else:
                    sums[name] = sum(map(_committed, items))
            if not unread:
                return sums
        raise _changing(tenant)

    # -- splitting and folding ---------------------------------------------------------------------

    async def _begin_split(self, tenant: str, name: str, bound: int, now: float) -> None:
        """Make the rows of a large budget, unless another node does."""
        share, remainder = divmod(bound, SHARDS)
        common = {TTL_ATTRIBUTE: seconds(now + COUNTERS_KEPT_SECONDS), "committed": number(0)}
        items = [_key(tenant, name) | common | {"split": number(bound)}]
        items += [
            _key(tenant, name, shard) | common | {"room": number(share + (shard < remainder))}
            for shard in range(SHARDS)
        ]
        puts: list[Item] = [{"TableName": self._table, "Item": item} for item in items]
        puts[0]["ConditionExpression"] = "attribute_not_exists(committed)"
        try:
            await self._client.transact_write_items(TransactItems=[{"Put": item} for item in puts])
        except Exception as error:
            if passes(error):
                # Most likely other nodes create it, too. The next read shows whether one has.
                self._on_retry()
                await asyncio.sleep(random.uniform(0, _LOOK_SECONDS))
            elif not (isinstance(error, ClientError) and condition_failed(error)):
                raise

    async def _move(self, tenant: str, name: str, need: int) -> None:
        """Change to the row with most room. Fold the rows if none has enough."""
        rows = await self._rows([_key(tenant, name, shard) for shard in range(SHARDS)])
        rooms = {
            shard: int(rows[_row(name, shard)]["room"]["N"])
            for shard in range(SHARDS)
            if _row(name, shard) in rows
        }
        best = max(rooms, key=rooms.__getitem__, default=None)
        if best is None:
            self._split.pop((tenant, name), None)
        elif rooms[best] >= need:
            self._own_shard[tenant, name] = best
        else:
            await self._fold(tenant, name)

    async def _fold(self, tenant: str, name: str) -> None:
        """Fold the rows into one. They are frozen first, so that no node changes them."""
        keys = [_key(tenant, name, shard) for shard in range(SHARDS)]
        await asyncio.gather(*(self._freeze(key) for key in keys))
        for _ in range(_TRIES):
            rows = await self._rows([_key(tenant, name), *keys])
            main = rows.pop(_row(name), None)
            if main is None or "split" not in main:
                break
            total = _committed(main) + sum(map(_committed, rows.values()))
            folded = {
                "TableName": self._table,
                "Key": _key(tenant, name),
                "UpdateExpression": "SET #committed = :total REMOVE #split",
                "ConditionExpression": "attribute_exists(#split)",
                "ExpressionAttributeNames": {"#committed": "committed", "#split": "split"},
                "ExpressionAttributeValues": {":total": number(total)},
            }
            if await self._done([{"Update": folded}, *map(self._delete, rows.values())]):
                break
        self._split[tenant, name] = None

    async def _freeze(self, key: Item) -> None:
        request = {
            "TableName": self._table,
            "Key": key,
            "UpdateExpression": "SET frozen = :true",
            "ConditionExpression": "attribute_exists(room)",
            "ExpressionAttributeValues": {":true": flag(True)},
        }
        try:
            await repeated(lambda: self._client.update_item(**request), self._on_retry)
        except ClientError as error:
            if not condition_failed(error):  # another node has folded them
                raise

    def _delete(self, item: Item) -> Item:
        return {
            "Delete": {
                "TableName": self._table,
                "Key": {name: item[name] for name in ("tenant", "row")},
                "ConditionExpression": "#committed = :committed",
                "ExpressionAttributeNames": {"#committed": "committed"},
                "ExpressionAttributeValues": {":committed": item["committed"]},
            }
        }

    # -- parts -------------------------------------------------------------------------------------

    def _update(
        self,
        key: Item,
        added: int,
        now: float,
        conditions: Sequence[str],
        *,
        most: int | None = None,
        room: int | None = None,
    ) -> Item:
        names = {"#expires": TTL_ATTRIBUTE, "#committed": "committed"}
        values = {":expires": seconds(now + COUNTERS_KEPT_SECONDS), ":added": number(added)}
        add = "#committed :added"
        if room is None:
            names["#split"] = "split"
        else:
            names |= {"#room": "room", "#frozen": "frozen"}
            values[":room"] = number(room)
            add += ", #room :room"
        if most is not None:
            values[":most"] = number(most)
        update: dict[str, Any] = {
            "TableName": self._table,
            "Key": key,
            "UpdateExpression": f"SET #expires = :expires ADD {add}",
            "ConditionExpression": " AND ".join(conditions),
            "ExpressionAttributeNames": names,
            "ExpressionAttributeValues": values,
            "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
        }
        return {"Update": update}

    def _shard(self, tenant: str, name: str) -> int:
        return self._own_shard.setdefault((tenant, name), random.randrange(SHARDS))

    def leave_shards(self, tenant: str) -> None:
        """Choose other rows, after a conflict at these."""
        for each in [each for each in self._own_shard if each[0] == tenant]:
            del self._own_shard[each]

    def _note(self, tenant: str, name: str, item: Item | None) -> None:
        is_split = item is not None and "split" in item
        self._split[tenant, name] = int(item["split"]["N"]) if item and is_split else None

    async def _done(self, actions: list[Item]) -> bool:
        try:
            await transact(self._client, actions, self._on_retry)
        except ClientError as error:
            if not condition_failed(error):
                raise
            return False
        return True

    async def _rows(self, keys: Sequence[Item]) -> dict[str, Item]:
        items = await get_all(self._client, self._table, keys, self._on_retry)
        return {item["row"]["S"]: item for item in items}


def _row(name: str, shard: int | None = None) -> str:
    return COUNTER + name if shard is None else f"{COUNTER}{name}#{shard:02}"


def _key(tenant: str, name: str, shard: int | None = None) -> Item:
    return key_of(tenant, _row(name, shard))


def _changing(tenant: str) -> StoreUnavailable:
    return StoreUnavailable(f"counters of {tenant} change their form all the time")


def _least(amount: int) -> int:
    """The smallest bound that is split: each share has room for many answers."""
    return SHARDS * _ASKS_PER_SHARD * max(1, amount)


def _committed(item: Item | None) -> int:
    return int(item["committed"]["N"]) if item is not None else 0
