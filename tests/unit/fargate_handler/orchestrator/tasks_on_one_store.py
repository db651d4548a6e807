"""Handler tasks that share their stores and reach each other, without sockets."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Self

import pytest

from fargate_handler.metrics import Metrics
from fargate_handler.orchestrator.followed_responses import FollowedResponses
from fargate_handler.orchestrator.ingest_event import IngestEvent
from fargate_handler.orchestrator.kept_texts import KeptTexts
from fargate_handler.orchestrator.lease_keeper import LeaseKeeper
from fargate_handler.orchestrator.lease_view import LeaseView
from fargate_handler.orchestrator.message_ledger import MessageLedger
from fargate_handler.orchestrator.orchestrator import Orchestrator, Submission
from fargate_handler.orchestrator.response_recorder import ResponseRecorder
from fargate_handler.orchestrator.succession import Succession
from fargate_handler.token_sources.port import TokenSource
from stream_core import metric_catalogue as catalogue
from stream_core.channel import Channel
from stream_core.errors import EvenflowError, Overloaded
from stream_core.large_texts import LargeTexts
from stream_core.limits import Limits
from stream_core.memory_store import MemoryResponseStore, MemorySessionStore
from stream_core.message_kind import CHAT, MessageKind
from stream_core.metric_catalogue import Metric
from stream_core.response_log import LogEntry
from stream_core.response_store import ResponseHead
from stream_core.response_stream import ResponseStream
from stream_core.session_store import LedgerEntry
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource
from tests.unit.fargate_handler.orchestrator.peer_network import PeerNetwork
from tests.unit.fargate_handler.orchestrator.scripted_stores import ScriptedResponseStore, ScriptedSessionStore
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

    async def ledger(self, channel: Channel = CHANNEL) -> list[LedgerEntry]:
        """A session's messages as any task would read them."""
        return list((await self._sessions.load(channel, self.clock.now)).entries)

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
    ) -> None:
        self.shared = shared
        self.clock = shared.clock
        self.source = source if isinstance(source, ControlledSource) else ControlledSource()
        self.metrics = Metrics()
        self.limits = limits = limits or Limits()
        self.address = f"http://{name}:8080"
        # On the way to what all share, a network of its own.
        self.responses = ScriptedResponseStore(shared.responses)
        self.sessions = ScriptedSessionStore(shared.sessions)
        clock, monotonic = self.clock.delivery, self.clock.monotonic
        self.recorder = ResponseRecorder(
            responses=self.responses,
            sessions=self.sessions,
            clock=clock,
            limits=limits,
            metrics=self.metrics,
            monotonic=monotonic,
            wall_time=monotonic,
            on_lost=self._lost,
        )
        self.keeper = LeaseKeeper(
            store=self.responses,
            name=name,
            address=self.address,
            clock=clock,
            limits=limits,
            monotonic=monotonic,
            wall_time=monotonic,
            on_lost=self.recorder.lose_everything,
        )
        texts = KeptTexts(shared.large_texts)
        refused = self.metrics.counter(catalogue.STORE_REFUSED)
        self.orchestrator = Orchestrator(
            source=source or self.source,
            clock=clock,
            limits=limits,
            metrics=self.metrics,
            fallback_text="",
            monotonic=monotonic,
            ledger=MessageLedger(self.sessions, self.recorder, self.keeper, monotonic, refused, texts),
            in_force=lambda: self.keeper.in_force,
        )
        leases = LeaseView(self.responses, monotonic)
        self.succession = self.orchestrator.succession = Succession(
            responses=self.responses,
            sessions=self.sessions,
            keeper=self.keeper,
            leases=leases,
            texts=texts,
            dead_letters=shared.letters,
            clock=clock,
            limits=limits,
            metrics=self.metrics,
            monotonic=monotonic,
            wall_time=monotonic,
            is_writing=self.recorder.is_writing,
            is_read=lambda response_id: self.orchestrator.responses.held(response_id) is not None,
            has_room=lambda: self.orchestrator.has_room,
            begin=self.orchestrator.inherit,
        )
        self.followed = self.orchestrator.elsewhere = FollowedResponses(
            store=self.responses,
            keeper=self.keeper,
            leases=leases,
            peers=shared.peers,
            responses=self.orchestrator.responses,
            new_stream=self.orchestrator.new_stream,
            limits=limits,
            monotonic=monotonic,
            wall_time=monotonic,
            take_over=self.succession.take_over,
        )
        shared.peers.add(self.address, self.orchestrator)

    @classmethod
    async def join(
        cls,
        shared: Shared | None = None,
        name: str = "a",
        limits: Limits | None = None,
        source: TokenSource | None = None,
    ) -> Self:
        """A task that has its lease. It keeps it, writes, and sweeps, as time passes."""
        task = cls(shared or Shared(), name, limits, source)
        await task.keeper.start()
        task.recorder.start()
        task.succession.start()
        return task

    def _lost(self, stream: ResponseStream) -> None:
        self.orchestrator.lose(stream)

    def send(
        self,
        message_id: str,
        previous: str | None = None,
        text: str = "hi",
        channel: Channel = CHANNEL,
        kind: MessageKind = CHAT,
    ) -> Coroutine[None, None, Submission]:
        return self.orchestrator.submit(IngestEvent(channel, message_id, previous, text, kind=kind))

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

    # -- misfortune ----------------------------------------------------------------------------------------------

    def cut_off(self) -> None:
        """It reaches no store and no other task reaches it: to those it is lost, though it goes on."""
        self.responses.network.cut = self.sessions.network.cut = True
        self.shared.peers.cut(self.address)

    def reconnect(self) -> None:
        """The network is mended."""
        self.responses.network.cut = self.sessions.network.cut = False
        self.shared.peers.mend(self.address)

    async def hand_over(self) -> None:
        """Leave as a drained task does; it takes time."""
        self.orchestrator.draining = True
        self.orchestrator.hand_over_all()
        await settle()
        await self.recorder.drain(self.clock.now + 5.0)
        await self.keeper.release()

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


async def two_tasks() -> tuple[Task, Task]:
    shared = Shared()
    return await Task.join(shared, "a"), await Task.join(shared, "b")
