"""Messages that bring their whole conversation, and say how the model should answer it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self

import orjson

from fargate_handler.token_sources.port import ModelOptions
from stream_core.channel import Channel
from stream_core.conversation import Turn

AGENT = "openai/chat"
"""The agent of their channels. No session can have it: `POST /session` takes no name with a slash."""

_ONCE = "once_"


@dataclass(frozen=True, slots=True)
class WholeRequest:
    """What a model is asked. Its text is what the ledger keeps as the message, so that another task can ask the same."""

    turns: tuple[Turn, ...]
    options: ModelOptions = field(default_factory=ModelOptions)

    def to_text(self) -> str:
        """As the text of a message; the same request has the same text."""
        turns = [[turn.role, turn.text] for turn in self.turns]
        return orjson.dumps({"turns": turns, "options": self.options.given()}, option=orjson.OPT_SORT_KEYS).decode()

    @classmethod
    def from_text(cls, text: str) -> Self:
        """The request whose text this is."""
        known = orjson.loads(text)
        options = known["options"] | {"stop": tuple(known["options"].get("stop", ()))}
        return cls(tuple(Turn(role, said) for role, said in known["turns"]), ModelOptions(**options))


def asked_in(channel: Channel, turns: Sequence[Turn]) -> WholeRequest:
    """What the model is asked by the last one of `turns`, which are what is known of the channel's conversation."""
    if channel.agent == AGENT:
        return WholeRequest.from_text(turns[-1].text)
    return WholeRequest(tuple(turns))


def brings_conversation(channel: Channel) -> bool:
    """Whether the channel's messages are whole requests."""
    return channel.agent == AGENT


def repeatable_channel(tenant: str, digest: str) -> Channel:
    """The channel of a request that the tenant may send again; `digest` stands for its key."""
    return Channel(tenant, AGENT, f"key_{digest}")


def single_channel(tenant: str, unique: str) -> Channel:
    """The channel of a request that nobody can send again."""
    return Channel(tenant, AGENT, f"{_ONCE}{unique}")


def comes_once(channel: Channel) -> bool:
    """Whether nobody can send the channel's only message again: nothing of it need be remembered."""
    return channel.agent == AGENT and channel.session.startswith(_ONCE)
