from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pytest

from evenflow.fargate_handler.orchestrator.activity_exchange import ActivityExchange
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.metrics.metric_catalogue import EXCHANGE_FAILURES
from evenflow.stream_core.stores.response_store import StoreUnavailable
from evenflow.stream_core.tenants.memory_activity import MemoryTenantActivity
from evenflow.stream_core.tenants.tenant_activity import Activity
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.settle import settle


class Counting:
    """Counts one thing, and remembers what it was told."""

    def __init__(self, field: str, tenants: Collection[str] = ()) -> None:
        self.tenants = tenants
        self.counts: dict[str, int] = {}
        self.told: list[Activity] = []
        self._field = field

    def compared(self) -> Collection[str]:
        return self.tenants

    def counted(self, tenant: str) -> Mapping[str, float]:
        return {self._field: self.counts.get(tenant, 0)}

    def learned(self, others: Activity) -> None:
        self.told.append(others)


class Written(MemoryTenantActivity):
    """Counts what is written, and fails when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[Activity] = []
        self.ill = False

    async def note(self, rows: Sequence[Activity], now: float) -> None:
        if self.ill:
            raise StoreUnavailable("no answer")
        self.rows += rows
        await super().note(rows, now)


class Tasks:
    """Two tasks, of which one counts requests and answers, and the other only looks."""

    def __init__(self) -> None:
        self.clock, self.store = HandTurnedClock(), Written()
        self.requests, self.answers = Counting("requests", ["t"]), Counting("answers")
        self.other = Counting("requests", ["t"])
        self.gone: set[str] = set()
        self.metrics = Metrics()
        self._start("a", self.requests, self.answers)
        self._start("b", self.other)

    def _start(self, name: str, *counting: Counting) -> None:
        clock = self.clock
        context = NodeContext(
            Limits(), clock.delivery, self.metrics, clock.monotonic, clock.monotonic
        )
        exchange = ActivityExchange(context, self.store, name, self._gone)
        for one in counting:
            exchange.add(one)
        exchange.start()

    async def _gone(self, tasks: Collection[str]) -> Collection[str]:
        return self.gone.intersection(tasks)

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
    assert tasks.store.rows == []
    tasks.requests.counts["t"] = 1
    await tasks.pass_seconds(5)
    assert tasks.store.rows == [Activity("t", "a", requests=1)]
    tasks.requests.counts["t"] = 2
    tasks.requests.counts["u"] = 9
    await tasks.pass_seconds(1)
    assert len(tasks.store.rows) == 2


async def test_answers_that_go_on_are_told_before_they_are_forgotten() -> None:
    tasks = Tasks()
    tasks.answers.counts["t"] = 3
    await tasks.pass_seconds(150)
    assert tasks.other.told[-1].answers == 3
    assert len(tasks.store.rows) <= 6


async def test_a_task_without_a_lease_has_no_answers_but_what_it_has_counted_stays() -> None:
    tasks = Tasks()
    tasks.requests.counts["t"], tasks.answers.counts["t"] = 1, 1
    await tasks.pass_seconds(3)
    tasks.requests.counts["t"] = 5
    tasks.gone.add("a")
    await tasks.pass_seconds(2)
    assert tasks.other.told[-1].answers == 0
    assert sum(others.requests for others in tasks.other.told) == 4


async def test_while_nobody_compares_nothing_is_written_and_nothing_counts_later() -> None:
    tasks = Tasks()
    tasks.requests.counts["t"] = 1
    await tasks.pass_seconds(3)
    tasks.requests.tenants = tasks.other.tenants = ()
    written = len(tasks.store.rows)
    tasks.requests.counts["t"] = 1_000
    await tasks.pass_seconds(12)
    assert len(tasks.store.rows) == written
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
    assert len(tasks.store.rows) == 5 * 1_000


async def test_many_tenants_that_begin_at_once_are_not_told_more_often_than_later() -> None:
    tasks = Tasks()
    tasks.requests.tenants = ()
    await tasks.pass_seconds(1)
    tasks.requests.tenants = [f"t{number}" for number in range(1_000)]
    for step in range(20):
        tasks.requests.counts = dict.fromkeys(tasks.requests.tenants, step + 1)
        tasks.clock.turn(0.1)
        await settle()
    assert len(tasks.store.rows) == 1_000
