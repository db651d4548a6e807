"""The dialect `evenflow.realtime.v1`: the same session and cursors in `start`, `token`, `final`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from evenflow.stream_core.base.answer import FinishReason, HistoryBound, Usage, Via
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.base.trace_context import Traceparent
from evenflow.stream_core.delivery.delta_encoder import EntryEncoder
from evenflow.stream_core.http.http_contract import ErrorFields
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.protocols.evenflow.dialect import REALTIME, Dialect
from evenflow.stream_core.protocols.evenflow.entry_encoders import TokenEncoder
from evenflow.stream_core.protocols.evenflow.messages import (
    ChatMessageFrame,
    ClientMessage,
    Credit,
    ErrorFrame,
    FromClient,
    FromServer,
    Identifier,
    LagNotice,
    MessagePayload,
    NearLimit,
    Ping,
    Pong,
    PresenceNotice,
    PresenceSubscribe,
    PresenceUnsubscribe,
    Question,
    Reconnect,
    ResponseCancel,
    ResponseCompleted,
    ResponseContinue,
    ResponseCredit,
    ResponseFailed,
    ResponsePause,
    ResponseQueued,
    ResponseRestarted,
    ResponseResume,
    ResponseStart,
    ServerMessage,
    SessionMessage,
    SessionReady,
    SystemBusy,
    Throttle,
    ToolCancel,
    ToolResult,
    parse,
)
from evenflow.stream_core.protocols.evenflow.part_objects import PartObject


class Start(Question):
    """Send a message. `previous` is the `id` of the session's last one, null for the first.

    The other fields are those of a message's `payload`.
    """

    type: Literal["start"]
    id: Identifier
    previous: Identifier | None = None
    credit: Credit | None = None
    traceparent: Traceparent | None = None


class Pause(FromClient):
    """Pause the delivery to this connection."""

    type: Literal["pause"]
    response_id: Identifier


class Resume(FromClient):
    """End a pause. With `after`: resume the response after that index (-1: all of it)."""

    type: Literal["resume"]
    response_id: Identifier
    after: Annotated[int, Field(ge=-1)] | None = None
    epoch: Annotated[int, Field(ge=1)] | None = None
    credit: Credit | None = None


class Cancel(FromClient):
    """Cancel the response: the model stops. Credit and pause no longer hold back the rest."""

    type: Literal["cancel"]
    response_id: Identifier


class GrantCredit(FromClient):
    """`n` more entries may be delivered."""

    type: Literal["credit"]
    response_id: Identifier
    n: Annotated[int, Field(ge=1)]


RealtimeClientMessage = Annotated[
    Start
    | Pause
    | Resume
    | Cancel
    | ToolResult
    | ToolCancel
    | GrantCredit
    | PresenceSubscribe
    | PresenceUnsubscribe
    | Ping,
    Field(discriminator="type"),
]
REALTIME_CLIENT_MESSAGE: TypeAdapter[RealtimeClientMessage] = TypeAdapter(RealtimeClientMessage)


class Started(FromServer):
    """Tokens of this response follow, from `next_index` on."""

    type: Literal["started"]
    id: str
    response_id: str
    status: ResponseState
    next_index: int
    duplicate: bool
    epoch: int = 1
    via: Via = "owner"
    history_dropped: int = 0
    history_dropped_by: HistoryBound | None = None


class Token(FromServer):
    """An entry of the log. It may join several: then `from` is the first index."""

    type: Literal["token"]
    response_id: str
    index: int
    text: str
    from_: Annotated[int | None, Field(alias="from")] = None


class Event(PartObject, FromServer):
    """A part of the response besides its text. `from` is as in `token`."""

    type: Literal["event"]
    response_id: str
    index: int
    from_: Annotated[int | None, Field(alias="from")] = None


class Restarted(FromServer):
    """The following entries replace everything after `from_index`."""

    type: Literal["restarted"]
    response_id: str
    from_index: int
    attempt: int
    index: int
    epoch: int = 1


class Final(FromServer):
    """The response has ended, perhaps with `error`. Everything up to `last_index` was delivered."""

    type: Literal["final"]
    id: str
    response_id: str
    finish_reason: FinishReason | Literal["error"]
    last_index: int
    usage: Usage | None
    degraded: bool
    error: ErrorFields | None = None


class Queued(FromServer):
    """The response waits for its model. As `chat.response.queued`."""

    type: Literal["queued"]
    response_id: str
    position: int
    expected_seconds: float | None = None


class Refused(FromServer):
    """A frame was rejected. Nothing was changed, and the connection stays open.

    `id` or `response_id` is what the frame named.
    """

    type: Literal["error"]
    error: ErrorFields
    id: str | None = None
    response_id: str | None = None


RealtimeServerMessage = Annotated[
    SessionReady
    | SessionMessage
    | Started
    | Queued
    | Token
    | Event
    | Restarted
    | Final
    | LagNotice
    | NearLimit
    | PresenceNotice
    | Reconnect
    | Pong
    | Refused,
    Field(discriminator="type"),
]
REALTIME_SERVER_MESSAGE: TypeAdapter[RealtimeServerMessage] = TypeAdapter(RealtimeServerMessage)


class RealtimeDialect(Dialect):
    """`evenflow.realtime.v1`."""

    name = REALTIME
    message_field = "id"

    def read(self, data: bytes) -> ClientMessage:
        """Read a client's frame."""
        return _understood(parse(REALTIME_CLIENT_MESSAGE, data))

    def write(self, message: ServerMessage) -> bytes:
        """Write any frame but a token and an event."""
        return _said(message).to_json()

    def encoder(self, _session_id: str, response_id: str, _number: int) -> EntryEncoder:
        """An encoder for the entries of a response."""
        return TokenEncoder(response_id)


def _understood(frame: RealtimeClientMessage) -> ClientMessage:
    if isinstance(frame, Start):
        return ChatMessageFrame(
            type="chat.message",
            message_id=frame.id,
            previous_message_id=frame.previous,
            traceparent=frame.traceparent,
            payload=_payload(frame),
            credit=frame.credit,
        )
    if isinstance(frame, Pause):
        return ResponsePause(type="response.pause", response_id=frame.response_id)
    if isinstance(frame, Cancel):
        return ResponseCancel(type="response.cancel", response_id=frame.response_id)
    if isinstance(frame, GrantCredit):
        return ResponseCredit(type="response.credit", response_id=frame.response_id, n=frame.n)
    return _resumed(frame) if isinstance(frame, Resume) else frame


def _payload(start: Start) -> MessagePayload:
    """The payload of a `start` frame, which was checked as part of the frame."""
    return MessagePayload.model_construct(
        **{name: getattr(start, name) for name in MessagePayload.model_fields}
    )


def _resumed(frame: Resume) -> ClientMessage:
    if frame.after is not None:
        return ResponseResume(
            type="response.resume",
            response_id=frame.response_id,
            after=frame.after,
            epoch=frame.epoch,
            credit=frame.credit,
        )
    if frame.epoch is not None or frame.credit is not None:
        raise InvalidRequest(
            "`epoch` and `credit` need `after`, the last index that you have; nothing was changed",
            code="invalid_field",
            param="after",
        )
    return ResponseContinue(type="response.continue", response_id=frame.response_id)


def _said(message: ServerMessage) -> FromServer:
    if isinstance(message, ResponseStart):
        return Started(
            type="started",
            id=message.message_id,
            response_id=message.response_id,
            status=message.status,
            next_index=message.next_index,
            duplicate=message.duplicate,
            epoch=message.epoch,
            via=message.via,
            history_dropped=message.history_dropped,
            history_dropped_by=message.history_dropped_by,
        )
    if isinstance(message, ResponseQueued):
        return Queued(
            type="queued",
            response_id=message.response_id,
            position=message.position,
            expected_seconds=message.expected_seconds,
        )
    if isinstance(message, ResponseRestarted):
        return Restarted(
            type="restarted",
            response_id=message.response_id,
            from_index=message.from_index,
            attempt=message.attempt,
            index=message.index,
            epoch=message.epoch,
        )
    if isinstance(message, ResponseCompleted | ResponseFailed):
        return _final(message)
    if isinstance(message, Throttle | SystemBusy | ErrorFrame):
        return _refused(message)
    return message


def _final(end: ResponseCompleted | ResponseFailed) -> Final:
    completed = end if isinstance(end, ResponseCompleted) else None
    return Final(
        type="final",
        id=end.message_id,
        response_id=end.response_id,
        finish_reason=completed.finish_reason if completed else "error",
        last_index=end.last_index,
        usage=completed.usage if completed else None,
        degraded=completed.degraded if completed else False,
        error=end.error if isinstance(end, ResponseFailed) else None,
    )


# The names of fields in this dialect. Fields of the payload are fields of the frame here.
_FIELDS = {"message_id": "id", "previous_message_id": "previous"}
_PAYLOAD = "payload."


def _refused(refusal: Throttle | SystemBusy | ErrorFrame) -> Refused:
    error: dict[str, Any] = dict(refusal.error)
    if not isinstance(refusal, ErrorFrame):
        error["retry_after_ms"] = refusal.retry_after_ms
    if "param" in error:
        param = error["param"].removeprefix(_PAYLOAD)
        error["param"] = _FIELDS.get(param, param)
    return Refused(
        type="error",
        error=error,
        id=refusal.message_id,
        response_id=None if isinstance(refusal, SystemBusy) else refusal.response_id,
    )
