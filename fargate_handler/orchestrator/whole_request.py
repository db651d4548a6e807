"""A client's message as an event, and as all that the model is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import orjson

from fargate_handler.token_sources.port import Caller, ModelOptions
from stream_core.log.conversation import ToolCall, Turn, text_of_parts
from stream_core.log.marked_text import has_marks
from stream_core.log.response_log import LogEntry, slice_of
from stream_core.policy.agents import NO_TERMS, MessageTerms
from stream_core.policy.channel import CHAT, Channel, MessageKind
from stream_core.policy.session_token import SessionClaims
from stream_core.protocol.messages import ChatMessage


@dataclass(frozen=True, slots=True)
class IngestEvent:
    """A message with its causal header (`message_id`, `previous_message_id`).

    `replaces`: the message before it that it is another try at.
    """

    channel: Channel
    message_id: str
    previous_message_id: str | None
    text: str
    replaces: str | None = None
    kind: MessageKind = CHAT
    terms: MessageTerms = NO_TERMS

    @classmethod
    def of_chat(cls, claims: SessionClaims, message: ChatMessage) -> Self:
        """What a session's client sent, over whichever transport."""
        return cls(
            claims.channel,
            message.message_id,
            message.previous_message_id,
            message.payload.text,
            replaces=message.replaces,
            terms=message.payload.terms(claims.user),
        )


AGENT = "openai/chat"
"""The agent of their channels."""


@dataclass(frozen=True, slots=True)
class WholeRequest:
    """What a model is asked. Its text is what the ledger keeps as the message, so that another task can ask the same.

    The model's name at its server, the user and the metadata follow from what is kept beside the text.
    """

    turns: tuple[Turn, ...]
    options: ModelOptions = field(default_factory=ModelOptions)
    model: str = ""
    user: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)

    def to_text(self) -> str:
        """As the text of a message; the same request has the same text."""
        # Not sorted further in: a model sees a tool's parameters in the order in which they were given.
        options = dict(sorted(self.options.given().items()))
        if self.options.passed:
            options["passed"] = dict(sorted(self.options.passed.items()))
        return orjson.dumps({"options": options, "turns": [_row(turn) for turn in self.turns]}).decode()

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The request whose text this is."""
        known = orjson.loads(text)
        options = known["options"]
        lists = {name: tuple(options.get(name, ())) for name in ("stop", "tools")}
        return cls(tuple(_turn(*row) for row in known["turns"]), ModelOptions(**options | lists))


def _row(turn: Turn) -> list[Any]:
    row: list[Any] = [turn.role, "" if turn.parts else turn.text]
    more = {name: value for name in ("parts", "extra") if (value := getattr(turn, name))}
    if turn.tool_calls:
        row.append([[call.id, call.name, call.arguments] for call in turn.tool_calls])
    elif turn.tool_call_id or more:
        row.append(turn.tool_call_id)
    return [*row, more] if more else row


def _turn(role: str, text: str, calls: str | list[list[str]] = "", more: dict[str, Any] | None = None) -> Turn:
    parts = tuple((more or {}).get("parts", ()))
    text, extra = text_of_parts(parts) if parts else text, (more or {}).get("extra", {})
    if isinstance(calls, str):
        return Turn(role, text, tool_call_id=calls, parts=parts, extra=extra)
    return Turn(role, text, tuple(ToolCall(*call) for call in calls), parts=parts, extra=extra)


def asked_by(kind: MessageKind, turns: Sequence[Turn]) -> WholeRequest:
    """What the model is asked by the last one of `turns`, which are what is known of its conversation."""
    if kind.brings_conversation:
        return WholeRequest.from_text(turns[-1].text)
    return WholeRequest(tuple(turns))


def can_go_on(kind: MessageKind, asked: WholeRequest, begun: Sequence[LogEntry]) -> bool:
    """Whether a model that continues answers can continue the one that has `begun`: only from what it says, and nothing else.

    Of several answers it would begin each with what the first one said.
    """
    if not kind.brings_conversation:
        return True
    return asked.options.passed.get("n", 1) == 1 and not has_marks(slice_of(begun, 0).text)


def repeatable_channel(tenant: str, digest: str, session: Channel | None = None) -> Channel:
    """The channel of a request that its sender may send again; `digest` stands for the key.

    Args:
        session: the one whose token it came with; the tenant's own key otherwise. What the one sends is no other's.
    """
    return _channel(tenant, f"key_{digest}", session)


def single_channel(tenant: str, unique: str, session: Channel | None = None) -> Channel:
    """The channel of a request that nobody can send again; `session` as above."""
    return _channel(tenant, f"once_{unique}", session)


def _channel(tenant: str, name: str, session: Channel | None) -> Channel:
    # No other sender's, nor any session's: what `POST /session` takes has no slash.
    return Channel(tenant, AGENT, name if session is None else f"{name}/{session.agent}/{session.session}")


def caller_of(kind: MessageKind, channel: Channel, message_id: str, asked: WholeRequest) -> Caller:
    """For whom the channel's message is answered. A request that came with a tenant's own key has no session."""
    session = kind.limited_as or (None if kind.brings_conversation else channel)
    return Caller(session.session if session else "", asked.user, channel.tenant, message_id, asked.metadata)
