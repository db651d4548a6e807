"""What tenants have reserved and used, in DynamoDB."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from botocore.exceptions import ClientError

from evenflow.stream_aws.attributes import Item
from evenflow.stream_aws.dynamodb import Client, condition_failed, get_all, query_all, transact
from evenflow.stream_aws.dynamodb_counters import DynamoDBCounters
from evenflow.stream_aws.ended_days import EndedDays, by_day, days_between
from evenflow.stream_aws.grouped_calls import GroupedCalls
from evenflow.stream_aws.pauses import Pauses
from evenflow.stream_aws.usage_items import (
    COUNTER,
    RESERVED,
    TOTALS_SHARDS,
    add_to_totals,
    amounts_of,
    delete_reservation,
    first_of_records,
    first_of_totals,
    key_of,
    keys_of_record,
    put_record,
    put_reservation,
    record_in,
    reservation_of,
    rows_beginning,
    rows_request,
    totals_in,
    usage_partitions,
)
from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.tenants.budget import (
    Reservation,
    ReservationRequest,
    added_by,
    most_before,
    settlement,
    without_room,
)
from evenflow.stream_core.tenants.usage import DayTotals, UsageRecord, summed, totals_of
from evenflow.stream_core.tenants.usage_store import KEPT_SECONDS, ReservationGone

_ROWS_OF_A_TRANSACTION = 100
_ASKS_AT_ONCE = 90
_ROWS_OF_A_BATCH = 100  # that BatchGetItem takes
_READ_AT_ONCE = _ROWS_OF_A_BATCH // 3  # three rows each
# Rows of a page of a report. The event loop parses one within some milliseconds.
_PAGE_ROWS = 250
# The longest pauses, in seconds, before the next transaction after conflicts of nodes.
_LONGEST_RESERVE_PAUSE, _LONGEST_SETTLE_PAUSE = 0.2, 1.0
# Each try learns what was in its way.
_TRIES = 20


class _EndedAnswer(NamedTuple):
    record: UsageRecord
    counters: tuple[str, ...]


class DynamoDBUsageStore:
    """What tenants have reserved and used, in DynamoDB (`UsageStore`).

    A tenant's counters and reservations are in its own partition, its records and totals in
    several. A node writes one transaction at a time for a tenant, with all that waits: then a
    counter is written once for many answers.

    Args:
        client: an aiobotocore client made with `client_config`.
        table: of tenants.
        on_retry: called before each retry.
        kept_seconds: how long usage records are kept.
        wall_time: seconds since the epoch.
    """

    def __init__(
        self,
        client: Client,
        table: str,
        on_retry: Callable[[], None],
        kept_seconds: float = KEPT_SECONDS,
        wall_time: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._table = table
        self._on_retry = on_retry
        self._kept_seconds = kept_seconds
        self._ended_days = EndedDays(wall_time)
        self._counters = DynamoDBCounters(client, table, on_retry)
        # A total is in several rows. A node writes one of them until a conflict.
        self._shard = random.randrange(TOTALS_SHARDS)
        self._reserve_pauses = Pauses(_LONGEST_RESERVE_PAUSE)
        self._settle_pauses = Pauses(_LONGEST_SETTLE_PAUSE)
        self._reserving: GroupedCalls[ReservationRequest, str | None] = GroupedCalls(
            self._reserve, _ASKS_AT_ONCE, self._reserve_pauses.next
        )
        self._settling: GroupedCalls[_EndedAnswer, None] = GroupedCalls(
            self._settle, _READ_AT_ONCE, self._settle_pauses.next
        )
        # A failover of a lost node reads hundreds of reservations.
        self._finding: GroupedCalls[str, Reservation | None] = GroupedCalls(
            self._find, _ROWS_OF_A_BATCH
        )

    async def reserve(self, ask: ReservationRequest) -> str | None:
        return await self._reserving.do(ask.wanted.tenant, ask)

    async def settle(self, record: UsageRecord, counters: Iterable[str] = ()) -> None:
        await self._settling.do(record.tenant, _EndedAnswer(record, tuple(counters)))

    async def release(self, tenant: str, response_id: str) -> None:
        row = RESERVED + response_id
        for _ in range(_TRIES):
            item = (await self._rows([key_of(tenant, row)])).get(row)
            if item is None:
                return
            reserved = reservation_of(item)
            now = reserved.created_at
            await self._counters.look_at(tenant, reserved.amounts, {}, now)
            actions = [
                self._counters.add(tenant, name, -amount, now)
                for name, amount in reserved.amounts.items()
            ]
            if await self._made(tenant, [delete_reservation(self._table, item), *actions]):
                return
        raise _contended(tenant)

    async def reservations(self, tenant: str) -> Sequence[Reservation]:
        items = await self._query_all([rows_beginning(self._table, tenant, RESERVED)])
        return [reservation_of(item) for item in items]

    async def reservation(self, tenant: str, response_id: str) -> Reservation | None:
        return await self._finding.do(tenant, response_id)

    async def answers_reserved(self, tenant: str) -> int:
        return len(await self.reservations(tenant))

    async def committed(self, tenant: str, counters: Iterable[str]) -> Mapping[str, int]:
        return await self._counters.committed(tenant, counters)

    async def totals(
        self, tenant: str, first_day: str, last_day: str, user: str | None = None
    ) -> Sequence[DayTotals]:
        owner, days = (tenant, user), days_between(first_day, last_day)
        totals_by_day = self._ended_days.find(owner, days)
        missing = [day for day in days if day not in totals_by_day]
        if missing:
            if user is None:
                totals = await self._totals_of_tenant(tenant, missing)
            else:
                totals = await self._totals_of_user(tenant, missing, user)
            read = by_day(totals, missing)
            self._ended_days.remember(owner, read)
            totals_by_day |= read
        return [each for day in days for each in totals_by_day[day]]

    async def records(self, tenant: str, day: str) -> Sequence[UsageRecord]:
        return await self._records(tenant, first_of_records(day))

    async def _totals_of_tenant(self, tenant: str, days: Sequence[str]) -> list[DayTotals]:
        """The totals from the first to the last of these days."""
        bounds = {":first": first_of_totals(days[0]), ":last": first_of_totals(days[-1]) + "\uffff"}
        condition = "#row BETWEEN :first AND :last"
        items = await self._query_all(
            rows_request(self._table, partition, condition, bounds) | {"Limit": _PAGE_ROWS}
            for partition in usage_partitions(tenant)
        )
        return summed(map(totals_in, items))

    async def _totals_of_user(self, tenant: str, days: Sequence[str], user: str) -> list[DayTotals]:
        """The sums of the user's records.

        The records of a day are neighbours. A row of totals would cost a write for each answer.
        """
        totals: list[DayTotals] = []
        for day in days:
            totals += map(totals_of, await self._records(tenant, first_of_records(day, user)))
        return summed(totals)

    async def _records(self, tenant: str, beginning: str) -> list[UsageRecord]:
        items = await self._query_all(
            rows_beginning(self._table, partition, beginning) | {"Limit": _PAGE_ROWS}
            for partition in usage_partitions(tenant)
        )
        return [record_in(item) for item in items]

    async def _find(self, tenant: str, response_ids: Sequence[str]) -> Sequence[Reservation | None]:
        rows = [RESERVED + response_id for response_id in response_ids]
        items = await self._rows([key_of(tenant, row) for row in rows])
        return [reservation_of(items[row]) if row in items else None for row in rows]

    # -- writing -----------------------------------------------------------------------------------

    async def _reserve(
        self, tenant: str, asks: Sequence[ReservationRequest]
    ) -> Sequence[str | ReservationGone | None]:
        """Reserve as many as there is room for."""
        outcomes: dict[int, str | ReservationGone | None] = {}
        committed: dict[str, int] = {}
        failures, most = 0, len(asks)
        while failures < _TRIES:
            pending = [place for place in range(len(asks)) if place not in outcomes]
            refused = without_room([asks[place] for place in pending], committed)
            outcomes |= {
                place: full
                for place, full in zip(pending, refused, strict=True)
                if full is not None
            }
            pending = self._within_a_transaction(
                [place for place in pending if place not in outcomes], asks
            )[:most]
            if not pending:
                return [outcomes[place] for place in range(len(asks))]
            actions, needs = await self._reservations(tenant, [asks[place] for place in pending])
            try:
                await self._transact(tenant, actions, self._reserve_pauses)
            except ClientError as error:
                if not condition_failed(error):
                    raise
                failures += 1
                newly_committed = await self._learn(tenant, actions, error, needs)
                committed |= newly_committed
                reasons = error.response["CancellationReasons"][len(needs) :]
                for place, reason in zip(pending, reasons, strict=True):
                    if reason.get("Code") == "ConditionalCheckFailed":
                        outcomes[place] = _found_instead(asks[place], reason.get("Item"))
                if not newly_committed:
                    # Rows of a counter have room for fewer at once.
                    most = max(1, len(pending) // 2)
            else:
                outcomes |= dict.fromkeys(pending)
                failures, most = 0, 2 * len(pending)
        raise _contended(tenant)

    async def _reservations(
        self, tenant: str, asks: Sequence[ReservationRequest]
    ) -> tuple[list[Item], dict[str, int]]:
        """The actions of these reservations, counters first, and the largest amount by counter."""
        now, added, most = asks[0].wanted.created_at, added_by(asks), most_before(asks)
        bounds = {name: bound for ask in asks for name, bound in ask.bounds.items()}
        needs = dict.fromkeys(added, 0)
        for ask in asks:
            for name, amount in ask.added.items():
                needs[name] = max(needs[name], amount)
        await self._counters.look_at(tenant, needs, bounds, now)
        counters = [
            self._counters.add(tenant, name, amount, now, most.get(name))
            for name, amount in added.items()
        ]
        return [*counters, *(put_reservation(self._table, ask) for ask in asks)], needs

    async def _learn(
        self,
        tenant: str,
        actions: Sequence[Item],
        error: ClientError,
        needs: Mapping[str, int] | None = None,
    ) -> dict[str, int]:
        """Find why a transaction failed. Returns what is committed, by counter of one row.

        Args:
            needs: the room that one row must have, by counter. None: what was added.
        """
        committed: dict[str, int] = {}
        failed: dict[str, Item | None] = {}
        added: dict[str, int] = {}
        for action, reason in zip(actions, error.response["CancellationReasons"], strict=True):
            row = action.get("Update", {}).get("Key", {}).get("row", {}).get("S", "")
            if not row.startswith(COUNTER) or reason.get("Code") != "ConditionalCheckFailed":
                continue
            name, item = row.removeprefix(COUNTER).partition("#")[0], reason.get("Item")
            if item is not None and item.keys().isdisjoint({"room", "split"}):
                committed[name] = int(item["committed"]["N"])
            else:
                failed[name] = item
                added[name] = int(action["Update"]["ExpressionAttributeValues"][":added"]["N"])
        await self._counters.learn(tenant, failed, added if needs is None else needs)
        return committed

    def _within_a_transaction(
        self, places: list[int], asks: Sequence[ReservationRequest]
    ) -> list[int]:
        counters: set[str] = set()
        for count, place in enumerate(places):
            counters |= asks[place].wanted.amounts.keys()
            if len(counters) + count + 1 > _ROWS_OF_A_TRANSACTION:
                return places[:count]
        return places

    async def _settle(self, tenant: str, answers: Sequence[_EndedAnswer]) -> Sequence[None]:
        pending = list(answers)
        tries = 0
        while pending:
            rows = await self._rows([key for each in pending for key in _keys_read(each.record)])
            await self._counters.look_at(
                tenant, _counters_of(pending, rows), {}, pending[0].record.ended_at
            )
            count, actions = self._settlements(tenant, pending, rows)
            if not actions or await self._made(tenant, actions):
                del pending[:count]
                continue
            tries += 1
            if tries == _TRIES:
                raise _contended(tenant)
        return [None] * len(answers)

    def _settlements(
        self, tenant: str, answers: Sequence[_EndedAnswer], stored: Mapping[str, Item]
    ) -> tuple[int, list[Item]]:
        """The actions that settle the first ones, as many as fit, and how many these are."""
        changes: Counter[str] = Counter()
        totals: list[DayTotals] = []
        writes: list[Item] = []
        expires_at = answers[0].record.ended_at + self._kept_seconds
        actions: list[Item] = []
        for count, (record, counters) in enumerate(answers):
            if record.response_id in {each.record.response_id for each in answers[:count]}:
                return count, actions  # a transaction has an item once
            reserved = stored.get(RESERVED + record.response_id)
            rows = [key["row"]["S"] for key in keys_of_record(record)]
            records = [stored[row] for row in rows if row in stored]
            before = records[0] if records else None
            earlier = None if before is None else record_in(before)
            if earlier is None or earlier.epoch <= record.epoch:
                settled = settlement(
                    record.cost,
                    counters,
                    amounts_of(reserved, "amounts"),
                    amounts_of(before, "counted"),
                )
                replacement = record.replacing(earlier)
                changes.update(settled.changes)
                totals.append(totals_of(replacement))
                if earlier is not None:
                    emptied = DayTotals(earlier.day, earlier.model)
                    totals.append(emptied.plus(totals_of(earlier), times=-1))
                if reserved is not None:
                    writes.append(delete_reservation(self._table, reserved))
                writes.append(
                    put_record(self._table, replacement, settled.counted, before, expires_at)
                )
            now = record.ended_at
            together = [
                *writes,
                *(self._counters.add(tenant, name, added, now) for name, added in changes.items()),
                *(
                    add_to_totals(self._table, tenant, self._shard, added, expires_at)
                    for added in summed(totals)
                ),
            ]
            if len(together) > _ROWS_OF_A_TRANSACTION:
                return count, actions
            actions = together
        return len(answers), actions

    async def _made(self, tenant: str, actions: list[Item]) -> bool:
        """Make these writes. False if a row was not as it was read."""
        try:
            await self._transact(tenant, actions, self._settle_pauses)
        except ClientError as error:
            if not condition_failed(error):
                raise
            await self._learn(tenant, actions, error)
            return False
        return True

    async def _transact(self, tenant: str, actions: list[Item], pauses: Pauses) -> None:
        retries = 0

        def on_retry() -> None:
            nonlocal retries
            retries += 1
            self._shard = random.randrange(TOTALS_SHARDS)
            self._counters.leave_shards(tenant)
            self._on_retry()

        try:
            await transact(self._client, actions, on_retry)
        finally:
            if retries:
                pauses.lengthen(tenant)
            else:
                pauses.shorten(tenant)

    # -- reading -----------------------------------------------------------------------------------

    async def _rows(self, rows: Iterable[Item]) -> dict[str, Item]:
        """The rows with these keys, by their names. Missing ones are left out."""
        keys = list({key["row"]["S"]: key for key in rows}.values())
        items = await get_all(self._client, self._table, keys, self._on_retry)
        return {item["row"]["S"]: item for item in items}

    async def _query_all(self, requests: Iterable[Item]) -> list[Item]:
        """All items of these queries, in their order."""
        pages = await asyncio.gather(
            *(
                query_all(self._client, {**request, "ConsistentRead": True}, self._on_retry)
                for request in requests
            )
        )
        return [item for items in pages for item in items]


def _counters_of(answers: Sequence[_EndedAnswer], rows: Mapping[str, Item]) -> dict[str, int]:
    """The counters that these answers may change."""
    names = {name for each in answers for name in each.counters}
    for item in rows.values():
        for attribute in item.keys() & {"amounts", "counted"}:
            names |= (amounts_of(item, attribute) or {}).keys()
    return dict.fromkeys(names, 0)


def _keys_read(record: UsageRecord) -> list[Item]:
    return [key_of(record.tenant, RESERVED + record.response_id), *keys_of_record(record)]


def _found_instead(ask: ReservationRequest, item: Item | None) -> ReservationGone | None:
    """What it means that another reservation is there. None: it is this one, by an earlier try."""
    if item is not None and int(item["step"]["N"]) == ask.wanted.step:
        reservation = reservation_of(item)
        if (reservation.owner, reservation.amounts) == (ask.wanted.owner, ask.wanted.amounts):
            return None
    return ReservationGone(f"the reservation of {ask.wanted.response_id} is another one")


def _contended(tenant: str) -> StoreUnavailable:
    return StoreUnavailable(f"too many nodes change what is reserved and used by {tenant}")
