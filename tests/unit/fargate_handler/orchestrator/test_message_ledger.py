from __future__ import annotations

import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.fargate_handler.orchestrator.leases import LeaseKeeper
from evenflow.fargate_handler.orchestrator.message_ledger import (
    MessageLedger,
    MessageTexts,
)
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.response_recorder import ResponseRecorder
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import Overloaded, is_for_want_of_room
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.stores.memory_store import MemoryResponseStore, MemorySessionStore
from evenflow.stream_core.stores.response_store import Lease
from evenflow.stream_core.stores.session_store import LedgerEntry, NotAccepted, StoreFull
from evenflow.stream_core.stores.stored_json import LARGEST_ITEM_TEXT
from evenflow.stream_core.tenants.charges import Caller
from tests.unit.fargate_handler.orchestrator.kept_apart import KeptApart
from tests.unit.fargate_handler.orchestrator.scripted_stores import (
    UNREACHABLE,
    ScriptedResponseStore,
    ScriptedSessionStore,
)
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.settle import settle

CHANNEL = Channel("t", "demo", "s")


async def _nobodys(_stream: ResponseStream, _ended_at: float) -> None:
    """Its usage is recorded nowhere."""


class Node:
    """A ledger and what stands behind it. Its task is `a`."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self.clock = HandTurnedClock()
        self.metrics = Metrics()
        memory = MemoryResponseStore()
        self.responses = ScriptedResponseStore(memory)
        self.sessions = ScriptedSessionStore(MemorySessionStore(memory))
        context = NodeContext(
            self.limits,
            self.clock.delivery,
            self.metrics,
            self.clock.monotonic,
            self.clock.monotonic,
        )
        self.recorder = ResponseRecorder(
            context,
            self.responses,
            self.sessions,
            on_ended=lambda _: None,
            on_lost=lambda _: None,
            settle=_nobodys,
        )
        self.keeper = LeaseKeeper(
            context, self.responses, name="a", address=None, on_lost=self.recorder.lose_everything
        )
        self.texts = KeptApart()
        self.ledger = MessageLedger(
            context, self.sessions, self.recorder, self.keeper, MessageTexts(self.texts)
        )

    def stream(self, message_id: str = "m1") -> ResponseStream:
        return ResponseStream(
            response_id=f"r_{message_id}",
            message_id=message_id,
            channel=CHANNEL,
            clock=self.clock.delivery,
            limits=self.limits,
            monotonic=self.clock.monotonic,
        )

    async def accept(
        self, message_id: str, previous: str | None = None, text: str = "hi"
    ) -> ResponseStream:
        stream = self.stream(message_id)
        await self.ledger.accept(IncomingMessage(CHANNEL, message_id, previous, text), stream)
        return stream

    @property
    def refused(self) -> int:
        return self.metrics.counter(catalogue.STORE_REFUSED).value


async def test_what_is_accepted_is_on_record_with_an_empty_response_of_ours() -> None:
    node = Node()
    await node.accept("m1", text="one?")
    await node.accept("m2", "m1", text="two?")
    stored = await node.ledger.load(CHANNEL)
    assert stored.last_message_id == "m2"
    assert stored.messages == [
        LedgerEntry("m1", None, "one?", "r_m1", "a"),
        LedgerEntry("m2", "m1", "two?", "r_m2", "a"),
    ]
    head = await node.responses.head("r_m2", node.clock.now)
    assert head is not None
    assert (head.lease, head.channel, head.message_id) == (Lease("r_m2", "a", 1), "t:demo:s", "m2")


async def test_from_then_on_the_response_is_written_as_it_grows() -> None:
    node = Node()
    stream = await node.accept("m1")
    assert node.recorder.busy
    stream.start()
    stream.push("Hello")
    stream.complete("stop", None)
    await settle()
    assert list((await node.responses.entries("r_m1", 0, node.clock.now)).entries) == ["Hello"]
    assert (await node.ledger.load(CHANNEL)).messages[0].answer == "Hello"
    assert not node.recorder.busy


@pytest.mark.parametrize("call", ["load", "accept"])
async def test_a_store_that_does_not_answer_is_a_refusal_that_is_counted(call: str) -> None:
    node = Node()
    node.sessions.network.failures[call] = UNREACHABLE
    with pytest.raises(Overloaded) as refusal:
        await (node.ledger.load(CHANNEL) if call == "load" else node.accept("m1"))
    assert (refusal.value.status, refusal.value.code) == (503, "store_unavailable")
    assert refusal.value.to_object()["retry_after_ms"] > 0
    assert node.refused == 1
    assert not node.recorder.busy


async def test_when_the_recorder_is_behind_the_store_is_not_even_asked() -> None:
    node = Node(Limits(store_backlog_bytes=1024))
    node.recorder.backlog_bytes = 1025
    with pytest.raises(Overloaded) as refusal:
        await node.accept("m1")
    assert (refusal.value.status, refusal.value.code) == (503, "store_behind")
    assert refusal.value.to_object()["retry_after_ms"] > 0
    assert node.refused == 1
    assert node.sessions.network.calls["accept"] == 0
    node.recorder.backlog_bytes = 1024
    await node.accept("m1")


@pytest.mark.parametrize("error", [NotAccepted("another task was quicker"), ValueError("a bug")])
async def test_what_is_no_failure_of_the_store_is_its_callers_business(error: Exception) -> None:
    node = Node()
    node.sessions.network.failures["accept"] = error
    with pytest.raises(type(error)):
        await node.accept("m1")
    assert node.refused == 0
    assert not node.recorder.busy


async def test_a_message_that_does_not_follow_is_not_accepted_and_not_recorded() -> None:
    node = Node()
    first = await node.accept("m1")
    with pytest.raises(NotAccepted):
        await node.accept("m3", "m2")
    assert [entry.message_id for entry in (await node.ledger.load(CHANNEL)).messages] == ["m1"]
    first.start()
    first.cancel()
    await settle()
    assert not node.recorder.busy


async def test_a_full_store_is_a_refusal_of_its_sender_and_keeps_no_text() -> None:
    node = Node()
    node.sessions.network.failures["accept"] = StoreFull()
    with pytest.raises(Overloaded) as refusal:
        await node.accept("m1", text="x" * (LARGEST_ITEM_TEXT + 1))
    assert (refusal.value.status, refusal.value.code) == (503, "store_full")
    assert refusal.value.to_object()["retry_after_ms"] >= 10_000
    assert not is_for_want_of_room(refusal.value)
    assert node.refused == 1
    assert node.texts.texts == {}
    assert not node.recorder.busy


async def test_a_message_that_is_not_accepted_leaves_no_text() -> None:
    node = Node()
    await node.accept("m1")
    with pytest.raises(NotAccepted):
        await node.accept("m3", "m2", text="x" * (LARGEST_ITEM_TEXT + 1))
    assert node.texts.texts == {}


async def test_its_sender_is_kept_with_a_message_and_can_not_be_read_there() -> None:
    node = Node()
    senders = list[str]()

    async def accept(_: Channel, entry: LedgerEntry, _now: float) -> Lease:
        senders.append(entry.sender_digest)
        return Lease(entry.response_id, entry.owner, 1)

    node.sessions.accept = accept  # type: ignore[method-assign, assignment]
    first, second, other = CHANNEL, Channel("t", "demo", "other"), "203.0.113.8"
    for channel, address in ((first, "203.0.113.7"), (second, "203.0.113.7"), (first, other)):
        event = IncomingMessage(channel, "m1", None, "hi", caller=Caller("t", address=address))
        await node.ledger.accept(event, node.stream())
    of_first, of_second, of_other = (sender.split(":") for sender in senders)
    assert of_first[0] == of_second[0] != of_other[0], "the address"
    assert of_second[1] != of_first[1] == of_other[1], "the session"
    assert "203" not in senders[0]
    await node.ledger.accept(IncomingMessage(first, "m1", None, "hi"), node.stream())
    assert senders[3] == "", "nobody knows after a take-over"
