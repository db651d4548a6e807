"""The metrics of the canary, which sends a message each minute, as a client does.

They are no part of the catalogue: no handler has them, and an environment may be without a canary.
"""

from __future__ import annotations

from evenflow.stream_core.metrics.metric_catalogue import (
    Alarm,
    Metric,
    MetricKind,
    Statistic,
    Urgency,
)

CANARY_FAILURES = Metric(
    "canary.failures",
    MetricKind.COUNTER,
    "transports",
    "transports over which the canary's answer did not come whole, each minute",
    "0",
    Alarm(
        Statistic.SUM,
        0,
        " a minute",
        silence="the canary does not run, or fails before it can publish",
        silence_is_bad=True,
    ),
)
CANARY_FIRST_TEXT = Metric(
    "canary.first_text_ms",
    MetricKind.DISTRIBUTION,
    "ms",
    "from the canary's message to the first text, over each transport",
    "p95 < 3 s",
    Alarm(
        Statistic.P95,
        10_000,
        " ms",
        silence="no answer came: canary.failures says so",
        datapoints=5,
        urgency=Urgency.WORKING_HOURS,
    ),
)
CANARY_METRICS = (CANARY_FAILURES, CANARY_FIRST_TEXT)
