"""The demo model as a token source. It uses the delivery clock, so 10,000 of it wake no tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from zlib import crc32

import orjson

from evenflow.fargate_handler.token_sources.demo.passages import Passages
from evenflow.fargate_handler.token_sources.demo.script import (
    Script,
    answer_script,
    demo_tokens,
    directed_script,
    is_directive,
    split_tokens,
)
from evenflow.fargate_handler.token_sources.port import (
    ModelFinish,
    ModelOptions,
    ModelRequest,
    TokenSink,
)
from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.base.errors import ModelRefused
from evenflow.stream_core.delivery.delivery_clock import SLOT_MS, DeliveryClock
from evenflow.stream_core.log.entries import Kind, Part


def called_tools(count: int, options: ModelOptions) -> list[str]:
    """The names of the tools for `count` calls, beginning with the first one that may be called.

    Raises:
        ModelRefused: there are no tools, or a call is required and the message asks for none.
    """
    if count and not options.tools:
        raise _refused("this message asks for calls, and the request has no tools")
    if not count and options.tool_choice not in (None, "auto", "none"):
        raise _refused(
            "the request requires a call, and the demo model calls only for a message `#demo "
            "calls=1`"
        )
    if options.tool_choice == "none":
        return []
    names = [tool["function"]["name"] for tool in options.tools]
    if isinstance(options.tool_choice, dict):
        names = [options.tool_choice["function"]["name"]]
    if options.parallel_tool_calls is False:
        count = min(count, 1)
    return [names[place % len(names)] for place in range(count)]


def calling(script: Script, names: Sequence[str], turn: int) -> Script:
    """The script with a call of each of these tools after its text, with one argument `text`.

    Args:
        turn: the length of the conversation. The calls' ids depend on it and on the place.
    """
    if not names:
        return script
    made = sum(part.kind is Kind.CALL for part in script.before)
    calls = [
        part
        for place, name in enumerate(names)
        for part in call(made + place, f"call_{turn}_{place}", name, demo_arguments(place))
    ]
    return replace(script, follows=[*script.follows, *calls], reason="tool_calls")


def demo_arguments(index: int) -> str:
    """The arguments of the call `index`, as JSON."""
    return call_arguments(index + 1)


def _refused(what: str) -> ModelRefused:
    return ModelRefused(f"{what}; nothing was generated", code="model_refused")


SEARCH = "search_docs"
"""The demo model's own tool. It runs it by itself, and tells the result."""
_REASONING_FIELD = "reasoning_content"
_ARGUMENT_TOKENS, _RESULT_TOKENS = 12, 20


def with_parts(script: Script) -> Script:
    """The script with the parts that its message asks for."""
    asked = script.asked
    before = [*_reasoning(asked.seed, asked.reasoning), *_searches(asked.seed, asked.searches)]
    follows = [
        source(f"Source {number}", url=f"https://example.org/{number}")
        for number in range(1, asked.sources + 1)
    ]
    return replace(script, before=before, follows=follows)


def source(title: str, **more: str) -> Part:
    """A source of the answer."""
    return Part(Kind.DATA, orjson.dumps({**more, "title": title}).decode(), name="source")


def call_arguments(seed: int) -> str:
    """The arguments of a call, as JSON: one text."""
    return orjson.dumps({"text": "".join(demo_tokens(seed, _ARGUMENT_TOKENS))}).decode()


def call(number: int, call_id: str, name: str, arguments: str) -> Iterator[Part]:
    """A call from its beginning to its end."""
    yield Part(Kind.CALL, call=number, id=call_id, name=name)
    for token in split_tokens(arguments):
        yield Part(Kind.ARGUMENTS, token, call=number)
    yield Part(Kind.CALL_END, call=number)


def _reasoning(seed: int, count: int) -> list[Part]:
    """So many tokens of reasoning. They are not those of the answer."""
    tokens = demo_tokens(seed + 1, count)
    return [Part(Kind.REASONING, token, name=_REASONING_FIELD) for token in tokens]


def _searches(seed: int, count: int) -> Iterator[Part]:
    """So many calls of the model's own tool, each with what it found."""
    for number in range(count):
        call_id = f"search_{number}"
        yield from call(number, call_id, SEARCH, call_arguments(seed + number))
        found = "".join(demo_tokens(seed + number, _RESULT_TOKENS))
        yield Part(Kind.RESULT, found, id=call_id, name=SEARCH)


_HELD_SLOTS = 5


class DemoModel:
    """A `TokenSource` that answers from the docs.

    Args:
        passages: the docs.
        clock: for its timers.
        seed: the same seed and question have the same timing.
    """

    def __init__(self, passages: Passages, clock: DeliveryClock, seed: int) -> None:
        self._passages = passages
        self._clock = clock
        self._seed = seed

    @property
    def continues(self) -> bool:
        """True: the same question always has the same answer."""
        return True

    async def generate(self, request: ModelRequest, sink: TokenSink) -> ModelFinish:
        script = self._script(request)
        called = called_tools(script.asked.calls, request.options)
        bounded = script.bounded(request.options.longest, request.options.stop)
        # An answer that was cut has no calls.
        script = calling(script, called, len(request.turns)) if bounded is script else bounded
        if request.prefix:
            script = script.behind(request.prefix)
        playback = _Playback(script, sink, self._clock, asyncio.get_running_loop().create_future())
        try:
            await playback.ended
        finally:
            playback.stop()
        prompt = sum(len(turn.text.split()) for turn in request.turns)
        return ModelFinish(
            script.reason, Usage(prompt_tokens=prompt, completion_tokens=len(script.contents))
        )

    def _script(self, request: ModelRequest) -> Script:
        question = request.turns[-1].text
        if is_directive(question):
            return with_parts(directed_script(question, request.attempt))
        answer = self._passages.answer(question)
        script = answer_script(answer.text, Random(self._seed ^ crc32(question.encode())))
        return replace(script, follows=[source(answer.source)]) if answer.source else script

    async def close(self) -> None:
        """Does nothing: there is nothing to close."""


class _Playback:
    """Plays one script by the clock."""

    __slots__ = (
        "_at",
        "_clock",
        "_contents",
        "_gaps",
        "_left",
        "_script",
        "_sink",
        "_stopped",
        "ended",
    )

    def __init__(
        self, script: Script, sink: TokenSink, clock: DeliveryClock, ended: asyncio.Future[None]
    ) -> None:
        self._script = script
        contents = script.contents[: script.stops_after]
        self._contents = iter(contents)
        self._left = len(contents)
        self._stopped = False
        self._gaps = script.gaps_ms
        self._sink = sink
        self._clock = clock
        self.ended = ended
        # In slots and fractions of them, so that gaps are right on average.
        self._at = clock.position + script.first_token_ms / SLOT_MS
        clock.put(self, int(self._at))

    def stop(self) -> None:
        """Push no more tokens."""
        self._stopped = True

    def on_due(self, slot: int) -> None:
        """Push the contents that are due."""
        sink = self._sink
        if self._stopped:
            return
        try:
            while self._at < slot + 1:
                # Any token may be the one with which it pauses.
                if sink.paused:
                    self._at = slot + _HELD_SLOTS
                    break
                left = self._left
                if left:
                    content = next(self._contents)
                    if isinstance(content, str):
                        sink.push(content)
                    else:
                        sink.push_part(content)
                    self._left = left = left - 1
                # After the last token there is nothing to wait for.
                if not left:
                    self._end()
                    return
                self._at += next(self._gaps) / SLOT_MS
        except Exception as error:  # whatever the sink raises ends this model, not the clock
            self._stopped = True
            if not self.ended.done():
                self.ended.set_exception(error)
            return
        self._clock.put(self, int(self._at))

    def _end(self) -> None:
        if self._script.failure is not None:
            self.ended.set_exception(self._script.failure)
        elif not self._script.hangs:
            self.ended.set_result(None)
