"""What is reserved and used, in every store: exact, never over its bound, once an answer."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from evenflow.stream_aws.dynamodb_usage_store import DynamoDBUsageStore
from evenflow.stream_core.tenants.budget import Reservation, ReservationRequest
from evenflow.stream_core.tenants.memory_usage import MemoryUsageStore
from evenflow.stream_core.tenants.usage import DayTotals, UsageRecord
from evenflow.stream_core.tenants.usage_store import ReservationGone, UsageStore
from tests.integration.stores.conftest import DynamoDBStores, FileStores
from tests.integration.stores.stores import new_name

NOW = 1_795_478_400.0
"""2026-11-24T00:00:00Z."""
DAY = "2026-11-24"
TOKENS, DOLLARS = f"tokens/{DAY}/tenant", "nanodollars/2026-11/tenant"


@pytest.fixture(params=["memory", "sqlite", "dynamodb"])
def tasks(request: pytest.FixtureRequest) -> Iterator[tuple[UsageStore, UsageStore]]:
    """What two tasks have reserved and used, in each implementation."""
    if request.param == "memory":
        usage = MemoryUsageStore()
        yield usage, usage
    elif request.param == "sqlite":
        files: FileStores = request.getfixturevalue("sqlite_stores")
        yield files.usage, files.other.usage
    else:
        stores: DynamoDBStores = request.getfixturevalue("dynamodb_stores")
        table = str(stores.tables.tenants)
        one, other = (
            DynamoDBUsageStore(stores.client, table, lambda: None, wall_time=lambda: NOW)
            for _ in range(2)
        )
        yield one, other


def ask(
    tenant: str, amount: int, bound: int | None = None, before: Reservation | None = None
) -> ReservationRequest:
    """A wish for so many tokens and nanodollars, of which tokens are bounded."""
    amounts = {TOKENS: amount, DOLLARS: 10 * amount}
    wanted = Reservation(
        tenant,
        new_name("rsp") if before is None else before.response_id,
        "task-a",
        NOW,
        amounts,
        0 if before is None else before.step + 1,
    )
    return ReservationRequest(wanted, {} if bound is None else {TOKENS: bound}, before)


def record(asked: ReservationRequest, tokens: int, **fields: Any) -> UsageRecord:
    """What the answer used, half of it input."""
    given: dict[str, Any] = {
        "tenant": asked.wanted.tenant,
        "response_id": asked.wanted.response_id,
        "agent": "demo",
        "user": "ann",
        "key": "k1",
        "model": "m",
        "state": "completed",
        "ended_at": NOW + 60,
        "input_tokens": tokens // 2,
        "output_tokens": tokens - tokens // 2,
        "nanodollars": 10 * tokens,
        **fields,
    }
    return UsageRecord(**given)


async def committed(usage: UsageStore, tenant: str) -> tuple[int, int]:
    """What is committed, in tokens and nanodollars."""
    found = await usage.committed(tenant, [TOKENS, DOLLARS])
    return found.get(TOKENS, 0), found.get(DOLLARS, 0)


async def test_what_is_reserved_is_committed_until_it_is_settled_or_released(
    tasks: tuple[UsageStore, UsageStore],
) -> None:
    usage, other = tasks
    acme = new_name("acme")
    one, two = ask(acme, 40), ask(acme, 30)
    assert (await usage.reserve(one), await usage.reserve(two)) == (None, None)
    assert await committed(other, acme) == (70, 700)
    found = await other.reservations(acme)
    assert await other.answers_reserved(acme) == 2
    assert sorted(found, key=str) == sorted((one.wanted, two.wanted), key=str)
    await other.settle(record(one, 25))
    assert await committed(usage, acme) == (55, 550)
    await usage.release(acme, two.wanted.response_id)
    await usage.release(acme, two.wanted.response_id)
    assert await committed(other, acme) == (25, 250)
    assert list(await usage.reservations(acme)) == []
    assert await usage.reservation(acme, two.wanted.response_id) is None


async def test_nothing_is_granted_above_the_bound_and_a_refusal_changes_nothing(
    tasks: tuple[UsageStore, UsageStore],
) -> None:
    usage, other = tasks
    acme = new_name("acme")
    assert await usage.reserve(ask(acme, 60, 100)) is None
    assert await other.reserve(ask(acme, 41, 100)) == TOKENS
    assert await committed(usage, acme) == (60, 600)
    assert await other.reserve(ask(acme, 40, 100)) is None
    assert await usage.reserve(ask(acme, 1, 100)) == TOKENS
    assert await usage.reserve(ask(acme, 1)) is None  # counted, and not bounded
    assert await usage.reserve(ask(new_name("zeta"), 101, 100)) == TOKENS


async def test_a_reservation_grows_by_what_it_lacks_while_it_is_as_it_was(
    tasks: tuple[UsageStore, UsageStore],
) -> None:
    usage, other = tasks
    acme = new_name("acme")
    first = ask(acme, 40, 100)
    await usage.reserve(first)
    second = ask(acme, 100, 100, first.wanted)
    assert await other.reserve(second) is None
    assert await committed(usage, acme) == (100, 1_000)
    assert await usage.reservation(acme, first.wanted.response_id) == second.wanted
    with pytest.raises(ReservationGone):
        await usage.reserve(ask(acme, 90, 100, first.wanted))
    await usage.settle(record(first, 100))
    with pytest.raises(ReservationGone):
        await usage.reserve(ask(acme, 100, 200, second.wanted))
    assert await committed(usage, acme) == (100, 1_000)


async def test_of_a_thousand_at_once_exactly_those_are_granted_for_whom_there_is_room(
    tasks: tuple[UsageStore, UsageStore],
) -> None:
    acme = new_name("acme")
    asked = [ask(acme, 7, 700) for _ in range(1_000)]
    refused = await asyncio.gather(
        *(tasks[number % 2].reserve(each) for number, each in enumerate(asked))
    )
    assert Counter(refused) == {None: 100, TOKENS: 900}
    assert await committed(tasks[0], acme) == (700, 7_000)
    granted = {
        each.wanted.response_id for each, full in zip(asked, refused, strict=True) if not full
    }
    found = await tasks[1].reservations(acme)
    assert {each.response_id for each in found} == granted
    # All end at once, at either task, and what they did not need is free again.
    ended = [record(each, 5) for each in asked if each.wanted.response_id in granted]
    await asyncio.gather(*(tasks[number % 2].settle(each) for number, each in enumerate(ended)))
    assert await committed(tasks[0], acme) == (500, 5_000)
    assert list(await tasks[0].reservations(acme)) == []
    assert list(await tasks[0].totals(acme, DAY, DAY)) == [
        DayTotals(DAY, "m", 100, 200, 300, 0, 0, 5_000)
    ]


async def test_an_answer_is_used_once_however_often_its_end_is_told(
    tasks: tuple[UsageStore, UsageStore],
) -> None:
    usage, other = tasks
    acme = new_name("acme")
    one = ask(acme, 40)
    await usage.reserve(one)
    for _ in range(2):
        await usage.settle(record(one, 20))
    assert await committed(usage, acme) == (20, 200)
    # The task was killed before the end was on record: its successor ends it again, after midnight.
    again = record(one, 30, epoch=2, ended_at=NOW + 90_000)
    await other.settle(again)
    await usage.settle(record(one, 20))  # the former owner, late
    assert await committed(usage, acme) == (30, 300)
    (kept,) = await usage.records(acme, DAY)
    assert (kept.epoch, kept.input_tokens, kept.ended_at) == (2, 15, NOW + 60)
    assert list(await usage.records(acme, "2026-11-25")) == []
    assert list(await usage.totals(acme, DAY, "2026-11-25")) == [
        DayTotals(DAY, "m", 1, 15, 15, 0, 0, 300)
    ]
    # What another owner asked is another model's, of the whole tenant and of its user.
    await other.settle(record(one, 40, epoch=3, model="n"))
    for user in (None, "ann"):
        assert list(await usage.totals(acme, DAY, "2026-11-25", user)) == [
            DayTotals(DAY, "n", 1, 20, 20, 0, 0, 400)
        ]


async def test_what_was_not_reserved_counts_to_the_counters_that_are_named(
    tasks: tuple[UsageStore, UsageStore],
) -> None:
    usage, other = tasks
    acme = new_name("acme")
    one = ask(acme, 1)
    await usage.settle(record(one, 20), [TOKENS])
    assert await committed(other, acme) == (20, 0)
    await other.settle(record(one, 30, epoch=2), [DOLLARS])  # it counts where it has counted
    assert await committed(usage, acme) == (30, 0)


async def test_records_are_found_by_day_and_totals_by_days_model_and_user(
    tasks: tuple[UsageStore, UsageStore],
) -> None:
    usage, other = tasks
    acme = new_name("acme")
    of_ann = record(ask(acme, 1), 4, cached_tokens=1, reasoning_tokens=2, nanodollars=None)
    of_bob = record(ask(acme, 1), 6, user="bob#/ä", model="meta/m#1", ended_at=NOW + 86_400)
    of_none = record(ask(acme, 1), 8, user="", ended_at=NOW + 2 * 86_400)
    for each in (of_none, of_ann, of_bob):
        await usage.settle(each)
    assert await other.records(acme, DAY) == [of_ann]
    assert await other.records(acme, "2026-11-25") == [of_bob]
    assert await other.records(acme, "2026-11-26") == [of_none]
    assert list(await other.totals(acme, DAY, "2026-11-25")) == [
        DayTotals(DAY, "m", 1, 2, 2, 1, 2, 0),
        DayTotals("2026-11-25", "meta/m#1", 1, 3, 3, 0, 0, 60),
    ]
    assert list(await other.totals(new_name("zeta"), DAY, DAY)) == []
    days, users = (DAY, "2026-11-26"), ("ann", "bob#/ä")
    of_users = [list(await other.totals(acme, *days, user)) for user in users]
    assert [totals for each in of_users for totals in each] == list(
        await other.totals(acme, DAY, "2026-11-25")
    )
    assert list(await other.totals(acme, DAY, "2026-11-26", "cid")) == []


async def test_counters_are_always_the_sum_of_what_is_reserved_and_what_ended_answers_used(
    tasks: tuple[UsageStore, UsageStore],
) -> None:
    acme, dice = new_name("acme"), random.Random(7)
    asked = [ask(acme, dice.randint(1, 30), 600) for _ in range(60)]

    async def one(each: ReservationRequest) -> int:
        usage, other = dice.sample(tasks, 2)
        if await usage.reserve(each) is not None:
            return 0
        match dice.randrange(4):
            case 0:
                await other.release(acme, each.wanted.response_id)
                return 0
            case 1:
                return each.wanted.amounts[TOKENS]
            case 2:
                await usage.settle(record(each, 90))
                await other.settle(record(each, 50, epoch=2))
                return 50
            case _:
                await other.settle(record(each, 3))
                return 3

    counts = await asyncio.gather(*map(one, asked))
    assert await committed(tasks[0], acme) == (sum(counts), 10 * sum(counts))


async def test_a_large_budget_is_exact_to_the_last_answer(
    tasks: tuple[UsageStore, UsageStore],
) -> None:
    acme, bound = new_name("acme"), 7 * 1_000 + 5  # 437 or 438 for each of sixteen rows
    asks = [ask(acme, 7, bound) for _ in range(1_100)]
    refused = await asyncio.gather(
        *(tasks[number % 2].reserve(each) for number, each in enumerate(asks))
    )
    assert Counter(refused) == {None: 1_000, TOKENS: 100}
    assert await committed(tasks[1], acme) == (7_000, 70_000)
    assert await tasks[0].reserve(ask(acme, 5, bound)) is None
    granted = [each for each, full in zip(asks, refused, strict=True) if full is None]
    ended = [record(each, 5) for each in granted]
    await asyncio.gather(*(tasks[number % 2].settle(each) for number, each in enumerate(ended)))
    assert await committed(tasks[0], acme) == (5_005, 50_050)
    assert await tasks[1].reserve(ask(acme, 2_001, bound)) == TOKENS
    assert await tasks[1].reserve(ask(acme, 2_000, bound)) is None


async def test_what_changes_while_a_large_budget_is_used_loses_nothing(
    tasks: tuple[UsageStore, UsageStore],
) -> None:
    usage, other = tasks
    acme = new_name("acme")
    first = [ask(acme, 1, 10_000) for _ in range(40)]
    await asyncio.gather(*(usage.reserve(each) for each in first))
    # More was used than was reserved, and as much as no single row of the counter has room for.
    await asyncio.gather(*(other.settle(record(each, 50)) for each in first[:20]))
    await other.settle(record(first[20], 1_500))
    await usage.settle(record(ask(acme, 1), 900), [TOKENS, DOLLARS])  # nothing was reserved for it
    assert await usage.reserve(ask(acme, 81)) is None  # and nothing bounds this
    counted = 20 * 50 + 1_500 + 900 + 81 + 19
    assert await committed(other, acme) == (counted, 10 * counted)
    # The operator has changed the bound.
    assert await usage.reserve(ask(acme, 501, counted + 500)) == TOKENS
    assert await other.reserve(ask(acme, 500, counted + 500)) is None
    assert await usage.reserve(ask(acme, 1, counted + 500)) == TOKENS
    for each in first[21:]:
        await other.release(acme, each.wanted.response_id)
    counted += 500 - 19
    assert await committed(usage, acme) == (counted, 10 * counted)


@pytest.mark.parametrize("bound", [100_000, 5_000, 900])
async def test_counters_add_up_while_tasks_begin_end_and_give_back(
    tasks: tuple[UsageStore, UsageStore], bound: int
) -> None:
    acme, dice = new_name("acme"), random.Random(bound)

    async def one(_: int) -> int:
        usage, other = dice.sample(tasks, 2)
        each = ask(acme, dice.randint(1, 6), bound)
        if await usage.reserve(each) is not None:
            return 0
        match dice.randrange(3):
            case 0:
                await other.release(acme, each.wanted.response_id)
                return 0
            case 1:
                return each.wanted.amounts[TOKENS]
            case _:
                await other.settle(record(each, 6))
                return 6

    counts = await asyncio.gather(*map(one, range(250)))
    assert await committed(tasks[0], acme) == (sum(counts), 10 * sum(counts))


async def test_an_absurd_count_stops_no_settlement(tasks: tuple[UsageStore, UsageStore]) -> None:
    usage, other = tasks
    acme = new_name("acme")
    for _ in range(5):
        absurd = record(ask(acme, 1), 10, input_tokens=2**61, nanodollars=2**61)
        await usage.settle(absurd, [TOKENS, DOLLARS])
    await other.settle(record(ask(acme, 1), 10), [TOKENS, DOLLARS])
    assert min(await committed(usage, acme)) >= 2**62
    (totals,) = await other.totals(acme, DAY, DAY)
    assert (totals.answers, totals.output_tokens) == (6, 30)
    assert min(totals.input_tokens, totals.nanodollars) >= 2**62
