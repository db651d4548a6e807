"""Publishes this node's report to the others, and learns from theirs."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from evenflow.fargate_handler.orchestrator.generations import Generations
from evenflow.fargate_handler.orchestrator.node_context import NodeContext
from evenflow.fargate_handler.orchestrator.upstream import Upstreams
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.queue.activity_on_other_nodes import ActivityOnOtherNodes
from evenflow.stream_core.tenants.tenant_activity import Activity
from evenflow.stream_core.upstream.calls_on_other_nodes import CallsOnOtherNodes
from evenflow.stream_core.upstream.node_reports import (
    KEPT_SECONDS,
    ModelCallReport,
    NodeReport,
    NodeReports,
)

_logger = logging.getLogger(__name__)

_EACH_SECONDS, _SOON_SECONDS = 1.0, 0.1
# A node with more tenants publishes less often, since its report is longer.
_TENANTS_A_SECOND = 500
# Entries of reports that all nodes together read each second, of some 150 bytes. One partition of a
# DynamoDB table gives 12 MB a second. A report without tenants counts for four.
_ENTRIES_A_SECOND, _ENTRIES_OF_A_REPORT = 40_000, 4
# An item of DynamoDB has 400 KB at most. Further tenants are not reported.
_MOST_TENANTS = 2_000
# In a model's calls, so that they stay short.
_MOST_TENANTS_OF_A_MODEL = 50
# A tenant is reported until this time after its last change.
_ACTIVITY_KEPT_SECONDS = 60.0


def exchange_interval(last: float, least: float, *, publishes: bool) -> float:
    """Seconds until the next exchange.

    A tenth of a second while there is nothing to report, then twice as long each time, up to a
    second. So a flood that begins on several nodes at once is known to all of them soon.

    Args:
        last: the last interval.
        least: by how much there is to write and read.
    """
    interval = min(_EACH_SECONDS, 2 * last) if publishes else _SOON_SECONDS
    return max(interval, least)


class NodeExchange:
    """Publishes this node's report while it has something to report, and reads the others' reports.

    Once a second, sooner at first, and less often where reports are long. Decisions are made with
    the known reports, and need no call to the store.

    A report has two parts. With several tenants: the calls of each model, by which nodes divide its
    concurrency limit. Of tenants that are compared, or have limits: what they have used.

    Args:
        store: None: there are no other nodes.
        node: this one's name.
        without_lease: the nodes among these that have no lease. Others take over their answers.
    """

    def __init__(
        self,
        context: NodeContext,
        store: NodeReports | None,
        node: str,
        *,
        without_lease: Callable[[Collection[str]], Awaitable[Collection[str]]],
        upstreams: Upstreams,
        generations: Generations,
    ) -> None:
        self._store = store
        self._node = node
        self._find_without_lease = without_lease
        self._upstreams = upstreams
        self._generations = generations
        self._charges, self._quotas = generations.charges, context.quotas
        self._tenants = context.tenants
        self._clock = context.clock
        self._monotonic = context.monotonic
        self._wall_time = context.wall_time
        self._idle = NodeReport(node=node)
        self._published, self._published_at = self._idle, 0.0
        # By tenant its last activity, and when it changed.
        self._activity: dict[str, tuple[Activity, float]] = {}
        self._others = ActivityOnOtherNodes(node)
        # Since when this node has calls of a model.
        self._called_since: dict[str, float] = {}
        self._other_nodes = 0
        self._least_interval = 0.0
        self._interval = _SOON_SECONDS
        # By other nodes, the last reported numbers of requests of tenants.
        self._known_requests: dict[str, Mapping[str, int]] = {}
        self._failures = context.metrics.counter(catalogue.EXCHANGE_FAILURES)
        self._under_way = self._failing = False
        self._background = Background()

    def start(self) -> None:
        """Begin to exchange."""
        if self._store is not None:
            self._clock.put_after(self, self._interval)

    async def aclose(self) -> None:
        """Stop exchanging."""
        await self._background.aclose()

    def on_due(self, _slot: int) -> None:
        """Publish what has changed, and read the other reports."""
        if self._under_way or self._store is None:
            self._clock.put_after(self, self._interval)
            return
        compared = self._compared()
        report = self._report(compared)
        is_idle = report == self._published == self._idle and not compared
        least = max(self._least_interval, len(compared) / _TENANTS_A_SECOND)
        self._interval = exchange_interval(self._interval, least, publishes=not is_idle)
        self._clock.put_after(self, self._interval)
        if not compared:
            self._others.read((), ())  # what other nodes do meanwhile is compared with nothing
        if not is_idle:
            self._under_way = True
            self._background.run(self._exchange(self._store, report, compared))

    async def _exchange(
        self, store: NodeReports, report: NodeReport, compared: Collection[str]
    ) -> None:
        now = self._wall_time()
        try:
            expires = report != self._idle and now - self._published_at > KEPT_SECONDS / 2
            if report != self._published or expires:
                await store.publish(report, now)
                self._published, self._published_at = report, now
            # An idle node does not read the reports of others.
            is_idle = report == self._idle and not compared
            reports = [] if is_idle else await store.read_all(now)
            rows = await self._clear_lost(_activity_in(reports, compared))
        except Exception as error:
            self._failures.add()
            if not self._failing:
                _logger.warning(
                    "the reports of other nodes are not known (%s): what was known is kept, and "
                    "this node is fair by itself, until the store answers",
                    error,
                )
            self._failing = True
            return
        finally:
            self._under_way = False
        self._failing = False
        if compared:
            for others in self._others.read(compared, rows).values():
                self._charges.charge_other_nodes(others)
                self._quotas.learn(others, self._monotonic())
        self._learn(report, reports)

    # -- this node's report ------------------------------------------------------------------------

    def _compared(self) -> Collection[str]:
        """The tenants whose use on other nodes matters now."""
        return {*self._charges.charge_compared(), *self._quotas.busy_accounts(self._monotonic())}

    def _report(self, compared: Collection[str]) -> NodeReport:
        now = self._monotonic()
        for tenant in compared:
            counts: dict[str, Any] = {
                **self._charges.counted(tenant),
                **self._quotas.activity(tenant),
            }
            row, known = Activity(tenant, self._node, **counts), self._activity.get(tenant)
            if known is None or known[0] != row:
                self._activity.pop(tenant, None)
                self._activity[tenant] = row, now
        self._activity = {
            tenant: (row, at)
            for tenant, (row, at) in self._activity.items()
            if now - at < _ACTIVITY_KEPT_SECONDS
            or (tenant in compared and (row.answers or row.connections))
        }
        last = [*self._activity.values()][-_MOST_TENANTS:]
        activity = {row.tenant: row.counts for row, _ in last if row.counts}
        if not self._tenants.has_several:
            return NodeReport(node=self._node, activity=activity)
        return NodeReport(
            node=self._node,
            requests=self._charges.recent.requests_here(now),
            calls=self._calls(),
            activity=activity,
        )

    def _calls(self) -> Mapping[str, ModelCallReport]:
        demand = self._generations.demand_by_model()
        return {
            name: ModelCallReport(
                running=limiter.running,
                answered=limiter.answered,
                prompts=limiter.prompt_tokens,
                wanted=dict(demand[name].most_common(_MOST_TENANTS_OF_A_MODEL)),
                delay=limiter.window.slope or 0.0,
                limit=limiter.limit.published,
            )
            for name, upstream in self._upstreams.by_name.items()
            if (limiter := upstream.limiter).running or demand[name]
        }

    # -- the reports of others ---------------------------------------------------------------------

    async def _clear_lost(self, rows: Sequence[Activity]) -> Sequence[Activity]:
        """The rows. A node without a lease has no answers and no connections."""
        have = {row.node for row in rows if row.answers or row.connections}
        lost = await self._find_without_lease(have - {self._node})
        return [replace(row, answers=0, connections=0) if row.node in lost else row for row in rows]

    def _weight_of(self, tenant: str) -> float:
        return self._tenants.of(tenant).weight

    def _learn(self, own: NodeReport, reports: Iterable[NodeReport]) -> None:
        now = self._monotonic()
        self._called_since = {name: self._called_since.get(name, now) for name in own.calls}
        others = [it for it in reports if it.node != self._node]
        if own == self._idle:  # without calls of its own, it needs no reported ones
            for upstream in self._upstreams.by_name.values():
                upstream.limiter.learn(CallsOnOtherNodes(unreported_nodes=self._other_nodes), now)
            return
        self._other_nodes = len(others)
        entries = sum(_ENTRIES_OF_A_REPORT + len(it.activity) for it in others)
        self._least_interval = len(others) * entries / _ENTRIES_A_SECOND
        # With one tenant the calls are not reported, and each node learns its limit by itself.
        by_name = self._upstreams.by_name if self._tenants.has_several else {}
        for name, upstream in by_name.items():
            called_before = now - self._called_since.get(name, now) >= _EACH_SECONDS
            upstream.limiter.learn(
                CallsOnOtherNodes.of(name, own, others, self._weight_of, called_before), now
            )
        self._charges.recent.record_requests_on_other_nodes(self._new_requests(others), now)
        self._generations.fill_slots()

    def _new_requests(self, others: Iterable[NodeReport]) -> Mapping[str, int]:
        """By tenant the requests to other nodes since their last reports."""
        before, self._known_requests = self._known_requests, {it.node: it.requests for it in others}
        new = Counter[str]()
        for node, counts in self._known_requests.items():
            known_counts = before.get(node, {})
            for tenant, count in counts.items():
                known = known_counts.get(tenant)
                new[tenant] += 1 if known is None else max(0, count - known)
        return new


def _activity_in(reports: Iterable[NodeReport], tenants: Iterable[str]) -> list[Activity]:
    """What the nodes report of these tenants."""
    found = [*reports]
    return [
        row for tenant in tenants for it in found if (row := it.activity_of(tenant)) is not None
    ]
