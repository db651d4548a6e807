"""The limits that a client meets, for the documents."""

from __future__ import annotations

from typing import Any

from stream_core.limits import Limits

_THEIRS = (
    "message_bytes",
    "messages_per_second",
    "messages_in_flight_per_session",
    "connections_per_session",
    "readers_per_response",
    "protocol_errors_per_minute",
    "batch_window_ms",
    "frame_characters",
    "heartbeat_seconds",
    "pong_timeout_seconds",
    "lag_notice_deltas",
    "lag_notice_seconds",
    "lag_close_bytes",
    "lag_close_seconds",
    "pause_seconds",
    "credit_window",
    "grace_seconds",
    "poll_timeout_max_ms",
    "sse_heartbeat_seconds",
    "response_bytes",
    "response_ttl_seconds",
    "session_token_ttl_seconds",
)


def client_limits(limits: Limits) -> dict[str, Any]:
    """Name → value in force, and what happens when it is reached."""
    return {
        name: {"value": getattr(limits, name), "when_reached": Limits.model_fields[name].description}
        for name in _THEIRS
    }
