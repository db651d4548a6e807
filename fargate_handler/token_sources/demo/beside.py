"""What the demo model gives beside text: reasoning, searches with their results, sources."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import orjson

from evenflow.fargate_handler.token_sources.demo.script import Script, demo_tokens, split_tokens
from evenflow.stream_core.log.entries import Kind, Part

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
