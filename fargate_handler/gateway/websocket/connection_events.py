"""What is counted and logged of every WebSocket, whichever protocol it has: how it ended."""

from __future__ import annotations

from evenflow.fargate_handler.runtime.event_log import log_event
from evenflow.fargate_handler.runtime.metrics import Metrics
from evenflow.stream_core.metrics import metric_catalogue as catalogue
from evenflow.stream_core.protocols.evenflow.close_codes import RESET, CloseCode, code_label
from evenflow.stream_core.records.connection_records import BY_SERVER, CloseRecord


def connection_ended(metrics: Metrics, closed: CloseRecord) -> None:
    """Count and log the end of a connection, once it is no longer served."""
    # Those that are still open are added to both rates at the end of the minute.
    if closed.code == RESET:
        metrics.ratio(catalogue.RESET_RATE).count_both()
    elif closed.code == CloseCode.HEARTBEAT_LOST and closed.by == BY_SERVER:
        metrics.ratio(catalogue.DEAD_CONNECTIONS_RATE).count_both()
    metrics.labelled(catalogue.CONNECTIONS_CLOSED).count(code_label(closed.code))
    metrics.distribution(catalogue.CONNECTION_AGE).record(closed.duration_ms / 1000)
    log_event(closed)
