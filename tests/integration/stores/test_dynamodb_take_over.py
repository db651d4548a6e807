"""Taking over in DynamoDB takes several calls: what comes between them, and what happens when it
ends between them.
"""

from __future__ import annotations

import asyncio

import pytest

from evenflow.stream_core.stores.response_store import Lease, LeaseLost, StoreUnavailable
from tests.integration.dynamodb_faults import Fault
from tests.integration.stores.conftest import DynamoDBStores
from tests.integration.stores.stores import NOW, completed, lease_of, new_name

# Its calls, by something that only this one says.
DECLARE_LOST = ("UpdateItem", "SET lost")
CLAIM = ("UpdateItem", "epoch + :one")
READ = ("Query", "response_id = :response")
BEGIN = ("UpdateItem", "SET starts.")
CALLS = pytest.mark.parametrize(
    "call", [DECLARE_LOST, CLAIM, READ, BEGIN], ids=["declare lost", "claim", "read", "begin"]
)


async def test_three_calls_for_each_response_of_a_lost_task(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    owner, taker = new_name("task"), new_name("task")
    left = [await stores.begin(owner) for _ in range(8)]
    await stores.responses.renew(owner, NOW + 10)
    assert [lease.lost for lease in await stores.responses.leases() if lease.owner == owner] == [
        False
    ]
    (lease_of_owner,) = [each for each in await stores.responses.leases() if each.owner == owner]
    before = stores.dynamodb.requests.copy()
    assert await stores.responses.declare_lost(lease_of_owner)
    for lease in left:
        assert await stores.responses.take_over(lease.response_id, taker, NOW + 10) is not None
    assert stores.dynamodb.requests - before == {"UpdateItem": 1 + 2 * 8, "Query": 8}


async def test_who_reads_that_a_lease_is_lost_need_not_declare_it(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    left = await stores.begin(new_name("task"))
    await stores.responses.renew(left.owner, NOW + 10)
    await stores.responses.release(left.owner)
    task = stores.of_another_task()
    await task.leases()
    before = stores.dynamodb.requests.copy()
    assert lease_of(await task.take_over(left.response_id, "b", NOW)) == Lease(
        left.response_id, "b", 2
    )
    assert stores.dynamodb.requests - before == {"UpdateItem": 2, "Query": 1}


async def test_more_lost_tasks_than_one_condition_may_name(dynamodb_stores: DynamoDBStores) -> None:
    stores = dynamodb_stores
    left = await stores.begin(new_name("task"))
    stores.responses._leases.known_lost = {new_name("task") for _ in range(150)}  # type: ignore[attr-defined]
    assert lease_of(await stores.responses.take_over(left.response_id, "b", NOW)) == Lease(
        left.response_id, "b", 2
    )


@pytest.mark.usefixtures("short_pauses")
@CALLS
@pytest.mark.parametrize(
    "fault", [Fault.RESET_BEFORE, Fault.RESET_AFTER], ids=lambda fault: fault.name
)
async def test_who_was_interrupted_in_taking_over_does_it_again(
    dynamodb_stores: DynamoDBStores, call: tuple[str, str], fault: Fault
) -> None:
    stores = dynamodb_stores
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, ["a0", "a1"])
    taker = new_name("task")
    await stores.responses.renew(taker, NOW + 10)
    await interrupted_take_over(stores, old, taker, call, fault)
    await stores.write(old, 3, ["a3"])
    seen = await stores.read(old.response_id)
    assert seen == ["a0", "a1"][: len(seen)]
    new = lease_of(await stores.responses.take_over(old.response_id, taker, NOW + 1))
    assert new == Lease(old.response_id, taker, 2)
    await stores.write(old, 2, ["a2"])
    await stores.write(new, 2, ["b2"])
    assert await stores.read(old.response_id) == ["a0", "a1", "b2"]
    await stores.responses.finish(new, completed(3), NOW + 300)


@pytest.mark.usefixtures("short_pauses")
@CALLS
@pytest.mark.parametrize(
    "fault", [Fault.RESET_BEFORE, Fault.RESET_AFTER], ids=lambda fault: fault.name
)
async def test_who_was_interrupted_in_taking_over_is_followed_by_another(
    dynamodb_stores: DynamoDBStores, call: tuple[str, str], fault: Fault
) -> None:
    stores = dynamodb_stores
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, ["a0", "a1"])
    dead, taker, other = new_name("task"), new_name("task"), stores.of_another_task()
    await stores.responses.renew(dead, NOW + 10)
    await other.renew(taker, NOW + 20)
    await interrupted_take_over(stores, old, dead, call, fault)
    has_claimed = call in {READ, BEGIN} or (call, fault) == (CLAIM, Fault.RESET_AFTER)
    if has_claimed:
        assert await other.take_over(old.response_id, taker, NOW + 9) is None
        await stores.write(Lease(old.response_id, dead, 2), 2, ["dead2"])
        await stores.lose(dead)
    await stores.write(old, 2, ["a2"])
    before = await stores.read(old.response_id)
    new = lease_of(await other.take_over(old.response_id, taker, NOW + 11))
    assert new == Lease(old.response_id, taker, 3 if has_claimed else 2)
    kept = await stores.read(old.response_id)
    assert kept[: len(before)] == before
    assert kept[:2] == ["a0", "a1"]
    assert kept[2:] in ([], ["a2"], ["dead2"])
    await stores.write(old, len(kept), ["late"])
    if has_claimed:
        await stores.write(Lease(old.response_id, dead, 2), len(kept), ["later"])
    await stores.write(new, len(kept), ["new"])
    assert await stores.read(old.response_id) == [*kept, "new"]
    assert await stores.responses.take_over(old.response_id, dead, NOW + 12) is None
    for stale in (old, Lease(old.response_id, dead, 2)):
        with pytest.raises(LeaseLost):
            await stores.responses.finish(stale, completed(3), NOW + 300)


async def interrupted_take_over(
    stores: DynamoDBStores, old: Lease, taker: str, call: tuple[str, str], fault: Fault
) -> None:
    operation, wording = call
    stores.dynamodb.inject(fault, operation, wording=wording)
    with pytest.raises(StoreUnavailable):
        await stores.responses.take_over(old.response_id, taker, NOW)
    await stores.dynamodb.heal()


@CALLS
async def test_a_take_over_whose_answers_are_lost_succeeds(
    dynamodb_stores: DynamoDBStores, call: tuple[str, str]
) -> None:
    stores = dynamodb_stores
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, ["a0", "a1"])
    operation, wording = call
    stores.dynamodb.inject(Fault.RESET_AFTER, operation, wording=wording, times=1)
    assert lease_of(await stores.responses.take_over(old.response_id, "b", NOW)) == Lease(
        old.response_id, "b", 2
    )
    assert stores.dynamodb.struck[Fault.RESET_AFTER] == 1
    head = await stores.responses.head(old.response_id, NOW)
    assert head is not None
    assert head.starts == {1: 0, 2: 2}


async def test_a_renewal_while_its_lease_is_declared_lost(dynamodb_stores: DynamoDBStores) -> None:
    stores = dynamodb_stores
    old = await stores.begin(owner := new_name("task"))
    await stores.responses.renew(owner, NOW + 10)
    read = await stores.responses.lease(owner)
    assert read is not None
    held = stores.dynamodb.hold(*DECLARE_LOST)
    declaring = asyncio.create_task(stores.of_another_task().declare_lost(read))
    await held.reached.wait()
    await stores.responses.renew(owner, NOW + 20)
    held.released.set()
    assert not await declaring
    await stores.responses.finish(old, completed(0), NOW + 300)


async def test_a_renewal_that_comes_after_its_lease_was_declared_lost(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores, owner = dynamodb_stores, new_name("task")
    await stores.responses.renew(owner, NOW + 10)
    held = stores.dynamodb.hold("PutItem")
    renewing = asyncio.create_task(stores.responses.renew(owner, NOW + 20))
    await held.reached.wait()
    await stores.lose(owner)
    held.released.set()
    with pytest.raises(LeaseLost):
        await renewing


async def test_what_comes_between_the_claim_and_the_start_is_never_read(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, ["a0", "a1"])
    held = stores.dynamodb.hold(*BEGIN)
    taking = asyncio.create_task(stores.responses.take_over(old.response_id, "b", NOW))
    await held.reached.wait()
    await stores.write(old, 2, ["a2", "a3"])
    await stores.write(old, 0, ["a0", "a1", "a2"])
    seen = await stores.read(old.response_id)
    assert seen == ["a0", "a1"][: len(seen)]
    with pytest.raises(LeaseLost):
        await stores.responses.finish(old, completed(4), NOW + 300)
    held.released.set()
    new = lease_of(await taking)
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
    new = lease_of(await taking)
    assert new is not None
    kept = await stores.read(old.response_id)
    assert kept == ["a0", "a1", "a2"][: len(kept)]
    assert len(kept) >= max(2, len(before))
    await stores.write(old, len(kept), ["late"])
    await stores.write(new, len(kept), ["b"])
    assert await stores.read(old.response_id) == [*kept, "b"]


async def test_what_was_read_before_the_claim_never_goes_away_again(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, ["a0", "a1"])
    held = stores.dynamodb.hold(*CLAIM)
    taking = asyncio.create_task(stores.responses.take_over(old.response_id, "b", NOW))
    await held.reached.wait()
    await stores.write(old, 2, ["a2"])
    assert await stores.read(old.response_id) == ["a0", "a1", "a2"]
    held.released.set()
    new = lease_of(await taking)
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
    new = lease_of(await stores.responses.take_over(old.response_id, "b", NOW))
    assert new is not None
    await stores.write(old, 2, ["a2"])
    await stores.write(new, 2, ["b2"])
    held.released.set()
    seen = await reading
    assert seen == ["a0", "a1", "b2"][: len(seen)]
    assert len(seen) >= 2


async def test_one_task_that_takes_over_twice_at_once_begins_once(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, ["a0"])
    held = stores.dynamodb.hold(*BEGIN)
    slow = asyncio.create_task(stores.responses.take_over(old.response_id, "b", NOW))
    await held.reached.wait()
    await stores.write(old, 1, ["a1"])
    another = stores.of_another_task()  # of the same name: its first calls may still be on the way
    new = lease_of(await another.take_over(old.response_id, "b", NOW))
    assert new == Lease(old.response_id, "b", 2)
    assert await stores.read(old.response_id) == ["a0", "a1"]
    held.released.set()
    assert lease_of(await slow) in (new, None)
    assert await stores.read(old.response_id) == ["a0", "a1"]


async def test_an_ending_and_a_take_over_at_once(dynamodb_stores: DynamoDBStores) -> None:
    stores = dynamodb_stores
    old = await stores.begin(new_name("task"))
    held = stores.dynamodb.hold(*CLAIM)
    taking = asyncio.create_task(stores.responses.take_over(old.response_id, "b", NOW))
    await held.reached.wait()
    await stores.responses.finish(old, completed(0), NOW + 300)
    held.released.set()
    assert await taking is None
    head = await stores.responses.head(old.response_id, NOW)
    assert head is not None
    assert (head.lease, head.ending) == (old, completed(0))
