"""Finds what a model's server needs back: the fields of its answer that nothing else here reads."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any, NamedTuple

import orjson

from evenflow.stream_core.log.entries import LONGEST_NAME
from evenflow.stream_core.log.returned_fields import Fields, detail_of, text_in

# Told otherwise, or of no use to a server. LiteLLM tells everything again in the last one.
_OF_MESSAGES = frozenset(
    {
        *("role", "content", "reasoning_content", "reasoning", "refusal", "annotations"),
        *("tool_calls", "function_call", "executed_tools", "tool_call_id", "name"),
        *("audio", "images", "logprobs", "token_ids", "provider_specific_fields"),
    }
)
_OF_CALLS = frozenset({"index", "id", "type", "function", "custom"})
_OF_CALLED = frozenset({"name", "arguments", "input"})
_TELLING = ("reasoning_details", "thinking_blocks")
"""Lists that tell a reasoning, also where the server tells it nowhere else."""


class Thought(NamedTuple):
    """More of a reasoning: its text, the field that tells it, and the entry that tells it again."""

    text: str
    field: str
    detail: str = ""


def message_fields(delta: Mapping[str, Any]) -> Fields:
    """What the server needs back of a message. Numbers and flags are of no use to it."""
    return {
        name: value
        for name, value in delta.items()
        if value and name not in _OF_MESSAGES and isinstance(value, str | list | dict)
        if _is_writable(value)
    }


def call_fields(fragment: Mapping[str, Any]) -> Fields:
    """What the server needs back of a call, and of its function."""
    fields = _others(fragment, _OF_CALLS)
    for kind in ("function", "custom"):
        called = fragment.get(kind)
        inner = _others(called, _OF_CALLED) if isinstance(called, dict) else {}
        fields |= {kind: inner} if inner else {}
    return fields


def _others(given: Mapping[str, Any], known: Container[str]) -> Fields:
    return {
        name: value
        for name, value in given.items()
        if value is not None and name not in known and _is_writable(value)
    }


def _is_writable(value: Any) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False  # it is nested too deep
    return True


def split_thoughts(reasonings: Mapping[str, str], fields: Fields) -> tuple[list[Thought], Fields]:
    """The reasoning of a delta, with the entries of a list that tell it again; all other fields.

    A list that tells the same text is not kept beside it: it would double each token.

    Args:
        reasonings: by the fields that tell them.
        fields: as of `message_fields`.
    """
    said = "".join(reasonings.values())
    field = next(iter(reasonings), "")
    for name, entries in fields.items():
        if not isinstance(entries, list) or not (said or name in _TELLING):
            continue
        texts = [text_in(entry)[1] for entry in entries]
        told = "".join(texts)
        if told and told == (said or told):
            thoughts = [_thought(name, entry, field) for entry in entries if text_in(entry)[1]]
            if all(len(thought.detail) <= LONGEST_NAME for thought in thoughts):
                rest = [left for entry in entries if (left := _without_text(entry)) is not None]
                others = {other: value for other, value in fields.items() if other != name}
                return thoughts, others | ({name: rest} if rest else {})
    return [Thought(text, name) for name, text in reasonings.items()], fields


def _thought(name: str, entry: Mapping[str, Any], field: str) -> Thought:
    key, text = text_in(entry)
    inner = {part: value for part, value in entry.items() if part != "signature" or not value}
    return Thought(text, field, detail_of(name, inner, key))


def _without_text(entry: Any) -> Any:
    """What of an entry is not in its thought: all of it if it has no text, or its signature."""
    if not text_in(entry)[1]:
        return entry
    if not entry.get("signature"):
        return None
    return {part: value for part, value in entry.items() if part in ("type", "index", "signature")}
