"""Who reads a response is told of all tasks, to those who ask at any."""

from __future__ import annotations

from dataclasses import dataclass

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.presence import Present
from evenflow.stream_core.delivery.response_stream import ResponseStream
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Shared, Task
from tests.unit.recording_reader import AssembledText, RecordingReader
from tests.unit.settle import settle


class Listening:
    """Somebody who asks at a task."""

    def __init__(self) -> None:
        self.told: list[Present] = []
        self.lost = 0

    def present(self, _response_id: str, present: Present) -> None:
        self.told.append(present)

    def presence_lost(self, _response_id: str) -> None:
        self.lost += 1

    @property
    def users(self) -> list[str]:
        """Who reads now."""
        assert self.told[-1].count == len(self.told[-1].readers)
        return [each.user for each in self.told[-1].readers]


@dataclass
class ThreeTasks:
    """Task a answers; b and c are there."""

    a: Task
    b: Task
    c: Task
    stream: ResponseStream

    @classmethod
    async def begin(cls, limits: Limits | None = None) -> ThreeTasks:
        shared = Shared()
        a, b, c = [await Task.join(shared, name, limits) for name in "abc"]
        stream = (await a.send("m1")).stream
        await settle()
        return cls(a, b, c, stream)

    async def at(self, task: Task) -> ResponseStream:
        return await task.find(self.stream.response_id)

    async def read(self, task: Task, user: str) -> RecordingReader:
        reader = RecordingReader(await self.at(task), task.clock, AssembledText())
        reader.user = user
        (await self.at(task)).attach(reader)
        return reader

    async def listen(self, task: Task) -> Listening:
        listening = Listening()
        task.orchestrator.presence.listen(await self.at(task), listening)
        return listening

    async def say(self) -> None:
        """The model says something, so that nobody takes the owner for lost."""
        if not self.stream.log.closed:
            self.a.source.calls[0].push("x")

    async def pass_time(self, seconds: float) -> None:
        """All sweep once a second, and the model goes on."""
        left = seconds
        while left > 0:
            await self.say()
            await self.a.clock.pass_time(min(left, 1.0), step=0.05)
            for task in (self.a, self.b, self.c):
                task.orchestrator.sweep(self.a.clock.now)
            await settle()
            left -= 1.0

    @property
    def told(self) -> int:
        return self.a.shared.peers.told_of_presence


async def test_the_readers_of_all_tasks_are_told_at_the_owner_and_at_copies() -> None:
    here = await ThreeTasks.begin()
    for task, user in ((here.a, "ann"), (here.b, "bob"), (here.c, "cid")):
        await here.read(task, user)
        await here.pass_time(1)
    listening = [await here.listen(task) for task in (here.a, here.b, here.c)]
    assert [each.users for each in listening] == [["ann"], ["bob"], ["cid"]], (
        "at once what is known"
    )
    await here.pass_time(2)
    assert [each.users for each in listening] == [["ann", "bob", "cid"]] * 3
    assert all(len(each.told) <= 3 for each in listening)


async def test_who_comes_or_goes_at_another_task_is_told_within_two_seconds() -> None:
    here = await ThreeTasks.begin()
    await here.read(here.b, "bob")
    at_owner, at_copy = await here.listen(here.a), await here.listen(here.b)
    await here.pass_time(5)
    came = await here.read(here.c, "cid")
    await here.pass_time(2)
    assert at_owner.users == at_copy.users == ["bob", "cid"]
    again = await here.read(here.c, "dan")
    await here.pass_time(2)
    assert at_owner.users == at_copy.users == ["bob", "cid", "dan"]
    came.leave()
    again.leave()
    await here.pass_time(2)
    assert at_owner.users == at_copy.users == ["bob"]


async def test_changes_at_many_tasks_are_told_at_most_once_a_second() -> None:
    here = await ThreeTasks.begin()
    for task in (here.a, here.b, here.c):
        await here.read(task, "")
    listening = await here.listen(here.b)
    await here.pass_time(5)
    before = len(listening.told)
    for _ in range(10):
        for task in (here.a, here.b, here.c):
            await here.read(task, "")
        await here.a.clock.pass_time(0.3)
    assert len(listening.told) - before <= 4
    await here.pass_time(2)
    assert listening.told[-1].count == 33


async def test_where_nobody_asks_nothing_is_asked_of_any_task() -> None:
    here = await ThreeTasks.begin()
    for task in (here.a, here.b, here.c):
        await here.read(task, "")
    await here.pass_time(5)
    assert not here.a.shared.peers.asked_for_presence
    listening = await here.listen(here.b)
    await here.pass_time(3)
    assert here.told == 3, "from the owner, and to the owner from both copies"
    here.b.orchestrator.presence.leave(await here.at(here.b), listening)
    await here.pass_time(3)
    assert here.told == 0
    assert sum(here.a.shared.peers.asked_for_presence.values()) == 3


async def test_the_readers_of_a_task_that_is_lost_are_forgotten() -> None:
    here = await ThreeTasks.begin()
    await here.read(here.a, "ann")
    await here.read(here.c, "cid")
    listening = await here.listen(here.a)
    await here.pass_time(2)
    assert listening.users == ["ann", "cid"]
    here.c.cut_off()
    await here.pass_time(3)
    assert listening.users == ["ann"]


async def test_a_silence_of_the_model_makes_no_reader_come_and_go() -> None:
    """A task that hears nothing from the owner reads the store for a while."""
    here = await ThreeTasks.begin()
    await here.read(here.b, "bob")
    listening = await here.listen(here.a)
    await here.pass_time(2)
    told = len(listening.told)
    asked = here.a.shared.peers.asked[here.a.address]
    for _ in range(12):
        await here.a.clock.pass_time(1.0, step=0.05)
        for task in (here.a, here.b, here.c):
            task.orchestrator.sweep(here.a.clock.now)
    assert here.a.shared.peers.asked[here.a.address] > asked
    assert (listening.users, len(listening.told)) == (["bob"], told)


async def test_who_only_listens_at_a_copy_is_told_as_long_as_the_response_goes_on() -> None:
    here = await ThreeTasks.begin()
    await here.read(here.a, "ann")
    listening = await here.listen(here.b)
    await here.pass_time(15)
    await here.read(here.a, "eve")
    await here.pass_time(2)
    assert (listening.users, listening.lost) == (["ann", "eve"], 0)


async def test_a_copy_that_nobody_reads_is_not_kept_for_who_listens_elsewhere() -> None:
    here = await ThreeTasks.begin()
    await here.read(here.a, "ann")
    reader = await here.read(here.b, "bob")
    listening = await here.listen(here.a)
    await here.pass_time(2)
    reader.leave()
    await here.pass_time(13)
    assert len(here.b.replicas) == 0
    assert (listening.users, here.told) == (["ann"], 0)


async def test_as_many_clients_listen_at_a_task_as_may_and_other_tasks_besides() -> None:
    here = await ThreeTasks.begin(Limits(presence_listeners_per_response=1, store_interval_ms=150))
    await here.read(here.a, "ann")
    at_owner, at_copy = await here.listen(here.a), await here.listen(here.b)
    await here.pass_time(2)
    assert at_owner.users == at_copy.users == ["ann"]


async def test_when_the_response_ends_the_tasks_stop_telling_each_other() -> None:
    here = await ThreeTasks.begin()
    for task in (here.a, here.b):
        await here.read(task, "")
    listening = [await here.listen(task) for task in (here.a, here.b)]
    await here.pass_time(2)
    await here.a.answer("", 0)
    await here.pass_time(3)
    assert here.told == 0
    assert [each.told[-1].count for each in listening] == [0, 0]


async def test_an_owner_that_does_not_tell_leaves_what_is_known_here() -> None:
    here = await ThreeTasks.begin()
    await here.read(here.a, "ann")
    await here.read(here.b, "bob")
    here.a.shared.peers.cut(here.a.address)
    listening = await here.listen(here.b)
    await here.pass_time(2)
    assert listening.users == ["bob"]
    here.a.shared.peers.mend(here.a.address)
    await here.pass_time(6)
    assert listening.users == ["ann", "bob"]
