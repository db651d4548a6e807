"""Reads of single items that are made together, against what they are one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from evenflow.stream_core.stores.response_store import ResponseHead, StoreUnavailable
from tests.integration.dynamodb_faults import Fault
from tests.integration.stores.conftest import DynamoDBStores
from tests.integration.stores.stores import NOW, new_channel, new_message, new_name


async def test_many_reads_at_once_need_few_requests(dynamodb_stores: DynamoDBStores) -> None:
    stores = dynamodb_stores
    leases = [await stores.begin(new_name("task")) for _ in range(40)]
    before = stores.dynamodb.requests.copy()
    heads = await asyncio.gather(
        *(stores.responses.head(lease.response_id, NOW) for lease in leases)
    )
    assert [head and head.lease for head in heads] == leases
    # The first ones come alone.
    assert (stores.dynamodb.requests - before).total() <= 4


async def test_each_read_gets_its_own_item_or_none(dynamodb_stores: DynamoDBStores) -> None:
    stores = dynamodb_stores
    a, b = [(await stores.begin(new_name("task"))).response_id for _ in range(2)]
    response_ids = [a, "unknown", b, a, "another", b, a, "unknown"]
    heads = await asyncio.gather(
        *(stores.responses.head(response_id, NOW) for response_id in response_ids)
    )
    assert [head and head.response_id for head in heads] == [a, None, b, a, None, b, a, None]


async def test_whether_many_sessions_were_ended_needs_few_requests(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    channels = [new_channel() for _ in range(40)]
    for channel in channels[:3]:
        await stores.sessions.accept(channel, new_message(None), NOW)
    await stores.sessions.end(channels[1], NOW)
    before = stores.dynamodb.requests.copy()
    found = await asyncio.gather(
        *(stores.sessions.find_ended([channel], NOW) for channel in channels)
    )
    assert frozenset[object]().union(*found) == {channels[1]}
    assert (stores.dynamodb.requests - before).total() <= 4


async def test_a_read_sees_what_was_written_before_it_while_others_are_under_way(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    lease = await stores.begin(new_name("task"))
    early = _reads(stores, lease.response_id, 2)
    release = await _hold_two(stores)
    await stores.responses.note_read(lease.response_id, NOW)
    read = asyncio.create_task(stores.responses.head(lease.response_id, NOW))
    release()
    head = await read
    assert head is not None
    assert head.polls == 1
    await asyncio.gather(*early)


async def test_a_reply_that_does_not_come_holds_up_only_half(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    lease = await stores.begin(new_name("task"))
    request = stores.dynamodb.hold("GetItem")
    waiting = asyncio.create_task(stores.responses.head(lease.response_id, NOW))
    await request.reached.wait()
    for _ in range(3):
        assert await stores.responses.head(lease.response_id, NOW) is not None
    request.released.set()
    assert await waiting is not None


@pytest.mark.usefixtures("short_pauses")
async def test_what_a_request_leaves_unread_is_read_again(dynamodb_stores: DynamoDBStores) -> None:
    stores = dynamodb_stores
    leases = [await stores.begin(new_name("task")) for _ in range(20)]
    stores.dynamodb.inject(Fault.UNPROCESSED, "BatchGetItem", times=2)
    heads = await asyncio.gather(
        *(stores.responses.head(lease.response_id, NOW) for lease in leases)
    )
    assert [head and head.lease for head in heads] == leases
    assert stores.retries["made again"] == 2


@pytest.mark.usefixtures("short_pauses")
async def test_an_unreachable_store_fails_all_that_were_read_together(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    lease = await stores.begin(new_name("task"))
    stores.dynamodb.inject(Fault.RESET_BEFORE)
    outcomes = await asyncio.gather(
        *(stores.responses.head(lease.response_id, NOW) for _ in range(5)), return_exceptions=True
    )
    assert [type(outcome) for outcome in outcomes] == [StoreUnavailable] * 5
    await stores.dynamodb.heal()
    assert await stores.responses.head(lease.response_id, NOW) is not None


async def test_a_read_that_is_given_up_leaves_the_others_alone(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    lease = await stores.begin(new_name("task"))
    reads = _reads(stores, lease.response_id, 6)
    release = await _hold_two(stores)
    reads[0].cancel()
    reads[2].cancel()
    release()
    heads = await asyncio.gather(reads[1], *reads[3:])
    assert all(head is not None for head in heads)


def _reads(
    stores: DynamoDBStores, response_id: str, count: int
) -> list[asyncio.Task[ResponseHead | None]]:
    """Reads of the head of one response that begin together, at the next wait."""
    return [asyncio.create_task(stores.responses.head(response_id, NOW)) for _ in range(count)]


async def _hold_two(stores: DynamoDBStores) -> Callable[[], None]:
    """Hold the next two requests once they have come. Returns what releases them."""
    requests = [stores.dynamodb.hold("GetItem") for _ in range(2)]
    for request in requests:
        await request.reached.wait()

    def release() -> None:
        for request in requests:
            request.released.set()

    return release
