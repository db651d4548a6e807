"""A client's message as the orchestrator takes it, and the whole request to the model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import orjson

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
from evenflow.stream_core.tenants.charges import Asked, Payer


@dataclass(frozen=True, slots=True)
class IngestEvent:
    """A message with its id and that of the one before.

    `replaces`: the message in whose place it stands, in a new version of the conversation.
    `parent_message_id`: the last message of an older version, if this one goes on with that.
    `sender`: the tenant and the address that it is counted to. None: the channel's tenant.
    `asks`: how much it asks for, where it brings its conversation. None: nobody has counted.
    """

    channel: Channel
    message_id: str
    previous_message_id: str | None
    text: str
    replaces: str | None = None
    kind: MessageKind = CHAT
    terms: MessageTerms = NO_TERMS
    sender: tuple[str, str] | None = None
    asks: Asked | None = None
    parent_message_id: str | None = None

    @property
    def behind(self) -> str | None:
        """A message of the version of the conversation that it continues."""
        return self.replaces or self.parent_message_id or self.previous_message_id

    @property
    def line(self) -> Line:
        """Where it waits."""
        return line_of(self.channel, self.kind, self.sender)

    @property
    def payer(self) -> Payer:
        """Whom it is counted to."""
        return Payer(self.line.tenant, self.terms.key, self.terms.user)

    @classmethod
    def of_chat(
        cls,
        claims: SessionClaims,
        message: ChatMessage,
        sender: tuple[str, str] | None = None,
        traceparent: str = "",
        slo_ttft_ms: int | None = None,
        brought: WholeRequest | None = None,
    ) -> Self:
        """A message of a session's client, over any transport.

        Args:
            brought: the conversation and the tools of its payload. None: it has neither.
            traceparent: the trace of the call that brought it, where the message says none.
            slo_ttft_ms: what that call says, where the message says nothing.
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
            sender=sender,
            parent_message_id=message.parent_message_id,
        )


def line_of(channel: Channel, kind: MessageKind, sender: tuple[str, str] | None = None) -> Line:
    """Where a message waits.

    Args:
        sender: its tenant and address. None: they are not known, as after a take-over.
    """
    session = kind.limited_as or (None if kind.brings_conversation else channel)
    tenant, address = sender or (channel.tenant, "")
    return Line(tenant, address, f"{session.agent}/{session.session}" if session else "")


AGENT = "openai/chat"
"""The agent in the channels of such requests."""
# Parameters that are not part of a prompt. Any other may be: a schema, documents, a template.
_NOT_IN_PROMPT = ("metadata", "user", "logit_bias", "stream_options")
# A text of at most this many characters is a setting, and not part of a prompt.
_LONGEST_SETTING = 64
_INSTRUCTING = ("system", "developer")
TRANSLATED: Mapping[str, Any] = {"translated": True}
"""The `echo` of a request whose protocol names parameters differently and has no `echo` of its own.
Only chat completions have an empty one."""


@dataclass(frozen=True, slots=True)
class WholeRequest:
    """The whole request to a model. The ledger has it as the message's text, for all tasks.

    The model's name at its server, the user, the metadata and the trace come from the message's
    terms.

    Args:
        echo: what the protocol tells again of the request, or needs to continue it. The model is
            not given it.
    """

    turns: tuple[Turn, ...]
    options: ModelOptions = field(default_factory=ModelOptions)
    model: str = ""
    user: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    traceparent: str = ""
    echo: Mapping[str, Any] = field(default_factory=dict)

    @property
    def asks(self) -> Asked:
        """How much it asks for."""
        options = self.options
        in_prompt = [
            value
            for name, value in options.passed.items()
            if name not in _NOT_IN_PROMPT and _may_be_in_prompt(value)
        ]
        tokens = estimated_tokens(self.turns, [*options.tools, *in_prompt])
        # What is no length is for the model's server to refuse. Counted, it would give tokens back.
        longest = options.longest
        if longest is not None:
            longest = min(longest, LONGEST_ANSWER) if longest > 0 else None
        return Asked(tokens, longest, options.choices)

    def to_text(self) -> str:
        """The request as a text. The same request always has the same text."""
        # Inner objects are not sorted: a model is given a tool's parameters in their order.
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
    """The conversation in a message's terms. Empty: the session's is used."""
    return tuple(_turn(*row) for row in terms.turns)


def asked_by(kind: MessageKind, turns: Sequence[Turn]) -> WholeRequest:
    """The request for the last one of `turns`, which are its conversation.

    What a program asks for is passed on as it was sent. A chat begins with the user's first turn:
    models refuse one that begins with their own answer.
    """
    if not kind.brings_conversation:
        return WholeRequest(_from_first_question(turns))
    asked = WholeRequest.from_text(turns[-1].text)
    return (
        asked if kind.read_by_program else replace(asked, turns=_from_first_question(asked.turns))
    )


def _from_first_question(turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns from the user's first one on, with the instructions before it."""
    first = next((place for place, turn in enumerate(turns) if turn.role == "user"), 0)
    instructions = (turn for turn in turns[:first] if turn.role in _INSTRUCTING)
    return (*instructions, *turns[first:])


def can_go_on(asked: WholeRequest, begun: Sequence[LogEntry]) -> bool:
    """Whether the model can continue the answer that has `begun`.

    It can if that is only text, and the only choice: no model is told to go on within reasoning or
    a call, and it would continue each choice with the text of the first.
    """
    return asked.options.passed.get("n", 1) == 1 and not slice_of(begun, 0).parts


def repeatable_channel(tenant: str, digest: str, session: Channel | None = None) -> Channel:
    """The channel of a request that its sender may repeat. `digest` stands for the key.

    Args:
        session: the session whose token came with it. None: it came with the tenant's key. Requests
            of different senders never share a channel.
    """
    return _channel(tenant, f"key_{digest}", session)


def response_channel(tenant: str, digest: str, session: Channel | None = None) -> Channel:
    """The channel of a request of OpenAI's Responses API, whose ids have the digest in them.

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
    return hashlib.sha256(name.encode("utf-8", "surrogateescape")).hexdigest()[:40]


def _channel(tenant: str, name: str, session: Channel | None) -> Channel:
    # The slash keeps it apart from sessions: `POST /session` takes no name with one.
    return Channel(
        tenant, AGENT, name if session is None else f"{name}/{session.agent}/{session.session}"
    )


def caller_of(
    kind: MessageKind, channel: Channel, message_id: str, asked: WholeRequest
) -> CallerInfo:
    """For whom a message is answered. A request with a tenant's own key has no session."""
    session = kind.limited_as or (None if kind.brings_conversation else channel)
    return CallerInfo(
        session.session if session else "", asked.user, channel.tenant, message_id, asked.metadata
    )
