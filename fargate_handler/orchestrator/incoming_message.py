"""A client's message before it is accepted, and the request to the model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import orjson

from evenflow.fargate_handler.orchestrator.request_memory import memory_of
from evenflow.fargate_handler.token_sources.port import CallerInfo, ModelOptions
from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.agents import LONGEST_ANSWER, NO_TERMS, MessageTerms
from evenflow.stream_core.base.channel import CHAT, Channel, MessageKind
from evenflow.stream_core.log.entries import LogEntry
from evenflow.stream_core.log.response_log import slice_of
from evenflow.stream_core.protocols.evenflow.messages import ChatMessage
from evenflow.stream_core.queue.fair_queue import Line
from evenflow.stream_core.session.conversation import ToolCall, Turn, text_of_parts
from evenflow.stream_core.session.token_estimate import estimated_tokens
from evenflow.stream_core.tenants.charges import Caller, TokenDemand


@dataclass(frozen=True, slots=True)
class IncomingMessage:
    """A message of a client, before it is accepted.

    Args:
        replaces: the message that it replaces, in a new version of the conversation.
        parent_message_id: the last message of an older version that this message continues.
        caller: the caller that it counts for. None: the channel's tenant.
        request: the request that brings its own conversation. None: the message is a chat's.
    """

    channel: Channel
    message_id: str
    previous_message_id: str | None
    text: str
    replaces: str | None = None
    kind: MessageKind = CHAT
    terms: MessageTerms = NO_TERMS
    caller: Caller | None = None
    request: ReceivedRequest | None = None
    parent_message_id: str | None = None
    payer: Caller = field(init=False)
    """The caller with the message's session, and the key and the user of its terms."""
    line: Line = field(init=False)
    """The line of the queue in which it waits."""

    def __post_init__(self) -> None:
        caller, terms = self.caller or Caller(self.channel.tenant), self.terms
        session = line_of(self.channel, self.kind).session
        payer = caller._replace(key=terms.key, user=terms.user, session=session)
        object.__setattr__(self, "payer", payer)
        object.__setattr__(self, "line", Line(payer.tenant, payer.address, session))

    @property
    def behind(self) -> str | None:
        """A message of the version of the conversation that it continues."""
        return self.replaces or self.parent_message_id or self.previous_message_id

    @property
    def demand(self) -> TokenDemand | None:
        """The tokens of its request. None: a chat's message, whose conversation is not known."""
        return None if self.request is None else self.request.demand

    @classmethod
    def of_request(
        cls,
        channel: Channel,
        message_id: str,
        request: ReceivedRequest,
        *,
        kind: MessageKind,
        terms: MessageTerms = NO_TERMS,
        caller: Caller | None = None,
    ) -> Self:
        """A message that is a whole request, the first of its channel."""
        return cls(
            channel,
            message_id,
            None,
            request.text,
            kind=kind,
            terms=terms,
            caller=caller,
            request=request,
        )

    @classmethod
    def of_chat(
        cls,
        claims: SessionClaims,
        message: ChatMessage,
        caller: Caller | None = None,
        traceparent: str = "",
        slo_ttft_ms: int | None = None,
        brought: WholeRequest | None = None,
    ) -> Self:
        """A message of a session's client, over any transport.

        Args:
            brought: the conversation and the tools of its payload. None: it has neither.
            traceparent: the trace of the call, used if the message has none.
            slo_ttft_ms: the wanted time to the first token, used likewise.
        """
        terms = message.payload.terms(claims.user, claims.key)
        if brought is not None:
            terms = terms.model_copy(update=brought.as_terms())
        if terms.slo_ttft_ms is None and slo_ttft_ms is not None:
            terms = terms.model_copy(update={"slo_ttft_ms": slo_ttft_ms})
        return cls(
            claims.channel,
            message.message_id,
            message.previous_message_id,
            message.payload.question,
            replaces=message.replaces,
            terms=terms.within(message.traceparent or traceparent),
            caller=caller,
            parent_message_id=message.parent_message_id,
        )


def line_of(channel: Channel, kind: MessageKind) -> Line:
    """The line of a message whose caller is not known, as after a failover."""
    session = kind.limited_as or (None if kind.brings_conversation else channel)
    name = f"{session.agent}/{session.session}" if session else ""
    return Line(channel.tenant, "", name)


_NO_OPTIONS = ModelOptions()
_DIGEST_DIGITS = 40
REQUEST_AGENT = "openai/chat"
"""The pseudo-agent in the channels of whole requests, whatever their API. The name is stored."""
# Parameters that are not part of a prompt. Any other may be: a schema, documents, a template.
_NOT_IN_PROMPT = ("metadata", "user", "logit_bias", "stream_options")
# A text of at most this many characters is a setting, and not part of a prompt.
_LONGEST_SETTING = 64
_INSTRUCTING = ("system", "developer")
TRANSLATED: Mapping[str, Any] = {"translated": True}
"""The `echo` of requests whose protocol has other names for parameters, and no `echo` of its own.
Only that of chat completions is empty."""


@dataclass(frozen=True, slots=True)
class WholeRequest:
    """The whole request to a model. The ledger keeps it as the message's text (`to_text`).

    The model's name at its server, the user, the metadata and the trace come from the message's
    terms.

    Args:
        echo: the fields that the protocol repeats to the client, or needs to continue the
            conversation. The model does not receive them.
    """

    turns: tuple[Turn, ...]
    options: ModelOptions = _NO_OPTIONS
    model: str = ""
    user: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    traceparent: str = ""
    echo: Mapping[str, Any] = field(default_factory=dict)

    @property
    def demand(self) -> TokenDemand:
        """The tokens that it may need."""
        options = self.options
        in_prompt = [
            value
            for name, value in options.passed.items()
            if name not in _NOT_IN_PROMPT and _may_be_in_prompt(value)
        ]
        tokens = estimated_tokens(self.turns, [*options.tools, *in_prompt])
        # A length below 1 is for the model's server to reject. Counted, it would give tokens back.
        longest = options.longest
        if longest is not None:
            longest = min(longest, LONGEST_ANSWER) if longest > 0 else None
        return TokenDemand(tokens, longest, options.choices)

    def to_text(self) -> str:
        """The request as the ledger keeps it. Equal requests have equal texts."""
        # Inner objects are not sorted: the model receives a tool's parameters in their order.
        options = dict(sorted(self.options.given().items()))
        if self.options.passed:
            options["passed"] = dict(sorted(self.options.passed.items()))
        echo = {"echo": dict(sorted(self.echo.items()))} if self.echo else {}
        return orjson.dumps(
            {"options": options, "turns": [_row(turn) for turn in self.turns], **echo}
        ).decode()

    def as_terms(self) -> dict[str, Any]:
        """The conversation and the tools of a chat message, as fields of its terms."""
        options = self.options
        return {
            "turns": [_row(turn) for turn in self.turns],
            "tools": list(options.tools),
            "tool_choice": options.tool_choice,
            "parallel_tool_calls": options.parallel_tool_calls,
        }

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The request in a text of `to_text`."""
        known = orjson.loads(text)
        options = known["options"]
        lists = {name: tuple(options.get(name, ())) for name in ("stop", "tools")}
        return cls(
            tuple(_turn(*row) for row in known["turns"]),
            ModelOptions(**options | lists),
            echo=known.get("echo", {}),
        )


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A request with the text that the ledger keeps of it, until it is accepted.

    Args:
        text_bytes: the size of the text in UTF-8.
        memory_bytes: what the request takes in memory, estimated by its text.
    """

    whole: WholeRequest
    text: str
    demand: TokenDemand
    text_bytes: int
    memory_bytes: int

    @classmethod
    def of(cls, whole: WholeRequest) -> Self:
        """A request that a client has sent. This makes its text, once."""
        return cls._with(whole, whole.to_text())

    @classmethod
    def from_text(cls, text: str) -> Self:
        """A request that another node has accepted, by its text in the ledger."""
        return cls._with(WholeRequest.from_text(text), text)

    @classmethod
    def _with(cls, whole: WholeRequest, text: str) -> Self:
        data = text.encode()
        return cls(whole, text, whole.demand, len(data), memory_of(data))

    def digest(self, model: str) -> str:
        """The digest of the request and the model that it names: 40 hexadecimal digits."""
        digest = hashlib.sha256(f"{model}\n".encode("utf-8", "surrogateescape"))
        digest.update(self.text.encode())
        return digest.hexdigest()[:_DIGEST_DIGITS]


def _may_be_in_prompt(value: Any) -> bool:
    """Whether the value of a parameter may be part of the prompt."""
    if isinstance(value, str):
        return len(value) > _LONGEST_SETTING
    return isinstance(value, dict | list)


def _row(turn: Turn) -> list[Any]:
    row: list[Any] = [turn.role, "" if turn.parts else turn.text]
    more = {name: value for name in ("parts", "extra") if (value := getattr(turn, name))}
    if turn.tool_calls:
        row.append([_call_row(call) for call in turn.tool_calls])
    elif turn.tool_call_id or more:
        row.append(turn.tool_call_id)
    return [*row, more] if more else row


def _call_row(call: ToolCall) -> list[Any]:
    row = [call.id, call.name, call.arguments]
    return [*row, call.extra] if call.extra else row


def _turn(
    role: str, text: str, calls: str | list[list[Any]] = "", more: dict[str, Any] | None = None
) -> Turn:
    parts = tuple((more or {}).get("parts", ()))
    text, extra = text_of_parts(parts) if parts else text, (more or {}).get("extra", {})
    if isinstance(calls, str):
        return Turn(role, text, tool_call_id=calls, parts=parts, extra=extra)
    return Turn(role, text, tuple(ToolCall(*call) for call in calls), parts=parts, extra=extra)


def brought_turns(terms: MessageTerms) -> tuple[Turn, ...]:
    """The conversation in a message's terms. Empty: the model receives the session's."""
    return tuple(_turn(*row) for row in terms.turns)


def request_to_model(
    kind: MessageKind, turns: Sequence[Turn], whole: WholeRequest | None = None
) -> WholeRequest:
    """The request to the model for a message.

    A program's request is passed on as it was sent. A chat begins with the user's first turn:
    models reject one that begins with their own answer.

    Args:
        turns: the conversation, with the message as its last turn.
        whole: the request that brings its own conversation, in place of `turns`.
    """
    if whole is None:
        return WholeRequest(_from_first_question(turns))
    if kind.read_by_program:
        return whole
    return replace(whole, turns=_from_first_question(whole.turns))


def _from_first_question(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns from the user's first one on, with the instructions before it."""
    if turns and turns[0].role == "user":
        return tuple(turns)
    first = next((place for place, turn in enumerate(turns) if turn.role == "user"), 0)
    instructions = (turn for turn in turns[:first] if turn.role in _INSTRUCTING)
    return (*instructions, *turns[first:])


def can_continue(request: WholeRequest, begun: Sequence[LogEntry]) -> bool:
    """Whether the model can continue an interrupted answer, whose log is `begun`.

    It can if that is only text, and the only choice. No model continues reasoning or a call, and it
    would continue each choice with the text of the first.
    """
    return request.options.passed.get("n", 1) == 1 and not slice_of(begun, 0).parts


def repeatable_channel(tenant: str, digest: str, session: Channel | None = None) -> Channel:
    """The channel of a request that its client may repeat.

    Args:
        digest: of the idempotency key.
        session: the session whose token came with it. None: it came with the tenant's key. Requests
            of different callers never share a channel.
    """
    return _channel(tenant, f"key_{digest}", session)


def response_channel(tenant: str, digest: str, session: Channel | None = None) -> Channel:
    """The channel of a request of OpenAI's Responses API, whose ids contain the digest.

    Args:
        session: as in `repeatable_channel`.
    """
    return _channel(tenant, f"resp_{digest}", session)


def single_channel(tenant: str, unique: str, session: Channel | None = None) -> Channel:
    """The channel of a request that can't be repeated. `session` is as in `repeatable_channel`."""
    return _channel(tenant, f"once_{unique}", session)


def chat_channel(tenant: str, chat_id: str, session: Channel | None = None) -> Channel:
    """The channel of a chat that its client named. `session` is as in `repeatable_channel`."""
    return _channel(tenant, f"chat_{_digest(chat_id)}", session)


def run_channel(
    tenant: str, thread_id: str, run_id: str, session: Channel | None = None
) -> Channel:
    """The channel of one run in a client's thread. `session` is as in `repeatable_channel`."""
    return _channel(tenant, f"run_{_digest(thread_id)}_{_digest(run_id)}", session)


def _digest(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST_DIGITS]


def _channel(tenant: str, name: str, session: Channel | None) -> Channel:
    # The slash keeps it apart from sessions: `POST /session` takes no name with one.
    full_name = name if session is None else f"{name}/{session.agent}/{session.session}"
    return Channel(tenant, REQUEST_AGENT, full_name)


def caller_info(
    kind: MessageKind, channel: Channel, message_id: str, request: WholeRequest
) -> CallerInfo:
    """The part of the caller that the model's server receives. With a tenant's key, no session."""
    session = kind.limited_as or (None if kind.brings_conversation else channel)
    return CallerInfo(
        session.session if session else "",
        request.user,
        channel.tenant,
        message_id,
        request.metadata,
    )
