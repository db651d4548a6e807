"""Reads most chunks of an OpenAI-style answer without parsing them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import orjson

from evenflow.fargate_handler.token_sources.chunk_fields import is_whole
from evenflow.fargate_handler.token_sources.server_fields import message_fields
from evenflow.stream_core.log.returned_fields import REASONING_FIELDS

_BESIDE_TEXT = (*REASONING_FIELDS, "refusal", "tool_calls", "executed_tools", "annotations")
_BESIDE_DELTA = ("index", "finish_reason", "logprobs", "usage")
_BESIDE_CHOICES = ("usage", "x_groq", "error", "event")
# A server whose chunks always differ in more than the text is not tried for ever.
_MOST_TRIES = 8


class TextChunks:
    """Knows one chunk of an answer that is only text, and reads the text of those like it.

    Nearly all chunks of an answer differ in nothing but their text. To parse the same names and
    numbers again for each token would take longer than all else that is done with it.
    """

    __slots__ = ("_after", "_before", "_tries")

    def __init__(self) -> None:
        self._before = self._after = b""
        self._tries = _MOST_TRIES

    def text(self, data: bytes) -> str:
        """The text of a chunk like the learnt one. Empty if the chunk must be parsed."""
        before, after = self._before, self._after
        if not (before and data.startswith(before) and data.endswith(after)):
            return ""
        said = data[len(before) : -len(after)]
        if b'"' in said or b"\\" in said:
            return ""
        try:
            text = said.decode()
        except UnicodeDecodeError:
            return ""
        if not text.isprintable():
            return ""  # a string of JSON has no control characters
        self._tries = _MOST_TRIES
        return text

    def learn(self, data: bytes, chunk: dict[str, Any]) -> None:
        """Know this chunk from now on, if it is only text. `chunk` is `data`, parsed."""
        text = _only_text(chunk) if self._tries else ""
        if not text:
            return
        self._tries -= 1
        quoted = orjson.dumps(text)
        before, _, after = data.partition(quoted)
        if not after or quoted in after:
            return
        # The same text may be elsewhere, and written with escapes in its own place.
        with suppress(orjson.JSONDecodeError):  # only a lenient parser reads this chunk
            if _content(orjson.loads(before + b'""' + after)) == "":
                self._before, self._after = before + b'"', b'"' + after


def _only_text(chunk: dict[str, Any]) -> str:
    """The text of a chunk that says nothing else. Otherwise empty."""
    choices = chunk.get("choices")
    if not isinstance(choices, list) or len(choices) != 1:
        return ""
    (choice,) = choices
    delta = choice.get("delta") if isinstance(choice, dict) else None
    if not isinstance(delta, dict) or any(chunk.get(name) for name in _BESIDE_CHOICES):
        return ""
    says_more = any(choice.get(name) for name in _BESIDE_DELTA)
    says_more = says_more or delta.get("role") == "tool" or bool(message_fields(delta))
    if says_more or any(delta.get(name) for name in _BESIDE_TEXT):
        return ""
    text = delta.get("content")
    return text if isinstance(text, str) and is_whole(text) else ""


def _content(chunk: dict[str, Any]) -> object:
    return chunk["choices"][0]["delta"].get("content")
