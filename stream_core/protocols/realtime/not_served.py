"""OpenAI's Realtime API, which isn't served: how we know its clients, and what they are told.

They show neither the body nor the headers of a refused handshake. They do show an `error` event and
the reason of a close.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode

SUBPROTOCOL = "realtime"
BETA_HEADER = "OpenAI-Beta"
CLOSE_CODE = CloseCode.POLICY
CLOSE_REASON = "OpenAI's Realtime API is not served here; use POST /v1/chat/completions"
_QUERY = ("model", "call_id", "intent")


def asks_for_openai_realtime(
    offered: Collection[str],
    query: Collection[str],
    beta: str | None,
) -> bool:
    """Whether a handshake at `/v1/realtime` comes from one of OpenAI's clients.

    Args:
        offered: the subprotocols.
        query: the names of the query's parameters.
        beta: the value of `BETA_HEADER`.
    """
    if any(name.startswith("evenflow.") for name in offered):
        return False
    if beta is not None or SUBPROTOCOL in offered:
        return True
    if any(name.startswith("openai-") for name in offered):
        return True
    return any(name in query for name in _QUERY)


def realtime_not_served() -> dict[str, Any]:
    """The event which says that the API isn't served."""
    message = (
        "this is Evenflow, which doesn't serve OpenAI's Realtime API; "
        "POST /v1/chat/completions with `stream: true` streams text, and "
        "/realtime is Evenflow's own WebSocket, which /asyncapi.json describes"
    )
    error = {
        "type": "invalid_request_error",
        "code": "realtime_not_served",
        "message": message,
        "param": None,
        "event_id": None,
    }
    return {"type": "error", "event_id": "event_realtime_not_served", "error": error}
