"""Handler tasks that share their stores and reach each other, without sockets."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Self

import pytest

from evenflow.fargate_handler.adapters import Stores
from evenflow.fargate_handler.cluster import ClusterMember
from evenflow.fargate_handler.orchestrator.agent_settings import AgentSettings
from evenflow.fargate_handler.orchestrator.dispatcher import ServedModel
from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage, ReceivedRequest
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.orchestrator import Submission
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.fargate_handler.token_sources.port import TokenSource
from evenflow.stream_core.base.channel import CHAT, Channel, MessageKind
from evenflow.stream_core.base.errors import EvenflowError, Overloaded
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import LogEntry
from evenflow.stream_core.metrics.metric_catalogue import Metric
from evenflow.stream_core.stores.memory_store import MemoryResponseStore, MemorySessionStore
from evenflow.stream_core.stores.response_store import ResponseHead
from evenflow.stream_core.stores.session_store import LargeTexts, LedgerEntry
from evenflow.stream_core.tenants.memory_usage import MemoryUsageStore
from evenflow.stream_core.tenants.quotas import Quotas
from evenflow.stream_core.tenants.registry import Tenants
from evenflow.stream_core.upstream.memory_node_reports import MemoryNodeReports
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource
from tests.unit.fargate_handler.orchestrator.peer_network import PeerNetwork
from tests.unit.fargate_handler.orchestrator.scripted_stores import (
    ScriptedNodeReports,
    ScriptedResponseStore,
    ScriptedSessionStore,
)
from tests.unit.fargate_handler.orchestrator.told_letters import ToldLetters
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.recording_reader import AssembledText, RecordingReader
from tests.unit.settle import settle

CHANNEL = Channel("t", "demo", "s")
LEAVING = Overloaded("leaving", code="draining")


class Shared:
    """What all tasks share: time, the stores, the network between them, the dead letters."""

    def __init__(self) -> None:
        self.clock = HandTurnedClock()
        self.clock.drive_timers()
        self.memory = MemoryResponseStore()
        self._sessions = MemorySessionStore(self.memory)
        self.responses = ScriptedResponseStore(self.memory)
        self.sessions = ScriptedSessionStore(self._sessions)
        self.peers = PeerNetwork()
        self.letters = ToldLetters()
        self.large_texts: LargeTexts | None = None
        self.node_reports = MemoryNodeReports()
        self.usage = MemoryUsageStore()
        self.tenants = Tenants()

    async def ledger(self, channel: Channel = CHANNEL) -> list[LedgerEntry]:
        """A session's messages as any task would read them."""
        return list((await self._sessions.load(channel, self.clock.now)).messages)

    async def head(self, response_id: str) -> ResponseHead:
        """What is on record of a response."""
        head = await self.memory.head(response_id, self.clock.now)
        assert head is not None
        return head

    async def stored(self, response_id: str) -> list[LogEntry]:
        """The entries that are on record."""
        return list((await self.memory.entries(response_id, 0, self.clock.now)).entries)


class Task:
    """One of the handler tasks, that has just begun: `join` makes one that is a member."""

    def __init__(
        self,
        shared: Shared,
        name: str = "a",
        limits: Limits | None = None,
        source: TokenSource | None = None,
        fallback_text: str = "",
        repeats_lost: bool = True,
    ) -> None:
        self.shared = shared
        self.clock = shared.clock
        self.source = source if isinstance(source, ControlledSource) else ControlledSource()
        self.metrics = Metrics()
        # What a test has said 0.2 s ago is on record.
        self.limits = limits = limits or Limits(store_interval_ms=150)
        self.address = f"http://{name}:8080"
        self.tenants = shared.tenants
        # On the way to what all share, a network of its own.
        self.responses = ScriptedResponseStore(shared.responses)
        self.sessions = ScriptedSessionStore(shared.sessions)
        self._node_reports = ScriptedNodeReports(shared.node_reports)
        self.quotas = Quotas(self.tenants)
        self.cluster = ClusterMember(
            NodeContext(
                limits,
                self.clock.delivery,
                self.metrics,
                self.clock.monotonic,
                self.clock.monotonic,
                tenants=self.tenants,
                quotas=self.quotas,
            ),
            Stores(
                sessions=self.sessions,
                responses=self.responses,
                leases=self.responses,
                dead_letters=shared.letters,
                large_texts=shared.large_texts,
                usage=shared.usage,
                outlives_process=True,
                node_reports=self._node_reports,
            ),
            ServedModel(
                source or self.source, AgentSettings(), fallback_text, repeats_lost=repeats_lost
            ),
            name=name,
            address=self.address,
            peers=shared.peers,
        )
        self.orchestrator = self.cluster.orchestrator
        self.workload = self.cluster.workload
        self.recorder = self.cluster.recorder
        self.keeper = self.cluster.keeper
        self.failover = self.cluster.failover
        self.replicas = self.cluster.replicas
        shared.peers.add(self.address, self.orchestrator)

    @classmethod
    async def join(
        cls,
        shared: Shared | None = None,
        name: str = "a",
        limits: Limits | None = None,
        source: TokenSource | None = None,
        fallback_text: str = "",
        repeats_lost: bool = True,
    ) -> Self:
        """A task that has its lease. It keeps it, writes, and sweeps, as time passes."""
        task = cls(shared or Shared(), name, limits, source, fallback_text, repeats_lost)
        await task.cluster.start()
        task.shared.sessions.network.calls.clear()
        return task

    @classmethod
    def alone(
        cls,
        limits: Limits | None = None,
        source: TokenSource | None = None,
        fallback_text: str = "",
        repeats_lost: bool = True,
    ) -> Self:
        """A task that is the only one. Nothing in its stores waits, so it has its lease at once."""
        task = cls(Shared(), "a", limits, source, fallback_text, repeats_lost)
        with pytest.raises(StopIteration):
            task.cluster.start().send(None)
        return task

    def send(
        self,
        message_id: str,
        previous: str | None = None,
        text: str = "hi",
        channel: Channel = CHANNEL,
        kind: MessageKind = CHAT,
    ) -> Coroutine[None, None, Submission]:
        request = ReceivedRequest.from_text(text) if kind.brings_conversation else None
        return self.orchestrator.submit(
            IncomingMessage(channel, message_id, previous, text, kind=kind, request=request)
        )

    async def refusal(self, message_id: str, previous: str | None = None) -> EvenflowError:
        with pytest.raises(EvenflowError) as refused:
            await self.send(message_id, previous)
        return refused.value

    async def answer(self, text: str, call: int = -1) -> None:
        """The model answers, and the store knows."""
        await settle()
        self.source.calls[call].push(text)
        self.source.calls[call].finish()
        await settle()

    async def find(self, response_id: str, channel: Channel = CHANNEL) -> ResponseStream:
        return await self.orchestrator.find(response_id, channel)

    def read(self, stream: ResponseStream, held: AssembledText | None = None) -> RecordingReader:
        """Somebody reads a response here."""
        reader = RecordingReader(stream, self.clock, held or AssembledText())
        stream.attach(reader)
        return reader

    def count(self, metric: Metric) -> int:
        return self.metrics.counter(metric).value

    # -- misfortune --------------------------------------------------------------------------------

    def cut_off(self) -> None:
        """It reaches no store and no other task reaches it: to those it is lost, though it goes
        on.
        """
        self._cut(True)
        self.shared.peers.cut(self.address)

    def reconnect(self) -> None:
        """The network is mended."""
        self._cut(False)
        self.shared.peers.mend(self.address)

    def _cut(self, cut: bool) -> None:
        for store in (self.responses, self.sessions, self._node_reports):
            store.network.cut = cut

    async def hand_over(self) -> None:
        """Leave as a drained task does; it takes time."""
        self.orchestrator.stop_accepting()
        self.workload.generations.hand_over_all()
        await settle()
        await self.recorder.drain(self.clock.now + 5.0)
        await self.keeper.release()

    async def leave(self) -> None:
        """End what runs, and see that nothing is left behind."""
        self.shared.sessions.network.release()
        await settle()
        self.workload.generations.fail_all(LEAVING)
        await settle()
        self.assert_idle()

    def assert_idle(self) -> None:
        assert not self.orchestrator.busy
        assert not self.workload._in_flight_of_tenant
        assert self.workload._being_accepted == 0
        assert self.workload.memory.requests.bytes == 0
        assert all(
            conversation.in_flight == 0
            for conversation in self.workload.conversations._known.values()
        )


async def two_tasks() -> tuple[Task, Task]:
    shared = Shared()
    return await Task.join(shared, "a"), await Task.join(shared, "b")
