"""What all parts of a node share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fargate_handler.metrics import Metrics
from stream_core.delivery.delivery_clock import DeliveryClock
from stream_core.policy.limits import Limits


@dataclass(frozen=True, slots=True)
class NodeContext:
    """One node's limits, metrics, delivery clock, and what tells the time.

    `monotonic` is in seconds, for all that is measured here; `wall_time` in seconds since the
    epoch, for what other tasks read.
    """

    limits: Limits
    clock: DeliveryClock
    metrics: Metrics
    monotonic: Callable[[], float]
    wall_time: Callable[[], float]
