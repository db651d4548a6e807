"""How a handler ends: what becomes of running answers, and that nothing of it goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from evenflow.fargate_handler.adapters import Adapters, Stores, memory_stores
from evenflow.fargate_handler.node import Node
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.response_log import ResponseState
from tests.unit.fargate_handler.orchestrator.scripted_stores import ScriptedResponseStore
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.settle import settle

CHANNEL = Channel("t", "demo", "s")


class NodeUnderTest:
    """A handler that does not listen. The demo model answers."""

    def __init__(self, stores: Stores, clock: HandTurnedClock) -> None:
        self.clock = clock
        self.handler = Node(
            HandlerSettings(drain_seconds=1.0),
            asyncio.get_running_loop(),
            Metrics(),
            Adapters({"k1": b"secret--" * 4}, stores),
            lambda: None,
            monotonic=clock.monotonic,
            wall_time=clock.monotonic,
        )
        clock.delivery = self.handler._clock

    async def ask(self) -> ResponseStream:
        """A response whose model has begun, or will."""
        submission = await self.handler._orchestrator.submit(
            IncomingMessage(CHANNEL, "m1", None, "hello")
        )
        await self.clock.pass_time(2.0)
        return submission.stream

    async def drain(self) -> None:
        """Leave, and see it through."""
        draining = asyncio.create_task(self.handler.drain())
        await self.clock.pass_time(8.0, step=0.05)
        await draining

    async def stop(self) -> None:
        """End; nothing of it is left running."""
        await self.handler.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.fixture
async def clock() -> HandTurnedClock:
    clock = HandTurnedClock()
    clock.drive_timers()
    return clock


async def _started(stores: Stores, clock: HandTurnedClock) -> NodeUnderTest:
    node = NodeUnderTest(stores, clock)
    await node.handler._cluster.start()
    return node


@pytest.fixture
async def node(clock: HandTurnedClock) -> AsyncIterator[NodeUnderTest]:
    node = await _started(memory_stores(), clock)
    yield node
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("drains", [True, False])
async def test_behind_its_end_no_task_runs(node: NodeUnderTest, drains: bool) -> None:
    assert (await node.ask()).state is ResponseState.STREAMING
    if drains:
        await node.drain()
    await node.stop()


@pytest.mark.parametrize("sweep_waits_for", ["leases", "unfinished"])
async def test_no_task_waits_for_a_store_that_does_not_answer(
    clock: HandTurnedClock, sweep_waits_for: str
) -> None:
    memory = memory_stores()
    responses = ScriptedResponseStore(memory.responses)
    node = await _started(replace(memory, responses=responses, leases=responses), clock)
    stream = await node.ask()
    await responses.renew("lost", clock.now)
    await responses.release("lost")
    waiting = ("append", "head", "renew", sweep_waits_for)
    responses.network.hold(*waiting)
    responses.network.calls.clear()
    stream.readers.begin_grace_at(clock.now - 1.0)
    finding = asyncio.create_task(node.handler._orchestrator.find("rsp_elsewhere", CHANNEL))
    await clock.pass_time(5.0)
    assert all(responses.network.calls[name] for name in waiting)
    finding.cancel()
    await node.stop()


async def test_where_the_store_ends_with_the_process_readers_are_told(node: NodeUnderTest) -> None:
    stream = await node.ask()
    await node.drain()
    assert stream.error is not None
    assert (stream.state, stream.error["code"]) == (ResponseState.ERROR, "draining")
    await node.stop()


async def test_where_the_store_outlives_the_process_the_next_one_goes_on(
    clock: HandTurnedClock,
) -> None:
    stores = replace(memory_stores(), outlives_process=True)
    first = await _started(stores, clock)
    stream = await first.ask()
    await first.drain()
    assert not stream.state.terminal
    await first.stop()
    second = await _started(stores, clock)
    await clock.pass_time(3.0)
    taken = await second.handler._orchestrator.find(stream.response_id, CHANNEL)
    assert (taken.via, taken.epoch) == ("owner", 2)
    await second.stop()


async def test_what_a_hurried_end_leaves_is_as_it_was_and_a_successor_finds_it(
    clock: HandTurnedClock,
) -> None:
    stores = replace(memory_stores(), outlives_process=True)
    first = await _started(stores, clock)
    stream = await first.ask()
    await first.stop()
    second = await _started(stores, clock)
    await clock.pass_time(1.0)
    head = await stores.responses.head(stream.response_id, clock.now)
    assert head is not None
    assert head.ending is None, "nobody has said how it ends"
    await clock.pass_time(12.0)
    taken = await second.handler._orchestrator.find(stream.response_id, CHANNEL)
    assert (taken.via, taken.epoch) == ("owner", 2)
    await settle()
    await second.stop()
