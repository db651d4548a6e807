from __future__ import annotations

from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.node_exchange import NodeExchange
from evenflow.fargate_handler.orchestrator.upstream import Upstreams
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.metrics.metric_catalogue import EXCHANGE_FAILURES
from evenflow.stream_core.queue.recent_tenants import RecentTenants
from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.tenants.tenant_activity import Activity
from evenflow.stream_core.upstream.memory_node_reports import MemoryNodeReports
from evenflow.stream_core.upstream.node_reports import NodeReport
from tests.unit.fargate_handler.orchestrator.controlled_source import ControlledSource
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.settle import settle


class Counting:
    """Counts one thing, as service charges and quotas do, and remembers what it learned."""

    def __init__(self, field: str, tenants: Collection[str] = ()) -> None:
        self.tenants = tenants
        self.recent = RecentTenants()
        self.counts: dict[str, int] = {}
        self.told: list[Activity] = []
        self._field = field

    def charge_compared(self) -> Collection[str]:
        return self.tenants

    def counted(self, tenant: str) -> Mapping[str, float]:
        return {self._field: self.counts.get(tenant, 0)}

    def charge_other_nodes(self, others: Activity, _now: float = 0.0) -> None:
        self.told.append(others)

    learn = charge_other_nodes

    def busy_accounts(self, _now: float) -> Collection[str]:
        return self.tenants

    def activity(self, tenant: str) -> Mapping[str, float]:
        return self.counted(tenant)


class Written(MemoryNodeReports):
    """Remembers what is written, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[NodeReport] = []
        self.ill = False

    async def publish(self, report: NodeReport, now: float) -> None:
        if self.ill:
            raise StoreUnavailable("no answer")
        self.reports.append(report)
        await super().publish(report, now)

    @property
    def of_a(self) -> list[Mapping[str, Mapping[str, float]]]:
        """The activity in each report of the first task."""
        return [report.activity for report in self.reports if report.node == "a"]


class Tasks:
    """Two tasks, of which one counts requests and answers, and the other only looks."""

    def __init__(self) -> None:
        self.clock, self.store = HandTurnedClock(), Written()
        self.requests, self.answers = Counting("requests", ["t"]), Counting("answers")
        self.other = Counting("requests", ["t"])
        self.lost: set[str] = set()
        self.metrics = Metrics()
        self._start("a", self.requests, self.answers)
        self._start("b", self.other, Counting("answers"))

    def _start(self, name: str, charges: Counting, quotas: Any) -> None:
        clock = self.clock
        context = NodeContext(
            Limits(),
            clock.delivery,
            self.metrics,
            clock.monotonic,
            clock.monotonic,
            quotas=quotas,
        )
        generations: Any = SimpleNamespace(charges=charges, fill_slots=lambda: None)
        NodeExchange(
            context,
            self.store,
            name,
            without_lease=self._without_lease,
            upstreams=Upstreams(ControlledSource(), Limits()),
            generations=generations,
        ).start()

    async def _without_lease(self, tasks: Collection[str]) -> Collection[str]:
        return self.lost.intersection(tasks)

    async def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clock.turn(1.0)
            await settle()


async def test_each_second_the_others_learn_what_has_grown_and_what_there_is_now() -> None:
    tasks = Tasks()
    tasks.requests.counts["t"], tasks.answers.counts["t"] = 5, 1
    await tasks.pass_seconds(3)
    tasks.requests.counts["t"], tasks.answers.counts["t"] = 8, 2
    await tasks.pass_seconds(3)
    assert sum(others.requests for others in tasks.other.told) == 3
    assert tasks.other.told[-1] == Activity("t", "", answers=2)
    assert tasks.answers.told == tasks.requests.told
    assert tasks.answers.told[-1] == Activity("t", "")


async def test_only_what_has_changed_is_written_and_at_most_once_a_second() -> None:
    tasks = Tasks()
    await tasks.pass_seconds(3)
    assert tasks.store.reports == []
    tasks.requests.counts["t"] = 1
    await tasks.pass_seconds(5)
    assert tasks.store.of_a == [{"t": {"requests": 1}}]
    tasks.requests.counts["t"] = 2
    tasks.requests.counts["u"] = 9
    await tasks.pass_seconds(1)
    assert tasks.store.of_a[1:] == [{"t": {"requests": 2}}]


async def test_answers_that_go_on_are_told_before_they_are_forgotten() -> None:
    tasks = Tasks()
    tasks.answers.counts["t"] = 3
    await tasks.pass_seconds(150)
    assert tasks.other.told[-1].answers == 3
    assert len(tasks.store.reports) <= 30


async def test_a_task_without_a_lease_has_no_answers_but_what_it_has_counted_stays() -> None:
    tasks = Tasks()
    tasks.requests.counts["t"], tasks.answers.counts["t"] = 1, 1
    await tasks.pass_seconds(3)
    tasks.requests.counts["t"] = 5
    tasks.lost.add("a")
    await tasks.pass_seconds(2)
    assert tasks.other.told[-1].answers == 0
    assert sum(others.requests for others in tasks.other.told) == 4


async def test_while_nobody_compares_nothing_is_written_and_nothing_counts_later() -> None:
    tasks = Tasks()
    tasks.requests.counts["t"] = 1
    await tasks.pass_seconds(3)
    tasks.requests.tenants = tasks.other.tenants = ()
    tasks.requests.counts["t"] = 1_000
    await tasks.pass_seconds(12)
    assert tasks.store.of_a[-1] == {"t": {"requests": 1}}
    await tasks.pass_seconds(60)
    written = len(tasks.store.reports)
    assert tasks.store.of_a[-1] == {}
    await tasks.pass_seconds(12)
    assert len(tasks.store.reports) == written
    tasks.requests.tenants = tasks.other.tenants = ["t"]
    await tasks.pass_seconds(3)
    assert sum(others.requests for others in tasks.other.told) == 0


async def test_a_store_that_does_not_answer_is_logged_once_and_counted_and_asked_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    tasks = Tasks()
    tasks.requests.counts["t"] = 1
    await tasks.pass_seconds(2)
    tasks.store.ill = True
    tasks.requests.counts["t"] = 5
    await tasks.pass_seconds(4)
    assert len(caplog.messages) == 1
    failures = tasks.metrics.counter(EXCHANGE_FAILURES).value
    assert failures >= 3
    tasks.store.ill = False
    await tasks.pass_seconds(2)
    assert sum(others.requests for others in tasks.other.told) == 4
    assert len(caplog.messages) == 1
    assert tasks.metrics.counter(EXCHANGE_FAILURES).value == failures


async def test_a_task_with_many_tenants_exchanges_less_often() -> None:
    tasks = Tasks()
    tasks.requests.tenants = [f"t{number}" for number in range(1_000)]
    for second in range(11):
        tasks.requests.counts = dict.fromkeys(tasks.requests.tenants, second)
        await tasks.pass_seconds(1)
    assert len(tasks.store.of_a) == 5


async def test_many_tenants_that_begin_at_once_are_not_told_more_often_than_later() -> None:
    tasks = Tasks()
    tasks.requests.tenants = ()
    await tasks.pass_seconds(1)
    tasks.requests.tenants = [f"t{number}" for number in range(1_000)]
    for step in range(20):
        tasks.requests.counts = dict.fromkeys(tasks.requests.tenants, step + 1)
        tasks.clock.turn(0.1)
        await settle()
    assert len(tasks.store.of_a) == 1
