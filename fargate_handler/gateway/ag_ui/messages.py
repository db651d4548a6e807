"""Reads AG-UI's messages and tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from evenflow.fargate_handler.gateway.bodies.returned import returned_fields
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.log.returned_fields import join_fields
from evenflow.stream_core.protocols.ag_ui.bodies import (
    CONTENT_PARTS,
    RunContext,
    RunMessage,
    RunPart,
    RunTool,
)
from evenflow.stream_core.protocols.openai_chat.bodies import (
    OfferedFunction,
    OfferedTool,
    RequestToolCall,
)
from evenflow.stream_core.session.conversation import ToolCall, Turn, text_of_parts

_INSTRUCTIONS = ("developer", "system")
# The field for reasoning that a client returns without naming its field.
_USUAL_FIELD = "reasoning_content"
_AUDIO_FORMATS = {"audio/mpeg": "mp3", "audio/wav": "wav", "audio/x-wav": "wav"}


def turns_of(messages: Sequence[RunMessage], context: Sequence[RunContext]) -> tuple[Turn, ...]:
    """The turns of a conversation, after the context of the run.

    Activities are left out: they are for the interface only. Reasoning goes with the assistant's
    message after it, or else with the one before it.

    Raises:
        InvalidRequest: a message has no content, or a call no result.
    """
    context_lines = [f"{fact.description}: {fact.value}" for fact in context]
    turns = [Turn("system", "\n".join(context_lines))] if context_lines else []
    answered_ids = {message.tool_call_id for message in messages if message.role == "tool"}
    thought: dict[str, Any] = {}
    last_user = max(
        (place for place, message in enumerate(messages) if message.role == "user"), default=-1
    )
    for place, message in enumerate(messages):
        where = f"messages.{place}"
        if message.role == "reasoning":
            thought = join_fields(thought, _thought(message, where))
        elif message.role == "assistant":
            new = _assistant(message, where, answered_ids, left_behind=place < last_user)
            turns += [_beside(turn, thought) for turn in new]
            thought = {}
        elif thought and message.role != "activity":
            if turns and turns[-1].role == "assistant":
                turns[-1] = _beside(turns[-1], thought)
            thought = {}
        if message.role in _INSTRUCTIONS:
            turns.append(Turn("system", _text(message.content, where)))
        elif message.role == "user":
            turns.append(_user(message.content, where))
        elif message.role == "tool":
            text = _text(message.content, where) or message.error or ""
            turns.append(Turn("tool", text, tool_call_id=message.tool_call_id))
    return tuple(turns)


def offered(tools: Sequence[RunTool]) -> list[OfferedTool]:
    """The client's tools as those of OpenAI's API."""
    return [
        OfferedTool(
            type="function",
            function=OfferedFunction(
                name=tool.name, description=tool.description, parameters=tool.parameters
            ),
        )
        for tool in tools
    ]


def _thought(message: RunMessage, where: str) -> dict[str, Any]:
    """The fields in which a reasoning goes back to the model's server."""
    text = _text(message.content, where) if message.content is not None else ""
    sealed = message.encrypted_value
    if sealed is None:
        return {_USUAL_FIELD: text} if text else {}
    return returned_fields(sealed, text, f"{where}.encryptedValue")


def _beside(turn: Turn, extra: dict[str, Any]) -> Turn:
    return replace(turn, extra=join_fields(turn.extra, extra)) if extra else turn


def _assistant(
    message: RunMessage, where: str, answered_ids: set[str], *, left_behind: bool
) -> list[Turn]:
    calls = [
        ToolCall(
            call.id,
            call.function.name,
            call.function.arguments,
            _kept(call, f"{where}.toolCalls.{number}"),
        )
        for number, call in enumerate(message.tool_calls or ())
        if call.function is not None
    ]
    open_calls = [call.id for call in calls if call.id not in answered_ids]
    if open_calls and not left_behind:
        raise _wrong(f"{where}.toolCalls has a call without a result", f"{where}.toolCalls")
    text = _text(message.content, where) if message.content is not None else ""
    answered_calls = tuple(call for call in calls if call.id in answered_ids)
    extra = returned_fields(message.encrypted_value, "", f"{where}.encryptedValue")
    return [Turn("assistant", text, answered_calls, extra=extra)] if text or answered_calls else []


def _kept(call: RequestToolCall, where: str) -> dict[str, Any]:
    sealed = (call.model_extra or {}).get("encryptedValue")
    return returned_fields(sealed, "", f"{where}.encryptedValue")


def _user(content: Any, where: str) -> Turn:
    if isinstance(content, str):
        return Turn("user", content)
    content_parts = _parts(content, where)
    parts = [_part(part, f"{where}.content.{place}") for place, part in enumerate(content_parts)]
    text = text_of_parts(parts)
    plain = all(part["type"] == "text" for part in parts)
    return Turn("user", text) if plain else Turn("user", text, parts=tuple(parts))


def _text(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    return "".join(part.text for part in _parts(content, where))


def _parts(content: Any, where: str) -> list[RunPart]:
    try:
        return CONTENT_PARTS.validate_python(content)
    except ValidationError:
        raise _wrong(
            f"{where}.content must be a text or a list of parts", f"{where}.content"
        ) from None


def _part(part: RunPart, where: str) -> dict[str, Any]:
    """A part as one of OpenAI's API."""
    if part.type == "text":
        return {"type": "text", "text": part.text}
    source = part.source
    if source is None or source.type == "file":
        raise _wrong(f"{where}.source must have the bytes or their address", f"{where}.source")
    inline = f"data:{source.mime_type};base64,{source.value}"
    if part.type == "image":
        url = source.value if source.type == "url" else inline
        return {"type": "image_url", "image_url": {"url": url}}
    if source.type == "url":
        raise _wrong(
            f"{where}.source must have the bytes, as only images are taken by their address",
            f"{where}.source",
        )
    if part.type == "audio" and (form := _AUDIO_FORMATS.get(source.mime_type)):
        return {"type": "input_audio", "input_audio": {"data": source.value, "format": form}}
    return {"type": "file", "file": {"filename": part.type, "file_data": inline}}


def _wrong(what: str, param: str) -> InvalidRequest:
    return InvalidRequest(f"{what}; nothing was generated", code="invalid_field", param=param)
