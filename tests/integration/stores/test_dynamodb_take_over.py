"""Taking over in DynamoDB takes several calls: what comes between them, and what happens when it ends between them."""

from __future__ import annotations

import asyncio

import pytest

from stream_core.response_store import Lease, LeaseLost, StoreUnavailable
from tests.integration.faulty_dynamodb import Fault
from tests.integration.stores.conftest import DynamoDBStores
from tests.integration.stores.stores import NOW, completed, new_name


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("operation", ["TransactWriteItems", "Query", "UpdateItem"])
@pytest.mark.parametrize("fault", [Fault.RESET_BEFORE, Fault.RESET_AFTER], ids=lambda fault: fault.name)
async def test_who_was_interrupted_in_taking_over_does_it_again(
    dynamodb_stores: DynamoDBStores, operation: str, fault: Fault
) -> None:
    stores = dynamodb_stores
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, ["a0", "a1"])
    taker = new_name("task")
    await stores.responses.renew(taker, NOW + 10)
    stores.dynamodb.inject(fault, operation)
    with pytest.raises(StoreUnavailable):
        await stores.responses.take_over(old.response_id, taker, NOW)
    await stores.dynamodb.heal()
    await stores.write(old, 3, ["a3"])
    seen = await stores.read(old.response_id)
    assert seen == ["a0", "a1"][: len(seen)]
    new = await stores.responses.take_over(old.response_id, taker, NOW + 1)
    assert new == Lease(old.response_id, taker, 2)
    await stores.write(old, 2, ["a2"])
    await stores.write(new, 2, ["b2"])
    assert await stores.read(old.response_id) == ["a0", "a1", "b2"]
    await stores.responses.finish(new, completed(3), NOW + 300)


@pytest.mark.usefixtures("short_pauses")
async def test_a_taker_that_died_in_between_is_followed_by_the_next(dynamodb_stores: DynamoDBStores) -> None:
    stores = dynamodb_stores
    first = await stores.begin(new_name("task"))
    await stores.write(first, 0, ["a0", "a1"])
    dead, next_taker = new_name("task"), new_name("task")
    await stores.responses.renew(dead, NOW + 10)
    stores.dynamodb.inject(Fault.RESET_BEFORE, "Query")
    with pytest.raises(StoreUnavailable):
        await stores.responses.take_over(first.response_id, dead, NOW)
    await stores.dynamodb.heal()
    await stores.write(first, 2, ["a2"])
    await stores.write(Lease(first.response_id, dead, 2), 2, ["dead2"])
    assert await stores.read(first.response_id) in ([], ["a0", "a1"])
    assert await stores.responses.take_over(first.response_id, next_taker, NOW + 9) is None
    with pytest.raises(LeaseLost):
        await stores.responses.finish(first, completed(3), NOW + 300)
    new = await stores.responses.take_over(first.response_id, next_taker, NOW + 10.1)
    assert new == Lease(first.response_id, next_taker, 3)
    head = await stores.responses.head(first.response_id, NOW)
    assert head is not None
    start = head.starts[3]
    kept = await stores.read(first.response_id)
    assert kept == ["a0", "a1", "a2"][:start]
    await stores.write(Lease(first.response_id, dead, 2), 3, ["dead3"])
    await stores.write(first, 3, ["a3"])
    await stores.write(new, start, ["c"])
    assert await stores.read(first.response_id) == [*kept, "c"]


async def test_what_comes_between_the_claim_and_the_start_is_never_read(dynamodb_stores: DynamoDBStores) -> None:
    stores = dynamodb_stores
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, ["a0", "a1"])
    held = stores.dynamodb.hold("UpdateItem")
    taking = asyncio.create_task(stores.responses.take_over(old.response_id, "b", NOW))
    await held.reached.wait()
    await stores.write(old, 2, ["a2", "a3"])
    await stores.write(old, 0, ["a0", "a1", "a2"])
    seen = await stores.read(old.response_id)
    assert seen == ["a0", "a1"][: len(seen)]
    with pytest.raises(LeaseLost):
        await stores.responses.finish(old, completed(4), NOW + 300)
    held.released.set()
    new = await taking
    assert new == Lease(old.response_id, "b", 2)
    assert await stores.read(old.response_id) == ["a0", "a1"]
    await stores.write(new, 2, ["b2"])
    assert await stores.read(old.response_id) == ["a0", "a1", "b2"]


async def test_what_comes_between_the_claim_and_its_reading_never_goes_away_again(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, ["a0", "a1"])
    held = stores.dynamodb.hold("Query")
    taking = asyncio.create_task(stores.responses.take_over(old.response_id, "b", NOW))
    await held.reached.wait()
    await stores.write(old, 2, ["a2"])
    before = await stores.read(old.response_id)
    held.released.set()
    new = await taking
    assert new is not None
    kept = await stores.read(old.response_id)
    assert kept == ["a0", "a1", "a2"][: len(kept)]
    assert len(kept) >= max(2, len(before))
    await stores.write(old, len(kept), ["late"])
    await stores.write(new, len(kept), ["b"])
    assert await stores.read(old.response_id) == [*kept, "b"]


async def test_what_was_read_before_the_claim_never_goes_away_again(dynamodb_stores: DynamoDBStores) -> None:
    stores = dynamodb_stores
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, ["a0", "a1"])
    held = stores.dynamodb.hold("TransactWriteItems")
    taking = asyncio.create_task(stores.responses.take_over(old.response_id, "b", NOW))
    await held.reached.wait()
    await stores.write(old, 2, ["a2"])
    assert await stores.read(old.response_id) == ["a0", "a1", "a2"]
    held.released.set()
    new = await taking
    assert new is not None
    await stores.write(new, 3, ["b3"])
    assert await stores.read(old.response_id) == ["a0", "a1", "a2", "b3"]


@pytest.mark.parametrize("operation", ["Query", "GetItem"])
async def test_a_reader_that_a_take_over_overtakes_gets_nothing_stale(
    dynamodb_stores: DynamoDBStores, operation: str
) -> None:
    stores = dynamodb_stores
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, ["a0", "a1"])
    await stores.write(old, 3, ["a3"])
    held = stores.dynamodb.hold(operation)
    reading = asyncio.create_task(stores.read(old.response_id))
    await held.reached.wait()
    new = await stores.responses.take_over(old.response_id, "b", NOW)
    assert new is not None
    await stores.write(old, 2, ["a2"])
    await stores.write(new, 2, ["b2"])
    held.released.set()
    seen = await reading
    assert seen == ["a0", "a1", "b2"][: len(seen)]
    assert len(seen) >= 2


async def test_one_task_that_takes_over_twice_at_once_begins_once(dynamodb_stores: DynamoDBStores) -> None:
    stores = dynamodb_stores
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, ["a0"])
    held = stores.dynamodb.hold("UpdateItem")
    slow = asyncio.create_task(stores.responses.take_over(old.response_id, "b", NOW))
    await held.reached.wait()
    await stores.write(old, 1, ["a1"])
    new = await stores.responses.take_over(old.response_id, "b", NOW)
    assert new == Lease(old.response_id, "b", 2)
    assert await stores.read(old.response_id) == ["a0", "a1"]
    held.released.set()
    assert await slow in (new, None)
    assert await stores.read(old.response_id) == ["a0", "a1"]


async def test_an_ending_and_a_take_over_at_once(dynamodb_stores: DynamoDBStores) -> None:
    stores = dynamodb_stores
    old = await stores.begin(new_name("task"))
    held = stores.dynamodb.hold("TransactWriteItems")
    taking = asyncio.create_task(stores.responses.take_over(old.response_id, "b", NOW))
    await held.reached.wait()
    await stores.responses.finish(old, completed(0), NOW + 300)
    held.released.set()
    assert await taking is None
    head = await stores.responses.head(old.response_id, NOW)
    assert head is not None
    assert (head.lease, head.ending) == (old, completed(0))
