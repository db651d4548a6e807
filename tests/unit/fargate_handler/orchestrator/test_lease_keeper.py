from __future__ import annotations

from itertools import pairwise

import pytest

from fargate_handler.metrics import Metrics
from fargate_handler.node_context import NodeContext
from fargate_handler.orchestrator.leases import LeaseKeeper
from stream_core.policy.limits import Limits
from stream_core.ports.memory_store import MemoryResponseStore
from stream_core.ports.response_store import LeaseLost, TaskLease
from tests.unit.fargate_handler.orchestrator.scripted_stores import (
    UNREACHABLE,
    ScriptedResponseStore,
)
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.settle import settle

EPOCH = 1_800_000_000.0
ADDRESS = "http://10.0.1.5:8080"


class Node:
    """A keeper and its store. Its task is `a`."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.clock = HandTurnedClock()
        self.memory = MemoryResponseStore()
        self.store = ScriptedResponseStore(self.memory)
        self.lost: list[str] = []
        """The names that it had when it lost a lease, after it lost it."""
        self.keeper = LeaseKeeper(
            NodeContext(
                limits or Limits(),
                self.clock.delivery,
                Metrics(),
                self.clock.monotonic,
                self.wall_time,
            ),
            self.store,
            name="a",
            address=ADDRESS,
            on_lost=lambda: self.lost.append(self.keeper.owner),
        )

    def wall_time(self) -> float:
        return EPOCH + self.clock.now

    async def lease(self, owner: str = "a") -> TaskLease:
        lease = await self.memory.lease(owner)
        assert lease is not None
        return lease

    def declare_lost(self, owner: str = "a") -> None:
        """Another task has taken something over, or its lease."""
        self.memory._leases[owner] = TaskLease(owner, 0.0, lost=True)


async def started(limits: Limits | None = None) -> Node:
    node = Node(limits)
    await node.keeper.start()
    return node


# -- kept ------------------------------------------------------------------------------------------


async def test_a_task_that_cannot_take_its_lease_does_not_start() -> None:
    node = Node()
    node.store.network.failures["renew"] = UNREACHABLE
    with pytest.raises(type(UNREACHABLE)):
        await node.keeper.start()
    assert not node.keeper.in_force


async def test_it_says_under_which_name_until_when_and_where_the_task_is() -> None:
    node = Node()
    assert not node.keeper.in_force
    await node.keeper.start()
    assert node.keeper.in_force
    assert node.keeper.owner == "a"
    assert await node.lease() == TaskLease("a", node.wall_time() + 10.0, address=ADDRESS)


async def test_the_lease_is_renewed_several_times_before_it_runs_out() -> None:
    node = await started()
    began = node.wall_time()
    await node.clock.pass_time(30.0, step=0.05)
    renewed_at = [until - 10.0 - began for until in node.store.renewals]
    assert renewed_at[0] == pytest.approx(0.0)
    assert len(renewed_at) >= 9
    assert all(0 <= later - earlier <= 3.4 for earlier, later in pairwise(renewed_at))
    assert 30 - renewed_at[-1] <= 3.4


@pytest.mark.parametrize("interval_ms", [150, 800])
async def test_however_rarely_the_task_writes_and_however_late_the_clock_the_lease_is_kept(
    interval_ms: int,
) -> None:
    node = await started(Limits(store_interval_ms=interval_ms, lease_seconds=10))
    for _ in range(300):
        node.clock.delivery.interval_slots, node.clock.delivery.interval = 20, 0.2
        await node.clock.pass_time(0.2, step=0.2)
        assert node.keeper.in_force
        assert (await node.lease()).in_force(node.wall_time())


@pytest.mark.parametrize(
    "error", [UNREACHABLE, ValueError("a bug in the store")], ids=["unreachable", "bug"]
)
async def test_a_renewal_that_fails_is_tried_again(error: Exception) -> None:
    node = await started()
    node.store.network.failures["renew"] = error
    await node.clock.pass_time(9.0, step=0.05)
    assert len(node.store.renewals) == 1
    node.store.network.failures.clear()
    await node.clock.pass_time(3.4)
    assert node.keeper.in_force
    assert (await node.lease()).until > node.wall_time() + 6
    assert node.lost == []


async def test_a_lease_that_could_not_be_renewed_is_in_force_for_its_time_and_no_longer() -> None:
    node = await started()
    node.store.network.failures["renew"] = UNREACHABLE
    await node.clock.pass_time(9.9, step=0.05)
    assert node.keeper.in_force
    await node.clock.pass_time(0.2)
    assert not node.keeper.in_force
    node.store.network.failures.clear()
    await node.clock.pass_time(3.4)
    assert node.keeper.in_force, "nobody wanted it meanwhile"
    assert node.keeper.owner == "a"


async def test_it_is_in_force_from_before_the_renewal_that_took_its_time() -> None:
    node = await started()
    node.store.network.hold("renew")
    await node.clock.pass_time(8.0, step=0.05)
    assert node.store.network.calls["renew"] == 2, "one at a time"
    node.store.network.release()
    await settle()
    node.store.network.failures["renew"] = UNREACHABLE
    # It was asked for after three seconds.
    await node.clock.pass_time(4.9)
    assert node.keeper.in_force
    await node.clock.pass_time(0.3)
    assert not node.keeper.in_force


# -- lost ------------------------------------------------------------------------------------------


async def test_whose_lease_is_lost_goes_on_under_another_name_and_says_so_after_it_has_it() -> None:
    node = await started()
    node.declare_lost()
    await node.clock.pass_time(3.2)
    assert node.lost == ["a-2"]
    assert node.keeper.owner == "a-2"
    assert node.keeper.in_force
    assert await node.lease("a-2") == TaskLease("a-2", node.store.renewals[-1], address=ADDRESS)
    assert (await node.lease()).lost, "nothing brings the old one back"
    node.declare_lost("a-2")
    await node.clock.pass_time(3.2)
    assert node.lost == ["a-2", "a-3"]


async def test_until_the_other_name_has_a_lease_nothing_is_in_force() -> None:
    """Whatever is put on record under it could be taken over at once."""
    node = await started()
    node.declare_lost()
    node.store.network.failures["renew"] = LeaseLost("the lease of a is lost")
    in_force: list[bool] = []

    def lose() -> None:
        in_force.append(node.keeper.in_force)
        node.store.network.failures["renew"] = UNREACHABLE

    node.keeper._on_lost = lose
    await node.clock.pass_time(3.2)
    assert in_force == [False]
    assert not node.keeper.in_force
    node.store.network.failures.clear()
    await node.clock.pass_time(3.2)
    assert node.keeper.in_force
    assert node.keeper.owner == "a-2"


async def test_a_lease_that_was_forgotten_since_is_lost_all_the_same() -> None:
    node = await started()
    node.declare_lost()
    await node.memory.forget("a")
    await node.clock.pass_time(3.2)
    assert node.keeper.owner == "a-2"


# -- released --------------------------------------------------------------------------------------


async def test_who_releases_its_lease_owns_nothing_from_then_on_and_does_not_renew_it() -> None:
    node = await started()
    await node.keeper.release()
    assert not node.keeper.in_force
    assert (await node.lease()).lost
    await node.clock.pass_time(20.0, step=0.05)
    assert len(node.store.renewals) == 1
    assert node.lost == []


async def test_a_renewal_on_its_way_when_the_lease_is_released_does_not_bring_it_back() -> None:
    node = await started()
    node.store.network.hold("renew")
    await node.clock.pass_time(3.2)
    await node.keeper.release()
    node.store.network.release()
    await settle()
    assert not node.keeper.in_force
    leases = await node.memory.leases()
    assert [lease.owner for lease in leases if lease.in_force(node.wall_time())] == []


async def test_when_the_store_is_down_the_lease_is_not_in_force_here_and_runs_out_there() -> None:
    node = await started()
    node.store.network.failures["release"] = UNREACHABLE
    with pytest.raises(type(UNREACHABLE)):
        await node.keeper.release()
    assert not node.keeper.in_force
    await node.clock.pass_time(10.1, step=0.05)
    assert not (await node.lease()).in_force(node.wall_time())
