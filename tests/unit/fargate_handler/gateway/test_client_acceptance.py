"""What a WebSocket client hears of its messages while the ledger takes its time, or fails."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.limits import Limits
from tests.unit.fargate_handler.gateway.client_harness import CHANNEL, Client, Gateway
from tests.unit.fargate_handler.orchestrator.scripted_stores import UNREACHABLE
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Task
from tests.unit.settle import settle


class SlowGateway(Gateway):
    """A gateway whose orchestrator has a ledger in the test's hand."""

    def __init__(self, task: Task) -> None:
        super().__init__(task.limits)
        self.network = task.shared.sessions.network
        self.task = task
        self.clock, self.source, self.orchestrator = (
            self.task.clock,
            self.task.source,
            self.task.orchestrator,
        )
        self.context = replace(
            self.context,
            orchestrator=self.orchestrator,
            clock=self.clock.delivery,
            monotonic=self.clock.monotonic,
        )


def ask(client: Client, number: int, text: str = "hi") -> None:
    previous = f"m{number - 1}" if number else None
    client.send(
        "chat.message",
        message_id=f"m{number}",
        previous_message_id=previous,
        payload={"text": text},
    )


async def test_frames_in_one_read_are_accepted_in_their_order() -> None:
    gateway = SlowGateway(await Task.join())
    client = gateway.connect()
    gateway.network.hold("load", "accept")
    for number in range(4):
        ask(client, number)
    for _ in range(10):
        gateway.network.release()
        await settle()
    starts = client.transport.of_type("chat.response.start")
    assert [start["message_id"] for start in starts] == ["m0", "m1", "m2", "m3"]
    await gateway.task.leave()


async def test_whatever_fails_the_client_hears_of_it_and_the_connection_stays() -> None:
    gateway = SlowGateway(await Task.join())
    client = gateway.connect()
    for number, (error, code) in enumerate(
        [(UNREACHABLE, "store_unavailable"), (ValueError("a bug"), "internal_error")]
    ):
        gateway.network.failures["accept"] = error
        ask(client, 0)
        await settle()
        assert client.last_code() == code
        assert client.frames[-1]["message_id"] == "m0"
        assert len(client.frames) == number + 2
    assert client.transport.close is None
    gateway.network.failures.clear()
    ask(client, 0)
    await settle()
    assert client.frames[-1]["type"] == "chat.response.start"
    await gateway.task.leave()


async def test_a_client_that_left_meanwhile_has_sent_its_message_all_the_same() -> None:
    gateway = SlowGateway(await Task.join())
    client = gateway.connect()
    gateway.network.hold("accept")
    ask(client, 0)
    await settle()
    client.connection.close(1000, "gone")
    frames = len(client.frames)
    gateway.network.release()
    await settle()
    assert len(client.frames) == frames
    (stream,) = gateway.orchestrator.responses.of(CHANNEL)
    assert stream.readers.grace_begins_at is not None
    await gateway.task.leave()


async def test_of_one_session_only_so_many_messages_wait_to_be_accepted() -> None:
    """Each holds its text: without a bound a client fills the memory while the store is slow
    (rule 5).
    """
    gateway = SlowGateway(await Task.join(limits=Limits(messages_waiting_per_session=5)))
    client = gateway.connect()
    gateway.network.hold("accept")
    before = len(asyncio.all_tasks())
    for number in range(40):
        ask(client, number, "x" * 1000)
    await settle()
    assert len(asyncio.all_tasks()) - before <= 5
    refused = client.transport.of_type("throttle")
    assert len(refused) == 35
    assert {frame["error"]["code"] for frame in refused} == {"session_in_flight"}
    assert refused[0]["message_id"] == "m5"
    gateway.network.release()
    await settle()
    # There is room again.
    ask(client, 4)
    await settle()
    assert client.frames[-1]["message_id"] == "m4"
    assert gateway.orchestrator.last_message_id(Channel(*CHANNEL)) is not None
    await gateway.task.leave()
