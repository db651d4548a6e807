"""Where an answer waits, in streams of events: of clients, and of tasks that copy it."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls, EventStream
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Task
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("tasks_end_with_the_test")


@dataclass
class Waiting:
    """An answer that waits behind another one."""

    task: Task
    stream: ResponseStream
    calls: Calls

    @classmethod
    async def begin(cls) -> Waiting:
        task = Task.alone(Limits(generations_per_node=1))
        await task.send("m1", channel=Channel("t", "demo", "first"))
        stream = (await task.send("m1")).stream
        await settle()
        return cls(task, stream, Calls(Gateway(task=task).context, CHANNEL))

    def events(self, *, as_peer: bool) -> EventStream:
        path = f"/chat/message/{self.stream.response_id}/events"
        if not as_peer:
            return EventStream(self.calls, path)
        headers = self.calls.as_peer(self.stream.response_id)
        return EventStream(self.calls, f"{path}?joined=0", headers)

    async def sweep(self) -> None:
        self.task.orchestrator.sweep(self.task.clock.now)
        await settle()


def told(events: EventStream) -> list[tuple[str, int]]:
    return [(event_id, data["position"]) for _, event_id, data in events.events]


@pytest.mark.parametrize("as_peer", [False, True])
async def test_who_comes_while_it_waits_is_told_behind_the_head(as_peer: bool) -> None:
    here = await Waiting.begin()
    await here.sweep()
    events = here.events(as_peer=as_peer)
    await settle()
    assert told(events) == [("", 1)]


async def test_a_client_is_told_what_changes_and_a_task_each_second_and_that_it_has_begun() -> None:
    here = await Waiting.begin()
    client, task = here.events(as_peer=False), here.events(as_peer=True)
    await settle()
    for _ in range(3):
        await here.sweep()
    await here.task.answer("Done.", 0)
    assert told(client) == [("", 1)]
    assert told(task) == [("", 1)] * 3 + [("", 0)]
