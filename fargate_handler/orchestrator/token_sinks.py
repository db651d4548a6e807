"""The sinks between a model and its response. They replace, count and number what it gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evenflow.fargate_handler.token_sources.port import ModelFinish, TokenSink
from evenflow.stream_core.delivery.response_stream import ResponseFull, ResponseStream
from evenflow.stream_core.delivery.token_allowance import tokens_in
from evenflow.stream_core.log.entries import JOINING, OF_TOKENS, Part, PartKind, is_of_call
from evenflow.stream_core.session.tool_steps import ToolSteps


class ReplacingSink:
    """A `TokenSink` whose first token replaces what was delivered. That token may never come."""

    __slots__ = ("_begun", "_stream")

    def __init__(self, stream: ResponseStream) -> None:
        self._stream = stream
        self._begun = False

    @property
    def paused(self) -> bool:
        """Whether the source should not read its model."""
        return self._stream.backpressure.paused

    def push(self, token: str) -> None:
        """Take a token. The first one replaces what was delivered before.

        Raises:
            ResponseFull: the response has reached its size limit.
            LogClosed: the response has ended.
        """
        if token and not self._begun:
            self._begin()
        self._stream.push(token)

    def push_part(self, part: Part) -> None:
        """Take a part. The first one replaces what was delivered before.

        Raises:
            NotAPart: a field of the part is not allowed.
            ResponseFull, LogClosed: as of `push`.
        """
        if part.text or part.kind not in JOINING:
            self._begin()
        self._stream.push_part(part)

    def alive(self) -> None:
        """Note a sign of life without a token."""
        self._stream.alive()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._stream.restart()


class FirstTokenSink:
    """A `TokenSink` that calls `on_first_token` once, before it passes the first token to `sink`.

    From then on its `push` and `push_part` are those of `sink`.
    """

    __slots__ = ("_on_first_token", "_sink", "push", "push_part")

    def __init__(self, sink: TokenSink, on_first_token: Callable[[], None]) -> None:
        self._sink = sink
        self._on_first_token: Callable[[], None] | None = on_first_token
        self.push: Callable[[str], None] = self._push_first
        self.push_part: Callable[[Part], None] = self._push_first_part

    @property
    def paused(self) -> bool:
        """Whether the source should not read its model."""
        return self._sink.paused

    def alive(self) -> None:
        """Note a sign of life."""
        self._sink.alive()

    def _push_first(self, token: str) -> None:
        self._begin()
        self.push(token)

    def _push_first_part(self, part: Part) -> None:
        self._begin()
        self.push_part(part)

    def _begin(self) -> None:
        self.push, self.push_part = self._sink.push, self._sink.push_part
        # A source may keep a reference to the first `push`.
        on_first_token, self._on_first_token = self._on_first_token, None
        if on_first_token is not None:
            on_first_token()


class CountingSink:
    """A `TokenSink` before content filters, which buffer, join or drop pieces.

    It counts the model's tokens, so that the limit of an answer applies to what is filtered, too.
    """

    __slots__ = ("_sink", "_stream")

    def __init__(self, sink: TokenSink, stream: ResponseStream) -> None:
        self._sink = sink
        self._stream = stream

    @property
    def paused(self) -> bool:
        """Whether the source should not read its model."""
        return self._sink.paused

    def push(self, token: str) -> None:
        """Take a token. It raises as the filters do, and as the response does."""
        self._pass(lambda: self._sink.push(token), tokens_in(token) if token else 0)

    def push_part(self, part: Part) -> None:
        """Take a part. It raises as `push` does."""
        counts = part.kind in OF_TOKENS and (part.text or part.kind not in JOINING)
        self._pass(lambda: self._sink.push_part(part), tokens_in(part.text) if counts else 0)

    def alive(self) -> None:
        """Note a sign of life."""
        self._sink.alive()

    def _pass(self, push: Callable[[], None], tokens: int) -> None:
        stream = self._stream
        if stream.is_full:
            raise ResponseFull
        counted = stream.allowance.counted + tokens
        push()
        stream.count_to(counted)


class ToolCallNumbering:
    """A `TokenSink` that makes numbers and ids of tool calls unique within an answer.

    It is for answers whose tools the client runs, since results name their calls.

    Args:
        steps: the steps before this request to the model.
    """

    __slots__ = ("_begun", "_first", "_sink", "_stream", "_taken")

    def __init__(self, sink: TokenSink, stream: ResponseStream, steps: ToolSteps) -> None:
        self._sink = sink
        self._stream = stream
        self._begun = not steps.turns
        self._first = steps.next_call
        self._taken = set(steps.answered)

    @property
    def paused(self) -> bool:
        """Whether the source should not read its model."""
        return self._sink.paused

    def push(self, token: str) -> None:
        """Take a token."""
        self._begin()
        self._sink.push(token)

    def push_part(self, part: Part) -> None:
        """Take a part. Calls are numbered after those of earlier steps."""
        self._begin()
        if part.kind is PartKind.CALL:
            part = replace(part, id=self._free_id(part.id))
        if is_of_call(part):
            part = replace(part, call=part.call + self._first)
        self._sink.push_part(part)

    def alive(self) -> None:
        """Note a sign of life."""
        self._sink.alive()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._stream.delivery.start_step()

    def _free_id(self, call_id: str) -> str:
        free, number = call_id, 2
        while free in self._taken:
            free, number = f"{call_id}_{number}", number + 1
        self._taken.add(free)
        return free


class SpokenRefusals:
    """A `TokenSink` for chats: a refusal becomes text, and the finish reason."""

    __slots__ = ("_is_refused", "_sink", "push")

    def __init__(self, sink: TokenSink) -> None:
        self.push: Callable[[str], None] = sink.push
        self._sink = sink
        self._is_refused = False

    @property
    def paused(self) -> bool:
        """Whether the source should not read its model."""
        return self._sink.paused

    def push_part(self, part: Part) -> None:
        """Take a part. A refusal becomes text."""
        if part.kind is PartKind.REFUSAL:
            self._is_refused = True
            self.push(part.text)
        else:
            self._sink.push_part(part)

    def alive(self) -> None:
        """Note a sign of life."""
        self._sink.alive()

    def finish(self, finish: ModelFinish) -> ModelFinish:
        """How the answer ended."""
        return replace(finish, finish_reason="content_filter") if self._is_refused else finish
