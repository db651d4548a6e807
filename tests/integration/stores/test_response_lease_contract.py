"""What the port of the response store promises about owners and taking over, held against each
implementation.
"""

from __future__ import annotations

import asyncio

import pytest

from evenflow.stream_core.log.entries import LogEntry, Restart
from evenflow.stream_core.stores.response_store import Lease, LeaseLost
from tests.integration.stores.stores import (
    LIFETIME,
    NOW,
    Stores,
    chunk,
    completed,
    lease_of,
    new_name,
)


async def test_a_response_is_taken_over_only_after_its_owners_lease_was_lost(
    stores: Stores,
) -> None:
    lease = await stores.begin(owner := new_name("task"))
    await stores.responses.renew(owner, NOW + 10)
    for now in (NOW, NOW + 9.5, NOW + 1_000):  # whatever the clock says of who asks
        assert await stores.responses.take_over(lease.response_id, "b", now) is None
    assert await stores.responses.head(lease.response_id, NOW) is not None
    await stores.lose(owner)
    assert lease_of(await stores.responses.take_over(lease.response_id, "b", NOW)) == Lease(
        lease.response_id, "b", 2
    )


async def test_who_takes_over_is_given_what_everybody_reads(stores: Stores) -> None:
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, ["a", "b"])
    await stores.write(old, 3, ["d"])
    for _ in range(2):  # the second time it is its own already
        taken = await stores.responses.take_over(old.response_id, "b", NOW)
        assert taken == await stores.responses.entries(old.response_id, 0, NOW)
        assert taken.entries == ["a", "b"]
        assert lease_of(taken) == Lease(old.response_id, "b", 2)


async def test_one_renewal_holds_all_responses_of_a_task(stores: Stores) -> None:
    owner = new_name("task")
    leases = [await stores.begin(owner) for _ in range(3)]
    other = await stores.begin(new_name("task"))
    await stores.responses.renew(owner, NOW + 10)
    await stores.responses.renew(owner, NOW + 20)
    for lease in leases:
        assert await stores.responses.take_over(lease.response_id, "b", NOW + 19) is None
    assert await stores.responses.take_over(other.response_id, "b", NOW + 19) is not None


async def test_a_late_renewal_does_not_shorten_the_lease(stores: Stores) -> None:
    await stores.responses.renew(owner := new_name("task"), NOW + 20)
    await stores.responses.renew(owner, NOW + 10)  # sent before the other one, arrived after it
    known = await stores.responses.lease(owner)
    assert known is not None
    assert known.until == NOW + 20


async def test_a_task_that_never_took_a_lease_has_none(stores: Stores) -> None:
    lease = await stores.begin(new_name("task"))
    assert lease_of(await stores.responses.take_over(lease.response_id, "b", NOW)) == Lease(
        lease.response_id, "b", 2
    )


async def test_an_ended_response_is_not_taken_over(stores: Stores) -> None:
    lease = await stores.begin(new_name("task"))
    await stores.responses.finish(lease, completed(0), NOW + 300)
    assert await stores.responses.take_over(lease.response_id, "b", NOW + 100) is None


async def test_nothing_is_taken_over_where_nothing_is(stores: Stores) -> None:
    assert await stores.responses.take_over(new_name("response"), "b", NOW) is None
    expired = await stores.begin(new_name("task"))
    assert await stores.responses.take_over(expired.response_id, "b", NOW + LIFETIME + 2) is None


@pytest.mark.parametrize("known", [False, True], ids=["never taken", "lost"])
async def test_of_many_concurrent_takers_one_wins(stores: Stores, known: bool) -> None:
    lease = await stores.begin(new_name("task"))
    await stores.write(lease, 0, ["a"])
    if known:
        await stores.responses.renew(lease.owner, NOW - 1)
        await stores.responses.release(lease.owner)
    takers = [new_name("task") for _ in range(6)]
    attempts = []
    for taker in takers:
        task = stores.of_another_task()
        await task.renew(taker, NOW + 10)
        await task.leases()
        attempts.append(task.take_over(lease.response_id, taker, NOW))
    won = [lease_of(each) for each in await asyncio.gather(*attempts) if each is not None]
    head = await stores.responses.head(lease.response_id, NOW)
    assert len(won) == 1
    assert head is not None
    assert (head.lease, head.starts) == (won[0], {1: 0, 2: 1})


async def test_the_new_owner_goes_on_behind_the_gapless_prefix(stores: Stores) -> None:
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, ["a0", "a1"])
    await stores.write(old, 4, ["a4"])
    new = lease_of(await stores.responses.take_over(old.response_id, "b", NOW))
    assert new == Lease(old.response_id, "b", 2)
    head = await stores.responses.head(old.response_id, NOW)
    assert head is not None
    assert head.starts == {1: 0, 2: 2}
    assert await stores.read(old.response_id) == ["a0", "a1"]
    await stores.write(new, 2, ["b2", "b3"])
    assert await stores.read(old.response_id) == ["a0", "a1", "b2", "b3"]
    await stores.write(new, 4, ["b4"])
    assert await stores.read(old.response_id, 3) == ["b3", "b4"]


async def test_a_response_without_any_chunk_is_taken_over_from_its_beginning(
    stores: Stores,
) -> None:
    old = await stores.begin(new_name("task"))
    new = lease_of(await stores.responses.take_over(old.response_id, "b", NOW))
    assert new is not None
    await stores.write(old, 0, ["a0", "a1"])
    assert await stores.read(old.response_id) == []
    await stores.write(new, 0, ["b0"])
    assert await stores.read(old.response_id) == ["b0"]


@pytest.mark.parametrize("late", range(4), ids="after {} writes of the new owner".format)
@pytest.mark.parametrize("end", [3, 9], ids="up to {}".format)
async def test_what_the_stale_owner_writes_late_is_never_read(
    stores: Stores, late: int, end: int
) -> None:
    olds, news = [f"a{index}" for index in range(9)], [f"b{index}" for index in range(9)]
    wanted = [*olds[:2], *news[2:8]]
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, olds[:2])
    new = lease_of(await stores.responses.take_over(old.response_id, "b", NOW))
    assert new is not None
    writes = [[chunk(new, first, news[first : first + 2])] for first in (2, 4, 6)]
    writes.insert(late, [chunk(old, first, olds[first:end]) for first in range(end)])
    for chunks in writes:
        assert list(await stores.responses.append(chunks)) == []
        seen = await stores.read(old.response_id)
        assert seen == wanted[: max(len(seen), 2)]
    for from_index in range(9):
        assert await stores.read(old.response_id, from_index) == wanted[from_index:]


async def test_what_lay_behind_a_gap_when_it_was_taken_over_stays_unread(stores: Stores) -> None:
    old = await stores.begin(new_name("task"))
    await stores.write(old, 0, ["a0"])
    await stores.write(old, 2, ["a2", "a3"])
    new = lease_of(await stores.responses.take_over(old.response_id, "b", NOW))
    assert new is not None
    await stores.write(old, 1, ["a1"])
    assert await stores.read(old.response_id) == ["a0"]
    await stores.write(new, 1, ["b1"])
    assert await stores.read(old.response_id) == ["a0", "b1"]


async def test_the_stale_owner_can_not_end_it(stores: Stores) -> None:
    old = await stores.begin(new_name("task"))
    new = lease_of(await stores.responses.take_over(old.response_id, "b", NOW))
    assert new is not None
    with pytest.raises(LeaseLost):
        await stores.responses.finish(old, completed(0), NOW + 300)
    await stores.responses.finish(new, completed(4), NOW + 300)
    with pytest.raises(LeaseLost):
        await stores.responses.finish(old, completed(0), NOW + 300)
    head = await stores.responses.head(old.response_id, NOW)
    assert head is not None
    assert head.ending == completed(4)


async def test_a_stale_owner_that_wakes_up(stores: Stores) -> None:
    old = await stores.begin(owner := new_name("task"))
    await stores.responses.renew(owner, NOW + 10)
    await stores.write(old, 0, ["a0", "a1"])
    other, taker = stores.of_another_task(), new_name("task")
    await other.renew(taker, NOW + 20)
    await stores.lose(owner)
    new = lease_of(await other.take_over(old.response_id, taker, NOW + 10))
    assert new == Lease(old.response_id, taker, 2)
    await stores.write(old, 2, ["a2", "a3", "a4"])
    await stores.write(old, 0, ["a0", "a1", "a2", "a3"])
    wanted: list[LogEntry] = ["a0", "a1", Restart(1, 2, 2), "b3"]
    await stores.write(new, 2, wanted[2:])
    await stores.write(old, 4, ["a4", "a5"])
    with pytest.raises(LeaseLost):
        await stores.responses.renew(owner, NOW + 30)
    with pytest.raises(LeaseLost):
        await stores.responses.finish(old, completed(5), NOW + 300)
    assert await stores.responses.take_over(old.response_id, owner, NOW + 11) is None
    for from_index in range(6):
        stored = await stores.responses.entries(old.response_id, from_index, NOW + 11)
        assert list(stored.entries) == wanted[from_index:]
        assert stored.head == await stores.responses.head(old.response_id, NOW + 11)
        assert stored.head is not None
        assert (stored.head.lease, stored.head.ending) == (new, None)
    await stores.responses.renew(new_name("task"), NOW + 30)  # under another name it goes on


async def test_three_owners_in_a_row(stores: Stores) -> None:
    first = await stores.begin(new_name("task"))
    await stores.write(first, 0, ["a0", "a1", "a2"])
    second = lease_of(await stores.responses.take_over(first.response_id, new_name("task"), NOW))
    assert second is not None
    markers = Restart(2, 2, 2), Restart(-1, 3, 3)
    await stores.write(second, 3, [markers[0], "b4"])
    third = lease_of(await stores.responses.take_over(first.response_id, new_name("task"), NOW + 1))
    assert third is not None
    assert third.epoch == 3
    await stores.write(first, 3, ["a3", "a4", "a5"])
    await stores.write(second, 5, ["b5", "b6"])
    await stores.write(third, 5, [markers[1], "c6"])
    assert await stores.read(first.response_id) == [
        "a0",
        "a1",
        "a2",
        markers[0],
        "b4",
        markers[1],
        "c6",
    ]
    head = await stores.responses.head(first.response_id, NOW)
    assert head is not None
    assert head.starts == {1: 0, 2: 3, 3: 5}


async def test_an_owner_in_the_middle_that_wrote_nothing(stores: Stores) -> None:
    first = await stores.begin(new_name("task"))
    await stores.write(first, 0, ["a0"])
    second = lease_of(await stores.responses.take_over(first.response_id, new_name("task"), NOW))
    third = lease_of(await stores.responses.take_over(first.response_id, new_name("task"), NOW))
    assert second is not None
    assert third is not None
    await stores.write(second, 1, ["b1"])
    await stores.write(first, 1, ["a1"])
    assert await stores.read(first.response_id) == ["a0"]
    await stores.write(third, 1, ["c1"])
    assert await stores.read(first.response_id) == ["a0", "c1"]


# -- handing over ----------------------------------------------------------------------------------


async def losses(stores: Stores, response_id: str) -> tuple[int, int]:
    """How many owners have left a response in order, and how many were lost."""
    head = await stores.responses.head(response_id, NOW)
    assert head is not None
    return head.hand_overs, head.losses


async def test_an_owner_that_leaves_in_order_is_no_loss(stores: Stores) -> None:
    first = await stores.begin(new_name("task"))
    assert await losses(stores, first.response_id) == (0, 0)
    await stores.responses.hand_over(first)
    await stores.responses.release(first.owner)
    second = lease_of(await stores.responses.take_over(first.response_id, new_name("task"), NOW))
    assert second is not None
    assert await losses(stores, first.response_id) == (1, 0)
    third = lease_of(await stores.responses.take_over(first.response_id, new_name("task"), NOW))
    assert third is not None
    assert await losses(stores, first.response_id) == (1, 1)
    await stores.responses.hand_over(third)
    assert await stores.responses.take_over(first.response_id, new_name("task"), NOW) is not None
    assert await losses(stores, first.response_id) == (2, 1)


async def test_who_says_again_that_it_leaves_says_nothing_new(stores: Stores) -> None:
    lost = await stores.begin(new_name("task"))
    left = lease_of(await stores.responses.take_over(lost.response_id, new_name("task"), NOW))
    assert left is not None
    for _ in range(3):
        await stores.responses.hand_over(left)
    assert await stores.responses.take_over(lost.response_id, new_name("task"), NOW) is not None
    assert await losses(stores, lost.response_id) == (1, 1)


async def test_only_its_owner_hands_a_response_over(stores: Stores) -> None:
    old = await stores.begin(new_name("task"))
    new = lease_of(await stores.responses.take_over(old.response_id, new_name("task"), NOW))
    assert new is not None
    for other in (
        old,
        Lease(old.response_id, new.owner, 3),
        Lease(new_name("response"), new.owner, 1),
    ):
        with pytest.raises(LeaseLost):
            await stores.responses.hand_over(other)
    assert await losses(stores, old.response_id) == (0, 1)


@pytest.mark.parametrize("now", [NOW, NOW + 20], ids=["with its lease", "after its lease"])
async def test_who_is_the_owner_already_is_given_its_lease(stores: Stores, now: float) -> None:
    lease = await stores.begin(owner := new_name("task"))
    await stores.responses.renew(owner, NOW + 10)
    await stores.write(lease, 0, ["a"])
    assert lease_of(await stores.responses.take_over(lease.response_id, owner, now)) == lease
    await stores.write(lease, 1, ["b"])
    assert await stores.read(lease.response_id) == ["a", "b"]
