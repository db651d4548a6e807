"""Tells other tasks what this one does for each tenant, and learns what they do."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from evenflow.fargate_handler.orchestrator.exchange_interval import ExchangeInterval
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.queue.other_tasks import OtherTasks
from evenflow.stream_core.tenants.tenant_activity import KEPT_SECONDS, Activity, TenantActivity

_logger = logging.getLogger(__name__)

_EACH_SECONDS = 1.0
# A task with more tenants exchanges less often: each is a row to write, and a query.
_MOST_A_SECOND = 500


class CountsActivity(Protocol):
    """Who counts a part of tenants' activity, and is told what other tasks do."""

    def compared(self) -> Collection[str]:
        """The tenants of whom it matters now what other tasks do. Without any nothing is written.

        Called before each exchange.
        """

    def counted(self, tenant: str) -> Mapping[str, float]:
        """What this task has done for a tenant since it was started, by the fields of `Activity`.

        Each field is counted by one. Those that nobody counts are 0.
        """

    def learned(self, others: Activity) -> None:
        """What other tasks have done for a tenant since the last time. Its `task` is empty.

        `answers` and `connections` are those that they have now. Called after each exchange for
        each tenant that anybody compares.
        """


class ActivityExchange:
    """While anybody compares tenants, rows are written and the others' are read: once a second,
    sooner at first, and less often for more than 500 tenants.

    Decisions are made with what is known here, so they need no call. What others did is known a
    second later.

    Args:
        store: None: there is nobody to exchange with.
        task: this one's name.
        gone: those of these tasks that have no lease. Others take over what they were answering.
    """

    def __init__(
        self,
        context: NodeContext,
        store: TenantActivity | None,
        task: str,
        gone: Callable[[Collection[str]], Awaitable[Collection[str]]],
    ) -> None:
        self._store = store
        self._task = task
        self._gone = gone
        self._clock = context.clock
        self._wall_time = context.wall_time
        self._others = OtherTasks(task)
        self._counting: list[CountsActivity] = []
        self._told: dict[str, tuple[Activity, float]] = {}
        self._failures = context.metrics.counter(catalogue.EXCHANGE_FAILURES)
        self._interval = ExchangeInterval(_EACH_SECONDS)
        self._under_way = False
        self._failing = False
        self._background = Background()

    def add(self, counting: CountsActivity) -> None:
        """Let one more count, and be told."""
        self._counting.append(counting)

    def start(self) -> None:
        """Begin to exchange."""
        if self._store is not None:
            self._clock.put_after(self, self._interval.next(tells=False))

    async def aclose(self) -> None:
        """Stop exchanging."""
        await self._background.aclose()

    def on_due(self, _slot: int) -> None:
        """Exchange what has changed."""
        if self._store is None or self._under_way:
            self._clock.put_after(self, self._interval.next(tells=True))
            return
        tenants = {tenant for counting in self._counting for tenant in counting.compared()}
        interval = self._interval.next(bool(tenants), len(tenants) / _MOST_A_SECOND)
        self._clock.put_after(self, interval)
        if tenants:
            self._under_way = True
            self._background.run(self._exchange(self._store, tenants))
        else:
            self._others.read((), ())  # what they do meanwhile is compared with nothing

    async def _exchange(self, store: TenantActivity, tenants: Collection[str]) -> None:
        now = self._wall_time()
        try:
            rows = [row for row in map(self._row, tenants) if self._is_news(row, now)]
            if rows:
                await store.note(rows, now)
            told = {tenant: told for tenant, told in self._told.items() if tenant in tenants}
            self._told = told | {row.tenant: (row, now) for row in rows}
            rows_of_all = await self._without_gone(await store.of([*tenants], now))
            found = self._others.read(tenants, rows_of_all)
        except Exception as error:
            self._failures.add()
            if not self._failing:
                _logger.warning(
                    "what other tasks do for tenants is not known (%s): each task is fair by "
                    "itself until the store answers",
                    error,
                )
            self._failing = True
            return
        finally:
            self._under_way = False
        self._failing = False
        for others in found.values():
            for counting in self._counting:
                counting.learned(others)

    async def _without_gone(self, rows: Sequence[Activity]) -> Sequence[Activity]:
        """The rows. A task that is gone has no answers and no connections."""
        have = {row.task for row in rows if row.answers or row.connections}
        gone = await self._gone(have - {self._task})
        return [replace(row, answers=0, connections=0) if row.task in gone else row for row in rows]

    def _row(self, tenant: str) -> Activity:
        counts: dict[str, Any] = {}
        for counting in self._counting:
            counts |= counting.counted(tenant)
        return replace(Activity(tenant, self._task), **counts)

    def _is_news(self, row: Activity, now: float) -> bool:
        """Whether a row has changed, or would expire though there are answers or connections."""
        told, at = self._told.get(row.tenant, (Activity(row.tenant, self._task), 0.0))
        refreshed = (row.answers or row.connections) and now - at > KEPT_SECONDS / 2
        return row != told or bool(refreshed)
