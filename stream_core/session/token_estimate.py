"""Estimates the tokens of a request before its model's server has counted them.

There is one estimate, for turns, rates, budgets and usage. It is high, so that budgets hold: most
models make fewer tokens of a text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from evenflow.stream_core.session.conversation import Turn

# Of UTF-8. English and code have more bytes for each token, other languages about this many.
_BYTES_PER_TOKEN = 3
_TOKENS_PER_TURN = 8
# An image, as most models count it.
_TOKENS_PER_MEDIUM = 1_600
# The most that a server counts for a large image, in tiles. The estimate is of usual ones.
_MOST_TOKENS_PER_MEDIUM = 50_000
# The text that a server's chat template adds to a short request.
_MOST_TOKENS_OF_TEMPLATE = 256
_MEDIA = frozenset({"image_url", "input_audio", "file"})


def estimated_tokens(turns: Iterable[Turn], described: Iterable[object] = ()) -> int:
    """The estimated tokens of turns.

    Args:
        described: further JSON that the model reads: tools, a schema of the answer.
    """
    return sum(map(_tokens_of_turn, turns)) + sum(tokens_of(_size_of(each)) for each in described)


def most_tokens(estimate: int, media_tokens: int, calls: int) -> int:
    """The most tokens that a model's server can truly count for requests: a byte has one at most.

    Args:
        estimate: `estimated_tokens` of all requests together.
        media_tokens: `most_media_tokens` of each request.
        calls: the number of requests.
    """
    return _BYTES_PER_TOKEN * estimate + calls * (_MOST_TOKENS_OF_TEMPLATE + media_tokens)


def most_media_tokens(turns: Iterable[Turn]) -> int:
    """The most tokens that the images, recordings and files of these turns can be."""
    media = (
        part.get(part["type"]) for turn in turns for part in turn.parts if part["type"] in _MEDIA
    )
    return sum(_MOST_TOKENS_PER_MEDIUM + _length_of_texts(medium) for medium in media)


def tokens_of_text_turn(size: int) -> int:
    """The estimated tokens of a turn with a text of `size` bytes."""
    return _TOKENS_PER_TURN + tokens_of(size)


def tokens_of(size: int) -> int:
    """The estimated tokens of `size` bytes of text, rounded up."""
    return -(-size // _BYTES_PER_TOKEN)


def _tokens_of_turn(turn: Turn) -> int:
    size = _bytes_of(turn.text)
    size += sum(_bytes_of(call.name) + _bytes_of(call.arguments) for call in turn.tool_calls)
    size += _size_of(turn.extra) if turn.extra else 0
    media = 0
    for part in turn.parts:
        if part["type"] in _MEDIA:
            media += 1
        elif part["type"] != "text":
            size += _size_of(part)
    return tokens_of_text_turn(size) + _TOKENS_PER_MEDIUM * media


def _length_of_texts(medium: object) -> int:
    """The characters of a medium's data and addresses, all ASCII. It may have megabytes."""
    fields = medium.values() if isinstance(medium, dict) else (medium,)
    return sum(len(field) for field in fields if isinstance(field, str))


def _bytes_of(text: str) -> int:
    # Nothing is encoded of most texts: Python knows which are ASCII.
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _size_of(value: Any) -> int:
    return len(orjson.dumps(value))
