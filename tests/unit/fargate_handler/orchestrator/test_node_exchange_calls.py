"""Tasks that ask one server tell each other how many calls they make, and who asks them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from evenflow.fargate_handler.orchestrator.incoming_message import IncomingMessage
from evenflow.fargate_handler.token_sources.port import ModelFinish
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.metrics.metric_catalogue import EXCHANGE_FAILURES
from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.tenants.tenant import Tenant
from evenflow.stream_core.upstream.aimd_limit import AIMDLimit
from evenflow.stream_core.upstream.memory_node_reports import MemoryNodeReports
from evenflow.stream_core.upstream.node_reports import NodeReport
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import Shared, Task
from tests.unit.settle import settle


class Written(MemoryNodeReports):
    """Remembers what is written, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[NodeReport] = []
        self.ill = False

    async def publish(self, report: NodeReport, now: float) -> None:
        if self.ill:
            raise StoreUnavailable("no answer")
        self.rows.append(report)
        await super().publish(report, now)

    async def read_all(self, now: float) -> Sequence[NodeReport]:
        if self.ill:
            raise StoreUnavailable("no answer")
        return await super().read_all(now)


class Tasks:
    """Tasks of which each can be asked, with the rows that they write."""

    def __init__(self, tasks: Sequence[Task], store: Written) -> None:
        self.tasks, self.store = tasks, store
        self._sent = 0

    @classmethod
    async def join(cls, count: int) -> Tasks:
        shared, store = Shared(), Written()
        shared.node_reports = store
        shared.tenants.replace([Tenant(id="quiet"), Tenant(id="greedy")])
        limits = Limits(generations_per_node=1_000, lease_seconds=600)
        return cls([await Task.join(shared, f"task-{n}", limits) for n in range(count)], store)

    async def send(self, task: Task, tenant: str, times: int = 1) -> None:
        """Messages, each of a session of its own. Those that begin have a first token at once."""
        for _ in range(times):
            self._sent += 1
            channel = Channel(tenant, "demo", f"s{self._sent}")
            await task.orchestrator.submit(IncomingMessage(channel, "m", None, "hi"))
            await settle()
            for call in task.source.calls:
                if not call.pushed:
                    call.push("x")
            await settle()

    async def end(self, task: Task, times: int) -> None:
        """The oldest calls that run end."""
        running = [call for call in task.source.calls if not call.end.done()]
        for call in running[:times]:
            call.end.set_result(ModelFinish("stop", None))
            await settle()

    def running(self) -> list[int]:
        """How many calls of each task run."""
        return [sum(not call.end.done() for call in task.source.calls) for task in self.tasks]

    async def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.tasks[0].clock.turn(1.0)
            await settle()

    def slots(self, task: Task) -> AIMDLimit:
        """What the task has found of its model's server."""
        (upstream,) = task.cluster.exchange._upstreams.by_name.values()
        return upstream.limiter.limit

    async def leave(self) -> None:
        for task in self.tasks:
            await task.leave()


async def two_busy_tasks() -> Tasks:
    """Each has eight calls, and one has found that the server answers twelve at once."""
    tasks = await Tasks.join(2)
    for task in tasks.tasks:
        await tasks.send(task, "quiet")
        await tasks.send(task, "greedy", times=7)
    tasks.slots(tasks.tasks[0]).limit = 12
    await tasks.pass_seconds(3)
    return tasks


async def test_what_begins_at_several_tasks_at_once_is_known_to_all_within_half_a_second() -> None:
    tasks = await Tasks.join(3)
    await tasks.pass_seconds(2)
    for task in tasks.tasks:
        await tasks.send(task, "quiet")
        await tasks.send(task, "greedy", 2)
    for _ in range(10):
        tasks.tasks[0].clock.turn(0.05)
        await settle()
    told = [tasks.slots(task).on_other_nodes.running for task in tasks.tasks]
    assert told == [6, 6, 6]
    await tasks.leave()


async def test_what_one_task_has_found_bounds_all_and_each_makes_its_part_of_the_calls() -> None:
    tasks = await two_busy_tasks()
    for task in tasks.tasks:
        await tasks.send(task, "greedy", times=5)
    assert tasks.running() == [8, 8], "more than there are slots: what is new waits"
    for task in tasks.tasks:
        await tasks.end(task, times=6)
    assert tasks.running() == [5, 5], "of six, the last fifth is for who was given least"
    await tasks.send(tasks.tasks[1], "quiet", times=2)
    assert tasks.running() == [5, 6]
    await tasks.leave()


async def test_what_one_task_does_not_want_another_one_has() -> None:
    tasks = await two_busy_tasks()
    one, other = tasks.tasks
    await tasks.send(one, "greedy", times=12)
    await tasks.end(other, times=8)
    await tasks.end(one, times=4)
    assert tasks.running() == [5, 0]
    await tasks.pass_seconds(3)
    assert tasks.running() == [10, 0]
    await tasks.leave()


async def test_a_tenant_that_is_alone_at_its_task_has_no_more_than_others_elsewhere() -> None:
    tasks = await two_busy_tasks()
    one, other = tasks.tasks
    for tenant in ("a", "b", "c"):
        await tasks.send(other, tenant, times=9)
    await tasks.end(one, times=1)
    await tasks.end(other, times=1)
    await tasks.send(one, "greedy", times=12)
    await tasks.pass_seconds(3)
    # Half of an equal part is a task's, though its one tenant has a fifth of the twelve.
    assert [tasks.slots(task).share for task in (one, other)] == [3, 11]
    await tasks.leave()


async def test_until_idle_tasks_have_told_something_again_each_has_an_equal_part() -> None:
    tasks = await two_busy_tasks()
    one = tasks.tasks[0]
    for task in tasks.tasks:
        await tasks.end(task, times=8)
    for seconds in (3, 120):
        await tasks.pass_seconds(seconds)
        assert tasks.slots(one).share == 6
    await tasks.send(one, "greedy")
    tasks.slots(one).limit = 12  # long ago it would be forgotten
    await tasks.pass_seconds(2)
    assert tasks.slots(one).share == 12, "the other one is still idle"
    await tasks.leave()


async def test_one_that_had_found_nothing_begins_again_with_its_part_of_what_others_had() -> None:
    tasks = await two_busy_tasks()
    for task in tasks.tasks:
        await tasks.end(task, times=8)
    await tasks.pass_seconds(3)
    other = tasks.tasks[1]
    for tenant in ("quiet", "greedy"):
        await tasks.send(other, tenant, times=9)
    assert tasks.running() == [0, 6]
    await tasks.leave()


async def test_a_tenant_that_asks_another_task_is_known_here_for_a_minute() -> None:
    tasks = await Tasks.join(2)
    one, other = tasks.tasks
    await tasks.send(one, "greedy")
    await tasks.send(other, "quiet")
    recent, now = one.workload.generations.charges.recent, one.clock.monotonic
    assert not recent.has_several(now())
    await tasks.pass_seconds(3)
    assert recent.has_several(now())
    await tasks.send(one, "greedy")
    await tasks.pass_seconds(125)
    assert not recent.has_several(now())
    await tasks.leave()


async def test_questions_to_other_tasks_tell_each_when_a_tenant_is_expected_back() -> None:
    tasks = await Tasks.join(2)
    one, other = tasks.tasks
    recent, now = one.workload.generations.charges.recent, one.clock.monotonic
    await tasks.send(one, "quiet")
    for _ in range(12):
        await tasks.send(other, "quiet")
        await tasks.pass_seconds(1)
    assert recent.requests_here(now()) == {"quiet": 1}
    await tasks.pass_seconds(16)
    assert recent.requests_here(now()) == {}, "one request: a minute. This tenant had more."
    await tasks.leave()


async def test_where_nothing_is_asked_or_there_is_one_tenant_nothing_is_written() -> None:
    tasks = await Tasks.join(2)
    await tasks.pass_seconds(5)
    assert tasks.store.rows == []
    tasks.tasks[0].tenants.replace(())
    await tasks.send(tasks.tasks[0], "alone")
    await tasks.pass_seconds(5)
    assert tasks.store.rows == []
    await tasks.leave()


async def test_a_row_is_written_when_it_changes_and_before_it_expires() -> None:
    tasks = await Tasks.join(1)
    (task,) = tasks.tasks
    await tasks.send(task, "greedy")
    await tasks.pass_seconds(30)
    assert 5 <= len(tasks.store.rows) <= 6
    assert next(iter(tasks.store.rows[-1].calls.values())).running == 1
    await tasks.end(task, times=1)
    await tasks.pass_seconds(90)
    assert tasks.store.rows[-1] == NodeReport(node="task-0"), "nobody asks it"
    written = len(tasks.store.rows)
    await tasks.pass_seconds(30)
    assert len(tasks.store.rows) == written
    await tasks.leave()


async def test_a_store_that_does_not_answer_is_logged_once_and_counted_and_what_was_known_is_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks = await two_busy_tasks()
    slots = tasks.slots(tasks.tasks[1])
    assert slots.share == 6
    tasks.store.ill = True
    await tasks.pass_seconds(20)
    assert slots.share == 6
    warning = "the reports of other nodes are not known (no answer)"
    assert sum(message.startswith(warning) for message in caplog.messages) == 2, "one a task"
    failures = [task.count(EXCHANGE_FAILURES) for task in tasks.tasks]
    assert min(failures) >= 19, "one a second"
    tasks.store.ill = False
    tasks.slots(tasks.tasks[0]).limit = 8
    await tasks.pass_seconds(3)
    assert [task.count(EXCHANGE_FAILURES) for task in tasks.tasks] == failures
    assert slots.share == 4
    await tasks.leave()
