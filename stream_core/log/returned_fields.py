"""Joins the fields of an answer that its model server needs back, and encodes them for clients.

Servers sign or encrypt reasoning, and reject the next request without it: Gemini's `extra_content`
of a call, OpenRouter's `reasoning_details`, LiteLLM's `thinking_blocks`. The meaning of such fields
is not known here. Clients of other protocols keep an object with

    field   the server's field of the reasoning
    detail  the entry of a list that repeats the reasoning, without its text (`detail_of`)
    extra   all further fields
    call    instead of them, the fields of the next call, or of the earlier one `call_id`

or, if a protocol has room only for text, that object as text (`sealed`).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

Fields = dict[str, Any]
"""Fields of a message or of a call, by their names."""

CALL_TYPE = "call_type"
"""The field of a call with its type, if that is neither `function` nor `custom`."""
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_text")
"""The names under which servers send reasoning: the last one is Copilot's. Some use several."""
TEXTS = ("text", "summary", "thinking")
"""The names of the text in a list entry that repeats a reasoning."""
CHUNK_FIELDS = frozenset(
    {"id", "object", "created", "model", "choices", "usage", "error", "event", "obfuscation"}
)
"""The fields of a chunk that are read, or that only serve its connection."""
CHOICE_FIELDS = frozenset(
    {
        *("index", "delta", "message", "finish_reason", "logprobs", "usage", "error"),
        *("text", "token_ids"),
    }
)
"""The fields of a choice that are read, or that are its text again."""
_TAKEN = frozenset(
    {"role", "content", "tool_calls", "tool_call_id", "function_call", "name", "audio", "refusal"}
)
_BLOCK = frozenset({"type", "signature", *TEXTS})
_OPAQUE = frozenset(
    {
        *("signature", "thought_signature", "encrypted_content", "reasoning_opaque", "data"),
        *("id", "type", "format", CALL_TYPE),
    }
)
_MARK = "evenflow:"
# No server sends objects with more names. Joining them would take quadratic time.
_MOST_NAMES = 256
# How many of a list's last entries are compared with a further one.
_MOST_OPEN = 64


def join_fields(known: Fields, more: Mapping[str, Any]) -> Fields:
    """Join fields with further ones of the same message.

    Texts are concatenated. List entries with the same `index` and `type` are merged, and so are two
    consecutive entries in Anthropic's form. Within them only the text is concatenated. Nothing is
    added to an object with more names than any server sends, since each addition copies it.
    """
    if len(known) > _MOST_NAMES or not more:
        return known
    joined = {name: _more(known.get(name), more[name], joins=name != CALL_TYPE) for name in more}
    return {**known, **joined}


def _more(known: Any, value: Any, *, joins: bool) -> Any:
    match known, value:
        case _, None:
            return known
        case str(), str() if joins:
            return known + value
        case dict(), dict() if len(known) > _MOST_NAMES:
            return known
        case dict(), dict():
            inner = {
                name: _more(known.get(name), value[name], joins=name in TEXTS) for name in value
            }
            return known | inner
        case None | list(), list():
            return _listed(known or (), value)
    return value


def _listed(known: Iterable[Any], more: Iterable[Any]) -> list[Any]:
    merged = list(known)
    for entry in more:
        place = _index_of(entry, merged)
        if place is None:
            merged.append(entry)
        else:
            merged[place] = _more(merged[place], entry, joins=False)
    return merged


def _index_of(entry: Any, entries: list[Any]) -> int | None:
    """The index of the entry that this one continues. None: it begins a new one."""
    if not isinstance(entry, dict):
        return None
    if "index" in entry:
        index, kind = entry["index"], entry.get("type")
        first = max(0, len(entries) - _MOST_OPEN)
        same = [
            place
            for place, known in enumerate(entries[first:], first)
            if isinstance(known, dict) and (known.get("index"), known.get("type")) == (index, kind)
        ]
    else:
        same = [len(entries) - 1] if entries and _continues(entries[-1], entry) else []
    # A signature is the end of its text.
    ended = same and entries[same[-1]].get("signature") and text_in(entry)[1]
    return same[-1] if same and not ended else None


def _continues(known: Any, entry: Mapping[str, Any]) -> bool:
    return (
        isinstance(known, dict)
        and known.get("type") == entry.get("type")
        and _BLOCK.issuperset(known)
        and _BLOCK.issuperset(entry)
    )


def text_in(entry: Any) -> tuple[str, str]:
    """The name and the text of an entry that repeats a reasoning. Both are empty for others."""
    if isinstance(entry, dict):
        for name in TEXTS:
            if isinstance(text := entry.get(name), str) and text:
                return name, text
    return "", ""


def detail_of(field: str, entry: Mapping[str, Any], name: str) -> str:
    """Encode an entry of the list `field` without its text, which is in its field `name`."""
    return sys.intern(orjson.dumps({field: {**entry, name: ""}}).decode())


def fields_of_detail(detail: str, text: str) -> Fields:
    """The list that a detail encodes, with `text` put back. Empty if it is no detail."""
    try:
        fields: dict[str, Any] = orjson.loads(detail or b"{}")
        ((field, entry),) = fields.items()
        (name,) = (name for name in TEXTS if entry.get(name) == "")
    except (ValueError, AttributeError):
        return {}
    return {field: [{**entry, name: text}]}


def call_object(
    kind: str, call_id: str, called: Mapping[str, Any], extra: Mapping[str, Any]
) -> Fields:
    """A call in the form of chat completions, with the further fields of it and its function.

    Args:
        kind: `function` or `custom`. It is the type, too, unless `extra` has another one.
    """
    inner = extra.get(kind)
    inner = inner if isinstance(inner, dict) else {}
    call = {"id": call_id, "type": type_in(extra) or kind, kind: {**inner, **called}}
    known = {*call, CALL_TYPE}
    return {**call, **{name: value for name, value in extra.items() if name not in known}}


def type_in(extra: Mapping[str, Any]) -> str:
    """The type of a call with these further fields. Empty: it is a usual one."""
    kind = extra.get(CALL_TYPE)
    return kind if isinstance(kind, str) else ""


def without_standard_fields(fields: Mapping[str, Any]) -> Fields:
    """The fields that don't overwrite the standard fields of a message."""
    return {name: value for name, value in fields.items() if name not in _TAKEN}


def opaque(value: Any) -> Any:
    """The value without strings that may repeat text. Empty, or None, if nothing is left."""
    if isinstance(value, list):
        return [kept for each in value if (kept := opaque(each)) not in (None, {}, [])]
    if not isinstance(value, dict):
        return None if isinstance(value, str) else value
    kept = {
        name: each if isinstance(each, str) and name in _OPAQUE else opaque(each)
        for name, each in value.items()
    }
    return {name: each for name, each in kept.items() if each not in (None, {}, [])}


def sealed(returned: Mapping[str, Any]) -> str:
    """Encode what a client keeps as text. Empty if there is nothing."""
    if not returned:
        return ""
    if returned.keys() == {"field"}:
        return f"{_MARK}{returned['field']}"
    return _MARK + orjson.dumps(returned).decode()


def unsealed(text: object) -> Fields:
    """Decode what a client kept. Empty: the text is from another server.

    Raises:
        ValueError: the client changed it.
    """
    if not isinstance(text, str) or not text.startswith(_MARK):
        return {}
    kept = text.removeprefix(_MARK)
    if not kept.startswith("{"):
        return {"field": kept} if kept else {}
    returned: Fields = orjson.loads(kept)
    return returned


def call_fields_of(returned: Mapping[str, Any]) -> Fields:
    """The fields of the next call.

    Raises:
        ValueError: the client changed them.
    """
    fields = returned.get("call", {})
    if not isinstance(fields, dict):
        raise ValueError("these are no fields of a call")
    return fields


def call_id_of(returned: Mapping[str, Any]) -> str:
    """The id of the earlier call to which the fields belong. Empty: they are of the next one.

    Raises:
        ValueError: the client changed it.
    """
    call_id = returned.get("call_id", "")
    if not isinstance(call_id, str):
        raise ValueError("this is no id of a call")
    return call_id


def fields_of(returned: Mapping[str, Any], text: str) -> Fields:
    """The fields of a message to send back to the server, for a reasoning with this text.

    Raises:
        ValueError: the client changed them.
    """
    field, detail = returned.get("field", ""), returned.get("detail", "")
    extra = returned.get("extra", {})
    if not (isinstance(field, str) and isinstance(detail, str) and isinstance(extra, dict)):
        raise ValueError("these are no fields of an answer")
    reasoning = {field: text} if field and text else {}
    joined = join_fields(join_fields(reasoning, fields_of_detail(detail, text)), extra)
    return without_standard_fields(joined)
