"""The contents of an answer as the choices that OpenAI's chunks have."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple, get_args

import orjson

from evenflow.stream_core.base.answer import FinishReason
from evenflow.stream_core.log.entries import CALL_EXTRA, CHUNK_EXTRA, EXTRA, Content, Part, PartKind
from evenflow.stream_core.log.returned_fields import (
    CALL_TYPE,
    CHOICE_FIELDS,
    CHUNK_FIELDS,
    REASONING_FIELDS,
    Fields,
    call_object,
    fields_of_detail,
    join_fields,
    type_in,
    without_standard_fields,
)

Choice = dict[str, Any]
"""A choice in a chunk, as an object of OpenAI's API."""

_TEXT_FIELDS = {PartKind.TEXT: "content", PartKind.REFUSAL: "refusal"}
_ENDS = get_args(FinishReason)
_KNOWN_CALL_FIELDS = frozenset({"index", "id", "type", "function", "custom", CALL_TYPE})


class CompletionDeltas:
    """Turns contents into choices of chunks, one after the other.

    Log probabilities come before the text of their token, and are sent with it. Sources are sent
    with the choice's end, all at once: clients don't add lists of several chunks up.

    Fields that the server needs back are passed on unchanged. Those that come before their call are
    in its first chunk, since many clients read them only there.

    `unread` collects the fields of chunks and of the usage that nothing here reads. Such fields of
    a choice become a choice of their own.

    Args:
        contents: the contents that the client has.
    """

    __slots__ = (
        "_annotations",
        "_begun_choices",
        "_call_extra",
        "_calls",
        "_ended_choices",
        "pending_logprobs",
        "unread",
    )

    def __init__(self, contents: Iterable[Content] = ()) -> None:
        self.pending_logprobs: dict[int, dict[str, list[Any]]] = {}
        """By choice, log probabilities without their text yet."""
        self.unread = UnreadFields({}, {})
        """Further fields of the chunks and of the usage."""
        self._begun_choices = {0}
        self._ended_choices: set[int] = set()
        self._calls: dict[tuple[int, int], str] = {}
        """The calls that have begun, with their types."""
        self._call_extra: dict[tuple[int, int], Fields] = {}
        """The fields of calls that have not begun."""
        self._annotations: dict[int, list[dict[str, Any]]] = {}
        for content in contents:
            self.take(content)
        self.pending_logprobs.clear()

    def take(self, content: Content) -> Choice | None:
        """The choice for the next content. None if OpenAI's API has nothing for it."""
        if isinstance(content, str):
            return self._choice(0, {"content": content})
        if content.kind is PartKind.DATA:
            return self._data(content)
        delta = self._delta(content)
        return None if delta is None else self._choice(content.choice, delta)

    def take_pending(self) -> list[Choice]:
        """At the end: choices with the log probabilities that have no text."""
        return [self._choice(choice, {}) for choice in sorted(self.pending_logprobs)]

    def last(self, finish_reason: str | None) -> list[Choice]:
        """The ends of the choices that end as the response does."""
        # OpenAI's API has no reason for a budget. Its clients handle `length`.
        finish_reason = "length" if finish_reason == "budget" else finish_reason
        return [
            choice_object(choice, self._sources(choice), finish_reason)
            for choice in sorted(self._begun_choices - self._ended_choices)
        ]

    def _sources(self, choice: int) -> dict[str, Any]:
        annotations = self._annotations.get(choice)
        return {"annotations": annotations} if annotations else {}

    def _delta(self, part: Part) -> dict[str, Any] | None:
        match part.kind:
            case PartKind.TEXT | PartKind.REFUSAL:
                return {_TEXT_FIELDS[part.kind]: part.text}
            case PartKind.REASONING:
                return _reasoning(part)
            case PartKind.CALL:
                return {"tool_calls": [self._call(part)]}
            case PartKind.ARGUMENTS if kind := self._calls.get((part.choice, part.call)):
                arguments = {_arguments_of(kind): part.text}
                return {"tool_calls": [{"index": part.call, kind: arguments}]}
        return None

    def _call(self, part: Part) -> dict[str, Any]:
        kind = "custom" if part.text == "custom" else "function"
        self._calls[part.choice, part.call] = kind
        function = {"name": part.name, _arguments_of(kind): ""}
        extra = self._call_extra.pop((part.choice, part.call), {})
        at = {"index": part.call}
        return at | call_object(kind, part.id, function, extra) | at

    def _data(self, part: Part) -> Choice | None:
        match part.name, orjson.loads(part.text):
            case "source", dict(source) if isinstance(source.get("url"), str):
                self._annotations.setdefault(part.choice, []).append(_annotation(source))
            case "finish", str(reason) if part.choice and reason in _ENDS:
                self._ended_choices.add(part.choice)
                return self._choice(part.choice, self._sources(part.choice), reason)
            case "logprobs", dict(logprobs):
                pending = self.pending_logprobs.setdefault(part.choice, {})
                for name, entries in logprobs.items():
                    if isinstance(entries, list):
                        pending.setdefault(name, []).extend(entries)
            case _, dict(fields) if part.name == EXTRA and (
                delta := without_standard_fields(fields)
            ):
                return self._choice(part.choice, delta)
            case _, dict(fields) if part.name == CALL_EXTRA:
                return self._extra_of_call(part, fields)
            case _, dict(fields) if part.name == CHUNK_EXTRA:
                return self._unread_delta(part, fields)
        return None

    def _unread_delta(self, part: Part, scopes: Fields) -> Choice | None:
        self.unread.chunk.update(_without(_object(scopes.get("chunk")), CHUNK_FIELDS))
        self.unread.usage.update(_object(scopes.get("usage")))
        fields = _without(_object(scopes.get("choice")), CHOICE_FIELDS)
        return fields | self._choice(part.choice, {}) if fields else None

    def _extra_of_call(self, part: Part, fields: Fields) -> Choice | None:
        place = part.choice, part.call
        if place in self._calls:
            call_fields = _without(fields, _KNOWN_CALL_FIELDS)
            call_fields |= {"type": kind} if (kind := type_in(fields)) else {}
            delta = {"tool_calls": [{"index": part.call, **call_fields}]}
            return self._choice(part.choice, delta) if call_fields else None
        self._call_extra[place] = join_fields(self._call_extra.get(place, {}), fields)
        return None

    def _choice(self, index: int, delta: dict[str, Any], end: str | None = None) -> Choice:
        role = {} if index in self._begun_choices else {"role": "assistant"}
        self._begun_choices.add(index)
        logprobs = self.pending_logprobs.pop(index, None)
        return choice_object(
            index,
            role | delta,
            end,
            {"content": None, "refusal": None, **logprobs} if logprobs else None,
        )


def choice_object(
    index: int,
    delta: dict[str, Any],
    finish_reason: str | None = None,
    logprobs: dict[str, Any] | None = None,
) -> Choice:
    """A choice of a chunk."""
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}


class UnreadFields(NamedTuple):
    """Fields of the model's server that nothing here reads: of chunks, and of the usage."""

    chunk: Fields
    usage: Fields


class WholeChoice:
    """One choice of a whole answer: what its deltas add up to."""

    def __init__(self, index: int) -> None:
        self._index = index
        self._message: dict[str, Any] = {"role": "assistant", "content": "", "refusal": None}
        self._calls: dict[int, dict[str, Any]] = {}
        self._logprobs: dict[str, Any] | None = None
        self._end: str | None = None
        self._unread: Fields = {}

    def add(self, choice: Choice) -> None:
        """The next delta."""
        message = self._message
        for name, value in choice["delta"].items():
            if name == "tool_calls":
                self._add_call(value[0])
            elif name == "annotations":
                message[name] = value
            elif name != "role":
                message |= join_fields(message, {name: value})
        if choice["logprobs"] is not None:
            self._logprobs = _added(self._logprobs, choice["logprobs"])
        self._end = choice["finish_reason"] or self._end
        self._unread |= _without(choice, CHOICE_FIELDS)

    def to_object(self) -> dict[str, Any]:
        """The choice of a `chat.completion`."""
        message = dict(self._message)
        if self._calls:
            message["tool_calls"] = list(self._calls.values())
        if self._calls or message["refusal"]:
            message["content"] = message["content"] or None
        return {
            **self._unread,
            "index": self._index,
            "message": message,
            "logprobs": self._logprobs,
            "finish_reason": self._end,
        }

    def _add_call(self, call_delta: dict[str, Any]) -> None:
        index, fields = call_delta["index"], _without(call_delta, ("index",))
        if "id" in fields:
            self._calls[index] = fields
            return
        call = self._calls[index]
        kind = "custom" if "custom" in call else "function"
        field = _arguments_of(kind)
        if kind in fields:
            call[kind] = call[kind] | {field: call[kind][field] + fields[kind][field]}
        else:
            call |= join_fields(call, fields) | (
                {"type": fields["type"]} if "type" in fields else {}
            )


def _object(value: object) -> Fields:
    return value if isinstance(value, dict) else {}


def _without(fields: Mapping[str, Any], excluded: Container[str]) -> Fields:
    return {name: value for name, value in fields.items() if name not in excluded}


def _reasoning(part: Part) -> Fields:
    """The fields of a reasoning: its text, and the list that repeats it, or only the list."""
    details = fields_of_detail(part.id, part.text) if part.id else {}
    if details and not part.name:
        return details
    name = part.name if part.name in REASONING_FIELDS else REASONING_FIELDS[0]
    return {name: part.text, **details}


def _arguments_of(kind: str) -> str:
    """The name of a call's arguments."""
    return "input" if kind == "custom" else "arguments"


def _annotation(source: Mapping[str, Any]) -> dict[str, Any]:
    # Clients' types require all four.
    citation = {
        "url": source["url"],
        "title": source.get("title") or source["url"],
        "start_index": source.get("start_index", 0),
        "end_index": source.get("end_index", 0),
    }
    return {"type": "url_citation", "url_citation": citation}


def _added(earlier: dict[str, Any] | None, later: dict[str, Any]) -> dict[str, Any]:
    """Log probabilities and further ones, by the names of their lists."""
    if earlier is None:
        return later
    return {
        name: [*(earlier.get(name) or ()), *(later.get(name) or ())] or None
        for name in later | earlier
    }
