"""What all parts of a node share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.delivery_clock import DeliveryClock
from evenflow.stream_core.tenants.quotas import Quotas
from evenflow.stream_core.tenants.registry import Tenants

if TYPE_CHECKING:
    from evenflow.fargate_handler.filters.content_filters import ContentFilters
    from evenflow.fargate_handler.tracing.answer_trace import AnswerTraces


@dataclass(frozen=True, slots=True)
class NodeContext:
    """A node's limits, metrics and clocks.

    `monotonic` is in seconds, for all that is measured here. `wall_time` is in seconds since the
    epoch, for what other nodes read. `traces` follows answers, where traces are exported. `tenants`
    are those in force, and `quotas` have their usage. `filters` filter what goes into logs.
    """

    limits: Limits
    clock: DeliveryClock
    metrics: Metrics
    monotonic: Callable[[], float]
    wall_time: Callable[[], float]
    traces: AnswerTraces | None = field(default=None, kw_only=True)
    tenants: Tenants = field(default_factory=Tenants, kw_only=True)
    quotas: Quotas = field(default_factory=lambda: Quotas(Tenants()), kw_only=True)
    filters: ContentFilters | None = field(default=None, kw_only=True)
