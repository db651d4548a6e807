from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.orchestrator.fair_semaphore import FairSemaphore
from evenflow.stream_core.queue.fair_queue import Line
from tests.unit.settle import settle


class Store:
    """Messages that are being put on record, until the test lets them go."""

    def __init__(self, at_once: int) -> None:
        self.turns = FairSemaphore(at_once)
        self.at_it: list[tuple[str, asyncio.Event]] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def put(self, *tenants: str) -> None:
        for tenant in tenants:
            self.tasks.append(asyncio.create_task(self._put(tenant)))
        await settle()

    async def end_all(self) -> list[str]:
        """End what is at the store. Returns whose those were."""
        ended, self.at_it = self.at_it, []
        for _, end in ended:
            end.set()
        await settle()
        return [tenant for tenant, _ in ended]

    async def _put(self, tenant: str) -> None:
        async with self.turns.turn(Line(tenant)):
            end = asyncio.Event()
            self.at_it.append((tenant, end))
            await end.wait()


async def test_so_many_are_at_the_store_at_once_and_tenants_take_turns() -> None:
    store = Store(2)
    await store.put(*["many"] * 6, "one", "one", "other")
    turns = [await store.end_all() for _ in range(5)]
    assert turns == [["many"] * 2, ["many", "one"], ["other", "many"], ["one", "many"], ["many"]]
    assert await store.end_all() == []


async def test_who_leaves_while_it_waits_takes_nobody_s_turn() -> None:
    store = Store(1)
    await store.put("first", "leaves", "next")
    store.tasks[1].cancel()
    await settle()
    assert [await store.end_all() for _ in range(3)] == [["first"], ["next"], []]


@pytest.mark.parametrize("is_given_the_turn", [True, False])
async def test_the_turn_of_one_who_leaves_at_that_moment_is_the_next_one_s(
    is_given_the_turn: bool,
) -> None:
    store = Store(1)
    async with store.turns.turn(Line("first")):
        await store.put("leaves", "next")
        if not is_given_the_turn:
            store.tasks[0].cancel()
    # It has not run since.
    store.tasks[0].cancel()
    await settle()
    assert await store.end_all() == ["next"]
    await store.put("later")
    assert await store.end_all() == ["later"]
