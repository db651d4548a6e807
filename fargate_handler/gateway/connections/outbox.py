"""The frames of one delivery, sent together, and the metrics of delivery."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.metrics.instruments import Counter, Distribution, Ratio


class DeliveryMeasures:
    """The metrics of the hot path, looked up once."""

    __slots__ = (
        "acknowledged",
        "delivered",
        "event_streams",
        "frames",
        "jitter",
        "lagging",
        "late_share",
        "too_slow",
        "waiting_polls",
    )

    def __init__(self, metrics: Metrics) -> None:
        self.event_streams = self.waiting_polls = 0
        """The open event streams, and the waiting polls."""
        metrics.gauge(catalogue.EVENT_STREAMS, lambda: self.event_streams)
        metrics.gauge(catalogue.WAITING_POLLS, lambda: self.waiting_polls)
        self.jitter: Distribution = metrics.distribution(catalogue.DELIVERY_JITTER)
        self.late_share: Ratio = metrics.ratio(catalogue.LATE_DELTAS)
        self.frames: Counter = metrics.frames_sent
        self.delivered: Counter = metrics.counter(catalogue.DELTAS_DELIVERED)
        self.acknowledged: Counter = metrics.counter(catalogue.DELTAS_ACKNOWLEDGED)
        self.lagging: Counter = metrics.counter(catalogue.READERS_LAGGING)
        self.too_slow: Counter = metrics.counter(catalogue.READERS_TOO_SLOW)

    @contextmanager
    def waiting_poll(self) -> Iterator[None]:
        """Count a poll that waits."""
        self.waiting_polls += 1
        try:
            yield
        finally:
            self.waiting_polls -= 1


SendText = Callable[[bytes], None]
"""`ClientTransport.send_text` of one client."""


class Outbox:
    """The deltas of one step of the delivery clock, or of a token that is delivered at once.

    A frame that is sent past the outbox must `flush` first, to keep the order.

    Args:
        call_soon: that of the event loop. It flushes what is left at the end of a turn.
        measures: counts the frames. Each is a delta delivered with its interval.
    """

    __slots__ = ("_call_soon", "_frames", "_measures")

    def __init__(
        self, call_soon: Callable[[Callable[[], None]], object], measures: DeliveryMeasures
    ) -> None:
        self._frames: list[tuple[SendText, bytes]] = []
        self._call_soon = call_soon
        self._measures = measures

    def put(self, send_text: SendText, frame: bytes) -> None:
        """Send a frame at the end of this turn of the event loop, or with an earlier `flush`."""
        frames = self._frames
        frames.append((send_text, frame))
        if len(frames) == 1:
            self._call_soon(self.flush)

    def flush(self) -> None:
        """Send everything to the transports."""
        frames = self._frames
        if frames:
            self._frames = []
            self._measures.frames.value += len(frames)
            self._measures.late_share.whole += len(frames)
            for send_text, frame in frames:
                send_text(frame)
