"""Finds the fields that a model's server needs back in the conversation's next request."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from evenflow.stream_core.log.entries import (
    CALL_EXTRA,
    CHUNK_EXTRA,
    EXTRA,
    LONGEST_NAME,
    LONGEST_VALUE,
    Part,
    PartKind,
)
from evenflow.stream_core.log.returned_fields import (
    CALL_TYPE,
    REASONING_FIELDS,
    Fields,
    detail_of,
    text_in,
)

# Fields that are delivered as parts, or that no server needs. LiteLLM repeats all in the last one.
_OF_MESSAGES = frozenset(
    {
        *("role", "content", *REASONING_FIELDS, "refusal", "annotations"),
        *("tool_calls", "function_call", "executed_tools", "tool_call_id", "name"),
        *("audio", "images", "logprobs", "token_ids", "provider_specific_fields"),
    }
)
FIELDS_WITHOUT_REASONING = _OF_MESSAGES.difference(REASONING_FIELDS)
"""A delta with these fields alone has no reasoning, and nothing that the server needs back."""
# LangChain's calls and their chunks have their own type, and separate names and arguments.
_OF_CALLS = frozenset({"index", "id", "type", "function", "custom", "name", "args", CALL_TYPE})
_USUAL_TYPES = ("", "function", "custom", "tool_call", "tool_call_chunk")
_OF_CALLED = frozenset({"name", "arguments", "input"})
_TELLING = ("reasoning_details", "thinking_blocks")
"""Lists with reasoning. A server may send it only there."""
_COUNTED = ("prompt_tokens", "completion_tokens", "total_tokens")
# The counts that are read within the details of a usage.
_COUNTED_WITHIN = {
    "prompt_tokens_details": "cached_tokens",
    "completion_tokens_details": "reasoning_tokens",
}
_NOTHING: tuple[Any, ...] = (None, "", [], {})
_MOST_DETAILS = 64
"""Different details in an answer. They don't count in its size."""
_logger = logging.getLogger(__name__)


class ReasoningPiece(NamedTuple):
    """A piece of reasoning: its text, its field, and the list entry that repeats it (a detail)."""

    text: str
    field: str
    detail: str = ""


class ServerFields:
    """Collects the fields of one answer that the server needs back, as parts."""

    __slots__ = ("_details", "_has_warned", "_sent_fields")

    def __init__(self) -> None:
        self._details = frozenset[str]()
        self._has_warned = False
        self._sent_fields: dict[tuple[int, int | None], Fields] = {}

    def part_of(self, fields: Fields, choice: int, call: int | None) -> Part | None:
        """A part with fields of the call `call`, or of the message. None: nothing is new.

        A repeated value is left out. So are fields that are too long.
        """
        if not fields:
            return None
        sent_fields = self._sent_fields.setdefault((choice, call), {})
        new = {name: value for name, value in fields.items() if sent_fields.get(name) != value}
        text = orjson.dumps(new).decode()
        if not new or len(text) > LONGEST_VALUE:
            self._warn(new, len(text))
            return None
        sent_fields |= new
        name = EXTRA if call is None else CALL_EXTRA
        return Part(PartKind.DATA, text, choice, call or 0, name=name)

    def split(
        self, reasonings: Mapping[str, str], delta: Mapping[str, Any]
    ) -> tuple[list[ReasoningPiece], Fields]:
        """Split a delta into its reasoning and its other fields that the server needs back.

        Args:
            reasonings: the texts by the names of their fields.
        """
        thoughts, fields = _split_thoughts(reasonings, message_fields(delta))
        details = [self._known_detail(thought.detail) for thought in thoughts]
        pairs = zip(thoughts, details, strict=True)
        return [thought._replace(detail=detail) for thought, detail in pairs], fields

    def _known_detail(self, detail: str) -> str:
        if detail and len(self._details) < _MOST_DETAILS:
            self._details |= {detail}
        return detail if detail in self._details else ""

    def _warn(self, fields: Fields, size: int) -> None:
        if fields and not self._has_warned:
            self._has_warned = True
            _logger.warning(
                "fields of the model's server with %d characters were left out: %a; the server may "
                "reject the conversation's next request without them",
                size,
                ", ".join(fields)[:100],
            )


class ExtraFields:
    """Collects the fields of chunks, choices and usage that Evenflow does not read.

    The last value of a field counts. Empty values are left out.
    """

    __slots__ = ("_by_choice",)

    def __init__(self) -> None:
        self._by_choice: dict[int, dict[str, Fields]] = {}

    def add(
        self, scope: str, fields: Mapping[str, Any], read_names: Container[str], choice: int = 0
    ) -> None:
        """Add the fields of a chunk, or of one of its choices, except `read_names`."""
        scope_fields = self._by_choice.setdefault(choice, {}).setdefault(scope, {})
        for name, value in fields.items():
            if name not in read_names and value not in _NOTHING:
                scope_fields[name] = value

    def parts(self, usage_fields: Mapping[str, Any]) -> Iterator[Part]:
        """A part for each choice. That of the first one has the fields of the usage, too."""
        self.add("usage", _extra_usage(usage_fields), ())
        for choice, scopes in sorted(self._by_choice.items()):
            writable = {
                scope: {name: value for name, value in scope_fields.items() if _is_writable(value)}
                for scope, scope_fields in scopes.items()
            }
            by_scope = {
                scope: scope_fields for scope, scope_fields in writable.items() if scope_fields
            }
            text = orjson.dumps(by_scope).decode()
            if len(text) > LONGEST_VALUE:
                _logger.warning(
                    "fields of chunks and choices with %d characters were left out", len(text)
                )
            elif by_scope:
                yield Part(PartKind.DATA, text, choice, name=CHUNK_EXTRA)


def _extra_usage(usage_fields: Mapping[str, Any]) -> Fields:
    """The fields of a usage that Evenflow does not read."""
    extra = {name: value for name, value in usage_fields.items() if name not in _COUNTED}
    for name, read_name in _COUNTED_WITHIN.items():
        details = extra.pop(name, None)
        if isinstance(details, dict):
            extra[name] = {
                detail: count for detail, count in details.items() if detail != read_name
            }
    return extra


def message_fields(delta: Mapping[str, Any]) -> Fields:
    """The fields of a message that the server needs back. It needs no numbers and flags."""
    return {
        name: value
        for name, value in delta.items()
        if value and name not in _OF_MESSAGES and isinstance(value, str | list | dict)
        if _is_writable(value)
    }


def without_thought_mark(fields: Fields) -> tuple[bool, Fields]:
    """Whether Gemini marks the text of a message as reasoning, and the fields without that mark."""
    match fields:
        case {"extra_content": {"google": {"thought": True, **google}, **extra}, **others}:
            extra |= {"google": google} if google else {}
            return True, others | ({"extra_content": extra} if extra else {})
    return False, fields


def call_fields(fragment: Mapping[str, Any]) -> Fields:
    """The fields of a call, and of its function, that the server needs back."""
    fields = _others(fragment, _OF_CALLS)
    if isinstance(kind := fragment.get("type"), str) and kind not in _USUAL_TYPES:
        fields[CALL_TYPE] = kind  # as Kimi's `builtin_function`
    for name in ("function", "custom"):
        function = fragment.get(name)
        inner = _others(function, _OF_CALLED) if isinstance(function, dict) else {}
        fields |= {name: inner} if inner else {}
    return fields


def _others(fields: Mapping[str, Any], read_names: Container[str]) -> Fields:
    return {
        name: value
        for name, value in fields.items()
        if value is not None and name not in read_names and _is_writable(value)
    }


def _is_writable(value: Any) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False  # it is nested too deep
    return True


def _split_thoughts(
    reasonings: Mapping[str, str], fields: Fields
) -> tuple[list[ReasoningPiece], Fields]:
    """Split fields into the reasoning, with the list entries that repeat it, and all others.

    Such a list is not stored next to the reasoning, since it would double each token.

    Args:
        reasonings: the texts by the names of their fields.
        fields: those of `message_fields`.
    """
    text = "".join(reasonings.values())
    field = next(iter(reasonings), "")
    for name, entries in fields.items():
        if not isinstance(entries, list) or not (text or name in _TELLING):
            continue
        texts = [text_in(entry)[1] for entry in entries]
        list_text = "".join(texts)
        if list_text and list_text == (text or list_text):
            thoughts = [_thought(name, entry, field) for entry in entries if text_in(entry)[1]]
            if all(len(thought.detail) <= LONGEST_NAME for thought in thoughts):
                remaining_entries = [
                    remainder
                    for entry in entries
                    if (remainder := _without_text(entry)) is not None
                ]
                other_fields = {
                    field_name: value for field_name, value in fields.items() if field_name != name
                }
                return thoughts, other_fields | (
                    {name: remaining_entries} if remaining_entries else {}
                )
    return [ReasoningPiece(part, name) for name, part in reasonings.items()], fields


def _thought(name: str, entry: Mapping[str, Any], field: str) -> ReasoningPiece:
    key, text = text_in(entry)
    inner = {part: value for part, value in entry.items() if part != "signature" or not value}
    return ReasoningPiece(text, field, detail_of(name, inner, key))


def _without_text(entry: Any) -> Any:
    """An entry without its thought: the whole entry if it has no text, or its signature."""
    if not text_in(entry)[1]:
        return entry
    if not entry.get("signature"):
        return None
    return {part: value for part, value in entry.items() if part in ("type", "index", "signature")}
