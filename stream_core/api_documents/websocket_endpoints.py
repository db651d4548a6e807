"""All WebSockets of clients. The AsyncAPI document is made from this table.

A frame is in the document if it is in the union for its direction, in
`protocols/evenflow/messages.py` or `protocols/realtime/dialect.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, get_args

from evenflow.stream_core.http import routes
from evenflow.stream_core.http.component_schemas import Model
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode
from evenflow.stream_core.protocols.evenflow.dialect import COMPACT, REALTIME, V1
from evenflow.stream_core.protocols.evenflow.messages import (
    ClientMessage,
    CompactDelta,
    CompactPart,
    ResponseDelta,
    ResponsePart,
    ServerMessage,
)
from evenflow.stream_core.protocols.realtime.dialect import (
    RealtimeClientMessage,
    RealtimeServerMessage,
)


@dataclass(frozen=True, slots=True)
class CloseReason:
    """Why the server closes with a code, and what the client should do."""

    meaning: str
    client_does: str


@dataclass(frozen=True, slots=True)
class Subprotocol:
    """The server's messages in the subprotocol `name`. `operation` is its name in the document."""

    name: str
    operation: str
    sent: tuple[Model, ...]


@dataclass(frozen=True, slots=True)
class WebSocketDescription:
    """One WebSocket.

    Args:
        received: the frames that clients send, in every subprotocol.
        query: the parameters of the address, and what they mean.
    """

    name: str
    path: str
    meaning: str
    received: tuple[Model, ...]
    subprotocols: tuple[Subprotocol, ...]
    query: dict[str, str]
    close_codes: dict[int, CloseReason]


def members(union: Any) -> tuple[Model, ...]:
    """The models of an annotated union."""
    return tuple(get_args(get_args(union)[0]))


_FIX, _RESUME = "fix the client", "reconnect, resume"
CLOSE_CODES = {
    CloseCode.DONE: CloseReason("done", "nothing"),
    CloseCode.GOING_AWAY: CloseReason(
        "going away: the node drains", "reconnect after `after_ms`, resume"
    ),
    CloseCode.PROTOCOL: CloseReason("a frame that breaks the WebSocket protocol", _FIX),
    CloseCode.UNSUPPORTED_DATA: CloseReason("binary frame", _FIX),
    CloseCode.INVALID_TEXT: CloseReason("text that is not UTF-8", _FIX),
    CloseCode.POLICY: CloseReason(
        "policy: too many frames that are not understood or too fast", _FIX
    ),
    CloseCode.TOO_LARGE: CloseReason("message over `message_bytes`", _FIX),
    1011: CloseReason("a defect of the server", _RESUME),
    CloseCode.OVER_CAPACITY: CloseReason("over capacity", "reconnect with backoff"),
    CloseCode.TOO_SLOW: CloseReason(
        "too slow: more than `lag_close_seconds` or `lag_close_bytes` behind, or paused or "
        "without credit for more than `pause_seconds`; the reason names the resume point",
        _RESUME,
    ),
    CloseCode.REPLACED: CloseReason(
        "replaced by a newer connection of the session that asked for it", "nothing"
    ),
    CloseCode.HEARTBEAT_LOST: CloseReason("heartbeat lost", _RESUME),
}

_QUERY = {"replace": "1: close the session's other connections with 4009."}
_SENT = members(ServerMessage)
_COMPACT: dict[Model, Model] = {ResponseDelta: CompactDelta, ResponsePart: CompactPart}
_CHAT = WebSocketDescription(
    name="chat",
    path=routes.WEBSOCKET.path,
    meaning=(
        "Messages and their answers. Offer the subprotocol and `bearer.<token>`, or send the "
        "token in `Authorization`."
    ),
    received=members(ClientMessage),
    subprotocols=(
        Subprotocol(V1, "sendV1", _SENT),
        Subprotocol(
            COMPACT,
            "sendCompact",
            tuple(_COMPACT.get(model, model) for model in _SENT),
        ),
    ),
    query=_QUERY,
    close_codes=CLOSE_CODES,
)
_REALTIME = WebSocketDescription(
    name="realtime",
    path=routes.REALTIME.path,
    meaning=(
        "The same answers, for clients that set the pace. The subprotocol may be left out. The "
        "token is sent as to `/ws`. "
        "`/v1/realtime` is the same. It isn't OpenAI's Realtime API."
    ),
    received=members(RealtimeClientMessage),
    subprotocols=(Subprotocol(REALTIME, "send", members(RealtimeServerMessage)),),
    query=_QUERY,
    close_codes=CLOSE_CODES,
)

WEBSOCKETS: tuple[WebSocketDescription, ...] = (_CHAT, _REALTIME)
