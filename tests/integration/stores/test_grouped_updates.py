"""Conditional updates that are made together, against what they are one by one."""

from __future__ import annotations

import asyncio

import pytest

from evenflow.stream_core.stores.response_store import (
    Lease,
    LeaseLost,
    StoredEntries,
    StoreUnavailable,
)
from tests.integration.dynamodb_faults import Fault
from tests.integration.stores.conftest import DynamoDBStores
from tests.integration.stores.stores import NOW, completed, lease_of, new_name


async def lost_responses(stores: DynamoDBStores, count: int) -> list[Lease]:
    """Responses of a task whose lease is known to be lost."""
    owner = new_name("task")
    left = [await stores.begin(owner) for _ in range(count)]
    await stores.responses.renew(owner, NOW + 10)
    (lease,) = [each for each in await stores.responses.leases() if each.owner == owner]
    assert await stores.responses.declare_lost(lease)
    return left


async def all_taken(
    stores: DynamoDBStores, left: list[Lease], taker: str
) -> list[StoredEntries | None]:
    """Take all of them over at once."""
    return await asyncio.gather(
        *(stores.responses.take_over(lease.response_id, taker, NOW + 10) for lease in left)
    )


async def test_many_take_overs_at_once_need_two_transactions_of_25(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    left = await lost_responses(stores, 25)
    taker = new_name("task")
    before = stores.dynamodb.requests.copy()
    taken = await all_taken(stores, left, taker)
    assert {lease_of(each) for each in taken} == {
        Lease(lease.response_id, taker, 2) for lease in left
    }
    made = stores.dynamodb.requests - before
    assert made["Query"] == 25
    # All claims are one; how the reading after them is spread over time is not in our hands.
    assert made["UpdateItem"] + made["TransactWriteItems"] <= 11
    assert stores.dynamodb.refused == []


async def test_a_failed_condition_leaves_the_others_of_its_group_alone(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    left = await lost_responses(stores, 12)
    another = stores.of_another_task()
    await another.leases()
    theirs, others = left[3:6], new_name("task")
    for lease in theirs:
        assert await another.take_over(lease.response_id, others, NOW + 10) is not None
    await another.renew(others, NOW + 20)
    await another.finish(Lease(theirs[0].response_id, others, 2), completed(0), NOW + 300)
    taken = await all_taken(stores, left, "taker")
    assert [lease for lease, entries in zip(left, taken, strict=True) if entries is None] == theirs
    for lease in theirs:
        head = await stores.responses.head(lease.response_id, NOW)
        assert head is not None
        assert head.owner == others


async def test_of_two_tasks_that_take_over_all_at_once_each_response_goes_to_one(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    left = await lost_responses(stores, 20)
    another = stores.of_another_task()
    await another.leases()
    for name, store in (("a", stores.responses), ("b", another)):
        await store.renew(name, NOW + 20)
    mine, theirs = await asyncio.gather(
        all_taken(stores, left, "a"),
        asyncio.gather(
            *(another.take_over(lease.response_id, "b", NOW + 10) for lease in reversed(left))
        ),
    )
    assert [entry is None for entry in mine] == [entry is not None for entry in reversed(theirs)]


@pytest.mark.usefixtures("short_pauses")
async def test_an_unreachable_store_fails_the_whole_group_and_a_repetition_finds_it_done(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    left = await lost_responses(stores, 6)
    for operation in ("UpdateItem", "TransactWriteItems"):
        stores.dynamodb.inject(Fault.RESET_AFTER, operation)
    outcomes = await asyncio.gather(
        *(stores.responses.take_over(lease.response_id, "taker", NOW) for lease in left),
        return_exceptions=True,
    )
    assert all(isinstance(outcome, StoreUnavailable) for outcome in outcomes)
    await stores.dynamodb.heal()
    taken = await all_taken(stores, left, "taker")
    assert [lease_of(each) for each in taken] == [
        Lease(lease.response_id, "taker", 2) for lease in left
    ]


async def test_an_update_that_is_given_up_while_it_waits_is_not_made(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    first, given_up, last = [await stores.begin(new_name("task")) for _ in range(3)]
    held = stores.dynamodb.hold("UpdateItem")
    handing = [asyncio.create_task(stores.responses.hand_over(first))]
    await held.reached.wait()
    handing += [
        asyncio.create_task(stores.responses.hand_over(lease)) for lease in (given_up, last)
    ]
    await asyncio.sleep(0)
    handing[1].cancel()
    held.released.set()
    await asyncio.gather(handing[0], handing[2])
    heads = [await stores.responses.head(each.response_id, NOW) for each in (first, given_up, last)]
    assert [head.hand_overs for head in heads if head] == [1, 0, 1]


async def test_who_is_cancelled_with_a_group_in_its_hands_leaves_it_to_the_next(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    leases = [await stores.begin(new_name("task")) for _ in range(4)]
    alone, group = stores.dynamodb.hold("UpdateItem"), stores.dynamodb.hold("TransactWriteItems")
    handing = [asyncio.create_task(stores.responses.hand_over(leases[0]))]
    await alone.reached.wait()
    handing += [asyncio.create_task(stores.responses.hand_over(lease)) for lease in leases[1:]]
    await asyncio.sleep(0)
    alone.released.set()
    await group.reached.wait()
    handing[1].cancel()
    group.released.set()
    await asyncio.gather(handing[0], *handing[2:])
    for lease in leases[2:]:
        head = await stores.responses.head(lease.response_id, NOW)
        assert head is not None
        assert head.hand_overs == 1


async def test_an_owner_that_lost_one_of_a_group_hears_which(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    (lost,) = await lost_responses(stores, 1)
    await stores.responses.take_over(lost.response_id, "b", NOW)
    mine = [await stores.begin(new_name("task")) for _ in range(3)]
    outcomes = await asyncio.gather(
        *(stores.responses.hand_over(lease) for lease in (*mine, lost)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [type(None)] * 3 + [LeaseLost]
