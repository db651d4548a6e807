"""The port of token sources: one call a response, which pushes an answer and can be cancelled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Protocol

from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.log.entries import Part
from evenflow.stream_core.session.conversation import Turn

ModelEnd = Literal["stop", "length", "tool_calls", "content_filter", "budget"]
"""Why a model ended by itself. `budget`: it was stopped, since its tenant's budget is used up."""


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """A request's options, by OpenAI's names. None or empty: the model's own default.

    A source passes on what its model supports, and leaves out the rest. `tools` and `tool_choice`
    are objects of OpenAI's API. `passed` are all other parameters, unchanged: the model's server
    accepts or rejects them.
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
        """The longest answer in the model's tokens, by whichever of its two names was used."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def choices(self) -> int:
        """The number of requested answers (`n`). 1 if that is not a number: the server decides."""
        count = self.passed.get("n")
        return count if isinstance(count, int) and count > 0 else 1

    def within(self, most_tokens: int | None) -> ModelOptions:
        """The same options with an answer of at most `most_tokens` tokens. None: no limit."""
        if most_tokens is None or (self.longest is not None and 0 < self.longest <= most_tokens):
            return self
        if self.max_completion_tokens is None:
            return replace(self, max_tokens=most_tokens)
        return replace(self, max_completion_tokens=most_tokens)

    def given(self) -> dict[str, Any]:
        """The options that are set, by name."""
        values = {option.name: getattr(self, option.name) for option in fields(self)}
        return {name: value for name, value in values.items() if value not in (None, (), {})}

    def parameters(self) -> dict[str, Any]:
        """The options that are set, as parameters of OpenAI's API."""
        return self.passed | {
            name: value for name, value in self.given().items() if name != "passed"
        }


@dataclass(frozen=True, slots=True)
class CallerInfo:
    """The caller of an answer. Unknown fields are empty. `metadata` is the application's own."""

    session: str = ""
    user: str = ""
    tenant: str = ""
    message_id: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """A request to the model.

    Args:
        turns: the conversation. Its last turn is the message to answer.
        attempt: counts from 1.
        prefix: the beginning of the answer, which is text alone, if the source `continues`. It
            pushes only what comes after that.
        key: the name of this attempt. The same call made twice has the same.
        model: the name at the model's server. Empty: the source's own.
        traceparent: the trace that the call belongs to, as W3C Trace Context has it. Empty: none.
        translated: whether Evenflow chose the names of its parameters, and not its sender.
        on_quota_used: called with the seconds for which the server accepts no more calls.
    """

    agent: str
    turns: tuple[Turn, ...]
    attempt: int
    prefix: str = ""
    key: str = ""
    options: ModelOptions = ModelOptions()
    model: str = ""
    caller: CallerInfo = CallerInfo()
    traceparent: str = ""
    translated: bool = field(default=True, compare=False)
    on_quota_used: Callable[[float], None] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class ModelFinish:
    """How a model ended by itself.

    Args:
        cache_written: tokens of the prompt that its server wrote to its cache, as it counts.
    """

    finish_reason: ModelEnd
    usage: Usage | None
    cache_written: int = 0


class TokenSink(Protocol):
    """Receives an answer piece by piece. A `ResponseStream` is one."""

    def push(self, token: str) -> None:
        """Take a token at once. If it raises, generation must stop: don't catch that."""

    def push_part(self, part: Part) -> None:
        """Take another part of the answer. It raises as `push` does.

        Raises:
            NotAPart: a field of the part is not allowed.
        """

    def alive(self) -> None:
        """Record a sign of life without content, such as the server's heartbeat."""

    @property
    def paused(self) -> bool:
        """Whether the source should not read its model for now: every reader pauses."""


class TokenSource(Protocol):
    """A model that generates tokens."""

    @property
    def continues(self) -> bool:
        """Whether it can continue an answer from the middle."""

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        """Push all of the answer into `sink` until the model ends. Returns how it ended.

        If the call is cancelled or fails, the model is stopped and its connection closed before it
        returns. An option that the model lacks, and that would change the answer, is rejected
        before the model is called.

        Raises:
            UpstreamFailed: the model failed. `UpstreamRejected`: another attempt would fail, too.
            ModelRefused: the model refuses this message.
            UnsupportedByModel: the request needs what the model's service lacks.
        """

    async def close(self) -> None:
        """Close the connections."""
