"""Where deliveries are counted."""

from __future__ import annotations

from fargate_handler.metrics import Counter, Metrics, Ratio
from stream_core import metric_catalogue as catalogue
from stream_core.distribution import Distribution


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
