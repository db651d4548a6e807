"""Reads the input items of a request of the Responses API as turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenflow.fargate_handler.gateway.bodies.json_values import check_json
from evenflow.fargate_handler.gateway.bodies.returned import (
    further_fields,
    parse_returned,
    with_late_fields,
)
from evenflow.fargate_handler.gateway.openai_responses.request_errors import unsupported, wrong
from evenflow.fargate_handler.token_sources.conversation_forms import openai_calls
from evenflow.stream_core.log.returned_fields import (
    call_object,
    join_fields,
    without_standard_fields,
)
from evenflow.stream_core.protocols.openai_responses.namespaces import joined_name
from evenflow.stream_core.session.conversation import ToolCall, Turn, text_of_parts

_TEXTS = ("input_text", "output_text", "text")
_FILE_FIELDS = ("file_data", "filename")


def text_or_parts(content: object, where: str) -> tuple[str, tuple[dict[str, Any], ...]]:
    """The text of a content, and its parts if they are more than text.

    Raises:
        InvalidRequest: it is wrong, or has a part that is not read here.
    """
    parts = read_parts(content, where)
    text = text_of_parts(parts)
    return text, () if all(part["type"] == "text" for part in parts) else parts


def read_parts(content: object, where: str) -> tuple[dict[str, Any], ...]:
    """The parts of a content, by the names of chat completions.

    Raises:
        InvalidRequest: it is wrong, or has a part that is not read here.
    """
    if isinstance(content, str):
        return ({"type": "text", "text": content},)
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise wrong(f"{where} must be a text, or a list of parts", where)
    return tuple(_part(part, f"{where}.{place}") for place, part in enumerate(content))


def _part(part: dict[str, Any], where: str) -> dict[str, Any]:
    match part:
        case {"type": kind, "text": str(text)} if kind in _TEXTS:
            return {"type": "text", "text": text}
        case {"type": "refusal", "refusal": str(text)}:
            return {"type": "refusal", "refusal": text}
        case {"type": "input_image", "image_url": str(url)}:
            image = {"url": url}
            if isinstance(part.get("detail"), str):
                image["detail"] = part["detail"]
            return {"type": "image_url", "image_url": image}
        case {"type": "input_file", "file_data": str()}:
            file = {name: part[name] for name in _FILE_FIELDS if isinstance(part.get(name), str)}
            return {"type": "file", "file": file}
        case {"type": "input_audio", "input_audio": dict(audio)}:
            check_json(audio, where)
            return {"type": "input_audio", "input_audio": audio}
        case {"type": "input_image" | "input_file"}:
            raise unsupported(
                f"{where}: files are not kept here; send an image as `image_url`, and a file as "
                "`file_data`",
                where,
            )
    raise wrong(f"{where} is no part of a content: {str(part.get('type'))[:64]!r}", f"{where}.type")


_ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
_OUTPUTS = ("function_call_output", "custom_tool_call_output")
# Fields of this API or its clients in a call or a message. All others come from the model's
# server.
_OF_CALLS = frozenset(
    {
        *("type", "id", "status", "call_id", "name", "arguments", "input", "namespace"),
        *("caller", "created_by", "agent", "parsed_arguments", "index", "metadata"),
    }
)
_OF_MESSAGES = frozenset({"type", "id", "status", "role", "content", "phase", "agent", "metadata"})


@dataclass(slots=True)
class _AssistantItems:
    """Neighbouring items of the model: reasoning, text and calls. Together they are one turn."""

    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    custom_calls: list[dict[str, Any]] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    has_text: bool = False

    def turn(self) -> Turn:
        """The turn of all items. Calls of custom tools are fields that the model's server reads."""
        if not self.custom_calls:
            return Turn("assistant", self.text, tuple(self.calls), extra=self.extra)
        calls = openai_calls(self.calls)
        extra = self.extra | {"tool_calls": calls + self.custom_calls}
        return Turn("assistant", self.text, extra=extra)


class InputTurns:
    """Reads items, one after the other. Neighbouring items of the model become one turn."""

    def __init__(self) -> None:
        self._turns: list[Turn] = []
        self._answer: _AssistantItems | None = None
        self._next_call: dict[str, Any] = {}
        """Further fields of the next call."""

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns of all items."""
        self._flush()
        return tuple(self._turns)

    def take(self, item: dict[str, Any], where: str) -> None:
        """Read an item.

        Args:
            where: its path in the request, with a dot at its end.

        Raises:
            InvalidRequest: it is wrong, or of a type that is not read here.
        """
        match item.get("type", "message"):
            case "message":
                self._message(item, where)
            case "function_call":
                call_id, arguments = _texts(item, where, "call_id", "arguments")
                name, extra = _tool_name(item, where), self._extra_of_call(item, where)
                self._model().calls.append(ToolCall(call_id, name, arguments, extra))
            case "custom_tool_call":
                call_id, arguments = _texts(item, where, "call_id", "input")
                extra = self._extra_of_call(item, where)
                function = {"name": _tool_name(item, where), "input": arguments}
                self._model().custom_calls.append(call_object("custom", call_id, function, extra))
            case "reasoning":
                self._reasoning(item, where)
            case kind if kind in _OUTPUTS:
                self._flush()
                (call_id,) = _texts(item, where, "call_id")
                text, parts = text_or_parts(item.get("output"), f"{where}output")
                self._turns.append(Turn("tool", text, tool_call_id=call_id, parts=parts))
            case kind:
                raise unsupported(
                    f"{where}type {str(kind)[:64]!r} is not served here: items are messages, "
                    "calls of functions and custom tools with their outputs, reasoning, and "
                    "references to items",
                    f"{where}type",
                )

    def _message(self, item: dict[str, Any], where: str) -> None:
        role = item.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            raise wrong(f"{where}role must be one of {', '.join(_ROLES)}", f"{where}role")
        if role == "assistant":
            self._model_message(item, where)
            return
        self._flush()
        text, parts = text_or_parts(item.get("content"), f"{where}content")
        self._turns.append(Turn(_ROLES[role], text, parts=parts))

    def _model_message(self, item: dict[str, Any], where: str) -> None:
        answer = self._answer
        if answer is not None and answer.has_text and not (answer.calls or answer.custom_calls):
            self._flush()
        answer = self._model()
        answer.has_text = True
        extra = without_standard_fields(further_fields(item, _OF_MESSAGES, where))
        lists = {name: value for name, value in extra.items() if isinstance(value, dict | list)}
        answer.extra = join_fields(answer.extra, lists)
        texts: dict[str, list[str]] = {"text": [], "refusal": []}
        for part in read_parts(item.get("content"), f"{where}content"):
            if part["type"] not in texts:
                raise wrong(f"{where}content of the model is text", f"{where}content")
            texts[part["type"]].append(part[part["type"]])
        answer.text += "".join(texts["text"])
        if texts["refusal"]:
            refusal = answer.extra.get("refusal", "") + "".join(texts["refusal"])
            answer.extra = {**answer.extra, "refusal": refusal}

    def _reasoning(self, item: dict[str, Any], where: str) -> None:
        """Read a reasoning that this server has sealed. Others are not for this model."""
        text = "".join(_summaries(item.get("summary")))
        field_path = f"{where}encrypted_content"
        fields, call, call_id = parse_returned(item.get("encrypted_content"), text, field_path)
        if call_id:
            calls = self._answer.calls if self._answer is not None else []
            calls[:] = [with_late_fields(known_call, {call_id: call}) for known_call in calls]
            return
        self._next_call = join_fields(self._next_call, call)
        if not fields:
            return
        # A reasoning without text also belongs to the output before it.
        if text and self._answer is not None and self._answer.has_text:
            self._flush()
        answer = self._model()
        answer.extra = join_fields(answer.extra, fields)

    def _extra_of_call(self, item: dict[str, Any], where: str) -> dict[str, Any]:
        """The further fields of a call: from the reasoning before it, and its own."""
        fields, self._next_call = self._next_call, {}
        return fields | further_fields(item, _OF_CALLS, where)

    def _model(self) -> _AssistantItems:
        if self._answer is None:
            self._answer = _AssistantItems()
        return self._answer

    def _flush(self) -> None:
        self._next_call = {}
        if self._answer is not None:
            self._turns.append(self._answer.turn())
            self._answer = None


def check_answered(turns: Sequence[Turn]) -> None:
    """Check that each call has one output, right after the model's turn.

    Raises:
        InvalidRequest: an output is missing, or has no call.
    """
    unanswered: set[str] = set()
    for turn in turns:
        if turn.role == "tool":
            if turn.tool_call_id not in unanswered:
                raise wrong(
                    f"no tool call found for the output with call_id {turn.tool_call_id[:64]!r}; "
                    "an output follows the call that it answers",
                    "input",
                )
            unanswered.remove(turn.tool_call_id)
            continue
        _check_none_left(unanswered)
        unanswered = set(_call_ids(turn))
    _check_none_left(unanswered)


def _check_none_left(unanswered: Iterable[str]) -> None:
    unanswered_ids = ", ".join(sorted(unanswered))[:100]
    if unanswered_ids:
        raise wrong(f"no tool output found for the function call {unanswered_ids}", "input")


def _call_ids(turn: Turn) -> Iterator[str]:
    yield from (call.id for call in turn.tool_calls)
    yield from (call["id"] for call in turn.extra.get("tool_calls", ()))


def _tool_name(item: dict[str, Any], where: str) -> str:
    """The tool's name for the model: joined with its namespace."""
    (name,) = _texts(item, where, "name")
    space = item.get("namespace")
    return joined_name(space, name) if isinstance(space, str) else name


def _texts(item: dict[str, Any], where: str, *names: str) -> tuple[str, ...]:
    for name in names:
        if not isinstance(item.get(name), str):
            raise wrong(f"{where}{name} must be a text", f"{where}{name}")
    return tuple(item[name] for name in names)


def _summaries(summary: object) -> Iterator[str]:
    for part in summary if isinstance(summary, list) else ():
        if isinstance(part, dict) and isinstance(part.get("text"), str):
            yield part["text"]
