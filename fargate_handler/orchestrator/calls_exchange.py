"""Tells other tasks which calls this one makes and who asks it, and learns the same of them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping

from evenflow.fargate_handler.orchestrator.exchange_interval import ExchangeInterval
from evenflow.fargate_handler.orchestrator.generations import Generations
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.upstream import Upstreams
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.upstream.calls_on_other_nodes import CallsOnOtherNodes
from evenflow.stream_core.upstream.task_calls import (
    KEPT_SECONDS,
    CallsOfTasks,
    ModelCalls,
    TaskCalls,
)

_logger = logging.getLogger(__name__)

_EACH_SECONDS = 1.0
# More tasks exchange less often: each reads the rows of all.
_TASKS_EACH_SECOND = 100
# So that a row stays short.
_TENANTS_TOLD = 50


class CallsExchange:
    """While there are several tenants and anybody asks, one row is written and the others' are
    read: once a second, sooner at first, and less often where there are more than 100 tasks.

    So tasks that ask the same server divide its slots, and all know that several tenants ask though
    each of them asks another task.

    Args:
        store: None: there is nobody to exchange with.
        task: this one's name.
    """

    def __init__(
        self,
        context: NodeContext,
        store: CallsOfTasks | None,
        task: str,
        upstreams: Upstreams,
        generations: Generations,
    ) -> None:
        self._store = store
        self._task = task
        self._upstreams = upstreams
        self._generations = generations
        self._tenants = context.tenants
        self._clock = context.clock
        self._monotonic = context.monotonic
        self._wall_time = context.wall_time
        self._idle = TaskCalls(task=task)
        self._told, self._told_at = self._idle, 0.0
        # Since when this task has calls of a model.
        self._asked_since: dict[str, float] = {}
        self._other_tasks = 0
        # By other tasks, what they have told last of the questions of tenants.
        self._questions_told: dict[str, Mapping[str, int]] = {}
        self._failures = context.metrics.counter(catalogue.EXCHANGE_FAILURES)
        self._interval = ExchangeInterval(_EACH_SECONDS)
        self._under_way = self._failing = False
        self._background = Background()

    def start(self) -> None:
        """Begin to exchange."""
        if self._store is not None:
            self._clock.put_after(self, self._interval.next(tells=False))

    async def aclose(self) -> None:
        """Stop exchanging."""
        await self._background.aclose()

    def on_due(self, _slot: int) -> None:
        """Exchange what is so now."""
        row = self._row()
        tells = not (row == self._told == self._idle)
        interval = self._interval.next(tells, self._other_tasks / _TASKS_EACH_SECOND)
        self._clock.put_after(self, interval)
        if self._store is None or self._under_way or not tells:
            return
        self._under_way = True
        self._background.run(self._exchange(self._store, row))

    async def _exchange(self, store: CallsOfTasks, row: TaskCalls) -> None:
        now = self._wall_time()
        try:
            if row != self._told or now - self._told_at > KEPT_SECONDS / 2:
                await store.tell(row, now)
                self._told, self._told_at = row, now
            # Where nothing is asked what others do is not followed.
            rows = [] if row == self._idle else await store.all(now)
        except Exception as error:
            self._failures.add()
            if not self._failing:
                _logger.warning(
                    "which calls other tasks make is not known (%s): what was known is kept until "
                    "the store answers",
                    error,
                )
            self._failing = True
            return
        finally:
            self._under_way = False
        self._failing = False
        self._learn(row, rows)

    def _weight_of(self, tenant: str) -> float:
        return self._tenants.of(tenant).weight

    def _row(self) -> TaskCalls:
        if not self._tenants.several:
            return self._idle
        wanted = self._generations.wanted()
        calls = {}
        for name, upstream in self._upstreams.by_name.items():
            limiter = upstream.limiter
            if limiter.running or wanted[name]:
                calls[name] = ModelCalls(
                    running=limiter.running,
                    answered=limiter.answered,
                    prompts=limiter.prompt_tokens,
                    wanted=dict(wanted[name].most_common(_TENANTS_TOLD)),
                    delay=limiter.window.slope or 0.0,
                    slots=limiter.limit.published,
                )
        questions = self._generations.charges.recent.here(self._monotonic())
        return TaskCalls(task=self._task, asked=questions, calls=calls)

    def _learn(self, own: TaskCalls, rows: Iterable[TaskCalls]) -> None:
        now = self._monotonic()
        self._asked_since = {name: self._asked_since.get(name, now) for name in own.calls}
        others = [row for row in rows if row.task != self._task]
        if own == self._idle:  # the rows were not read
            for upstream in self._upstreams.by_name.values():
                upstream.limiter.learn(CallsOnOtherNodes(nodes=self._other_tasks + 1), now)
            return
        self._other_tasks = len(others)
        for name, upstream in self._upstreams.by_name.items():
            asked_before = now - self._asked_since.get(name, now) >= _EACH_SECONDS
            on_other_nodes = CallsOnOtherNodes.of(name, own, others, self._weight_of, asked_before)
            upstream.limiter.learn(on_other_nodes, now)
        self._generations.charges.recent.ask_elsewhere(self._new_questions(others), now)
        self._generations.fill()

    def _new_questions(self, others: Iterable[TaskCalls]) -> Mapping[str, int]:
        """How many questions tenants have asked other tasks since they told it last."""
        before, self._questions_told = self._questions_told, {it.task: it.asked for it in others}
        new = Counter[str]()
        for task, counts in self._questions_told.items():
            known_counts = before.get(task, {})
            for tenant, count in counts.items():
                known = known_counts.get(tenant)
                new[tenant] += 1 if known is None else max(0, count - known)
        return new
