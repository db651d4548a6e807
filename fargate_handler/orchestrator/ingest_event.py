"""A validated message on its way in."""

from __future__ import annotations

from dataclasses import dataclass

from stream_core.channel import Channel
from stream_core.message_terms import NO_TERMS, MessageTerms


@dataclass(frozen=True, slots=True)
class IngestEvent:
    """A message with its causal header (`message_id`, `previous_message_id`).

    `grace_seconds` is how long the model goes on without a reader; `replaces`, the message before it that it is another try at.
    """

    channel: Channel
    message_id: str
    previous_message_id: str | None
    text: str
    grace_seconds: float
    replaces: str | None = None
    terms: MessageTerms = NO_TERMS
