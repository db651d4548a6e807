"""The demo model as a token source. It uses the delivery clock, so 10,000 of it wake no tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random
from zlib import crc32

import orjson

from evenflow.fargate_handler.token_sources.demo.passages import Passages
from evenflow.fargate_handler.token_sources.demo.playback import Playback
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
from evenflow.stream_core.delivery.delivery_clock import DeliveryClock
from evenflow.stream_core.log.entries import Part, PartKind


def called_tools(count: int, options: ModelOptions) -> list[str]:
    """The names of the tools for `count` calls, beginning with the first one that may be called.

    Raises:
        ModelRefused: there are no tools, or a call is required and the message directs none.
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
    call_count = sum(part.kind is PartKind.CALL for part in script.parts_before)
    calls = [
        part
        for place, name in enumerate(names)
        for part in call(call_count + place, f"call_{turn}_{place}", name, demo_arguments(place))
    ]
    return replace(script, parts_after=[*script.parts_after, *calls], reason="tool_calls")


def demo_arguments(index: int) -> str:
    """The arguments of the call `index`, as JSON."""
    return call_arguments(index + 1)


def _refused(what: str) -> ModelRefused:
    return ModelRefused(f"{what}; nothing was generated", code="model_refused")


SEARCH = "search_docs"
"""The demo model's own tool. The model runs it by itself, and pushes the result."""
_REASONING_FIELD = "reasoning_content"
_ARGUMENT_TOKENS, _RESULT_TOKENS = 12, 20


def with_parts(script: Script) -> Script:
    """The script with the parts that its message directs."""
    directives = script.directives
    parts_before = [
        *_reasoning(directives.seed, directives.reasoning),
        *_searches(directives.seed, directives.searches),
    ]
    parts_after = [
        source(f"Source {number}", url=f"https://example.org/{number}")
        for number in range(1, directives.sources + 1)
    ]
    return replace(script, parts_before=parts_before, parts_after=parts_after)


def source(title: str, **fields: str) -> Part:
    """A source of the answer."""
    return Part(PartKind.DATA, orjson.dumps({**fields, "title": title}).decode(), name="source")


def call_arguments(seed: int) -> str:
    """The arguments of a call, as JSON: one text."""
    return orjson.dumps({"text": "".join(demo_tokens(seed, _ARGUMENT_TOKENS))}).decode()


def call(number: int, call_id: str, name: str, arguments: str) -> Iterator[Part]:
    """A call from its beginning to its end."""
    yield Part(PartKind.CALL, call=number, id=call_id, name=name)
    for token in split_tokens(arguments):
        yield Part(PartKind.ARGUMENTS, token, call=number)
    yield Part(PartKind.CALL_END, call=number)


def _reasoning(seed: int, count: int) -> list[Part]:
    """`count` tokens of reasoning. They differ from those of the answer."""
    tokens = demo_tokens(seed + 1, count)
    return [Part(PartKind.REASONING, token, name=_REASONING_FIELD) for token in tokens]


def _searches(seed: int, count: int) -> Iterator[Part]:
    """`count` calls of the model's own tool, each with its result."""
    for number in range(count):
        call_id = f"search_{number}"
        yield from call(number, call_id, SEARCH, call_arguments(seed + number))
        result = "".join(demo_tokens(seed + number, _RESULT_TOKENS))
        yield Part(PartKind.RESULT, result, id=call_id, name=SEARCH)


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
        tool_names = called_tools(script.directives.calls, request.options)
        bounded = script.bounded(request.options.longest, request.options.stop)
        # An answer that was cut has no calls.
        script = calling(script, tool_names, len(request.turns)) if bounded is script else bounded
        if request.prefix:
            script = script.behind(request.prefix)
        playback = Playback(script, sink, self._clock, asyncio.get_running_loop().create_future())
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
        return replace(script, parts_after=[source(answer.source)]) if answer.source else script

    async def close(self) -> None:
        """Does nothing: there is nothing to close."""
