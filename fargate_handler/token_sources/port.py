"""The port of a token source: one call a response, tokens pushed, cancellation by cancelling the call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Protocol

from stream_core.log.conversation import Turn
from stream_core.protocol.messages import Usage

ModelEnd = Literal["stop", "length", "tool_calls", "content_filter"]
"""Why a model ends by itself."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """What a request says about the answer, by OpenAI's names; None or empty: the model's own default.

    A source passes on what its model takes, and leaves out what it doesn't. `longest` is the bound, whichever of its two
    names was used. `tools` and `tool_choice` are the objects of OpenAI's API. `passed` are all other parameters by
    their names, as they came: for the model's server to judge.
    """

    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    tools: tuple[dict[str, Any], ...] = ()
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    passed: dict[str, Any] = field(default_factory=dict)

    @property
    def longest(self) -> int | None:
        """The longest answer, in the model's tokens."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    def within(self, most: int | None) -> ModelOptions:
        """The same with an answer of at most `most` tokens; None for no bound."""
        if most is None or (self.longest is not None and self.longest <= most):
            return self
        if self.max_completion_tokens is None:
            return replace(self, max_tokens=most)
        return replace(self, max_completion_tokens=most)

    def given(self) -> dict[str, Any]:
        """Those that were given, by name."""
        given = {known.name: getattr(self, known.name) for known in fields(self)}
        return {name: value for name, value in given.items() if value not in (None, (), {})}

    def parameters(self) -> dict[str, Any]:
        """Those of a request of OpenAI's API that were given; `stream_options` are of a stream."""
        return self.passed | {name: value for name, value in self.given().items() if name != "passed"}


@dataclass(frozen=True, slots=True)
class Caller:
    """For whom an answer is; empty where that isn't known. `metadata` is the application's own."""

    session: str = ""
    user: str = ""
    tenant: str = ""
    message_id: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """What the model is asked. `turns` ends with the message to answer; `attempt` counts from 1.

    `prefix`: the beginning of the answer that readers have already; only a source that `continues` is given one, without
    marks in it, and it pushes what comes behind it. `key` is this attempt's own name: the same call twice has it twice.
    `marked`: the answer is marked text (`stream_core.log.marked_text`), with all that the model gives; else the text alone.
    `model` is its name at the model's server; empty for the one that the source was made for.
    """

    agent: str
    turns: tuple[Turn, ...]
    attempt: int
    prefix: str = ""
    key: str = ""
    options: ModelOptions = ModelOptions()
    marked: bool = False
    model: str = ""
    caller: Caller = Caller()


@dataclass(frozen=True, slots=True)
class ModelFinish:
    """How the model ended by itself."""

    finish_reason: ModelEnd
    usage: Usage | None


class TokenSink(Protocol):
    """Where tokens go (`stream_core.log.response_stream.ResponseStream`)."""

    def push(self, token: str) -> None:
        """Take a token at once. What it raises means that no more are wanted: let it pass."""

    def alive(self) -> None:
        """The model gave a sign of life that is no text: it reasons, or its server says that it still works."""

    @property
    def paused(self) -> bool:
        """Whether the source should stop reading its model for now (every reader pauses)."""


class TokenSource(Protocol):
    """A model behind a connection."""

    @property
    def continues(self) -> bool:
        """Whether it can go on from the middle of an answer."""

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        """Push the answer's tokens into `sink` until the model ends.

        What a source can't tell its model, and what would change the answer, it refuses before it calls it.

        When the call is cancelled or ends by an error, the model is stopped and its connection closed before it returns.

        Raises:
            UpstreamFailed: the model failed. `UpstreamRejected`, which is one, says that another attempt is senseless.
            ModelRefused: the model will not answer this.
            UnsupportedByModel: the request asks for what the model's service doesn't have.
        """

    async def close(self) -> None:
        """Release connections."""
