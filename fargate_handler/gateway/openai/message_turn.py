"""A message of a request as a turn of the conversation."""

from __future__ import annotations

from typing import Any

from fargate_handler.gateway.openai.passed_json import check_json
from fargate_handler.gateway.openai.tool_parameters import check_call_fields, made_calls
from stream_core.completion_bodies import ROLES, ContentPart, RequestMessage
from stream_core.conversation import Turn, text_of_parts
from stream_core.errors import InvalidRequest

# Of answers, and nothing that a model is told: clients send back the message that they were given.
_OF_ANSWERS = frozenset({"annotations", "images", "parsed", "provider_specific_fields"})
_PLAIN = {"type", "text"}


def turn_of(message: RequestMessage, where: str) -> Turn:
    """One message.

    Args:
        where: its place in the request, with a dot at its end.

    Raises:
        InvalidRequest: its role is none, it says nothing, or its calls make no sense.
    """
    if message.role not in ROLES:
        raise InvalidRequest(
            f"{where}role must be one of {', '.join(ROLES)}; nothing was generated",
            code="unsupported_value",
            param=f"{where}role",
        )
    check_call_fields(message, where)
    calls, extra = made_calls(message), _extra(message, where)
    if message.tool_calls and not calls:
        extra["tool_calls"] = [call.model_dump(exclude_unset=True) for call in message.tool_calls]
        check_json(extra["tool_calls"], f"{where}tool_calls")
    text, parts = _content(message, f"{where}content")
    return Turn(ROLES[message.role], text, calls, message.tool_call_id or "", parts, extra)


def _extra(message: RequestMessage, where: str) -> dict[str, Any]:
    given = (message.model_extra or {}).items()
    extra = {name: value for name, value in given if value is not None and name not in _OF_ANSWERS}
    for name, value in extra.items():
        check_json(value, f"{where}{name}")
    return extra


def _content(message: RequestMessage, where: str) -> tuple[str, tuple[dict[str, Any], ...]]:
    """The text, and the parts where they are more than that."""
    content = message.content
    if isinstance(content, str):
        return content, ()
    if not content:
        # An assistant may have called, refused or spoken instead.
        if message.role == "assistant" and (message.tool_calls or message.model_extra):
            return "", ()
        raise InvalidRequest(f"{where} must be text; nothing was generated", code="invalid_field", param=where)
    parts = tuple(_part(part, f"{where}.{place}") for place, part in enumerate(content))
    text = text_of_parts(parts)
    return text, () if all(part["type"] == "text" and part.keys() == _PLAIN for part in parts) else parts


def _part(part: ContentPart, where: str) -> dict[str, Any]:
    if part.type == "text" and part.text is None:
        raise InvalidRequest(
            f"{where}.text must be there in a part of type text; nothing was generated",
            code="invalid_field",
            param=f"{where}.text",
        )
    given = part.model_dump(exclude_unset=True)
    check_json(given, where)
    return given
