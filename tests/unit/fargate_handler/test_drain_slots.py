"""A leaving task's clients go one by one; who still reads is waited for, as long as there is
time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise
from typing import cast

import pytest

from evenflow.fargate_handler.adapters import Adapters, memory_stores
from evenflow.fargate_handler.gateway.connections.connection_registry import OpenConnection
from evenflow.fargate_handler.node import Node
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from tests.chaos.arrival_rate import arrival_rate
from tests.unit.hand_turned_clock import HandTurnedClock


class Client:
    """A connection as the drain sees it. It goes by itself at its slot, if it `obeys`."""

    def __init__(self, node: NodeUnderTest, number: int, *, reads: bool, obeys: bool) -> None:
        self.counted_as = Channel("t", "demo", f"s{number}")
        self.sender = ("t", "127.0.0.1")
        self.reading = reads
        self.slot: float | None = None
        self.gone_at: float | None = None
        self.close_frame: tuple[int, str] | None = None
        self._node = node
        self._obeys = obeys

    def ask_to_reconnect(self, reason: str, after_ms: int) -> None:
        assert self.slot is None, "asked once"
        assert reason
        self.slot = after_ms / 1000
        self.told_at = self._node.clock.now - self._node.began
        if self._obeys:
            asyncio.get_running_loop().call_later(self.slot, self.go)

    def close(self, code: int, reason: str) -> None:
        if self.gone_at is None:
            self.close_frame = (code, reason)
            self.go()

    def go(self) -> None:
        if self.gone_at is None:
            self.gone_at = self._node.clock.now - self._node.began
            self._node.handler._registry.remove(cast("OpenConnection", self))


class NodeUnderTest:
    """A handler that does not listen, and whose time is turned by hand."""

    def __init__(self, seconds: float = 110.0, per_second: float = 10.0) -> None:
        self.clock = HandTurnedClock()
        self.clock.drive_timers()
        self.began = self.clock.now
        settings = HandlerSettings(drain_seconds=seconds, drain_connections_per_second=per_second)
        adapters = Adapters({"k1": b"secret--" * 4}, memory_stores())
        self.handler = Node(
            settings,
            asyncio.get_running_loop(),
            Metrics(),
            adapters,
            lambda: None,
            monotonic=self.clock.monotonic,
        )

    def clients(self, count: int, *, reads: bool = False, obeys: bool = True) -> list[Client]:
        clients = [Client(self, number, reads=reads, obeys=obeys) for number in range(count)]
        for client in clients:
            self.handler._registry.add(cast("OpenConnection", client))
        return clients

    async def drain(self, seconds: float) -> asyncio.Task[None]:
        """Begin to leave, and let so much time pass."""
        draining = asyncio.create_task(self.handler.drain())
        await self.clock.pass_time(seconds, step=0.05)
        return draining


def _check_rate(clients: list[Client], per_second: float) -> None:
    gone = [client.gone_at for client in clients if client.gone_at is not None]
    assert len(gone) == len(clients)
    rate = arrival_rate(gone, per_second)
    assert rate.above <= 0.01, str(rate)


@pytest.fixture
async def node() -> AsyncIterator[NodeUnderTest]:
    node = NodeUnderTest()
    yield node
    await node.handler.stop()


async def test_nobody_is_waited_for_when_nobody_is_there(node: NodeUnderTest) -> None:
    draining = await node.drain(0.05)
    assert draining.done()
    assert node.handler._orchestrator.draining


async def test_each_client_is_told_a_moment_of_its_own_and_all_are_gone_by_the_last(
    node: NodeUnderTest,
) -> None:
    clients = node.clients(50)
    draining = await node.drain(6.1)
    slots = sorted(client.slot for client in clients if client.slot is not None)
    assert len(slots) == 50
    assert slots[0] == 0.0
    assert all(later - earlier >= 0.1 for earlier, later in pairwise(slots))
    assert slots[-1] <= 6.0
    assert draining.done()
    assert [client.close_frame for client in clients] == [None] * 50, "they went by themselves"


async def test_thousands_are_told_little_by_little_who_goes_first_is_told_first_and_nobody_too_late(
    node: NodeUnderTest,
) -> None:
    clients = node.clients(950)
    await node.drain(0.2)
    assert 100 <= sum(client.slot is not None for client in clients) <= 500, (
        "not all in one turn of the loop"
    )
    await node.clock.pass_time(1.0, step=0.05)
    moments = sorted((client.told_at, client.told_at + (client.slot or 0.0)) for client in clients)
    assert [moment for _, moment in moments] == sorted(moment for _, moment in moments)
    assert all(later - earlier >= 0.08 for (_, earlier), (_, later) in pairwise(moments))


async def test_the_order_in_which_they_came_says_nothing(node: NodeUnderTest) -> None:
    clients = node.clients(50)
    await node.drain(0.1)
    slots = [client.slot for client in clients if client.slot is not None]
    assert slots != sorted(slots)


async def test_who_does_not_go_is_sent_a_little_after_its_slot_and_not_before(
    node: NodeUnderTest,
) -> None:
    clients = node.clients(20, obeys=False)
    draining = await node.drain(10.0)
    assert draining.done()
    for client in clients:
        assert client.close_frame == (1001, "this node is leaving")
        assert client.slot is not None
        assert client.gone_at is not None
        assert 2.0 <= client.gone_at - client.slot <= 2.2


async def test_who_still_reads_is_waited_for_and_then_sent(node: NodeUnderTest) -> None:
    readers = node.clients(3, reads=True, obeys=False)
    draining = await node.drain(60.0)
    assert [reader.gone_at for reader in readers] == [None] * 3
    readers[1].reading = False
    await node.clock.pass_time(0.4)  # its next slot: three readers, 0.12 s apart
    assert readers[1].close_frame == (1001, "this node is leaving")
    assert [reader.gone_at is None for reader in readers] == [True, False, True]
    assert not draining.done()
    # Of the 110 seconds the last five are for what is unwritten.
    await node.clock.pass_time(45.0, step=0.05)
    assert draining.done()
    assert all(reader.close_frame == (1001, "this node is leaving") for reader in readers)


async def test_a_reader_does_not_hold_up_those_that_come_after_it(node: NodeUnderTest) -> None:
    (reader,) = node.clients(1, reads=True, obeys=False)
    idle = node.clients(10, obeys=False)
    await node.drain(5.0)
    assert reader.gone_at is None
    assert all(client.gone_at is not None for client in idle)
    reader.go()
    await node.clock.pass_time(0.1)


async def test_readers_whose_answers_end_together_go_one_after_the_other() -> None:
    node = NodeUnderTest(per_second=100.0)
    readers = node.clients(300, reads=True, obeys=False)
    draining = await node.drain(60.0)
    assert [reader.gone_at for reader in readers] == [None] * 300
    for reader in readers:
        reader.reading = False
    await node.clock.pass_time(5.0, step=0.05)
    assert draining.done()
    _check_rate(readers, per_second=100.0)
    await node.handler.stop()


async def test_readers_whose_answers_never_end_are_sent_away_one_by_one_in_time() -> None:
    node = NodeUnderTest(per_second=100.0)
    readers = node.clients(300, reads=True, obeys=False)
    draining = await node.drain(105.2)
    assert draining.done()
    _check_rate(readers, per_second=100.0)
    assert min(reader.gone_at or 0.0 for reader in readers) > 100.0, "as long as there is time"
    await node.handler.stop()


async def test_however_many_there_are_they_go_within_three_quarters_of_the_time() -> None:
    node = NodeUnderTest(seconds=20.0, per_second=1.0)
    clients = node.clients(200)
    draining = await node.drain(11.5)
    assert draining.done()
    assert max(client.slot for client in clients if client.slot is not None) <= 0.75 * 15.0
    await node.handler.stop()


async def test_a_drain_without_time_sends_everybody_at_once() -> None:
    node = NodeUnderTest(seconds=0.0)
    clients = node.clients(5, reads=True, obeys=False)
    draining = await node.drain(0.05)
    assert draining.done()
    assert [client.slot for client in clients] == [0.0] * 5
    assert [client.close_frame for client in clients] == [(1001, "this node is leaving")] * 5
    await node.handler.stop()


def outcomes(node: NodeUnderTest) -> dict[tuple[str, ...], int]:
    return node.handler._metrics.labelled(catalogue.DRAINED_CONNECTIONS).by_labels


async def test_clients_are_counted_by_how_they_went(node: NodeUnderTest) -> None:
    node.clients(5)
    node.clients(3, obeys=False)
    node.clients(2, reads=True, obeys=False)
    draining = await node.drain(106.0)
    assert draining.done()
    assert outcomes(node) == {("moved",): 5, ("closed",): 3, ("cut",): 2}
