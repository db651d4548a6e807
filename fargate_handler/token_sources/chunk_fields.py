"""Reads the fields of OpenAI-style chunks, whatever their types."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, TypeVar

import orjson

from evenflow.stream_core.base.answer import Usage
from evenflow.stream_core.log.entries import LONGEST_VALUE, PartKind
from evenflow.stream_core.log.returned_fields import REASONING_FIELDS

# Tokens. Stores add the counts of a day up in 64 bits.
MOST_COUNTED = 10**12


def checked_usage(
    prompt: object,
    completion: object,
    *,
    cached: object = None,
    reasoning: object = None,
    total: object = None,
) -> Usage | None:
    """The usage with these counts. None: the model did not count, or its counts are impossible.

    Cached tokens are part of the prompt's, reasoning tokens of the completion's. Some servers count
    them apart: a part that is larger than its whole is added to it. So is the reasoning that only
    the total has, as with Gemini and xAI.
    """
    prompt_tokens, completion_tokens = _count(prompt), _count(completion)
    if prompt_tokens is None or completion_tokens is None:
        return None
    cached_tokens, reasoning_tokens = _count(cached), _count(reasoning)
    if cached_tokens is not None and cached_tokens > prompt_tokens:
        prompt_tokens += cached_tokens
    if reasoning_tokens is not None and reasoning_tokens > completion_tokens:
        completion_tokens += reasoning_tokens
    uncounted = (_count(total) or 0) - prompt_tokens - completion_tokens
    if uncounted > 0:
        completion_tokens += uncounted
        reasoning_tokens = uncounted if reasoning_tokens is None else reasoning_tokens
    if max(prompt_tokens, completion_tokens) > MOST_COUNTED:
        return None
    return Usage(prompt_tokens, completion_tokens, cached_tokens, reasoning_tokens)


def _count(number: object) -> int | None:
    """A count, which may be written as `1611.0`. None: it is not a valid count."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return int(number) if 0 <= number <= MOST_COUNTED and number == int(number) else None


def cache_written(count: object, usage: Usage | None) -> int:
    """The prompt tokens that were written to the cache of the server. 0: it is not counted."""
    tokens = _count(count)
    if tokens is None or usage is None:
        return 0
    return min(tokens, usage.prompt_tokens - (usage.cached_tokens or 0))


_CUT = "… (cut: this result has {} characters)"
_MOST_SAMPLE = 120
_T = TypeVar("_T")
# OpenAI's documented log probability of a very unlikely token. Clients' types allow no null.
_UNLIKELY = -9999.0
# By the names of OpenRouter and OpenAI, of LiteLLM, and of Anthropic.
_WRITTEN = ("cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens")
_TEXT_FIELDS = ("text", "content", "thinking", "reasoning")
_THOUGHTS = ("thinking", "reasoning", "reasoning_content")
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*+)*+("?)|[{}\[\]]', re.DOTALL)


class UnreadableChunk(ValueError):
    """A value in a chunk may contain text, and can't be read.

    Args:
        what: a description in our own words, as `JSON that is broken`.
        value: the value.
    """

    def __init__(self, what: str, value: object) -> None:
        super().__init__(what)
        self.what = what
        self.sample = sample_of(value)


def sample_of(value: object) -> str:
    """The beginning of a value, for the log."""
    if isinstance(value, bytes):
        return value[:_MOST_SAMPLE].decode("utf-8", "replace")
    return str(value)[:_MOST_SAMPLE]


def parsed(data: bytes) -> Any:
    """Parse JSON leniently.

    Half a surrogate pair is kept, NaN and infinite numbers become -9999.0, and bytes that are not
    UTF-8 become U+FFFD.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data.decode("utf-8", "replace"), parse_constant=lambda _: _UNLIKELY)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


def chunks_in(data: bytes) -> list[dict[str, Any]]:
    """The chunks in an event: one, or a list of them. Other values are heartbeats.

    Raises:
        UnreadableChunk: it is broken JSON.
    """
    try:
        value = parsed(data)
        if isinstance(value, dict):
            return [value]
    except ValueError:
        # `keepalive` and `50%` have no text of the answer in them.
        if b"{" in data or b"}" in data:
            raise UnreadableChunk("JSON that is broken", data) from None
        return []
    values = value if isinstance(value, list) else []
    return [each for each in values if isinstance(each, dict)]


def closed(cut: bytes) -> bytes:
    """Close the open string and the open brackets of a truncated JSON text."""
    ends = bytearray()
    for token in _TOKEN.finditer(cut):
        mark = token[0]
        if mark == b"{":
            ends += b"}"
        elif mark == b"[":
            ends += b"]"
        elif mark in (b"}", b"]"):
            del ends[-1:]
        elif not token[1]:
            text = cut[: token.end()]
            return text.decode("utf-8", "ignore").encode() + b'"' + ends[::-1]
    return cut + ends[::-1]


def json_text(value: Any) -> str:
    """A value as JSON. Halves of surrogate pairs in it become U+FFFD."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:
        return whole_characters(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def is_whole(text: str) -> bool:
    """Whether a text has no half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def whole_characters(text: str) -> str:
    """The text with surrogate pairs as their character, and halves of them as U+FFFD."""
    if text.isascii() or is_whole(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def listed(value: Any, field: str) -> list[Any]:
    """The entries of a list, which may be missing or null. A single object is a list of one."""
    if isinstance(value, list):
        return [entry for entry in value if entry is not None] if None in value else value
    if not value:
        return []
    if not isinstance(value, dict):
        raise UnreadableChunk(f"`{field}` that is no list", value)
    return [value]


def object_in(value: Any, field: str) -> dict[str, Any]:
    """An object, which may be missing or null. Then it is empty."""
    if isinstance(value, dict):
        return value
    if value:
        raise UnreadableChunk(f"`{field}` that is no object", value)
    return {}


def word_in(value: Any) -> str:
    """A name or an id. Empty where there is none."""
    if isinstance(value, str):
        return whole_characters(value)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""


def number_in(value: Any, otherwise: _T) -> int | _T:
    """A number from 0, which may be written as 7.0 or "7". `otherwise` where there is none."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:_MOST_SAMPLE])
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= MOST_COUNTED else otherwise


def text_in(value: Any) -> str:
    """The text of a string, of an object with a text, or of a list of them."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "".join(map(text_in, value))
    if isinstance(value, dict):
        return next((text_in(value[name]) for name in _TEXT_FIELDS if value.get(name)), "")
    return ""


def contents_in(content: Any) -> Iterator[tuple[PartKind, str]]:
    """The texts and the thoughts of a message's content, which may be a list of parts.

    Raises:
        UnreadableChunk: it is an object without a text.
    """
    if not content:
        return
    if isinstance(content, bool | int | float):
        yield PartKind.TEXT, json_text(content)
        return
    for part in listed(content, "choices[].delta.content"):
        thinks = isinstance(part, dict) and part.get("type") in _THOUGHTS
        yield PartKind.REASONING if thinks else PartKind.TEXT, text_in(part)
    if isinstance(content, dict) and content and "type" not in content and not text_in(content):
        raise UnreadableChunk("`choices[].delta.content` that is no text", content)


def arguments_in(value: Any) -> str:
    """The arguments of a call. Some servers send them as an object."""
    if isinstance(value, str):
        return value
    return "" if value is None else json_text(value)


def usage_of(usage_fields: Any) -> Usage | None:
    """The usage that the server counted. None if it is invalid: that must not fail the answer."""
    if not isinstance(usage_fields, dict):
        return None
    cached = ("prompt_cache_hit_tokens", "cached_tokens")  # DeepSeek's and Kimi's
    return checked_usage(
        number_in(usage_fields.get("prompt_tokens"), None),
        number_in(usage_fields.get("completion_tokens"), None),
        cached=_detail(usage_fields, "prompt_tokens_details", "cached_tokens", *cached),
        reasoning=_detail(usage_fields, "completion_tokens_details", "reasoning_tokens"),
        total=number_in(usage_fields.get("total_tokens"), None),
    )


def written_of(usage_fields: dict[str, Any], usage: Usage) -> int:
    """The prompt's tokens that the server wrote to its cache. 0: it doesn't report them."""
    details = usage_fields.get("prompt_tokens_details")
    for holder in (details, usage_fields):
        for name in _WRITTEN:
            tokens = number_in(holder.get(name), None) if isinstance(holder, dict) else None
            if tokens:
                return cache_written(tokens, usage)
    return 0


def _detail(usage_fields: dict[str, Any], details: str, name: str, *otherwise: str) -> int | None:
    """A count in the details, or next to them under another name."""
    details_object = usage_fields.get(details)
    nested_counts = [details_object.get(name)] if isinstance(details_object, dict) else []
    counts = (
        number_in(count, None) for count in (*nested_counts, *map(usage_fields.get, otherwise))
    )
    return next((count for count in counts if count is not None), None)


def result_text(content: Any) -> str:
    """A tool's result: a text, the texts of a list of parts, or any other JSON."""
    if content is None or isinstance(content, str):
        return whole_characters(content or "")
    parts = content if isinstance(content, list) else []
    texts = [part["text"] for part in parts if isinstance(part, dict) and "text" in part]
    if texts and len(texts) == len(parts) and all(isinstance(text, str) for text in texts):
        return whole_characters("".join(texts))
    return json_text(content)


def fitting(result: str) -> str:
    """A tool's result, cut to the maximum length, with a note that it was cut."""
    if len(result) <= LONGEST_VALUE:
        return result
    mark = _CUT.format(f"{len(result):,}")
    return result[: LONGEST_VALUE - len(mark)] + mark


def reasonings_in(delta: dict[str, Any]) -> dict[str, str]:
    """A delta's reasoning by the name of its field. The same text in several fields counts once."""
    texts: dict[str, str] = {}
    for name in REASONING_FIELDS:
        text = text_in(delta.get(name))
        if text and text not in texts.values():
            texts[name] = text
    return texts
