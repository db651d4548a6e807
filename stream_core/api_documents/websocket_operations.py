"""The handshakes of our WebSockets."""

from __future__ import annotations

from evenflow.stream_core.http import routes
from evenflow.stream_core.http.operation import Answer, Operation, Parameter, refusals
from evenflow.stream_core.http.refusal_codes import ANY, HANDSHAKE, TOKEN
from evenflow.stream_core.http.routes import Route


def _websocket(route: Route, name: str, summary: str, subprotocols: str) -> Operation:
    return Operation(
        route,
        name,
        f"{summary}. `/asyncapi.json` describes its frames.",
        answers=(
            Answer(
                101,
                "The WebSocket is open.",
                content_type="",
                headers=("Sec-WebSocket-Protocol", "Set-Cookie"),
            ),
        ),
        refusals=refusals(ANY, TOKEN, HANDSHAKE),
        parameters=(
            Parameter(
                "Sec-WebSocket-Protocol",
                "header",
                f"{subprotocols}. Also `bearer.<token>` from clients that can't send "
                "`Authorization`.",
                {"type": "string"},
            ),
            Parameter(
                "replace", "query", "1: close the session's other connections.", {"type": "string"}
            ),
        ),
        security=("", "session"),
    )


WEBSOCKET_OPERATIONS: tuple[Operation, ...] = (
    _websocket(
        routes.WEBSOCKET,
        "openWebSocket",
        "The handshake of the WebSocket, at the address that `POST /session` gives as `ws_url`",
        "`evenflow.v1` or `evenflow.v1.compact`",
    ),
    _websocket(
        routes.REALTIME,
        "openRealtime",
        "The handshake of the WebSocket for clients that set the pace",
        "`evenflow.realtime.v1`",
    ),
    _websocket(
        routes.OPENAI_REALTIME,
        "openRealtimeOfV1",
        "The same as `/realtime`. It isn't OpenAI's Realtime API: that API's clients are sent an "
        "`error` event and a close",
        "`evenflow.realtime.v1`",
    ),
)
