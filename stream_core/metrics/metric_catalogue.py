"""All metrics: name, unit, kind, target and alarm.

The emitter, the alarms, the dashboard and docs/metrics.md are made from this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum, auto


class MetricKind(StrEnum):
    """The kind of a metric."""

    DISTRIBUTION = "distribution"  # the value of each event, in logarithmic buckets
    GAUGE = "gauge"  # a level at the moment of reading
    COUNTER = "counter"  # events since the start
    RATIO = "ratio"  # percent of one count in another, over the last minute


class Statistic(StrEnum):
    """The statistic of a minute's values, by CloudWatch's name."""

    P95 = "p95"
    P99 = "p99"
    AVERAGE = "Average"
    MAXIMUM = "Maximum"
    SUM = "Sum"


class Urgency(Enum):
    """The reaction to an alarm, besides the notice that all alarms send."""

    FELT = auto()  # readers notice it: it pages through the one alarm "users are hurting"
    PAGE = auto()  # readers don't notice it yet, or we couldn't measure it: it pages itself
    WORKING_HOURS = auto()  # it can wait for the morning: it only sends the notice


_SAID = {Statistic.P95: "p95 ", Statistic.P99: "p99 ", Statistic.AVERAGE: "avg "}


@dataclass(frozen=True, slots=True)
class Alarm:
    """The condition under which a metric raises an alarm.

    `CatalogueAlarms` makes the alarms of this file, `CanaryAlarms` those of `canary_metrics.py`.
    Other alarms are in `service_alarms.py` (AWS's own metrics), `burn_alarms.py` (`PROMISES`) and
    `handler_service.py` (rollback of deployments).

    Args:
        statistic: what is compared: of each minute, over all tasks of an environment.
        above: the threshold, in the metric's unit. For a sudden drop: the percent of the fall.
        suffix: the unit behind the number, as the target writes it.
        datapoints, minutes: how many of how many minutes must be above the threshold. A p95 of
            fewer than 20 events a minute is the slowest one: there it is 5 of 5. Where one in a
            hundred is slow, 3 of 5 alarm by chance up to 24 times a day, 5 of 5 once in four days
            (simulated).
        silence_is_bad: whether minutes without data count as above the threshold.
        silence: what a minute without data means.
        least: a ratio of fewer cases, over all tasks, raises no alarm: each would be too much.
        urgency: for a sudden drop, that of its slower copy.
    """

    statistic: Statistic
    above: float
    suffix: str
    silence: str
    datapoints: int = 3
    minutes: int = 5
    silence_is_bad: bool = False
    sudden_drop: bool = False
    urgency: Urgency = Urgency.FELT
    least: int = 0

    @property
    def text(self) -> str:
        """The alarm in words: `p95 > 100 ms`."""
        if self.sudden_drop:
            return f"sudden drop > {self.above:g}{self.suffix}"
        statistic_name = (
            "" if self.suffix.startswith((" per", " %")) else _SAID.get(self.statistic, "")
        )
        return f"{statistic_name}> {self.above:,g}{self.suffix}"


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the catalogue.

    Args:
        target: the goal in words. None where only the trend matters.
        labels: what divide it on /metrics, a distribution by one. CloudWatch has the sum.
        prometheus_only: whether it is on /metrics alone, and not in CloudWatch. Each metric costs
            there, so CloudWatch has what an alarm or a person at night looks for.
    """

    name: str
    kind: MetricKind
    unit: str
    meaning: str
    target: str | None = None
    alarm: Alarm | None = None
    labels: tuple[str, ...] = ()
    prometheus_only: bool = False

    @property
    def prometheus_name(self) -> str:
        """`evenflow_` and the name with underscores."""
        return "evenflow_" + self.name.replace(".", "_")

    @property
    def sentence(self) -> str:
        """The meaning as a sentence begins, without its full stop."""
        return self.meaning[:1].upper() + self.meaning[1:]


_D, _G, _C, _R = MetricKind.DISTRIBUTION, MetricKind.GAUGE, MetricKind.COUNTER, MetricKind.RATIO

DELIVERY_JITTER = Metric(
    "ws.delivery_jitter_ms",
    _D,
    "ms",
    "|gap between two consecutive deltas of a response - that stream's current interval|, per "
    "connection, where the frame is handed to the socket. The current interval is the delivery "
    "clock's, or the model's own recent pace where slower",
    "p95 < 50 ms",
    Alarm(Statistic.P95, 100, " ms", silence="nothing is streaming"),
)
CONNECTION_SETUP = Metric(
    "ws.connection_setup_ms",
    _D,
    "ms",
    "from the upgrade request to session.ready handed to the socket, plus how late the event "
    "loop was",
    "p95 < 100 ms",
    Alarm(Statistic.P95, 200, " ms", silence="nobody has connected", datapoints=5),
)
ACTIVE_CONNECTIONS = Metric(
    "ws.active_connections",
    _G,
    "connections",
    "open WebSocket connections of this node",
    "< 10,000 per node",
    Alarm(
        Statistic.MAXIMUM,
        10_000,
        " per node",
        silence=(
            "no task is running, or none can publish: every task says its number each minute, "
            "zero included"
        ),
        silence_is_bad=True,
        urgency=Urgency.PAGE,
    ),
)
DEAD_CONNECTIONS_RATE = Metric(
    "ws.dead_connections_rate",
    _R,
    "%",
    "connections closed for a lost heartbeat in the last minute, of those open",
    "< 1 %/min",
    Alarm(Statistic.AVERAGE, 5, " %/min", silence="nobody is connected", least=20),
)
RESET_RATE = Metric(
    "ws.reset_rate",
    _R,
    "%",
    "connections that ended without a close frame in the last minute, of those open: a network "
    "that drops them, a proxy that cuts them, or clients that crash",
    "< 2 %/min",
    Alarm(Statistic.AVERAGE, 10, " %/min", silence="nobody is connected", least=20),
)
UNEVEN_MS = 100
UNEVEN_RATE = Metric(
    "ws.uneven_rate",
    _R,
    "%",
    f"deltas more than {UNEVEN_MS} ms off their stream's interval, of those of which "
    "ws.delivery_jitter_ms was measured in the last minute",
)
CONNECTION_AGE = Metric(
    "ws.connection_seconds",
    _D,
    "s",
    "how long a connection lasted",
    prometheus_only=True,
)
CONNECTIONS_OPENED = Metric(
    "ws.opened",
    _C,
    "connections",
    "connections that were greeted, by the `protocol`",
    labels=("protocol",),
    prometheus_only=True,
)
CONNECTIONS_CLOSED = Metric(
    "ws.closed",
    _C,
    "connections",
    "connections that ended, by the `code` of the close frame: 1005, it had none; 1006, there was "
    "no close frame; `other`, one that the client made up",
    labels=("code",),
    prometheus_only=True,
)
ACKNOWLEDGEMENT = Metric(
    "ws.acknowledgement_ms",
    _D,
    "ms",
    "from an acknowledgement to the one for all that the client had been given by then; clients "
    "acknowledge about once a second",
    prometheus_only=True,
)
MESSAGES_PER_SECOND = Metric(
    "ws.messages_per_second",
    _G,
    "frames/s",
    "frames sent over WebSockets and writes to event streams, mean of the last minute",
    "watch the trend",
    Alarm(
        Statistic.SUM,
        50,
        " %",
        silence="no task is running, or none can publish: the deepest drop there is",
        datapoints=1,
        minutes=1,
        silence_is_bad=True,
        sudden_drop=True,
    ),
)
LATE_DELTAS = Metric(
    "ws.backpressure_drops",
    _R,
    "%",
    "deltas that could not be delivered in their own interval (they are joined later) or whose "
    "reader was disconnected for being too slow, of the deltas due in the last minute. Nothing "
    "is lost, but the reader felt it",
    "< 0.1 %",
    # A few clients that don't read are enough for it, and feel it alone.
    Alarm(
        Statistic.AVERAGE,
        1,
        " %",
        silence="nothing is streaming",
        urgency=Urgency.WORKING_HOURS,
        least=1_000,
    ),
)
POLL_LATENCY = Metric(
    "fallback.poll_latency_ms",
    _D,
    "ms",
    "from the moment a long-poll could answer (its text was there and its linger over, or the "
    "response ended) to its answer",
    "p95 < 200 ms",
    Alarm(Statistic.P95, 500, " ms", silence="nobody uses the fallback", datapoints=5),
)
POLL_COUNT = Metric(
    "fallback.poll_count_per_response",
    _D,
    "polls",
    "polls that a response took for each half-minute of it, a shorter one counting as that long; "
    "recorded when one of them returns its end",
    "avg < 10",
    Alarm(
        Statistic.AVERAGE,
        20,
        "",
        silence="nobody uses the fallback",
        urgency=Urgency.WORKING_HOURS,
    ),
)
FIRST_TOKEN = Metric(
    "model.first_token_ms",
    _D,
    "ms",
    "from accepting the message to its first delta, or to its end after 10 s without one, by the "
    "`model`; in CloudWatch without answers of the class `batch`",
    "p95 < 5,000 ms",
    Alarm(
        Statistic.P95,
        10_000,
        " ms",
        silence="nothing was answered",
        datapoints=5,
    ),
    labels=("model",),
)
TOKEN_GAP = Metric(
    "model.token_gap_ms",
    _D,
    "ms",
    "time between two tokens of a response, as they went into its log: tokens that were delivered "
    "together have come evenly since the delivery before. Counted when the response ends, at most "
    "19 % too long, by the `model`",
    labels=("model",),
)
QUEUE_WAIT = Metric(
    "queue.wait_ms",
    _D,
    "ms",
    "from accepting a message to the begin of its generation, by the service `class`; in "
    "CloudWatch without the class `batch`, which waits for the others",
    "p99 < 1,000 ms",
    Alarm(
        Statistic.P99,
        5_000,
        " ms",
        silence="no message was accepted",
        datapoints=5,
    ),
    labels=("class",),
)
SERVICE_CHARGED = Metric(
    "queue.service",
    _C,
    "tokens",
    "what ended answers were charged: a token of the input counts 1, one of the output 2. By the "
    "`tenant`, of the first 200",
    labels=("tenant",),
    prometheus_only=True,
)
ANSWERS_PREEMPTED = Metric(
    "queue.held",
    _C,
    "answers",
    "batch answers that gave their place to an interactive one, and go on later",
    prometheus_only=True,
)
EXCHANGE_FAILURES = Metric(
    "queue.exchange_failures",
    _C,
    "exchanges",
    "exchanges with other nodes that failed: what they do for tenants, and which calls they make, "
    "is not known, and each node applies rates, shares and slots by itself",
    "0 a minute",
    # With a wrong role or table one a second fails, if there are several tenants.
    Alarm(
        Statistic.SUM,
        10,
        " a minute",
        silence="no task is running, or none can publish: ws.active_connections says so",
        urgency=Urgency.WORKING_HOURS,
    ),
)
QUEUE_DEPTH = Metric(
    "queue.depth", _G, "messages", "accepted messages whose generation has not begun"
)
QUEUE_REFUSED = Metric(
    "queue.refused",
    _C,
    "messages",
    "messages answered with system.busy or 429 queue_full, and those that waited and gave their "
    "place up to another sender",
)
MESSAGES_REFUSED = Metric(
    "messages.refused",
    _C,
    "messages",
    "messages that were not accepted, over all transports, by the `code` that their sender was "
    "given",
    labels=("code",),
)
SHADOW_REFUSALS = Metric(
    "messages.shadow_refusals",
    _C,
    "refusals",
    "messages and connections of tenants in shadow that were taken although a bound refuses them, "
    "by the `code` that their sender would have been given",
    labels=("code",),
)
BUDGET_RESERVATIONS = Metric(
    "messages.reserved",
    _G,
    "answers",
    "answers of this node that have something reserved of their tenant's budgets",
    prometheus_only=True,
)
REFUSAL_RATE = Metric(
    "messages.refusal_rate",
    _R,
    "%",
    "messages that this node did not accept for want of room, of its store or of its model (429 "
    "and 503), and requests that it had no place for (node_full), of all that were sent in the "
    "last minute; without those over a limit of their own sender",
    "< 1 %",
    Alarm(Statistic.AVERAGE, 5, " %", silence="no message was sent"),
)
HTTP_REFUSED = Metric(
    "http.refused",
    _C,
    "requests",
    "requests and handshakes refused for their `Host`, `Origin`, type or encoding, by the `code`: "
    "many mean an attack, or a name that EVENFLOW_ALLOWED_HOSTS lacks",
    labels=("code",),
)
UNAUTHORIZED_RATE = Metric(
    "http.unauthorized_rate",
    _R,
    "%",
    "requests and handshakes whose key or token was refused (401 or 403), of those that were "
    "answered in the last minute",
    "< 5 %",
    Alarm(
        Statistic.AVERAGE,
        50,
        " %",
        silence="nothing was requested",
        urgency=Urgency.PAGE,
        least=20,
    ),
)
HTTP_ANSWERS = Metric(
    "http.answers",
    _C,
    "answers",
    "answers to HTTP requests of clients, by the `route` and the `status`; `websocket` are "
    "handshakes of any path, `other` is no route",
    labels=("route", "status"),
    prometheus_only=True,
)
HTTP_ANSWER_TIME = Metric(
    "http.answer_ms",
    _D,
    "ms",
    "from an HTTP request's head to its answer's, by the `protocol`: for a stream to its begin, "
    "for a poll with its wait",
    labels=("protocol",),
    prometheus_only=True,
)
HTTP_REQUESTS = Metric(
    "http.requests",
    _C,
    "requests",
    "requests of clients for a path that is served, without WebSockets, by the `protocol`",
    labels=("protocol",),
)
EVENT_STREAMS = Metric(
    "http.event_streams", _G, "streams", "event streams of any protocol that are open at this node"
)
WAITING_POLLS = Metric(
    "http.waiting_polls",
    _G,
    "polls",
    "long polls that wait at this node; in AWS a function answers them",
    prometheus_only=True,
)
NODE_LOAD = Metric(
    "node.load_percent",
    _G,
    "%",
    "the worst of this node's shares: connections, event streams with waiting polls, answers and "
    "the queue, each of its limit; the core; lateness of the delivery clock, of an interval. The "
    "mean of the last minute: the service is scaled by it",
    "< 60 %",
    Alarm(
        Statistic.AVERAGE,
        80,
        " %",
        silence="no task is running, or none can publish: ws.active_connections says so",
        datapoints=5,
        urgency=Urgency.PAGE,
    ),
)
GENERATIONS_RUNNING = Metric("generations.running", _G, "responses", "responses being generated")
SILENT_RATE = Metric(
    "generations.silent_rate",
    _R,
    "%",
    "answers whose model has sent nothing that counts for two minutes, not even its reasoning, of "
    "those with a running model at the end of the minute: comments that keep a connection open do "
    "not count",
    "< 5 %",
    Alarm(Statistic.AVERAGE, 50, " %", silence="no answer is being generated", least=3),
)
GENERATIONS_PARKED = Metric(
    "generations.parked",
    _G,
    "responses",
    "responses whose place others have: all their readers paused, or their client runs tools",
)
GENERATION_RETRIES = Metric(
    "generations.retries", _C, "attempts", "attempts that followed a failed one"
)
GENERATIONS_DEGRADED = Metric(
    "generations.degraded", _C, "responses", "responses ended with the fallback answer"
)
MODEL_LIMIT = Metric(
    "upstream.ceiling",
    _G,
    "calls",
    "this node's share of the lowest concurrency limit known, of all models; 0 where none is known",
    prometheus_only=True,
)
BREAKERS_OPEN = Metric(
    "upstream.open_breakers",
    _G,
    "upstreams",
    "models whose calls are refused after failures in a row, and that have answered none since",
    "0",
    Alarm(
        Statistic.MAXIMUM,
        0,
        "",
        silence="no task is running, or none can publish: ws.active_connections says so",
        datapoints=2,
        minutes=3,
    ),
)
UPSTREAM_FAILURES = Metric(
    "upstream.failures",
    _C,
    "attempts",
    "attempts that failed, by the `code`: that of the error which a reader would be given",
    labels=("code",),
    prometheus_only=True,
)
UPSTREAM_THROTTLES = Metric(
    "upstream.throttles",
    _C,
    "attempts",
    "attempts that the model's server refused because it has too much to do (429, or 503)",
    "0 a minute",
    # A model over its quota is called seldom: down to once in eight seconds. Probes for a higher
    # concurrency limit are refused for as long as there is load, and delay no answer.
    Alarm(
        Statistic.SUM,
        5,
        " a minute",
        silence="no task is running, or none can publish: ws.active_connections says so",
        urgency=Urgency.WORKING_HOURS,
    ),
)
RESPONSES_ENDED = Metric(
    "responses.ended",
    _C,
    "responses",
    "responses that ended, by the agent, the model, the `protocol` of the first reader, the "
    "`state` and its `reason`: why the model ended, or the error's code",
    labels=("agent", "model", "protocol", "state", "reason"),
    prometheus_only=True,
)
RESPONSES_COMPLETED = Metric("responses.completed", _C, "responses", "responses that completed")
RESPONSES_FAILED = Metric("responses.failed", _C, "responses", "responses that ended in an error")
RESPONSES_CANCELLED = Metric(
    "responses.cancelled",
    _C,
    "responses",
    "responses cancelled, by a client or for want of readers",
)
RESPONSE_FAILURE_RATE = Metric(
    "responses.failure_rate",
    _R,
    "%",
    "responses that ended in an error or with the fallback answer, of those that ended in the "
    "last minute; without those that were cancelled, whose message the model refused (its "
    "sender's error), or whose model was over its quota (see upstream.throttles)",
    "< 1 %",
    Alarm(Statistic.AVERAGE, 5, " %", silence="no response ended"),
)
RESPONSES_IN_MEMORY = Metric(
    "responses.held",
    _G,
    "responses",
    "responses in memory: running, or ended in the last five minutes",
)
MEMORY_RESIDENT = Metric(
    "memory.resident_bytes",
    _G,
    "bytes",
    "memory of this process; where the system doesn't tell it, the most that it has had",
)
MEMORY_USED = Metric(
    "memory.used_percent",
    _G,
    "%",
    "memory of this process, of what its container or its machine has",
    "< 60 %",
    Alarm(
        Statistic.MAXIMUM,
        80,
        " %",
        silence="no task is running, or none can publish: ws.active_connections says so",
        urgency=Urgency.PAGE,
    ),
)
MEMORY_HELD = Metric(
    "memory.held_bytes",
    _G,
    "bytes",
    "what this node keeps for its clients, as its limits count it: messages, conversations, "
    "responses, and what sockets have not taken",
)
MEMORY_REFUSED = Metric(
    "memory.refused",
    _C,
    "requests",
    "messages, requests and sessions refused with node_memory",
)
CONVERSATIONS_FORGOTTEN = Metric(
    "conversations.forgotten",
    _C,
    "conversations",
    "conversations forgotten to make room; their next message reads them from the store",
)
RESPONSES_SHORTENED = Metric(
    "responses.shortened",
    _C,
    "responses",
    "answers stopped with finish_reason length because the logs of running ones took too much",
)
TOKENS_GENERATED = Metric("tokens.generated", _C, "tokens", "tokens that models gave")
DELTAS_DELIVERED = Metric(
    "deltas.delivered", _C, "deltas", "deltas handed to sockets, SSE streams and polls"
)
DELTAS_ACKNOWLEDGED = Metric(
    "deltas.acknowledged", _C, "deltas", "deltas that clients said they have (response.ack)"
)
READERS_LAGGING = Metric(
    "readers.lagging", _C, "readers", "readers over the limit for a `lag` notice"
)
READERS_TOO_SLOW = Metric(
    "readers.too_slow", _C, "readers", "connections closed with 4008, event streams ended for it"
)
CONNECTIONS_REFUSED = Metric(
    "ws.connections_refused", _C, "handshakes", "handshakes refused for capacity"
)
FLOODS = Metric(
    "ws.floods",
    _C,
    "connections",
    "connections that sent more frames than they may: closed with 1008, and not read any more",
)
CONNECTIONS_CUT = Metric(
    "connections.cut",
    _C,
    "connections",
    "connections of any protocol that were cut or refused: without a whole `head` or too slow a "
    "`body` in time; to make `room`, since they kept the node waiting for longest; `full`, since "
    "all places were taken",
    labels=("why",),
)
DRAINED_CONNECTIONS = Metric(
    "drain.connections",
    _C,
    "connections",
    "connections of a node that leaves: `moved` left in time; `closed` were idle, and still there "
    "2 s after the moment at which they were to reconnect; `cut` were still reading when the time "
    "was over",
    labels=("outcome",),
    prometheus_only=True,
)
DRAINED_ANSWERS = Metric(
    "drain.answers",
    _C,
    "responses",
    "answers of a node that leaves: `finished`, or `handed_over` to another one or the next start",
    labels=("outcome",),
    prometheus_only=True,
)
RESUME = Metric(
    "ws.resume_ms", _D, "ms", "from a response.resume to its first frame handed to the socket"
)
CLOCK_LATENESS = Metric(
    "clock.lateness_ms", _G, "ms", "smoothed time by which the delivery clock is late"
)
CLOCK_INTERVAL = Metric(
    "clock.interval_ms",
    _G,
    "ms",
    "the current delivery interval of chats, of tenants within their share of the deliveries; "
    "longer than batch_window_ms: the core is full",
)
STRETCHED_TENANTS = Metric(
    "clock.stretched_tenants",
    _G,
    "tenants",
    "tenants over their share of the deliveries that are delivered to less often, since the core "
    "is full; all others are only while clock.interval_ms is longer, too",
    prometheus_only=True,
)
CLOCK_LOAD = Metric(
    "clock.load_percent",
    _G,
    "%",
    "the share of the last interval in which the process computed, or waited for its core",
)

STORE_WRITE_DELAY = Metric(
    "store.write_delay_ms",
    _D,
    "ms",
    "from the moment a delta was due to be written to the response store until that had it",
    "p95 < 500 ms",
    Alarm(Statistic.P95, 2_000, " ms", silence="nothing is streaming"),
)
STORE_BACKLOG = Metric(
    "store.backlog_bytes",
    _G,
    "bytes",
    "text in the logs of this node that the response store does not have yet",
)
STORE_RETRIES = Metric(
    "store.retries", _C, "writes", "writes repeated because the store throttled or failed"
)
STORE_REFUSED = Metric(
    "store.refused",
    _C,
    "messages",
    "messages refused because the store could not take them, or was too far behind",
)
STORE_DELTAS_LOST = Metric(
    "store.deltas_lost",
    _C,
    "deltas",
    "deltas that this node had to forget before the store took them: polls of such an answer "
    "find no more text and no end",
    "0 a minute",
    Alarm(Statistic.SUM, 0, " a minute", silence="no task is running", datapoints=1, minutes=1),
)
LEASE_HELD = Metric(
    "lease.held",
    _G,
    "nodes",
    "1 while this node's lease is in force, and 0 while other nodes may take its answers over: it "
    "can't reach the store, or starves",
)
TAKE_OVERS = Metric(
    "lease.take_overs",
    _C,
    "responses",
    "responses that this node went on with because the one that owned them was lost or left",
)
DEAD_LETTERS = Metric(
    "lease.dead_letters",
    _C,
    "messages",
    "messages given up and put aside, because every node that answered them was lost",
)

RESPONSES_FOLLOWED = Metric(
    "responses.followed",
    _G,
    "responses",
    "responses of other nodes that are copied for readers of this one",
)
PARSER_ERRORS = Metric(
    "ws.parser_errors",
    _C,
    "connections",
    "connections closed because what the client sent is no frame of a WebSocket",
)
LOG_LINES_DROPPED = Metric(
    "log.lines_dropped",
    _C,
    "lines",
    "lines that were not logged, by the `reason`: `repeated`, there were enough of their kind "
    "within the second; `unread`, 8 MiB waited for whoever reads the log",
    labels=("reason",),
)
FILTER_MATCHES = Metric(
    "filter.matches",
    _C,
    "matches",
    "what content filters found in answers, by the `filter`: the name of a pattern, or `guardrail`",
    labels=("filter",),
    prometheus_only=True,
)
FILTER_HELD = Metric(
    "filter.held_ms",
    _D,
    "ms",
    "how long text was held back until the patterns and the operator's own filter had cleared it; "
    "text that was cleared at once isn't counted",
    prometheus_only=True,
)

CATALOGUE: tuple[Metric, ...] = tuple(
    value for value in list(globals().values()) if isinstance(value, Metric)
)
PUBLISHED = tuple(metric for metric in CATALOGUE if not metric.prometheus_only)
"""Those that CloudWatch has."""


@dataclass(frozen=True, slots=True)
class Promise:
    """A service level objective, with an alarm on its burn rate.

    Args:
        metric: the percent of the cases in which it is broken.
        allowed: how many percent may be, over a month.
        least: in fewer cases an hour there is no alarm: each would be too much of a share.
    """

    name: str
    metric: Metric
    allowed: float
    least: int


@dataclass(frozen=True, slots=True)
class BurnRate:
    """A burn rate: a multiple of the allowed rate of failures, in two windows.

    The long window shows that it matters, the short one that it continues.
    """

    times: float
    long_minutes: int
    short_minutes: int


PROMISES = (
    Promise("answers", RESPONSE_FAILURE_RATE, allowed=1.0, least=20),
    Promise("evenness", UNEVEN_RATE, allowed=1.0, least=1_000),
)
# At these rates what is allowed in a month of 30 days is used up in two days, or in ten.
BURN_RATES = (
    BurnRate(14.4, long_minutes=60, short_minutes=5),
    BurnRate(3, long_minutes=360, short_minutes=30),
)
