"""Rejects clients of OpenAI's Realtime API, which is not served.

These clients show neither the body nor the headers of a rejected handshake. They do show an `error`
event and the reason of a close. So their handshake is accepted first.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, cast

import orjson
from picows import (
    WSCloseCode,
    WSFrame,
    WSListener,
    WSMsgType,
    WSTransport,
    WSUpgradeResponse,
    WSUpgradeResponseWithListener,
)

from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode

BETA_HEADER = "OpenAI-Beta"
_SUBPROTOCOL = "realtime"
_QUERY_NAMES = ("model", "call_id", "intent")
_CLOSE_REASON = "OpenAI's Realtime API is not served here; use POST /v1/chat/completions"
# After these seconds without the client's close frame it is disconnected.
_CLOSE_SECONDS = 5.0
# After this number of frames the server stops reading.
_MOST_IGNORED_FRAMES = 100


def is_openai_handshake(
    subprotocols: Collection[str], query_names: Collection[str], beta: str | None
) -> bool:
    """Whether a handshake at `/v1/realtime` comes from one of OpenAI's clients.

    Args:
        subprotocols: the subprotocols that the client offers.
        query_names: the names of the query's parameters.
        beta: the value of `BETA_HEADER`.
    """
    if any(name.startswith("evenflow.") for name in subprotocols):
        return False
    if beta is not None or _SUBPROTOCOL in subprotocols:
        return True
    if any(name.startswith("openai-") for name in subprotocols):
        return True
    return any(name in query_names for name in _QUERY_NAMES)


def reject_openai_client(subprotocols: Collection[str]) -> WSUpgradeResponseWithListener:
    """Accept the handshake, send the error as an event, and close."""
    headers = {"Sec-WebSocket-Protocol": _SUBPROTOCOL} if _SUBPROTOCOL in subprotocols else {}
    return WSUpgradeResponseWithListener(
        WSUpgradeResponse.create_101_response(headers), RejectionListener()
    )


class RejectionListener(WSListener):
    """Sends the error event to one connection, and closes it."""

    __slots__ = ("_ignored_frames", "stopped")

    def __init__(self) -> None:
        self._ignored_frames = 0
        self.stopped = False
        """Whether reading has stopped."""

    def on_ws_connected(self, transport: WSTransport) -> None:
        """Send the error, and close."""
        transport.send(WSMsgType.TEXT, orjson.dumps(_error_event()))
        transport.send_close(cast("WSCloseCode", CloseCode.POLICY), _CLOSE_REASON)
        asyncio.get_running_loop().call_later(_CLOSE_SECONDS, transport.disconnect, False)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """Disconnect on the client's close frame. Other frames are ignored."""
        if frame.msg_type == WSMsgType.CLOSE:
            transport.disconnect()
        self._ignored_frames += 1
        if self._ignored_frames == _MOST_IGNORED_FRAMES:
            self.stopped = True
            transport.underlying_transport.pause_reading()


def _error_event() -> dict[str, Any]:
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
