"""About how many tokens a request is to its model, before its server has counted them.

There is one estimate, for turns, rates, budgets and usage. It is a careful one, so that budgets
hold: most models make fewer tokens of a text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from evenflow.stream_core.log.conversation import Turn

# Of UTF-8. Models take more of English and of code for a token, about so many of other languages.
_BYTES_PER_TOKEN = 3
_TOKENS_PER_TURN = 8
# An image, as most models count it.
_TOKENS_PER_MEDIUM = 1_600
_MEDIA = frozenset({"image_url", "input_audio", "file"})


def estimated_tokens(turns: Iterable[Turn], described: Iterable[object] = ()) -> int:
    """About how many tokens these turns are.

    Args:
        described: what the model reads besides, as JSON has it: tools, a schema of the answer.
    """
    return sum(map(_tokens_of_turn, turns)) + sum(tokens_of(_size_of(each)) for each in described)


def tokens_of_text_turn(size: int) -> int:
    """About how many tokens a turn is that has only a text of so many bytes."""
    return _TOKENS_PER_TURN + tokens_of(size)


def tokens_of(size: int) -> int:
    """About how many tokens so many bytes of text are, rounded up."""
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


def _bytes_of(text: str) -> int:
    # Nothing is encoded of most texts: Python knows which are ASCII.
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _size_of(value: Any) -> int:
    return len(orjson.dumps(value))
