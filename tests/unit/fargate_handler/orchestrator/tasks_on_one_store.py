"""Handler tasks that share their stores, without sockets."""

from __future__ import annotations

from collections.abc import Coroutine

import pytest

from fargate_handler.metrics import Metrics
from fargate_handler.orchestrator.ingest_event import IngestEvent
from fargate_handler.orchestrator.message_ledger import MessageLedger
from fargate_handler.orchestrator.orchestrator import Orchestrator, Submission
from fargate_handler.orchestrator.response_recorder import ResponseRecorder
from stream_core import metric_catalogue as catalogue
from stream_core.channel import Channel
from stream_core.errors import EvenflowError, Overloaded
from stream_core.limits import Limits
from stream_core.metric_catalogue import Metric
from stream_core.response_stream import ResponseStream
from stream_core.session_store import LedgerEntry
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource, settle
from tests.unit.fargate_handler.orchestrator.scripted_stores import (
    ScriptedResponseStore,
    ScriptedSessionStore,
)
from tests.unit.hand_turned_clock import HandTurnedClock

CHANNEL = Channel("t", "demo", "s")
LEAVING = Overloaded("leaving", code="draining")


class Shared:
    """What all tasks share: time, and the stores."""

    def __init__(self) -> None:
        self.clock = HandTurnedClock()
        self.responses = ScriptedResponseStore()
        self.sessions = ScriptedSessionStore(self.responses)

    async def ledger(self, channel: Channel = CHANNEL) -> list[LedgerEntry]:
        """A session's messages as any task would read them."""
        network, self.sessions.network = self.sessions.network, ScriptedSessionStore(self.responses).network
        stored = await self.sessions.load(channel, self.clock.now)
        self.sessions.network = network
        return list(stored.entries)


class Task:
    """One of the handler tasks."""

    def __init__(self, shared: Shared, name: str = "a", limits: Limits | None = None) -> None:
        self.shared = shared
        self.clock = shared.clock
        self.source = ControlledSource()
        self.metrics = Metrics()
        limits = limits or Limits()
        self.recorder = ResponseRecorder(
            responses=shared.responses,
            sessions=shared.sessions,
            owner=name,
            clock=self.clock.delivery,
            limits=limits,
            metrics=self.metrics,
            monotonic=self.clock.monotonic,
            wall_time=self.clock.monotonic,
            on_lost=self._lost,
        )
        refused = self.metrics.counter(catalogue.STORE_REFUSED)
        self.orchestrator = Orchestrator(
            source=self.source,
            clock=self.clock.delivery,
            limits=limits,
            metrics=self.metrics,
            fallback_text="",
            monotonic=self.clock.monotonic,
            ledger=MessageLedger(shared.sessions, self.recorder, name, self.clock.monotonic, refused),
        )

    def _lost(self, stream: ResponseStream) -> None:
        self.orchestrator.cancel(stream)

    def send(
        self, message_id: str, previous: str | None = None, text: str = "hi", channel: Channel = CHANNEL
    ) -> Coroutine[None, None, Submission]:
        return self.orchestrator.submit(IngestEvent(channel, message_id, previous, text, grace_seconds=30.0))

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

    def count(self, metric: Metric) -> int:
        return self.metrics.counter(metric).value

    async def leave(self) -> None:
        """End what runs, and see that nothing is left behind."""
        self.shared.sessions.network.release()
        await settle()
        self.orchestrator.interrupt_all(LEAVING)
        await settle()
        self.assert_idle()

    def assert_idle(self) -> None:
        assert not self.orchestrator.busy
        assert not self.orchestrator._in_flight_of_tenant
        assert self.orchestrator._being_accepted == 0
        assert all(conversation.in_flight == 0 for conversation in self.orchestrator._conversations._known.values())


def two_tasks() -> tuple[Task, Task]:
    shared = Shared()
    return Task(shared, "a"), Task(shared, "b")
