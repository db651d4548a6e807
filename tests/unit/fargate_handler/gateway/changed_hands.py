"""A response that has had two owners, and what the first one said without getting it on record."""

from __future__ import annotations

from dataclasses import dataclass

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Shared, Task
from tests.unit.recording_reader import RecordingReader
from tests.unit.settle import settle

LEASE = 12.0
"""So long after a task was lost, another one has gone on with what it answered."""


@dataclass
class ChangedHands:
    """Task a answers m1; b is there too. "a", "b" are on record, "x" is not once a is cut off."""

    a: Task
    b: Task
    stream: ResponseStream
    reader: RecordingReader

    @classmethod
    async def begin(cls, *, continues: bool = True, limits: Limits | None = None) -> ChangedHands:
        """Both on record, nobody lost."""
        shared = Shared()
        a = await Task.join(shared, "a")
        b = await Task.join(
            shared, "b", limits=limits, source=ControlledSource(continues=continues)
        )
        stream = (await a.send("m1")).stream
        reader = a.read(stream)
        await settle()
        here = cls(a, b, stream, reader)
        await here.say("a", "b")
        return here

    @property
    def response_id(self) -> str:
        return self.stream.response_id

    async def say(self, *tokens: str, task: Task | None = None) -> None:
        """Each token is an entry, and on record if that can be."""
        for token in tokens:
            (task or self.a).source.calls[-1].push(token)
            await self.a.clock.pass_time(0.3)

    async def lose_a(self, *, heard: bool = False) -> None:
        """What it says now is not on record; then b goes on.

        `heard`: b, which follows it, hears it all the same.
        """
        self.a.cut_off()
        if heard:
            self.a.shared.peers.mend(self.a.address)
        await self.say("x")
        await self.a.clock.pass_time(LEASE, step=0.05)

    def gateway(self, task: Task) -> Gateway:
        return Gateway(task=task)

    def calls(self, task: Task) -> Calls:
        return Calls(Gateway(task=task).context, CHANNEL)
