"""What the gateway's parts share: one object, made once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fargate_handler.gateway.connection_registry import ConnectionRegistry
from fargate_handler.gateway.outbox import Outbox
from fargate_handler.metrics import Counter, Metrics, Ratio
from fargate_handler.orchestrator.orchestrator import Orchestrator
from stream_core import metric_catalogue as catalogue
from stream_core.delivery_clock import DeliveryClock
from stream_core.distribution import Distribution
from stream_core.limits import Limits
from stream_core.session_token import SessionTokens


class DeliveryMeasures:
    """Where the hot path counts, looked up once."""

    __slots__ = ("acknowledged", "delivered", "due", "frames", "jitter", "lagging", "too_slow")

    def __init__(self, metrics: Metrics) -> None:
        self.jitter: Distribution = metrics.distribution(catalogue.DELIVERY_JITTER)
        self.due: Ratio = metrics.ratio(catalogue.BACKPRESSURE_DROPS)
        self.frames: Counter = metrics.frames_sent
        self.delivered: Counter = metrics.counter(catalogue.DELTAS_DELIVERED)
        self.acknowledged: Counter = metrics.counter(catalogue.DELTAS_ACKNOWLEDGED)
        self.lagging: Counter = metrics.counter(catalogue.READERS_LAGGING)
        self.too_slow: Counter = metrics.counter(catalogue.READERS_TOO_SLOW)


@dataclass(frozen=True, slots=True)
class GatewayContext:
    """The gateway's surroundings.

    `monotonic` and `wall_time` are in seconds. `tenant_keys`: the tenants that need a key. `ws_url` is set when the
    public WebSocket address isn't simply `ws_port` of the host that the client called.
    """

    limits: Limits
    clock: DeliveryClock
    metrics: Metrics
    measures: DeliveryMeasures
    outbox: Outbox
    orchestrator: Orchestrator
    registry: ConnectionRegistry
    tokens: SessionTokens
    tenant_keys: dict[str, str]
    monotonic: Callable[[], float]
    wall_time: Callable[[], float]
    http_url: str | None
    ws_url: str | None
    ws_port: int
