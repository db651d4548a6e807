"""The messages of the protocol in both directions, as typed models.

Deltas and parts are not written from a model: `dialect.py` writes their bytes, and a test compares
the two.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
)
from pydantic_core import PydanticCustomError

from evenflow.stream_core.auth.rights import Right
from evenflow.stream_core.base.agents import (
    NO_TERMS,
    GivenParams,
    MessageTerms,
    Metadata,
    ServiceClass,
    TimeoutMs,
    User,
)
from evenflow.stream_core.base.answer import FinishReason, HistoryBound, Transport, Usage, Via
from evenflow.stream_core.base.channel import NAME_PATTERN
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.base.trace_context import Traceparent
from evenflow.stream_core.http.http_contract import ErrorFields
from evenflow.stream_core.log.entries import LONGEST_NAME, LONGEST_VALUE, MOST_CALLS
from evenflow.stream_core.log.response_log import ResponseState
from evenflow.stream_core.protocols.evenflow.part_objects import PartObject
from evenflow.stream_core.protocols.openai_chat.bodies import (
    OfferedTool,
    RequestMessage,
    ToolChoice,
)

LONGEST_IDENTIFIER = 128
Identifier = Annotated[str, Field(min_length=1, max_length=LONGEST_IDENTIFIER)]
Credit = Annotated[int, Field(ge=0)]
"""A number of entries. `Limits.credit_window` bounds it."""


class FromClient(BaseModel):
    """A message from a client."""

    # An unknown field may be misspelt, or belong to a newer version: ignoring it would hide that.
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


def _describe_text(schema: dict[str, Any]) -> None:
    """Correct the schema of the text: it is optional, and not empty if sent."""
    schema.pop("default", None)
    schema["minLength"] = 1


class Question(FromClient):
    """The fields that `payload` of a message and `start` share. `MessagePayload` describes them."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["text"]}, {"required": ["messages"]}]}
    )

    # Before `text`: the check of `text` reads it.
    messages: Annotated[list[RequestMessage], Field(min_length=1)] | None = None
    text: str = Field("", validate_default=True, json_schema_extra=_describe_text)
    params: GivenParams | None = None
    timeout_ms: TimeoutMs | None = None
    metadata: Metadata | None = None
    slo_ttft_ms: TimeoutMs | None = None
    service_class: ServiceClass | None = None
    tools: Annotated[list[OfferedTool], Field(min_length=1, max_length=MOST_CALLS)] | None = None
    tool_choice: ToolChoice = None
    parallel_tool_calls: bool | None = None

    @field_validator("messages")
    @classmethod
    def _ends_with_question(cls, messages: list[RequestMessage] | None) -> object:
        if messages and not (messages[-1].role == "user" and messages[-1].text):
            raise PydanticCustomError("question", "The last message must be the user's, with text")
        return messages

    @field_validator("text")
    @classmethod
    def _is_the_only_question(cls, text: str, info: ValidationInfo) -> str:
        if bool(text) is (info.data.get("messages") is not None):
            raise PydanticCustomError(
                "question",
                "Both `text` and `messages` are there: send one of them"
                if text
                else "Send a `text` that is not empty, or `messages` instead",
            )
        return text


_NOTHING_SET = (None,) * 4


class MessagePayload(Question):
    """The question of a message, and how to answer it. The answer takes at most `timeout_ms`.

    `text` is the user's. In its place `messages` may bring a whole conversation, as OpenAI's API
    has it: the model receives these messages and not those of the session. The last one is the
    user's.

    `tools` are functions that the client runs. A call of one waits for its `tool.result`, with
    which the same answer goes on. `tool_choice` is for the first call of the model.

    `slo_ttft_ms`: the deadline of its first token. Within an address, the earliest deadline comes
    first. `service_class`: it may wait longer than its tenant's others.
    """

    @property
    def question(self) -> str:
        """The user's text, which is that of the last message if there are `messages`."""
        return self.messages[-1].text if self.messages else self.text

    def terms(self, user: str, key: str = "") -> MessageTerms:
        """The message's terms. `user` and `key` are the session's."""
        of_message = self.params, self.timeout_ms, self.slo_ttft_ms, self.service_class
        if not self.metadata and of_message == _NOTHING_SET:
            named = user or key
            return NO_TERMS.model_copy(update={"user": user, "key": key}) if named else NO_TERMS
        return MessageTerms(
            params=self.params.taken() if self.params else NO_TERMS.params,
            timeout_ms=self.timeout_ms,
            metadata=self.metadata or {},
            user=user,
            key=key,
            slo_ttft_ms=self.slo_ttft_ms,
            service_class=self.service_class,
        )


class ChatMessage(FromClient):
    """A user's message. `previous_message_id` is the session's last one, null for the first.

    `replaces` is the id of any message of the conversation, where this one is another try at it: a
    new version of the conversation begins, without that message and what came after it. To go on
    with an older version, `parent_message_id` is the last message of that. Only one of both can be
    given. `traceparent` is the trace that it belongs to, as W3C Trace Context has it.
    """

    message_id: Identifier
    previous_message_id: Identifier | None = None
    replaces: Identifier | None = None
    parent_message_id: Identifier | None = None
    traceparent: Traceparent | None = None
    payload: MessagePayload


class PostedMessage(ChatMessage):
    """`ChatMessage` over HTTP.

    With `cookie` the answer sets a cookie that opens its events. With `ticket` the answer has a
    token for others: it opens this one response, to be read.
    """

    cookie: bool = False
    ticket: bool = False


class ChatMessageFrame(ChatMessage):
    """`ChatMessage` over a WebSocket. With `credit`, credit limits the delivery of the answer."""

    type: Literal["chat.message"]
    credit: Credit | None = None


class ResponseResume(FromClient):
    """Resume a response after index `after` (-1: from its beginning).

    `epoch` is the newest in any frame of the response. `credit` is as in `chat.message`.
    """

    type: Literal["response.resume"]
    response_id: Identifier
    after: Annotated[int, Field(ge=-1)]
    epoch: Annotated[int, Field(ge=1)] | None = None
    credit: Credit | None = None


class ResponsePause(FromClient):
    """Pause the delivery to this connection."""

    type: Literal["response.pause"]
    response_id: Identifier


class ResponseContinue(FromClient):
    """End a pause."""

    type: Literal["response.continue"]
    response_id: Identifier


class ResponseCancel(FromClient):
    """Cancel the response: the model stops."""

    type: Literal["response.cancel"]
    response_id: Identifier


CallId = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME)]
ResultText = Annotated[str, Field(max_length=LONGEST_VALUE)]


class ToolResult(FromClient):
    """The result of the client's tool for a call. When each call has one, the model continues.

    It is in the log then, as a part of the kind `result`. Sent twice it is taken once.
    """

    type: Literal["tool.result"]
    response_id: Identifier
    call_id: CallId
    text: ResultText


class ToolCancel(FromClient):
    """Cancel one call: the model receives that instead of a result, and the answer continues."""

    type: Literal["tool.cancel"]
    response_id: Identifier
    call_id: CallId


class PostedResult(FromClient):
    """`tool.result` over HTTP. Without a text it is `tool.cancel`."""

    call_id: CallId
    text: ResultText | None = None


POSTED_RESULT: TypeAdapter[PostedResult] = TypeAdapter(PostedResult)


class ResponseAck(FromClient):
    """The client has everything up to `index`."""

    type: Literal["response.ack"]
    response_id: Identifier
    index: Annotated[int, Field(ge=-1)]


class ResponseCredit(FromClient):
    """`n` more entries may be delivered. The first credit of a response limits it from then on."""

    type: Literal["response.credit"]
    response_id: Identifier
    n: Annotated[int, Field(ge=1)]


class PresenceSubscribe(FromClient):
    """Subscribe to the readers of the response: now, and on each change."""

    type: Literal["presence.subscribe"]
    response_id: Identifier


class PresenceUnsubscribe(FromClient):
    """Unsubscribe from the readers of the response."""

    type: Literal["presence.unsubscribe"]
    response_id: Identifier


class Ping(FromClient):
    """Request a `pong`: browsers can't send a WebSocket's own ping."""

    type: Literal["ping"]


ClientMessage = Annotated[
    ChatMessageFrame
    | ResponseResume
    | ResponsePause
    | ResponseContinue
    | ResponseCancel
    | ToolResult
    | ToolCancel
    | ResponseAck
    | ResponseCredit
    | PresenceSubscribe
    | PresenceUnsubscribe
    | Ping,
    Field(discriminator="type"),
]
CLIENT_MESSAGE: TypeAdapter[ClientMessage] = TypeAdapter(ClientMessage)
_NEEDS: dict[type[FromClient], Right] = {
    ChatMessageFrame: Right.WRITE,
    ResponseCancel: Right.CANCEL,
    ToolResult: Right.WRITE,
    ToolCancel: Right.WRITE,
}


def right_for(message: ClientMessage) -> Right:
    """The right that a message needs. What changes nothing for others is reading."""
    return _NEEDS.get(type(message), Right.READ)


POSTED_MESSAGE: TypeAdapter[PostedMessage] = TypeAdapter(PostedMessage)


class SessionRequest(FromClient):
    """The body of `POST /session`. No field is required. `user` is the application's user.

    `may` is what the token may do, by default everything: a backend can give a browser less.
    """

    # A backend may add fields of its own.
    model_config = ConfigDict(extra="ignore")

    tenant: Annotated[str, Field(pattern=NAME_PATTERN)] = "public"
    agent: Annotated[str, Field(pattern=NAME_PATTERN)] | None = None
    session_id: Annotated[str, Field(pattern=NAME_PATTERN)] | None = None
    user: User | None = None
    may: Annotated[list[Right], Field(min_length=1)] | None = None

    @property
    def names_tenant(self) -> bool:
        """Whether the tenant was named. Otherwise its key may name it."""
        return "tenant" in self.model_fields_set


class ShareRequest(FromClient):
    """The body of `POST /session/{session_id}/share`. No field is required.

    Without `response_id` the whole session is shared, as it goes on. `for` is the reader: the
    name that presence shows. `names`: whether its readers see the names of other readers.
    """

    response_id: Identifier | None = None
    ttl_seconds: Annotated[int, Field(ge=1, le=86_400)] = 3_600
    for_: Annotated[User | None, Field(alias="for")] = None
    names: bool = False


SHARE_REQUEST: TypeAdapter[ShareRequest] = TypeAdapter(ShareRequest)
SESSION_REQUEST: TypeAdapter[SessionRequest] = TypeAdapter(SessionRequest)


class FromServer(BaseModel):
    """A message from the server."""

    model_config = ConfigDict(frozen=True)

    def to_json(self) -> bytes:
        """The frame's bytes. Fields that are None by default are left out."""
        return self.model_dump_json(by_alias=True, exclude_defaults=True).encode()


class SessionLimits(BaseModel):
    """The limits that a client needs to know."""

    message_bytes: int
    messages_in_flight: int
    batch_window_ms: int
    heartbeat_seconds: float
    pong_timeout_seconds: float


class ResponseSummary(BaseModel):
    """A response that the client can resume."""

    response_id: str
    message_id: str
    status: ResponseState
    next_index: int


class CompactDelta(RootModel[tuple[int, int, str] | tuple[int, int, str, int]]):
    """A delta in the subprotocol `evenflow.v1.compact`: stream, index, text.

    Where it joins several, their first index follows. `chat.response.start` names the response
    of `stream`.
    """


class CompactPart(RootModel[tuple[int, int, PartObject] | tuple[int, int, PartObject, int]]):
    """A part in the subprotocol `evenflow.v1.compact`: like a delta, with the part's object."""


class SessionReady(FromServer):
    """The first frame of every connection."""

    type: Literal["session.ready"]
    session_id: str
    protocol: str
    expires_at: str
    last_message_id: str | None
    limits: SessionLimits
    responses: list[ResponseSummary]


class SessionMessage(FromServer):
    """A message that this connection did not send was accepted in this session.

    Its answer can be resumed after index -1. `replaces` and `parent_message_id` are as in
    `chat.message`.
    """

    type: Literal["session.message"]
    session_id: str
    message_id: str
    previous_message_id: str | None
    response_id: str
    text: str
    replaces: str | None = None
    parent_message_id: str | None = None


class ResponseStart(FromServer):
    """Deltas of this response follow, from `next_index` on.

    `stream` is its number in the compact subprotocol. `epoch` counts its owners. `via` says where
    this node has it from: from itself (`owner`), from the owner (`peer`), or from the `store`.
    `history_dropped` is there if the model does not receive the whole conversation: the number of
    its oldest messages that are left out, by the bound `history_dropped_by`. Only the node that
    accepted the message sends it. Where the model rejects the conversation as too long and receives
    less, the frame comes again.
    """

    type: Literal["chat.response.start"]
    session_id: str
    response_id: str
    message_id: str
    status: ResponseState
    next_index: int
    duplicate: bool
    stream: int | None = None
    epoch: int = 1
    via: Via = "owner"
    history_dropped: int = 0
    history_dropped_by: HistoryBound | None = None


class ResponseQueued(FromServer):
    """The response waits for its model, `position` 1 next. The frame comes again as that changes.

    `expected_seconds` is how long that takes, by the pace at which the last ones began. It is left
    out where nothing is known.
    """

    type: Literal["chat.response.queued"]
    session_id: str
    response_id: str
    position: int
    expected_seconds: float | None = None


class ResponseDelta(FromServer):
    """A delta. It may join several: then `from` is the first index."""

    type: Literal["chat.response.delta"]
    session_id: str
    response_id: str
    delta: str
    index: int
    from_: Annotated[int | None, Field(alias="from")] = None


class ResponsePart(PartObject, FromServer):
    """A part: reasoning, a tool call, a source, or other output of the model besides text.

    It may join several: then `from` is the first index.
    """

    type: Literal["chat.response.event"]
    session_id: str
    response_id: str
    index: int
    from_: Annotated[int | None, Field(alias="from")] = None


class ResponseRestarted(FromServer):
    """The next entries replace everything after `from_index`. The marker itself has `index`.

    An `index` of -1 is no place in the log: everything follows from index 0 on. `epoch` is as in
    `chat.response.start`. `withdrawn`: a content filter took the text back. Later readers receive
    empty deltas in its place.
    """

    type: Literal["chat.response.restarted"]
    session_id: str
    response_id: str
    from_index: int
    attempt: int
    index: int
    epoch: int = 1
    withdrawn: bool = False


class ResponseCompleted(FromServer):
    """The response has ended. Everything up to `last_index` was delivered."""

    type: Literal["chat.response.completed"]
    session_id: str
    response_id: str
    message_id: str
    finish_reason: FinishReason
    last_index: int
    usage: Usage | None
    degraded: bool


class ResponseFailed(FromServer):
    """The response has ended with an error. What was delivered up to `last_index` stays."""

    type: Literal["chat.response.error"]
    session_id: str
    response_id: str
    message_id: str
    last_index: int
    error: ErrorFields


class LagNotice(FromServer):
    """The reader is behind, so deltas are joined. It has received all up to `last_index`."""

    type: Literal["lag"]
    session_id: str
    response_id: str
    behind_deltas: int
    behind_ms: int
    last_index: int


class PresentClient(BaseModel):
    """A client that reads. `user` is as its token has it, empty where it has none."""

    user: str
    transport: Transport
    since: str


class PresenceNotice(FromServer):
    """The readers of the response: `count` clients. The first 50 are named."""

    type: Literal["presence"]
    session_id: str
    response_id: str
    readers: list[PresentClient]
    count: int


class Throttle(FromServer):
    """A rate or a quota rejected a message, or a request about a response."""

    type: Literal["throttle"]
    retry_after_ms: int
    message_id: str | None = None
    response_id: str | None = None
    error: ErrorFields


class NearLimit(FromServer):
    """Most of a limit per minute is used. Nothing was rejected."""

    type: Literal["near_limit"]
    limit: str
    most: int
    remaining: int
    resets_in_ms: int


class SystemBusy(FromServer):
    """A message was rejected because the queue is full or the node is leaving."""

    type: Literal["system.busy"]
    retry_after_ms: int
    message_id: str | None = None
    error: ErrorFields


class Reconnect(FromServer):
    """This node is leaving: open a new connection after `after_ms` and resume."""

    type: Literal["reconnect"]
    reason: str
    after_ms: int


class Pong(FromServer):
    """Answers a `ping`."""

    type: Literal["pong"]


class ErrorFrame(FromServer):
    """A frame was rejected. The connection stays open."""

    type: Literal["error"]
    error: ErrorFields
    message_id: str | None = None
    response_id: str | None = None


ServerMessage = Annotated[
    SessionReady
    | SessionMessage
    | ResponseStart
    | ResponseQueued
    | ResponseDelta
    | ResponsePart
    | ResponseRestarted
    | ResponseCompleted
    | ResponseFailed
    | LagNotice
    | PresenceNotice
    | Throttle
    | NearLimit
    | SystemBusy
    | Reconnect
    | Pong
    | ErrorFrame,
    Field(discriminator="type"),
]
SERVER_MESSAGE: TypeAdapter[ServerMessage] = TypeAdapter(ServerMessage)


T = TypeVar("T")


def parse(adapter: TypeAdapter[T], body: bytes | bytearray) -> T:
    """Read a client's JSON.

    Raises:
        InvalidRequest: with the code `invalid_json`, `unknown_type` or `invalid_field`. `param` is
            the path of the wrong field.
    """
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        raise _invalid(error) from None


def _invalid(error: ValidationError) -> InvalidRequest:
    first = error.errors(include_url=False, include_context=True, include_input=False)[0]
    kind, kept = first["type"], "nothing was changed"
    what = "there is no such field" if kind == "extra_forbidden" else first["msg"]
    if kind == "json_invalid":
        return InvalidRequest(f"this is not JSON ({first['msg']}); {kept}", code="invalid_json")
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return InvalidRequest(
            f"`type` must be one of {first.get('ctx', {}).get('expected_tags', 'the protocol')}; "
            f"{kept}"
            if kind == "union_tag_invalid"
            else f"the frame needs a `type`; {kept}",
            code="unknown_type",
            param="type",
        )
    # The path in a frame begins with the type's tag, which a client can do without.
    tagged = first["loc"][:1] and first["loc"][0] in CLIENT_TYPES
    # Tags within a body are in angle brackets.
    path = [
        part for part in map(str, first["loc"][1 if tagged else 0 :]) if not part.startswith("<")
    ]
    where = ".".join(path) or "the message"
    return InvalidRequest(
        f"{where}: {what}; {kept}", code="invalid_field", param=".".join(path) or None
    )


CLIENT_TYPES = frozenset(
    {
        *(
            "chat.message",
            "response.resume",
            "response.pause",
            "response.continue",
            "response.cancel",
        ),
        *("response.ack", "response.credit", "ping", "tool.result", "tool.cancel"),
        *("presence.subscribe", "presence.unsubscribe"),
        *("start", "pause", "resume", "cancel", "credit"),
    }
)
"""The types of all frames of clients, in every dialect."""
