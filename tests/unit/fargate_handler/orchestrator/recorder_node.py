"""A recorder on stores, and a clock, in the test's hand."""

from __future__ import annotations

from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.response_recorder import ResponseRecorder
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.log.entries import LogEntry
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.metrics.metric_catalogue import Metric
from evenflow.stream_core.stores.memory_store import MemoryResponseStore, MemorySessionStore
from evenflow.stream_core.stores.response_store import ResponseHead
from evenflow.stream_core.stores.session_store import LedgerEntry
from tests.unit.fargate_handler.orchestrator.scripted_stores import (
    ScriptedResponseStore,
    ScriptedSessionStore,
)
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.settle import settle

EPOCH = 1_800_000_000.0
INTERVAL = 0.17
"""The interval of 150 ms, in slots and with the one that has begun."""


class Node:
    """A recorder on stores and a clock in the test's hand. Its task is `a`."""

    def __init__(self, limits: Limits | None = None, longest_answer: int | None = None) -> None:
        self.limits = limits or Limits()
        self.clock = HandTurnedClock()
        self.metrics = Metrics()
        self.memory = MemoryResponseStore()
        self.responses = ScriptedResponseStore(self.memory)
        self.sessions = ScriptedSessionStore(MemorySessionStore(self.memory))
        self.lost: list[ResponseStream] = []
        self.ended: list[ResponseStream] = []
        self.settled: list[tuple[ResponseStream, float]] = []
        self.settling_fails: Exception | None = None
        context = NodeContext(
            self.limits, self.clock.delivery, self.metrics, self.clock.monotonic, self.wall_time
        )
        self.recorder = ResponseRecorder(
            context,
            self.responses,
            self.sessions,
            on_ended=self.ended.append,
            on_lost=self.lost.append,
            settle=self._settle,
            longest_answer=longest_answer,
        )

    async def _settle(self, stream: ResponseStream, ended_at: float) -> None:
        if self.settling_fails is not None:
            raise self.settling_fails
        self.settled.append((stream, ended_at))

    def wall_time(self) -> float:
        return EPOCH + self.clock.now

    async def begin(self, name: str = "r") -> ResponseStream:
        """A response that has begun to be generated, in a session of its own."""
        channel = Channel("t", "demo", name)
        entry = LedgerEntry("m1", None, "hi", name, "a")
        lease = await self.sessions.accept(channel, entry, self.wall_time())
        stream = self.stream_of(name)
        self.recorder.record(stream, lease)
        stream.start()
        return stream

    def stream_of(self, name: str) -> ResponseStream:
        """An empty one."""
        return ResponseStream(
            response_id=name,
            message_id="m1",
            channel=Channel("t", "demo", name),
            clock=self.clock.delivery,
            limits=self.limits,
            monotonic=self.clock.monotonic,
        )

    async def time(self, seconds: float, step: float = 0.01) -> None:
        """Let time pass, and tasks run as it does."""
        until = self.clock.now + seconds - 1e-6
        while self.clock.now < until:
            self.clock.turn(min(step, until - self.clock.now + 1e-6))
            await settle()

    async def stored(self, name: str = "r") -> list[LogEntry]:
        """What any other task would read."""
        return list((await self.responses.entries(name, 0, self.wall_time())).entries)

    def head(self, name: str = "r") -> ResponseHead:
        return self.memory._heads[name]

    def count(self, metric: Metric) -> int:
        return self.metrics.counter(metric).value

    @property
    def delays(self) -> tuple[int, float]:
        """How many write delays were recorded, and their sum in milliseconds."""
        measured = self.metrics.distribution(catalogue.STORE_WRITE_DELAY)
        return measured.count, measured.total


async def started(limits: Limits) -> Node:
    node = Node(limits)
    node.recorder.start()
    return node
