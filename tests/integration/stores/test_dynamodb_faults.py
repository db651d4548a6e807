"""The stores while DynamoDB throttles, fails, hangs, is not there, or does what it was asked and
can't say so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import pytest

from evenflow.stream_aws.dynamodb_usage_store import DynamoDBUsageStore
from evenflow.stream_aws.response_items import is_chunk, read_chunk
from evenflow.stream_core.stores.response_store import Chunk, Lease, StoreUnavailable, Unwritable
from evenflow.stream_core.stores.session_store import NotAccepted
from evenflow.stream_core.tenants.budget import Reservation, ReservationRequest
from evenflow.stream_core.tenants.tenant import Tenant
from evenflow.stream_core.tenants.usage import UsageRecord
from evenflow.stream_core.upstream.node_reports import NodeReport
from tests.integration.dynamodb_faults import WRITES, Fault
from tests.integration.stores.conftest import DynamoDBStores
from tests.integration.stores.stores import (
    NOW,
    chunk,
    completed,
    lease_of,
    new_channel,
    new_message,
    new_name,
)

T = TypeVar("T")

PASSING = [
    Fault.THROTTLED,
    Fault.HOT_PARTITION,
    Fault.CONFLICT,
    Fault.INTERNAL_ERROR,
    Fault.BARE_503,
    Fault.RESET_BEFORE,
    Fault.RESET_AFTER,
]


async def written(stores: DynamoDBStores, lease: Lease) -> set[int]:
    """The first indexes of the chunks that the table holds."""
    answer = await stores.client.query(
        TableName=stores.tables.responses,
        ConsistentRead=True,
        KeyConditionExpression="response_id = :response",
        ExpressionAttributeValues={":response": {"S": lease.response_id}},
    )
    return {read_chunk(item).first_index for item in answer["Items"] if is_chunk(item)}


async def append_until_taken(stores: DynamoDBStores, chunks: Sequence[Chunk]) -> int:
    """Write chunks as often as it takes; returns how often."""
    for count in range(1, 60):
        chunks = await stores.responses.append(chunks)
        if not chunks:
            return count
    raise AssertionError(f"{len(chunks)} chunks were never taken")


Call = Callable[[DynamoDBStores, Lease], Awaitable[object]]


COUNTER = "tokens/2027-01-15/tenant"


def _ask(lease: Lease, amount: int = 5, bound: int = 9) -> ReservationRequest:
    reservation = Reservation("acme", lease.response_id, "a", NOW, {COUNTER: amount})
    return ReservationRequest(reservation, {COUNTER: bound})


def _record(lease: Lease, tokens: int = 3, epoch: int = 1) -> UsageRecord:
    return UsageRecord(
        tenant="acme",
        response_id=lease.response_id,
        agent="demo",
        user="",
        key="k1",
        model="m",
        state="completed",
        ended_at=NOW,
        epoch=epoch,
        input_tokens=tokens,
    )


CALLS: dict[str, Call] = {
    "accept": lambda stores, _: stores.sessions.accept(new_channel(), new_message(None), NOW),
    "load": lambda stores, _: stores.sessions.load(new_channel(), NOW),
    "answered": lambda stores, _: stores.sessions.record_answer(new_channel(), "message", "answer"),
    "end": lambda stores, _: stores.sessions.end(new_channel(), NOW),
    "delete": lambda stores, lease: stores.responses.delete([lease.response_id]),
    "head": lambda stores, lease: stores.responses.head(lease.response_id, NOW),
    "note_read": lambda stores, lease: stores.responses.note_read(lease.response_id, NOW),
    "entries": lambda stores, lease: stores.responses.entries(lease.response_id, 0, NOW),
    "finish": lambda stores, lease: stores.responses.finish(lease, completed(0), NOW + 300),
    "renew": lambda stores, _: stores.responses.renew(new_name("task"), NOW + 10),
    "release": lambda stores, lease: stores.responses.release(lease.owner),
    "lease": lambda stores, lease: stores.responses.lease(lease.owner),
    "leases": lambda stores, _: stores.responses.leases(),
    "unfinished": lambda stores, lease: stores.responses.unfinished(lease.owner),
    "forget": lambda stores, lease: stores.responses.forget(lease.owner),
    "hand_over": lambda stores, lease: stores.responses.hand_over(lease),
    "take_over": lambda stores, lease: stores.responses.take_over(lease.response_id, "b", NOW),
    "accept a long text": lambda stores, _: stores.sessions.accept(
        new_channel(), new_message(None, "x" * 5_000), NOW
    ),
    "reserve": lambda stores, lease: stores.usage.reserve(_ask(lease)),
    "settle": lambda stores, lease: stores.usage.settle(_record(lease), [COUNTER]),
    "reservations": lambda stores, _: stores.usage.reservations("acme"),
    "reservation": lambda stores, lease: stores.usage.reservation("acme", lease.response_id),
    "committed": lambda stores, _: stores.usage.committed("acme", [COUNTER]),
    "totals": lambda stores, _: stores.usage.totals("acme", "2027-01-01", "2027-01-15"),
    "records": lambda stores, _: stores.usage.records("acme", "2027-01-15"),
    "put a tenant": lambda stores, _: stores.tenants.put(Tenant(id="acme"), 0),
    "load tenants": lambda stores, _: stores.tenants.load(),
    "revision": lambda stores, _: stores.tenants.revision(),
    "publish a report": lambda stores, _: stores.node_reports.publish(NodeReport(node="a"), NOW),
    "reports": lambda stores, _: stores.node_reports.read_all(NOW),
}


# -- faults that pass ------------------------------------------------------------------------------


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("fault", PASSING, ids=lambda fault: fault.name)
async def test_a_call_that_fails_twice_is_made_again(
    dynamodb_stores: DynamoDBStores, fault: Fault
) -> None:
    stores = dynamodb_stores
    struck = 0
    for name, call in CALLS.items():
        lease = await stores.begin(new_name("task"))
        injection = stores.dynamodb.inject(fault, times=2)
        writes = _writes(stores)
        await call(stores, lease)
        stores.dynamodb.withdraw(injection)
        # Reads meet no transaction.
        struck += 2 * (fault is not Fault.CONFLICT or _writes(stores) > writes)
        assert (stores.dynamodb.struck[fault], stores.retries["made again"]) == (
            struck,
            struck,
        ), name
    assert struck > 20


def _writes(stores: DynamoDBStores) -> int:
    return sum(stores.dynamodb.requests[operation] for operation in WRITES)


@pytest.mark.usefixtures("short_pauses")
async def test_half_of_the_rows_of_a_batch_come_later(dynamodb_stores: DynamoDBStores) -> None:
    stores = dynamodb_stores
    lease = await stores.begin("a")
    await stores.usage.reserve(_ask(lease))
    stores.dynamodb.inject(Fault.UNPROCESSED, "BatchGetItem", times=3)
    await stores.usage.settle(_record(lease))
    assert await stores.usage.committed("acme", [COUNTER]) == {COUNTER: 3}
    assert stores.dynamodb.struck[Fault.UNPROCESSED] == 3


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize("bound", [2_000, 100_000], ids=["one row", "several rows"])
async def test_usage_is_exact_while_transactions_meet_and_requests_fail(
    dynamodb_stores: DynamoDBStores, bound: int
) -> None:
    stores = dynamodb_stores
    stores.dynamodb.transaction_seconds = 0.005
    for fault in (Fault.HOT_PARTITION, Fault.RESET_AFTER, Fault.RESET_BEFORE):
        stores.dynamodb.inject(fault, share=0.05)
    table = str(stores.tables.tenants)
    tasks = [DynamoDBUsageStore(stores.client, table, lambda: None) for _ in range(6)]

    async def answer(number: int) -> int:
        """What is counted of it."""
        task, other = tasks[number % 6], tasks[(number + 1) % 6]
        lease = Lease(new_name("response"), "a", 1)
        await until_done(lambda: task.reserve(_ask(lease, 5, bound)))
        match number % 3:
            case 0:
                await until_done(lambda: other.release("acme", lease.response_id))
                return 0
            case 1:
                await until_done(lambda: task.settle(_record(lease)))
        await until_done(lambda: other.settle(_record(lease, tokens=4, epoch=2)))
        return 4

    counted = await asyncio.gather(*map(answer, range(90)))
    assert stores.dynamodb.struck[Fault.CONFLICT] > 0
    await stores.dynamodb.heal()
    assert await stores.usage.committed("acme", [COUNTER]) == {COUNTER: sum(counted)}
    assert list(await stores.usage.reservations("acme")) == []
    (totals,) = await stores.usage.totals("acme", "2027-01-15", "2027-01-15")
    assert (totals.answers, totals.input_tokens) == (60, sum(counted))
    assert len(await stores.usage.records("acme", "2027-01-15")) == 60


async def until_done(call: Callable[[], Awaitable[T]]) -> T:
    """What callers do: a call that may have been made is made again."""
    for _ in range(20):
        try:
            return await call()
        except StoreUnavailable:
            continue
    raise AssertionError("it was never done")


async def test_answers_of_many_tasks_end_at_once_and_meet_nowhere(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    stores.dynamodb.transaction_seconds = 0.02
    table = str(stores.tables.tenants)
    tasks = [DynamoDBUsageStore(stores.client, table, lambda: None) for _ in range(8)]
    records = [_record(Lease(new_name("response"), "a", 1)) for _ in range(160)]
    await asyncio.gather(*(tasks[place % 8].settle(each) for place, each in enumerate(records)))
    # By chance two tasks may begin at one row of the total. One row for all would be met by all.
    assert stores.dynamodb.struck[Fault.CONFLICT] <= 4
    (totals,) = await stores.usage.totals("acme", "2027-01-15", "2027-01-15")
    assert totals.answers == 160


async def test_answers_of_a_tenant_with_a_large_budget_seldom_meet(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    stores.dynamodb.transaction_seconds = 0.02
    table = str(stores.tables.tenants)
    tasks = [DynamoDBUsageStore(stores.client, table, lambda: None) for _ in range(6)]
    leases = [Lease(new_name("response"), "a", 1) for _ in range(120)]

    async def answer(place: int, lease: Lease) -> None:
        assert await tasks[place % 6].reserve(_ask(lease, 5, 10**6)) is None
        await tasks[place % 6].settle(_record(lease))

    await answer(0, leases[0])  # its reservation makes the rows
    await asyncio.gather(*(answer(*each) for each in enumerate(leases[1:])))
    # Six tasks at one row met some forty times.
    assert stores.dynamodb.struck[Fault.CONFLICT] < 20
    assert await stores.usage.committed("acme", [COUNTER]) == {COUNTER: 3 * 120}


async def test_a_call_that_always_conflicts_fails_within_seconds(
    dynamodb_stores: DynamoDBStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    stores = dynamodb_stores
    monkeypatch.setattr("evenflow.stream_aws.dynamodb._LAST_ATTEMPT_SECONDS", 1.0)
    stores.dynamodb.inject(Fault.CONFLICT)
    lease = Lease(new_name("response"), "a", 1)
    began = time.monotonic()
    with pytest.raises(StoreUnavailable):
        await stores.usage.settle(_record(lease))
    assert 1 < time.monotonic() - began < 5
    await stores.dynamodb.heal()
    await stores.usage.settle(_record(lease))
    (totals,) = await stores.usage.totals("acme", "2027-01-15", "2027-01-15")
    assert totals.answers == 1


async def test_the_emulated_throttling_is_what_the_sdk_knows(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    stores.dynamodb.inject(Fault.THROTTLED, times=1)
    with pytest.raises(stores.client.exceptions.ProvisionedThroughputExceededException):
        await stores.client.get_item(TableName=stores.tables.sessions, Key={"channel": {"S": "x"}})


@pytest.mark.usefixtures("short_pauses")
async def test_answers_while_a_third_of_all_requests_is_throttled(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    stores.dynamodb.inject(Fault.THROTTLED, share=0.3)

    async def answer() -> None:
        channel, message = new_channel(), new_message(None, owner=new_name("task"))
        lease = await stores.sessions.accept(channel, message, NOW)
        await stores.responses.renew(lease.owner, NOW + 10)
        for index in range(4):
            await append_until_taken(stores, [chunk(lease, index, [f"{index} "])])
        await stores.lose(lease.owner)
        new = lease_of(await stores.responses.take_over(lease.response_id, "b", NOW + 11))
        assert new == Lease(lease.response_id, "b", 2)
        await append_until_taken(
            stores, [chunk(new, index, [f"{index} "]) for index in range(4, 8)]
        )
        await stores.responses.finish(new, completed(8), NOW + 300)
        await stores.sessions.record_answer(channel, message.message_id, "answer")
        assert await stores.read(lease.response_id) == [f"{index} " for index in range(8)]
        assert (await stores.sessions.load(channel, NOW)).messages[0].answer == "answer"

    for _ in range(8):  # one after the other: so the same requests are struck every time
        await answer()
    assert stores.dynamodb.struck[Fault.THROTTLED] > 20


# -- append says exactly what was not taken --------------------------------------------------------


async def test_under_throttling_append_returns_what_was_not_written(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    lease = await stores.begin("a")
    stores.dynamodb.inject(Fault.THROTTLED, "BatchWriteItem", share=0.3)
    chunks = [chunk(lease, index, [f"{index} "]) for index in range(40)]
    left = [each for one in chunks for each in await stores.responses.append([one])]
    assert {each.first_index for each in left} == set(range(40)) - await written(stores, lease)
    assert len(left) == stores.dynamodb.struck[Fault.THROTTLED] > 0
    await append_until_taken(stores, left)
    assert await stores.read(lease.response_id) == [f"{index} " for index in range(40)]


@pytest.mark.usefixtures("short_pauses")
async def test_what_is_to_be_deleted_and_was_not_processed_is_deleted_in_the_end(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    lease = await stores.begin("a")
    for index in range(40):
        await stores.write(lease, index, ["x"])
    stores.dynamodb.inject(Fault.UNPROCESSED, "BatchWriteItem", times=3)
    await stores.responses.delete([lease.response_id])
    assert await written(stores, lease) == set()
    assert stores.dynamodb.struck[Fault.UNPROCESSED] == 3


async def test_unprocessed_items_are_returned_and_only_they(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    leases = [await stores.begin("a") for _ in range(3)]
    chunks = [chunk(lease, index, [f"{index} "]) for index in range(20) for lease in leases]
    stores.dynamodb.inject(Fault.UNPROCESSED, "BatchWriteItem")
    left = await stores.responses.append(chunks)
    assert 0 < len(left) < len(chunks)
    for lease in leases:
        mine = {
            each.first_index
            for each in left
            if (each.response_id, each.epoch) == (lease.response_id, lease.epoch)
        }
        assert mine == set(range(20)) - await written(stores, lease)
        assert await stores.read(lease.response_id) == [
            f"{index} " for index in range(min(mine, default=20))
        ]
    await stores.dynamodb.heal()
    assert await append_until_taken(stores, left) == 1
    for lease in leases:
        assert await stores.read(lease.response_id) == [f"{index} " for index in range(20)]


@pytest.mark.parametrize(
    "entries", [["\x01"] * 50_000, ["x" * 450_000]], ids=["many short entries", "one long entry"]
)
async def test_a_chunk_that_can_never_be_taken_holds_up_nothing_else(
    dynamodb_stores: DynamoDBStores, entries: list[str]
) -> None:
    stores = dynamodb_stores
    big, small = await stores.begin("a"), await stores.begin("a")
    too_big = chunk(big, 0, entries)
    with pytest.raises(Unwritable) as refused:
        await stores.responses.append([chunk(small, 0, ["a"]), too_big, chunk(small, 1, ["b"])])
    assert (list(refused.value.chunks), list(refused.value.left)) == ([too_big], [])
    assert await stores.read(small.response_id) == ["a", "b"]
    assert all("Item size" in breach for breach in stores.dynamodb.refused)
    stores.dynamodb.refused.clear()


@pytest.mark.parametrize(
    "fault", [each for each in PASSING if each is not Fault.CONFLICT], ids=lambda fault: fault.name
)
async def test_append_is_made_once_and_returns_everything(
    dynamodb_stores: DynamoDBStores, fault: Fault
) -> None:
    stores = dynamodb_stores
    lease = await stores.begin("a")
    chunks = [chunk(lease, index, [f"{index} "]) for index in range(5)]
    stores.dynamodb.inject(fault, "BatchWriteItem", times=1)
    assert list(await stores.responses.append(chunks)) == chunks
    assert stores.dynamodb.requests["BatchWriteItem"] == 1
    # Where it was done without our knowing, doing it again is harmless.
    assert list(await stores.responses.append(chunks)) == []
    assert await stores.read(lease.response_id) == [f"{index} " for index in range(5)]


# -- nobody there ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault", [Fault.THROTTLED, Fault.RESET_BEFORE, None], ids=["throttled", "reset", "refused"]
)
async def test_unreachable_is_said_within_seconds(
    dynamodb_stores: DynamoDBStores, fault: Fault | None
) -> None:
    stores = dynamodb_stores
    lease = await stores.begin("a")
    if fault is None:
        await stores.dynamodb.refuse_connections()
    else:
        stores.dynamodb.inject(fault)
    chunks = [chunk(lease, 0, ["a"]), chunk(lease, 1, ["b"])]

    async def timed(call: Awaitable[object]) -> tuple[object, float]:
        began = time.monotonic()
        try:
            outcome = await call
        except Exception as error:
            outcome = error
        return outcome, time.monotonic() - began

    appended, *others = await asyncio.gather(
        timed(stores.responses.append(chunks)),
        *(timed(CALLS[name](stores, lease)) for name in CALLS),
    )
    assert list(appended[0]) == chunks  # type: ignore[call-overload]
    assert appended[1] < 3  # at once, but beside nine calls on a machine that may be busy
    for name, (outcome, seconds) in zip(CALLS, others, strict=True):
        assert isinstance(outcome, StoreUnavailable), f"{name}: {outcome!r}"
        assert seconds < 15  # pauses are 1.55 s at most
    await stores.dynamodb.heal()
    assert await stores.responses.head(lease.response_id, NOW) is not None
    assert list(await stores.responses.append(chunks)) == []


async def test_who_does_not_answer_is_given_up_in_four_seconds(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    lease = await stores.begin("a")
    chunks = [chunk(lease, 0, ["a"])]
    taken: list[float] = []
    while not taken or (min(taken) >= 8 and len(taken) < 4):  # the machine is shared: the best one
        stores.dynamodb.inject(Fault.DELAYED, "BatchWriteItem", times=1, seconds=30)
        stores.dynamodb.inject(Fault.DELAYED, "GetItem", times=1, seconds=30)
        began = time.monotonic()
        left, head = await asyncio.gather(
            stores.responses.append(chunks), stores.responses.head(lease.response_id, NOW)
        )
        taken.append(time.monotonic() - began)
        assert list(left) == chunks
        assert head is not None
    assert 3.9 < min(taken) < 8  # one wait, not two


async def test_after_an_outage_everything_goes_on(dynamodb_stores: DynamoDBStores) -> None:
    stores = dynamodb_stores
    lease = await stores.begin("a")
    await stores.write(lease, 0, ["a"])
    await stores.dynamodb.refuse_connections()
    chunks = [chunk(lease, 1, ["b"])]
    assert list(await stores.responses.append(chunks)) == chunks
    reading = asyncio.create_task(stores.read(lease.response_id))
    await asyncio.sleep(0.1)
    await stores.dynamodb.accept_connections()
    assert await reading == ["a"]
    assert list(await stores.responses.append(chunks)) == []
    assert await stores.read(lease.response_id) == ["a", "b"]


# -- done, but nobody knows ------------------------------------------------------------------------


async def test_an_acceptance_whose_answer_is_lost_counts_once(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    channel, message = new_channel(), new_message(None)
    stores.dynamodb.inject(Fault.RESET_AFTER, "TransactWriteItems", times=2)
    assert await stores.sessions.accept(channel, message, NOW) == Lease(
        message.response_id, message.owner, 1
    )
    assert list((await stores.sessions.load(channel, NOW)).messages) == [message]


@pytest.mark.usefixtures("short_pauses")
async def test_an_acceptance_that_nobody_could_confirm_may_be_repeated(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    channel, message = new_channel(), new_message(None)
    stores.dynamodb.inject(Fault.RESET_AFTER, "TransactWriteItems")
    with pytest.raises(StoreUnavailable):
        await stores.sessions.accept(channel, message, NOW)
    await stores.dynamodb.heal()
    assert await stores.sessions.accept(channel, message, NOW + 3) == Lease(
        message.response_id, message.owner, 1
    )
    assert list((await stores.sessions.load(channel, NOW)).messages) == [message]
    with pytest.raises(NotAccepted):
        await stores.sessions.accept(channel, new_message(None), NOW + 3)


async def test_an_ending_whose_answer_is_lost_is_no_lost_lease(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    lease = await stores.begin("a")
    stores.dynamodb.inject(Fault.RESET_AFTER, "UpdateItem", times=1)
    await stores.responses.finish(lease, completed(0), NOW + 300)
    head = await stores.responses.head(lease.response_id, NOW)
    assert head is not None
    assert head.ending == completed(0)


async def test_a_hand_over_whose_answer_is_lost_counts_once(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    lease = await stores.begin("a")
    stores.dynamodb.inject(Fault.RESET_AFTER, "UpdateItem", times=2)
    await stores.responses.hand_over(lease)
    head = await stores.responses.head(lease.response_id, NOW)
    assert head is not None
    assert head.hand_overs == 1


async def test_a_renewal_that_is_overtaken_does_not_shorten_the_lease(
    dynamodb_stores: DynamoDBStores,
) -> None:
    stores = dynamodb_stores
    lease = await stores.begin(owner := new_name("task"))
    held = stores.dynamodb.hold("PutItem")
    slow = asyncio.create_task(stores.responses.renew(owner, NOW + 10))
    await held.reached.wait()
    await stores.responses.renew(owner, NOW + 20)
    held.released.set()
    await slow
    assert await stores.responses.take_over(lease.response_id, "b", NOW + 15) is None
