"""A validated message on its way in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from stream_core.channel import Channel
from stream_core.message_kind import CHAT, MessageKind
from stream_core.message_terms import NO_TERMS, MessageTerms
from stream_core.messages import ChatMessage
from stream_core.session_token import SessionClaims


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
