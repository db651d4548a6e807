"""What the port of the response store promises about the leases of tasks, held against each
implementation.
"""

from __future__ import annotations

import pytest

from evenflow.stream_core.stores.response_store import Lease, LeaseLost, NodeLease
from tests.integration.stores.stores import LIFETIME, NOW, Stores, completed, lease_of, new_name

ADDRESS = "http://10.0.1.5:8080"


async def listed(stores: Stores, *owners: str) -> list[NodeLease]:
    """The leases of these owners, as another task is told."""
    leases = await stores.of_another_task().leases()
    return sorted(
        (lease for lease in leases if lease.owner in owners),
        key=lambda lease: owners.index(lease.owner),
    )


async def lost(stores: Stores) -> Lease:
    """A response whose owner's lease was declared lost."""
    left = await stores.begin(owner := new_name("task"))
    await stores.responses.renew(owner, NOW + 10, ADDRESS)
    await stores.lose(owner)
    return left


async def test_a_lease_is_told_to_all(stores: Stores) -> None:
    owner = new_name("task")
    assert await stores.responses.lease(owner) is None
    assert await listed(stores, owner) == []
    await stores.responses.renew(owner, NOW + 10.25, ADDRESS)
    lease = NodeLease(owner, NOW + 10.25, lost=False, address=ADDRESS)
    assert await stores.of_another_task().lease(owner) == lease
    assert await listed(stores, owner) == [lease]


async def test_a_task_need_not_be_reachable(stores: Stores) -> None:
    await stores.responses.renew(owner := new_name("task"), NOW + 10)
    assert await stores.responses.lease(owner) == NodeLease(owner, NOW + 10)


async def test_the_last_renewal_counts(stores: Stores) -> None:
    owner = new_name("task")
    for until, address in (
        (10, ADDRESS),
        (20, "http://10.0.1.6:8080"),
        (20, "http://10.0.1.7:8080"),
        (15, ADDRESS),
    ):
        await stores.responses.renew(owner, NOW + until, address)
    assert await stores.responses.lease(owner) == NodeLease(
        owner, NOW + 20, address="http://10.0.1.7:8080"
    )
    await stores.responses.renew(owner, NOW + 30)
    assert await stores.responses.lease(owner) == NodeLease(owner, NOW + 30)


async def test_the_leases_of_all_tasks_are_listed_whatever_became_of_them(stores: Stores) -> None:
    owners = [new_name("task") for _ in range(4)]
    for owner in owners:
        await stores.responses.renew(owner, NOW - 100)
    await stores.responses.renew(owners[0], NOW + 10)
    await stores.responses.release(owners[1])
    await stores.lose(owners[2])
    assert await listed(stores, *owners) == [
        NodeLease(owners[0], NOW + 10),
        NodeLease(owners[1], NOW - 100, lost=True),
        NodeLease(owners[2], NOW - 100, lost=True),
        NodeLease(owners[3], NOW - 100),
    ]


@pytest.mark.parametrize(
    "name", ["leases", "~head", "00000003#0001#00000000", "Ω 漢", "a:b#c/d\n", "x" * 200], ids=ascii
)
async def test_any_name_is_kept_apart_from_all_others(stores: Stores, name: str) -> None:
    others = [name + "0", "0" + name, name[:-1]]
    for owner in others:
        await stores.responses.renew(owner, NOW + 10)
    await stores.responses.renew(name, NOW + 20)
    left = await stores.begin(name)
    await stores.responses.release(name)
    assert await listed(stores, name, *others) == [
        NodeLease(name, NOW + 20, lost=True),
        *(NodeLease(owner, NOW + 10) for owner in others),
    ]
    assert await stores.responses.take_over(left.response_id, "b", NOW) is not None
    await stores.responses.forget(name)
    assert await listed(stores, name, *others) == [NodeLease(owner, NOW + 10) for owner in others]
    for owner in others:
        await stores.responses.release(owner)
        await stores.responses.forget(owner)


# -- lost ------------------------------------------------------------------------------------------


async def test_a_lease_that_ran_out_unnoticed_is_renewed(stores: Stores) -> None:
    left = await stores.begin(owner := new_name("task"))
    await stores.responses.renew(owner, NOW + 10)
    await stores.responses.renew(owner, NOW + 100)
    assert await stores.of_another_task().take_over(left.response_id, "b", NOW + 50) is None


async def test_a_lease_that_was_declared_lost_stays_lost(stores: Stores) -> None:
    left = await lost(stores)
    assert await stores.responses.lease(left.owner) == NodeLease(
        left.owner, NOW + 10, lost=True, address=ADDRESS
    )
    for until in (5, 10, 20, 1_000):
        with pytest.raises(LeaseLost):
            await stores.responses.renew(left.owner, NOW + until, ADDRESS)
    assert await stores.responses.lease(left.owner) == NodeLease(
        left.owner, NOW + 10, lost=True, address=ADDRESS
    )


async def test_what_a_lost_lease_covered_anybody_may_take_over_whatever_their_clock_says(
    stores: Stores,
) -> None:
    left = await lost(stores)
    taken = lease_of(await stores.of_another_task().take_over(left.response_id, "c", NOW - 3))
    assert taken == Lease(left.response_id, "c", 2)


async def test_a_lease_that_was_renewed_since_it_was_read_is_not_declared_lost(
    stores: Stores,
) -> None:
    owner, task = new_name("task"), stores.of_another_task()
    left = await stores.begin(owner)
    await stores.responses.renew(owner, NOW + 10, ADDRESS)
    read = await task.lease(owner)
    assert read is not None
    # Its clock may have been set back, so that the next renewal is hardly later.
    await stores.responses.renew(owner, NOW + 10.001, ADDRESS)
    assert not await task.declare_lost(read)
    assert await listed(stores, owner) == [NodeLease(owner, NOW + 10.001, address=ADDRESS)]
    assert await task.take_over(left.response_id, "b", NOW + 1_000) is None
    await stores.responses.renew(owner, NOW + 20, ADDRESS)


async def test_declaring_it_lost_again_says_the_same(stores: Stores) -> None:
    owner = new_name("task")
    await stores.responses.renew(owner, NOW + 10)
    tasks = [stores.of_another_task() for _ in range(4)]
    read = [await task.lease(owner) for task in tasks]
    for task, lease in zip(tasks, read, strict=True):
        assert lease is not None
        assert await task.declare_lost(lease)
    assert await listed(stores, owner) == [NodeLease(owner, NOW + 10, lost=True)]


async def test_a_lost_lease_covers_nothing_new(stores: Stores) -> None:
    owner = (await lost(stores)).owner
    late = await stores.begin(owner)
    assert lease_of(await stores.of_another_task().take_over(late.response_id, "c", NOW)) == Lease(
        late.response_id, "c", 2
    )


async def test_a_lease_that_was_never_taken_is_lost_too(stores: Stores) -> None:
    left = await stores.begin(owner := new_name("task"))
    assert await stores.of_another_task().take_over(left.response_id, "b", NOW) is not None
    lease = await stores.responses.lease(owner)
    assert lease is not None
    assert lease.lost
    with pytest.raises(LeaseLost):
        await stores.responses.renew(owner, NOW + 10)


async def test_what_is_not_taken_over_costs_nobody_a_lease(stores: Stores) -> None:
    owner, ended_owner, own = new_name("task"), new_name("task"), new_name("task")
    live, ended, mine = (
        await stores.begin(owner),
        await stores.begin(ended_owner),
        await stores.begin(own),
    )
    expired = await stores.begin(ended_owner)
    await stores.responses.finish(ended, completed(0), NOW + 300)
    await stores.responses.renew(owner, NOW + 10)
    for other in (ended_owner, own):
        await stores.responses.renew(other, NOW - 1)
    task = stores.of_another_task()
    assert await task.take_over(live.response_id, "b", NOW + 9) is None
    assert await task.take_over(ended.response_id, "b", NOW) is None
    assert await task.take_over(expired.response_id, "b", NOW + LIFETIME + 2) is None
    assert lease_of(await task.take_over(mine.response_id, own, NOW)) == mine
    assert [lease.lost for lease in await listed(stores, owner, ended_owner, own)] == [False] * 3
    for other in (owner, ended_owner, own):
        await stores.responses.renew(other, NOW + 20)


# -- released --------------------------------------------------------------------------------------


async def test_a_task_that_leaves_releases_its_lease(stores: Stores) -> None:
    left, other = (
        await stores.begin(owner := new_name("task")),
        await stores.begin(new_name("task")),
    )
    for each in (owner, other.owner):
        await stores.responses.renew(each, NOW + 10, ADDRESS)
    await stores.responses.release(owner)
    assert await stores.responses.lease(owner) == NodeLease(
        owner, NOW + 10, lost=True, address=ADDRESS
    )
    with pytest.raises(LeaseLost):
        await stores.responses.renew(owner, NOW + 20, ADDRESS)
    task = stores.of_another_task()
    assert lease_of(await task.take_over(left.response_id, "b", NOW)) == Lease(
        left.response_id, "b", 2
    )
    assert await task.take_over(other.response_id, "b", NOW) is None


async def test_until_somebody_takes_over_who_has_released_may_write_and_end(stores: Stores) -> None:
    """It left, and its last writes are on their way."""
    lease = await stores.begin(owner := new_name("task"))
    await stores.responses.renew(owner, NOW + 10)
    await stores.responses.release(owner)
    await stores.write(lease, 0, ["a"])
    await stores.responses.finish(lease, completed(1), NOW + 300)
    assert await stores.read(lease.response_id) == ["a"]
    assert await stores.of_another_task().take_over(lease.response_id, "b", NOW) is None


async def test_releasing_again_or_without_a_lease_changes_nothing(stores: Stores) -> None:
    owner = new_name("task")
    await stores.responses.release(owner)
    assert await stores.responses.lease(owner) is None
    await stores.responses.renew(owner, NOW + 10)
    for _ in range(2):
        await stores.responses.release(owner)
        assert await stores.responses.lease(owner) == NodeLease(owner, NOW + 10, lost=True)


# -- forgotten -------------------------------------------------------------------------------------


async def test_a_lost_lease_may_be_forgotten_but_not_renewed(stores: Stores) -> None:
    owner = (await lost(stores)).owner
    for _ in range(2):
        await stores.of_another_task().forget(owner)
        assert await stores.responses.lease(owner) is None
        assert await listed(stores, owner) == []
    with pytest.raises(LeaseLost):
        await stores.responses.renew(owner, NOW + 1_000)
    assert await stores.responses.lease(owner) is None


async def test_what_a_forgotten_task_left_may_still_be_taken_over(stores: Stores) -> None:
    left = await lost(stores)
    await stores.responses.forget(left.owner)
    taken = lease_of(await stores.of_another_task().take_over(left.response_id, "c", NOW))
    assert taken == Lease(left.response_id, "c", 2)


@pytest.mark.parametrize("until", [NOW + 10, NOW - 1_000], ids=["in force", "run out"])
async def test_a_lease_that_is_not_lost_is_not_forgotten(stores: Stores, until: float) -> None:
    await stores.responses.renew(owner := new_name("task"), until)
    await stores.of_another_task().forget(owner)
    assert await stores.responses.lease(owner) == NodeLease(owner, until)
    await stores.responses.renew(owner, until + 1)


async def test_a_lease_that_nobody_knows_may_be_forgotten(stores: Stores) -> None:
    await stores.responses.forget(owner := new_name("task"))
    await stores.responses.renew(owner, NOW + 10)
    assert await stores.responses.lease(owner) == NodeLease(owner, NOW + 10)
