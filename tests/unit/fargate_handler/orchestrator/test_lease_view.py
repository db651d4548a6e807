from __future__ import annotations

from dataclasses import replace

import pytest

from evenflow.fargate_handler.orchestrator.leases import LeaseKeeper, LeaseView
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
LEASE = 3.0


class Member:
    """A task that keeps its lease and looks at the others'. Its wall clock may be wrong."""

    def __init__(self, name: str, clock: HandTurnedClock, store: MemoryResponseStore) -> None:
        self.clock = clock
        self.ahead = 0.0
        self.lost = 0
        self.store = ScriptedResponseStore(store)
        context = NodeContext(
            Limits(),
            clock.delivery,
            Metrics(),
            clock.monotonic,
            lambda: EPOCH + clock.now + self.ahead,
        )
        self.keeper = LeaseKeeper(
            context, self.store, name=name, address=None, on_lost=self._note_loss
        )
        self.view = LeaseView(context, self.store, self.keeper)

    def _note_loss(self) -> None:
        self.lost += 1

    async def judges_lost(self, owner: str) -> bool:
        """Whether it declares this lease lost, now that it looks."""
        await self.view.all(0)
        lease = (await self.view.all())[owner]
        return await self.view.declare_lost_if_expired(lease)

    def freeze(self) -> None:
        """Stop it. Its renewals come no more, though it doesn't know."""
        self.store.network.hold("renew")


class Tasks:
    """Task a, and task b that looks at a's lease twice a second."""

    def __init__(self) -> None:
        self.clock = HandTurnedClock()
        self.memory = MemoryResponseStore()
        self.a = Member("a", self.clock, self.memory)
        self.b = Member("b", self.clock, self.memory)

    async def start(self) -> None:
        await self.a.keeper.start()
        await self.b.keeper.start()

    async def lost_within(self, seconds: float) -> float | None:
        """After how many seconds b finds the lease of a lost. None if it doesn't."""
        began = self.clock.now
        while self.clock.now < began + seconds:
            if self.b.store.network.failures or not await self.b.judges_lost("a"):
                await self.clock.pass_time(0.1)
            else:
                return self.clock.now - began
        return None


async def started() -> Tasks:
    tasks = Tasks()
    await tasks.start()
    return tasks


async def test_who_renews_is_never_lost_and_who_does_not_is_when_its_time_is_over() -> None:
    tasks = await started()
    assert await tasks.lost_within(20.0) is None
    assert tasks.a.lost == 0
    tasks.a.freeze()
    after = await tasks.lost_within(10.0)
    assert after is not None
    assert LEASE - 1.2 <= after <= LEASE + 0.2
    assert not tasks.a.keeper.in_force


@pytest.mark.parametrize("ahead", [-3_600.0, -2.0, 0.0, 2.0, 3_600.0])
async def test_wall_clocks_that_differ_cost_nobody_a_lease(ahead: float) -> None:
    """Neither that of the owner nor that of who looks, and also when one jumps."""
    tasks = await started()
    tasks.a.ahead = ahead
    assert await tasks.lost_within(10.0) is None
    tasks.b.ahead, tasks.a.ahead = ahead, 0.0
    assert await tasks.lost_within(10.0) is None
    assert (tasks.a.lost, tasks.b.lost) == (0, 0)
    tasks.a.freeze()
    after = await tasks.lost_within(20.0)
    assert after is not None
    assert LEASE - 1.2 <= after <= 3 * LEASE + 0.2, "a clock that is ahead delays it"
    assert not tasks.a.keeper.in_force


@pytest.mark.parametrize("ahead", [-3_600.0, 0.0, 3_600.0])
async def test_who_has_just_begun_to_look_waits_for_a_whole_lease(ahead: float) -> None:
    """Whatever its clock says of a lease that it has never seen change."""
    tasks = Tasks()
    await tasks.a.keeper.start()
    tasks.a.freeze()
    await tasks.clock.pass_time(60.0, step=0.05)
    tasks.b.ahead = ahead
    await tasks.b.keeper.start()
    after = await tasks.lost_within(20.0)
    assert after is not None
    assert after >= LEASE


async def test_a_longer_lease_of_another_task_is_waited_for() -> None:
    """Its setting may be another one, as while the setting is changed."""
    tasks = Tasks()
    await tasks.b.keeper.start()
    now = EPOCH + tasks.clock.now
    tasks.memory._leases["old"] = NodeLease("old", now + 2 * LEASE)
    assert not await tasks.b.judges_lost("old")
    await tasks.clock.pass_time(2 * LEASE - 0.1)
    assert not await tasks.b.judges_lost("old")
    await tasks.clock.pass_time(0.2)
    assert await tasks.b.judges_lost("old")


async def test_after_an_outage_of_the_store_everybody_has_a_whole_lease_to_renew() -> None:
    tasks = await started()
    assert await tasks.lost_within(2.0) is None
    for member in (tasks.a, tasks.b):
        member.store.network.cut = True
    await tasks.clock.pass_time(30.0, step=0.05)
    assert not tasks.b.keeper.in_force
    # The one that looks is the first whose calls come through again.
    tasks.b.store.network.cut = False
    assert await tasks.lost_within(2.0) is None
    tasks.a.store.network.cut = False
    assert await tasks.lost_within(20.0) is None
    assert (tasks.a.lost, tasks.b.lost) == (0, 0)


async def test_who_cannot_renew_its_own_lease_judges_nobody() -> None:
    tasks = await started()
    tasks.b.store.network.failures["renew"] = UNREACHABLE
    tasks.a.freeze()
    await tasks.clock.pass_time(2.0)
    for _ in range(100):
        assert not await tasks.b.judges_lost("a")
        await tasks.clock.pass_time(0.1)


async def test_a_renewal_that_came_in_the_last_moment_counts() -> None:
    """Between the look and the declaration."""
    tasks = await started()
    await tasks.b.view.all(0)
    tasks.a.freeze()
    seen = (await tasks.b.view.all())["a"]
    while tasks.b.view.seconds_left(seen) > 0:
        await tasks.clock.pass_time(0.1)
    tasks.memory._leases["a"] = replace(seen, until=seen.until + 0.001)
    assert not await tasks.b.view.declare_lost_if_expired(seen)
    assert not tasks.memory._leases["a"].lost
    assert not await tasks.b.judges_lost("a"), "and from then on it has its time"


async def test_a_frozen_owner_thaws_without_its_lease_and_learns_it_at_once() -> None:
    tasks = await started()
    tasks.a.freeze()
    assert await tasks.lost_within(10.0) is not None
    assert not tasks.a.keeper.in_force
    tasks.a.store.network.release()
    await settle()
    assert (tasks.a.lost, tasks.a.keeper.owner) == (1, "a-2")
    with pytest.raises(LeaseLost):
        await tasks.memory.renew("a", EPOCH + tasks.clock.now + 1_000.0)


async def test_a_task_is_gone_when_its_lease_is_over_and_there_again_under_its_next_name() -> None:
    tasks = await started()
    await tasks.b.view.all(0)
    new = Member("new", tasks.clock, tasks.memory)
    await new.keeper.start()
    assert await tasks.b.view.without_lease({"a", "b", "new", "never"}) == {"never"}
    tasks.a.freeze()
    assert await tasks.lost_within(10.0) is not None
    assert await tasks.b.view.without_lease({"a", "b"}) == {"a"}
    tasks.a.store.network.release()
    await settle()
    assert tasks.a.keeper.owner == "a-2"
    assert await tasks.b.view.without_lease({"a", "b"}) == set()
    tasks.b.store.network.calls.clear()
    assert await tasks.b.view.without_lease(set()) == set()
    assert not tasks.b.store.network.calls


async def test_those_who_ask_together_share_a_read() -> None:
    tasks = await started()
    tasks.b.store.network.hold("leases")
    reads = [tasks.b.view._background.run(tasks.b.view.all(0)) for _ in range(10)]
    await settle()
    tasks.b.store.network.release()
    await settle()
    assert all(read.done() for read in reads)
    assert tasks.b.store.network.calls["leases"] == 1


async def test_those_who_see_a_lease_run_out_together_declare_it_lost_once() -> None:
    """The readers of all responses of a lost task ask in the same moment."""
    tasks = await started()
    tasks.a.freeze()
    await tasks.b.view.all(0)
    seen = (await tasks.b.view.all())["a"]
    while tasks.b.view.seconds_left(seen) > 0:
        await tasks.clock.pass_time(0.1)
    tasks.b.store.network.hold("declare_lost")
    view = tasks.b.view
    asking = [view._background.run(view.declare_lost_if_expired(seen)) for _ in range(10)]
    await settle()
    tasks.b.store.network.release()
    await settle()
    assert [each.result() for each in asking] == [True] * 10
    assert await tasks.b.view.declare_lost_if_expired(seen)
    assert tasks.b.store.network.calls["declare_lost"] == 1
