"""A validated message on its way in."""

from __future__ import annotations

from dataclasses import dataclass

from stream_core.channel import Channel
from stream_core.message_kind import CHAT, MessageKind
from stream_core.message_terms import NO_TERMS, MessageTerms


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
