"""Reads AI SDK's messages as turns, by the rules of its own `convertToModelMessages`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from evenflow.fargate_handler.gateway.bodies.json_values import written
from evenflow.fargate_handler.gateway.bodies.returned import returned_fields
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.log.returned_fields import join_fields
from evenflow.stream_core.protocols.ai_sdk.bodies import UIMessage, UIPart
from evenflow.stream_core.protocols.ai_sdk.encoder import METADATA
from evenflow.stream_core.session.conversation import ToolCall, Turn

_DATA_URL = re.compile(r"data:[^,]*;base64,(.*)", re.DOTALL)
_AUDIO_FORMATS = {"mpeg": "mp3", "x-wav": "wav", "wave": "wav"}
_SAID = ("reasoning", "text")
_HAS_RESULT = frozenset({"output-available", "output-error", "output-denied"})


def turns_of(messages: Sequence[UIMessage]) -> tuple[Turn, ...]:
    """The turns of a conversation.

    Raises:
        InvalidRequest: a message has nothing in it, or a tool's call has no result.
    """
    last_user = max(
        (place for place, message in enumerate(messages) if message.role == "user"), default=-1
    )
    turns: list[Turn] = []
    for place, message in enumerate(messages):
        where = f"messages.{place}.parts"
        if message.role == "assistant":
            turns += _assistant(message.parts, where, left_behind=place < last_user)
        elif message.role == "system":
            turns.append(Turn("system", _text(message.parts)))
        else:
            turns.append(_user(message.parts, where))
    return tuple(turns)


def _user(parts: Sequence[UIPart], where: str) -> Turn:
    contents = [(place, part) for place, part in enumerate(parts) if part.type in ("text", "file")]
    if not contents:
        raise InvalidRequest(
            f"{where} must have a text or a file; nothing was generated",
            code="invalid_field",
            param=where,
        )
    text = _text(parts)
    if all(part.type == "text" for _, part in contents):
        return Turn("user", text)
    given = [
        {"type": "text", "text": part.text}
        if part.type == "text"
        else _file(part, f"{where}.{place}.url")
        for place, part in contents
    ]
    return Turn("user", text, parts=tuple(given))


def _text(parts: Sequence[UIPart]) -> str:
    return "".join(part.text for part in parts if part.type == "text")


def _file(part: UIPart, where: str) -> dict[str, Any]:
    """A file as a part of OpenAI's API."""
    kind, _, form = part.media_type.partition("/")
    if kind == "image" and part.url:
        return {"type": "image_url", "image_url": {"url": part.url}}
    inline = _DATA_URL.fullmatch(part.url)
    if inline is None:
        raise InvalidRequest(
            f"{where} must be a data URL with base64, as only images are taken by their address; "
            "nothing was generated",
            code="unsupported_value",
            param=where,
        )
    if kind == "audio":
        sound = {"data": inline[1], "format": _AUDIO_FORMATS.get(form, form)}
        return {"type": "input_audio", "input_audio": sound}
    file = {"filename": part.filename or "file", "file_data": part.url}
    return {"type": "file", "file": file}


def _assistant(parts: Sequence[UIPart], where: str, *, left_behind: bool) -> Iterator[Turn]:
    """The turns of an answer: one for each of its steps, each with its tools' results.

    Args:
        left_behind: whether a later message is the user's. Calls without a result are then left
            out, since no answer to them will come.
    """
    step: list[tuple[str, UIPart]] = []
    for place, part in enumerate(parts):
        if part.type == "step-start":
            yield from _step(step, left_behind=left_behind)
            step = []
        elif part.type == "steering-message":
            yield from _step(step, left_behind=left_behind)
            step = []
            yield _user(part.parts or [], f"{where}.{place}.parts")
        else:
            step.append((f"{where}.{place}", part))
    yield from _step(step, left_behind=left_behind)


def _step(step: Sequence[tuple[str, UIPart]], *, left_behind: bool) -> Iterator[Turn]:
    calls: list[ToolCall] = []
    results: list[Turn] = []
    extra: dict[str, Any] = {}
    for where, part in step:
        if (name := _tool_name(part)) and part.state != "input-streaming":
            result = _result(part, where)
            if result is None and left_behind:
                continue
            if result is None:
                raise InvalidRequest(
                    f"{where} is a tool's call without a result; nothing was generated, add its "
                    "output",
                    code="invalid_field",
                    param=where,
                )
            given = written(part.input or {}, f"{where}.input")
            calls.append(ToolCall(part.tool_call_id, name, given, _kept(part, where)))
            results.append(Turn("tool", result, tool_call_id=part.tool_call_id))
        elif part.type in _SAID:
            extra = join_fields(extra, _kept(part, where))
    text = _text([part for _, part in step])
    if text or calls:
        yield Turn("assistant", text, tuple(calls), extra=extra)
        yield from results


def _tool_name(part: UIPart) -> str:
    """The tool of a call. Empty for another part."""
    if part.type == "dynamic-tool":
        return part.tool_name
    return part.type.removeprefix("tool-") if part.type.startswith("tool-") else ""


def _result(part: UIPart, where: str) -> str | None:
    """The result of a call. None if it has none."""
    approval = part.approval
    is_rejected = approval is not None and approval.approved is False
    if part.state not in _HAS_RESULT and not is_rejected:
        return None
    if part.state == "output-error":
        return part.error_text
    if part.state == "output-denied" or is_rejected:
        return (approval and approval.reason) or "The user did not allow this call."
    return part.output if isinstance(part.output, str) else written(part.output, f"{where}.output")


def _kept(part: UIPart, where: str) -> dict[str, Any]:
    """The server's fields that the client returns with this part."""
    is_call = part.call_provider_metadata is not None
    kept = (part.call_provider_metadata or part.provider_metadata or {}).get(METADATA, {})
    file = "callProviderMetadata" if is_call else "providerMetadata"
    return returned_fields(kept, part.text, f"{where}.{file}.{METADATA}")
