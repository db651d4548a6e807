"""Whose deliveries are stretched first when a node is late."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.stream_core.base.agents import MessageTerms
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.delivery_clock import SLOT_SECONDS
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.tenants.registry import CONFIGURED_KEY
from evenflow.stream_core.tenants.tenant import Tenant
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Task
from tests.unit.recording_reader import AssembledText, RecordingReader
from tests.unit.settle import settle

GREEDY, QUIET = 40, 2
USUAL, LONGEST = 5, 20
# At the usual interval all deliveries together would need three cores.
DELIVERY_SECONDS = 3.0 * USUAL * SLOT_SECONDS / (GREEDY + QUIET)
KEYS = {"greedy": "a" * 32, "quiet": "b" * 32}


class CostlyReader(RecordingReader):
    """A reader to whom each delivery takes its time."""

    def deliver(self, now: float, jitter: float | None) -> None:
        """See `Reader.deliver`."""
        before = len(self.deliveries)
        super().deliver(now, jitter)
        if len(self.deliveries) > before:
            self._clock.now += DELIVERY_SECONDS


class LateNode:
    """A task with more to deliver than it can: its models give each answer a token a slot."""

    def __init__(self, keys: dict[str, str], records: Iterable[Tenant] = ()) -> None:
        self.task = Task.alone(Limits(store_interval_ms=1_000))
        self.task.tenants.replace_configured_keys(keys)
        self.task.tenants.replace(records)
        self._key = CONFIGURED_KEY if keys else ""
        self.clock = self.task.clock
        self.readers: dict[str, list[CostlyReader]] = {}
        self._gives = True
        self._given = 0

    async def answer(self, tenant: str, answers: int) -> None:
        """Begin so many answers of a tenant, each with its reader."""
        for number in range(answers):
            channel = Channel(tenant, "demo", f"s{number}")
            event = IncomingMessage(channel, "m", None, "hi", terms=MessageTerms(key=self._key))
            stream = (await self.task.orchestrator.submit(event)).stream
            reader = CostlyReader(stream, self.clock, AssembledText())
            stream.attach(reader)
            self.readers.setdefault(tenant, []).append(reader)
            await settle()
            # It is answered before the next one, or not so many would begin.
            self.task.source.calls[-1].push("0 ")
            await settle()

    def on_due(self, slot: int) -> None:
        """Each model gives a token."""
        if self._gives:
            self.clock.delivery.put(self, slot + 1)
            self._given += 1
            for call in self.task.source.calls:
                call.push(f"{self._given} ")

    async def run(self, seconds: int) -> None:
        """Let so much time pass, with a sweep each second."""
        for _ in range(seconds):
            self.task.orchestrator.sweep(self.clock.now)
            await self.clock.pass_time(1.0)

    async def end(self) -> None:
        """The models end, and all answers do."""
        self._gives = False
        for call in self.task.source.calls:
            call.finish()
        await settle()

    @property
    def stretched(self) -> float:
        """The gauge of tenants that are delivered to less often."""
        return self.task.metrics._gauges[catalogue.STRETCHED_TENANTS.name]()

    def gaps(self, tenant: str, since: int) -> set[int]:
        """The slots between two deliveries of one of a tenant's answers, since a slot."""
        return {
            after.slot - before.slot
            for reader in self.readers[tenant]
            for before, after in itertools.pairwise(reader.deliveries)
            if before.slot >= since
        }


async def late(keys: dict[str, str], *records: Tenant) -> tuple[LateNode, set[int], set[int]]:
    """A node that has been late for ten seconds: the greedy tenant's gaps in the two seconds
    after that, and the quiet one's.
    """
    node = LateNode(keys, records)
    await node.answer("greedy", GREEDY)
    await node.answer("quiet", QUIET)
    node.on_due(node.clock.delivery.position)
    await node.run(10)
    settled = node.clock.delivery.position
    await node.run(2)
    return node, node.gaps("greedy", settled), node.gaps("quiet", settled)


async def test_who_takes_most_is_delivered_to_less_often_and_nobody_loses_anything() -> None:
    node, greedy, quiet = await late(KEYS)
    assert quiet == {USUAL}
    assert 3 * USUAL < min(greedy) <= max(greedy) <= LONGEST
    assert node.stretched == 1
    await node.end()
    whole = "".join(f"{number} " for number in range(node._given + 1))
    for reader in itertools.chain(*node.readers.values()):
        assert reader.held.text == whole
        assert reader.held.indexes == list(range(reader.next_index))
    await node.task.leave()


async def test_when_the_greedy_one_s_answers_end_nobody_is_stretched() -> None:
    node, _, _ = await late(KEYS)
    for call in node.task.source.calls[: GREEDY * 3 // 4]:
        call.finish()
    await node.run(3)
    back = node.clock.delivery.position
    await node.run(1)
    assert node.gaps("quiet", back) == {USUAL}
    assert node.gaps("greedy", back) == {USUAL}
    assert node.stretched == 0
    await node.task.leave()


async def test_names_that_anybody_may_make_up_are_one_tenant() -> None:
    node, greedy, quiet = await late({})
    assert greedy == quiet
    assert min(quiet) > 2 * USUAL
    await node.task.leave()


async def test_whose_weight_is_larger_may_take_more() -> None:
    node, greedy, quiet = await late(KEYS, Tenant(id="greedy", weight=20))
    assert greedy == quiet
    assert min(quiet) > 2 * USUAL
    await node.task.leave()
