"""The name of a session, and the kind of a message."""

from __future__ import annotations

import hashlib
from typing import NamedTuple, Self

from pydantic import BaseModel, ConfigDict

LONGEST_NAME = 64
NAME_PATTERN = rf"^[A-Za-z0-9_.-]{{1,{LONGEST_NAME}}}$"
"""Names of tenants, agents and sessions. Without `:`, which separates them in a channel's text."""


class Channel(NamedTuple):
    """The name of a session: one conversation of a tenant's user with an agent."""

    tenant: str
    agent: str
    session: str

    def __str__(self) -> str:
        return ":".join(self)

    @property
    def own_session(self) -> Channel | None:
        """The session of the token that opens this one: itself, or that of the request's token.

        None: it is of a request without a session token.
        """
        if "/" not in self.agent:
            return self
        agent, _, session = self.session.partition("/")[2].partition("/")
        return Channel(self.tenant, agent, session) if session else None

    @property
    def session_digest(self) -> str:
        """The session's name in the log: 16 digits of its id's SHA-256. The id opens the session,
        so it isn't there itself.
        """
        return hashlib.sha256(self.session.encode()).hexdigest()[:16]


class MessageKind(BaseModel):
    """The kind of a message. It is stored together with the text.

    Attributes:
        brings_conversation: the text is a whole request. The agent adds nothing, and no later
            message is given it or its answer as history.
        repeatable: its sender can send it again, and gets the same response.
        falls_back: a fallback may take the place of the model's answer.
        read_by_program: while the node is calm, a token is delivered when it comes. People read
            better at an even interval.
        grace_seconds: how long the model goes on without a reader. None: the node's limit, by
            default to its end.
        limited_as: the session that it counts for in limits. None: its own.
        unkeyed: it has no idempotency key: sent again it is another response, though this is kept.
        client_retries: its client retries by itself after each failure.
        recalled: later requests name its response and continue its conversation, or read it. So
            its text is kept as long as the response.
    """

    model_config = ConfigDict(frozen=True, strict=True)

    brings_conversation: bool = False
    repeatable: bool = True
    falls_back: bool = True
    read_by_program: bool = False
    grace_seconds: float | None = None
    limited_as: Channel | None = None
    recalled: bool = False
    unkeyed: bool = False
    client_retries: bool = False

    @property
    def is_told_at_once(self) -> bool:
        """Whether its sender receives a failure at once, since a retry is another request."""
        return not self.repeatable or self.unkeyed

    def sent_with(self, session: Channel | None) -> Self:
        """The same kind, counted for the session of the token that came with the message."""
        return self.model_copy(update={"limited_as": session})

    def to_text(self) -> str:
        """The kind as the store keeps it. Empty for a message of a chat."""
        return "" if self is CHAT or self == CHAT else self.model_dump_json(exclude_defaults=True)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The kind in a text of `to_text`. Fields that this version lacks are left out."""
        return cls.model_validate_json(text) if text else cls()


CHAT = MessageKind()
"""A message of a session, over `/ws`, `/realtime` or HTTP."""

KEYED_COMPLETION = MessageKind(brings_conversation=True, falls_back=False, read_by_program=True)
"""A request of OpenAI's API with an `Idempotency-Key`. It has no fallback: a program would take it
for the model's answer."""

# Its reader may move from one copy of the answer to the next, which a busy event loop delays.
COMPLETION = KEYED_COMPLETION.model_copy(update={"repeatable": False, "grace_seconds": 1.0})
"""A request of OpenAI's API without a key: no client can resume its answer."""

RESPONSE = KEYED_COMPLETION.model_copy(update={"recalled": True})
"""A request of OpenAI's Responses API: clients come back for its response by its id."""

UNKEYED_RESPONSE = RESPONSE.model_copy(update={"unkeyed": True})
"""`RESPONSE` without an `Idempotency-Key`: sent again it is another response."""

# Longer than the duration of any answer.
BACKGROUND = RESPONSE.model_copy(update={"grace_seconds": 86_400.0})
"""A request of OpenAI's Responses API with `background`: its answer needs no reader."""

INTERFACE = MessageKind(brings_conversation=True)
"""A request of a chat's interface: AI SDK's or AG-UI's. A person reads the answer, and may come
back for it."""

CHAT_OF_INTERFACE = INTERFACE.model_copy(update={"recalled": True})
"""The same of AI SDK: its page reads the conversation again when it is reloaded."""
