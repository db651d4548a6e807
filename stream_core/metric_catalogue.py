"""Every metric once: name, unit, kind, target and alarm. The emitter, the alarms, the dashboard and docs/metrics.md are
made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MetricKind(StrEnum):
    """How a metric is measured."""

    DISTRIBUTION = "distribution"  # each event's value, in logarithmic buckets
    GAUGE = "gauge"  # a level, read when asked
    COUNTER = "counter"  # events since start
    RATIO = "ratio"  # percent of one count in another, over the last minute


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the catalogue. `target` and `alarm` are in the contract's words, None where only the trend matters."""

    name: str
    kind: MetricKind
    unit: str
    meaning: str
    target: str | None = None
    alarm: str | None = None

    @property
    def prometheus_name(self) -> str:
        """`evenflow_` and the name with underscores."""
        return "evenflow_" + self.name.replace(".", "_")


_D, _G, _C, _R = MetricKind.DISTRIBUTION, MetricKind.GAUGE, MetricKind.COUNTER, MetricKind.RATIO

DELIVERY_JITTER = Metric(
    "ws.delivery_jitter_ms",
    _D,
    "ms",
    "|gap between two consecutive deltas of a response - that stream's current interval|, per connection, where the frame "
    "is handed to the socket. The current interval is the delivery clock's, or the model's own recent pace where slower",
    "p95 < 50 ms",
    "p95 > 100 ms",
)
CONNECTION_SETUP = Metric(
    "ws.connection_setup_ms",
    _D,
    "ms",
    "from the upgrade request to session.ready handed to the socket, plus how late the event loop was",
    "p95 < 100 ms",
    "p95 > 200 ms",
)
ACTIVE_CONNECTIONS = Metric(
    "ws.active_connections",
    _G,
    "connections",
    "open WebSocket connections of this node",
    "< 10,000 per node",
    "> 10,000 per node",
)
DEAD_CONNECTIONS_RATE = Metric(
    "ws.dead_connections_rate",
    _R,
    "%",
    "connections closed for a lost heartbeat in the last minute, of those open",
    "< 1 %/min",
    "> 5 %/min",
)
MESSAGES_PER_SECOND = Metric(
    "ws.messages_per_second",
    _G,
    "frames/s",
    "frames sent over WebSockets, mean of the last minute",
    "watch the trend",
    "sudden drop > 50 %",
)
BACKPRESSURE_DROPS = Metric(
    "ws.backpressure_drops",
    _R,
    "%",
    "deltas that could not be delivered in their own interval (they are joined later) or whose reader was disconnected for "
    "being too slow, of the deltas due in the last minute. Nothing is lost, but the reader felt it",
    "< 0.1 %",
    "> 1 %",
)
POLL_LATENCY = Metric(
    "fallback.poll_latency_ms",
    _D,
    "ms",
    "from the moment a long-poll could answer (its text was there and its linger over, or the response ended) to its answer",
    "p95 < 200 ms",
    "p95 > 500 ms",
)
POLL_COUNT = Metric(
    "fallback.poll_count_per_response",
    _D,
    "polls",
    "polls that a response took, counted when one of them returns its end",
    "avg < 5",
    "avg > 10",
)
FIRST_TOKEN = Metric("model.first_token_ms", _D, "ms", "from accepting the message to its first delta")
TOKEN_GAP = Metric("model.token_gap_ms", _D, "ms", "mean gap between two tokens of a response, as the model gave them")
QUEUE_WAIT = Metric("queue.wait_ms", _D, "ms", "from accepting a message to a worker taking it (watch p95, p99, p99.9)")
QUEUE_DEPTH = Metric("queue.depth", _G, "messages", "accepted messages that no worker has taken")
QUEUE_REFUSED = Metric("queue.refused", _C, "messages", "messages answered with system.busy or 429 queue_full")
GENERATIONS_RUNNING = Metric("generations.running", _G, "responses", "responses being generated")
GENERATION_RETRIES = Metric("generations.retries", _C, "attempts", "attempts that followed a failed one")
GENERATIONS_DEGRADED = Metric("generations.degraded", _C, "responses", "responses ended with the fallback answer")
RESPONSES_COMPLETED = Metric("responses.completed", _C, "responses", "responses that completed")
RESPONSES_FAILED = Metric("responses.failed", _C, "responses", "responses that ended in an error")
RESPONSES_CANCELLED = Metric(
    "responses.cancelled", _C, "responses", "responses cancelled, by a client or for want of readers"
)
RESPONSES_HELD = Metric(
    "responses.held", _G, "responses", "responses in memory, running or ended less than the TTL ago"
)
TOKENS_GENERATED = Metric("tokens.generated", _C, "tokens", "tokens that models gave")
DELTAS_DELIVERED = Metric("deltas.delivered", _C, "deltas", "deltas handed to sockets, SSE streams and polls")
DELTAS_ACKNOWLEDGED = Metric("deltas.acknowledged", _C, "deltas", "deltas that clients said they have (response.ack)")
READERS_LAGGING = Metric("readers.lagging", _C, "readers", "`lag` notices sent")
READERS_TOO_SLOW = Metric("readers.too_slow", _C, "readers", "connections closed with 4008")
CONNECTIONS_REFUSED = Metric("ws.connections_refused", _C, "handshakes", "handshakes refused for capacity")
RESUME = Metric("ws.resume_ms", _D, "ms", "from a response.resume to its first frame handed to the socket")
CLOCK_LATENESS = Metric("clock.lateness_ms", _G, "ms", "smoothed time by which the delivery clock is late")
CLOCK_INTERVAL = Metric("clock.interval_ms", _G, "ms", "the current delivery interval of all streams")

CATALOGUE: tuple[Metric, ...] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
