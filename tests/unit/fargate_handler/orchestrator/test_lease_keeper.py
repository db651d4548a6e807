from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest

from evenflow.fargate_handler.orchestrator.leases import LeaseKeeper
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.stores.memory_store import MemoryResponseStore
from evenflow.stream_core.stores.response_store import LeaseLost, NodeLease
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
        self.ahead = 0.0
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
        return EPOCH + self.clock.now + self.ahead

    async def lease(self, owner: str = "a") -> NodeLease:
        lease = await self.memory.lease(owner)
        assert lease is not None
        return lease

    def declare_lost(self, owner: str = "a") -> None:
        """Another task has taken something over, or its lease."""
        self.memory._leases[owner] = NodeLease(owner, 0.0, lost=True)


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
    assert await node.lease() == NodeLease("a", node.wall_time() + 3.0, address=ADDRESS)


async def test_a_lease_of_three_seconds_is_renewed_every_second() -> None:
    node = await started()
    began = node.wall_time()
    await node.clock.pass_time(30.0)
    renewed_at = [until - 3.0 - began for until in node.store.renewals]
    assert renewed_at[0] == pytest.approx(0.0)
    assert all(1.0 <= later - earlier <= 1.1 for earlier, later in pairwise(renewed_at))
    assert 30 - renewed_at[-1] <= 1.1


async def test_on_a_wheel_that_turns_slower_than_time_passes_the_lease_is_kept() -> None:
    """An overloaded clock gives up the time that it lost."""
    node = await started()
    for _ in range(300):
        # A turn of 10 ms in each 100 ms.
        node.clock.now += 0.09
        await node.clock.pass_time(0.01)
        assert node.keeper.in_force
    assert max(later - earlier for earlier, later in pairwise(node.store.renewals)) < 2.0


@pytest.mark.parametrize(
    "error", [UNREACHABLE, ValueError("a bug in the store")], ids=["unreachable", "bug"]
)
async def test_a_renewal_that_fails_is_tried_again(error: Exception) -> None:
    node = await started()
    node.store.network.failures["renew"] = error
    await node.clock.pass_time(2.5)
    assert len(node.store.renewals) == 1
    node.store.network.failures.clear()
    await node.clock.pass_time(1.1)
    assert node.keeper.in_force
    assert (await node.lease()).until > node.wall_time() + 1.8
    assert node.lost == []


async def test_a_store_that_is_away_for_less_than_two_renewals_costs_no_lease() -> None:
    node = await started()
    for _ in range(10):
        await node.clock.pass_time(1.0)
        node.store.network.failures["renew"] = UNREACHABLE
        for _ in range(16):
            await node.clock.pass_time(0.1)
            assert node.keeper.in_force
        node.store.network.failures.clear()
        await node.clock.pass_time(0.4)
        assert node.keeper.in_force
        assert (await node.lease()).until > node.wall_time() + 2.5, "it was tried again soon"


async def test_a_lease_that_could_not_be_renewed_is_in_force_for_its_time_and_no_longer() -> None:
    node = await started()
    node.store.network.failures["renew"] = UNREACHABLE
    await node.clock.pass_time(2.9)
    assert node.keeper.in_force
    await node.clock.pass_time(0.2)
    assert not node.keeper.in_force
    node.store.network.failures.clear()
    await node.clock.pass_time(0.5)
    assert node.keeper.in_force, "nobody wanted it meanwhile"
    assert node.keeper.owner == "a"


async def test_it_is_in_force_from_before_the_renewal_that_took_its_time() -> None:
    node = await started()
    node.store.network.hold("renew")
    await node.clock.pass_time(2.6)
    assert node.store.network.calls["renew"] == 4
    node.store.network.release()
    await settle()
    node.store.network.failures["renew"] = UNREACHABLE
    # The last one was asked for after some two and a half seconds.
    await node.clock.pass_time(2.7)
    assert node.keeper.in_force
    await node.clock.pass_time(0.4)
    assert not node.keeper.in_force


async def test_one_renewal_that_never_returns_does_not_hold_up_the_next() -> None:
    node = await started()
    node.store.network.hold("renew")
    await node.clock.pass_time(1.1)
    # What is held now stays held.
    node.store.network._held.clear()
    for _ in range(100):
        await node.clock.pass_time(0.1)
        assert node.keeper.in_force


async def test_few_renewals_are_under_way_however_long_they_take() -> None:
    node = await started()
    node.store.network.hold("renew")
    await node.clock.pass_time(20.0, step=0.05)
    assert node.store.network.calls["renew"] == 7
    node.store.network.release()
    await node.clock.pass_time(0.1)
    assert node.keeper.in_force


async def test_each_renewal_differs_from_the_last_also_when_the_wall_clock_is_set_back() -> None:
    node = await started()
    await node.clock.pass_time(1.5)
    node.ahead = -300.0
    await node.clock.pass_time(10.0)
    assert node.keeper.in_force
    assert all(later > earlier for earlier, later in pairwise(node.store.renewals))
    assert len(node.store.renewals) >= 11
    assert (await node.lease()).until == node.store.renewals[-1]


async def test_a_break_is_told_until_the_lease_is_renewed_and_from_then_on_it_is_steady() -> None:
    node = await started()
    began = node.clock.now
    await node.clock.pass_time(20.0)
    assert node.keeper.steady_since == pytest.approx(began)
    node.store.network.failures["renew"] = UNREACHABLE
    await node.clock.pass_time(0.4)
    node.store.network.failures.clear()
    await node.clock.pass_time(1.4)
    assert node.keeper.steady_since == pytest.approx(began), "that was none"
    node.store.network.failures["renew"] = UNREACHABLE
    await node.clock.pass_time(2.2)
    assert node.keeper.steady_since == inf
    node.store.network.failures.clear()
    await node.clock.pass_time(0.5)
    assert node.clock.now - 0.5 <= node.keeper.steady_since <= node.clock.now


# -- lost ------------------------------------------------------------------------------------------


async def test_whose_lease_is_lost_goes_on_under_another_name_and_says_so_after_it_has_it() -> None:
    node = await started()
    node.declare_lost()
    await node.clock.pass_time(1.2)
    assert node.lost == ["a-2"]
    assert node.keeper.owner == "a-2"
    assert node.keeper.in_force
    assert await node.lease("a-2") == NodeLease("a-2", node.store.renewals[-1], address=ADDRESS)
    assert (await node.lease()).lost, "nothing brings the old one back"
    node.declare_lost("a-2")
    await node.clock.pass_time(1.2)
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
    await node.clock.pass_time(1.2)
    assert in_force == [False]
    assert not node.keeper.in_force
    node.store.network.failures.clear()
    await node.clock.pass_time(1.2)
    assert node.keeper.in_force
    assert node.keeper.owner == "a-2"


async def test_a_lease_that_was_forgotten_since_is_lost_all_the_same() -> None:
    node = await started()
    node.declare_lost()
    await node.memory.forget("a")
    await node.clock.pass_time(1.2)
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
    await node.clock.pass_time(1.2)
    await node.keeper.release()
    node.store.network.release()
    await settle()
    assert not node.keeper.in_force
    assert (await node.lease()).lost


async def test_when_the_store_is_down_the_lease_is_not_in_force_here_and_runs_out_there() -> None:
    node = await started()
    node.store.network.failures["release"] = UNREACHABLE
    with pytest.raises(type(UNREACHABLE)):
        await node.keeper.release()
    assert not node.keeper.in_force
    await node.clock.pass_time(3.1, step=0.05)
    assert (await node.lease()).until < node.wall_time()
