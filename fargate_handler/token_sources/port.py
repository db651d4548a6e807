"""The port of a token source: one call a response, tokens pushed, cancellation by cancelling the call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from stream_core.conversation import Turn
from stream_core.messages import Usage


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What the model is asked. `turns` ends with the user's message; `attempt` counts from 1.

    `prefix`: the beginning of the answer that readers have already; only a source that `continues` is given one, and it
    pushes what comes behind it. `key` is this attempt's own name: the same call twice has it twice.
    """

    agent: str
    turns: tuple[Turn, ...]
    attempt: int
    prefix: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class ModelFinish:
    """How the model ended by itself."""

    finish_reason: Literal["stop", "length"]
    usage: Usage | None


class TokenSink(Protocol):
    """Where tokens go (`stream_core.response_stream.ResponseStream`)."""

    def push(self, token: str) -> None:
        """Take a token at once. What it raises means that no more are wanted: let it pass."""

    @property
    def held(self) -> bool:
        """Whether the source should stop reading its model for now (every reader pauses)."""


class TokenSource(Protocol):
    """A model behind a connection."""

    @property
    def continues(self) -> bool:
        """Whether it can go on from the middle of an answer."""

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        """Push the answer's tokens into `sink` until the model ends.

        When the call is cancelled or ends by an error, the model is stopped and its connection closed before it returns.

        Raises:
            UpstreamFailed: the model failed; `Retryable` says whether another attempt makes sense.
            ModelRefused: the model will not answer this.
        """

    async def close(self) -> None:
        """Release connections."""
