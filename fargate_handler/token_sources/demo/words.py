"""What the demo model says, by its seed: tokens, reasoning, searches and sources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random

import orjson

from stream_core.log.entries import Kind, Part

SEARCH = "search_docs"
"""The demo model's own tool. It runs it by itself, and tells the result."""
REASONING_FIELD = "reasoning_content"
_TOKEN = re.compile(r"\s*\w{1,7}|\s*[^\w\s]|\s+")
_VOCABULARY = (
    " evenly", " the", " tokens", " of", " a", " model", " reach", " every", " reader", ",", " one",
    " after", " another", ".", " Größe", " 流れ", " cursor", " log", " index", " and", " nothing",
    " is", " lost", "\n", ' "quoted"', " back\\slash",
)  # fmt: skip
_ARGUMENT_TOKENS, _RESULT_TOKENS = 12, 20


def demo_tokens(seed: int, count: int) -> list[str]:
    """The tokens of the directives `seed` and `tokens`. Each seed has its own words."""
    return Random(seed).choices(_VOCABULARY, k=count)


def split_tokens(text: str) -> list[str]:
    """Cut a text into tokens as long as a model's. Joined, they are the text."""
    return _TOKEN.findall(text)


def demo_arguments(seed: int) -> str:
    """The arguments of a call, as JSON."""
    return orjson.dumps({"text": "".join(demo_tokens(seed, _ARGUMENT_TOKENS))}).decode()


def call(number: int, call_id: str, name: str, arguments: str) -> Iterator[Part]:
    """A call from its beginning to its end."""
    yield Part(Kind.CALL, call=number, id=call_id, name=name)
    for token in split_tokens(arguments):
        yield Part(Kind.ARGUMENTS, token, call=number)
    yield Part(Kind.CALL_END, call=number)


def reasoning(seed: int, count: int) -> list[Part]:
    """So many tokens of reasoning. They are not those of the answer."""
    tokens = demo_tokens(seed + 1, count)
    return [Part(Kind.REASONING, token, name=REASONING_FIELD) for token in tokens]


def searches(seed: int, count: int) -> Iterator[Part]:
    """So many calls of the model's own tool, each with what it found."""
    for number in range(count):
        call_id = f"search_{number}"
        yield from call(number, call_id, SEARCH, demo_arguments(seed + number))
        found = "".join(demo_tokens(seed + number, _RESULT_TOKENS))
        yield Part(Kind.RESULT, found, id=call_id, name=SEARCH)


def sources(count: int) -> list[Part]:
    """So many sources."""
    return [
        source(f"Source {number}", url=f"https://example.org/{number}")
        for number in range(1, count + 1)
    ]


def source(title: str, **more: str) -> Part:
    """A source of the answer."""
    return Part(Kind.DATA, orjson.dumps({**more, "title": title}).decode(), name="source")
