"""Who talks, and what kind a message is."""

from __future__ import annotations

from typing import NamedTuple, Self

from pydantic import BaseModel, ConfigDict

NAME_PATTERN = r"^[A-Za-z0-9_.-]{1,64}$"
"""What a tenant, an agent and a session may be called (no `:`, so that a channel's text form is unambiguous)."""


class Channel(NamedTuple):
    """One conversation of one tenant with one agent."""

    tenant: str
    agent: str
    session: str

    def __str__(self) -> str:
        return ":".join(self)


class MessageKind(BaseModel):
    """One kind of message. It is kept on record beside the text.

    Attributes:
        brings_conversation: its text is a whole request. Its agent adds nothing, and neither the
            session's history nor what is delivered of the answer is remembered for a next message.
        repeatable: its sender can send it again, and is given the same response.
        falls_back: a ready-made answer may take the place of the model's.
        grace_seconds: how long the model goes on without a reader; None for the node's limit.
        limited_as: the session whose limits it is under; None for its own.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    brings_conversation: bool = False
    repeatable: bool = True
    falls_back: bool = True
    grace_seconds: float | None = None
    limited_as: Channel | None = None

    def sent_with(self, session: Channel | None) -> Self:
        """The same kind, under the limits of the session whose token the message came with."""
        return self.model_copy(update={"limited_as": session})

    def to_text(self) -> str:
        """As kept on record; empty for a message of a chat."""
        return "" if self == CHAT else self.model_dump_json(exclude_defaults=True)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The kind whose text this is; without any, that of a chat. What a newer version wrote is left out."""
        return cls.model_validate_json(text) if text else cls()


CHAT = MessageKind()
"""A message of a session, over `/ws`, `/realtime` or HTTP."""

KEYED_COMPLETION = MessageKind(brings_conversation=True, falls_back=False)
"""A request of OpenAI's API with an `Idempotency-Key`. A program would take a ready-made answer for the model's."""

# Its reader may go from one copy of the answer to the next: a loop that is late isn't a client that has left.
COMPLETION = KEYED_COMPLETION.model_copy(update={"repeatable": False, "grace_seconds": 1.0})
"""The same without a key: nobody can come back for its answer."""
