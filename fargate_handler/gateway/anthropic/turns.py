"""Reads the messages of Anthropic's API as turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError

from evenflow.fargate_handler.gateway.bodies.json_values import check_json
from evenflow.fargate_handler.gateway.bodies.returned import (
    Returned,
    further_fields,
    parse_returned,
    with_late_fields,
)
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.log.entries import MOST_CALLS
from evenflow.stream_core.log.returned_fields import join_fields, without_standard_fields
from evenflow.stream_core.protocols.anthropic.bodies import (
    GivenBlock,
    GivenMessage,
    MessagesRequest,
)
from evenflow.stream_core.session.conversation import ToolCall, Turn, text_of_parts

Part = dict[str, Any]


def parts_of(content: str | list[GivenBlock], where: str) -> list[Part]:
    """The text, images and files of a message, or of a tool's result.

    Args:
        where: the path of `content` in the request.

    Raises:
        InvalidRequest: a block is of another type, or is wrong.
    """
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part_of(block, f"{where}.{place}") for place, block in enumerate(content)]


def part_of(block: GivenBlock, where: str) -> Part:
    """One block as a part.

    Raises:
        InvalidRequest: it is no text, image or document, or is wrong.
    """
    given = block.model_dump()
    check_json(given, where)
    match given:
        case {"type": "text", "text": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "image", "source": source}:
            return {"type": "image_url", "image_url": {"url": _url_of_image(source, where)}}
        case {"type": "document", "source": source}:
            if (given.get("citations") or {}).get("enabled"):
                raise unsupported("citations of documents", f"{where}.citations")
            return _document(source, given.get("title"), where)
        case {"type": "text" | "image" | "document"}:
            raise wrong(f"{where} is no whole block of the type {block.type}", where)
    raise unsupported(f"blocks of the type {block.type[:40]!r}", f"{where}.type")


def only_text(parts: list[Part]) -> str | None:
    """The text of parts that are nothing but text. Otherwise None."""
    if any(part["type"] != "text" for part in parts):
        return None
    return "".join(part["text"] for part in parts)


def _url_of_image(source: Any, where: str) -> str:
    match source:
        case {"type": "base64", "media_type": str(kind), "data": str(data)}:
            return f"data:{kind};base64,{data}"
        case {"type": "url", "url": str(url)}:
            return url
    raise _unknown_source(where)


def _document(source: Any, title: object, where: str) -> Part:
    match source:
        case {"type": "text", "data": str(text)}:
            return {"type": "text", "text": text}
        case {"type": "base64", "media_type": str(kind), "data": str(data)}:
            name = title if isinstance(title, str) and title else "document.pdf"
            file = {"filename": name, "file_data": f"data:{kind};base64,{data}"}
            return {"type": "file", "file": file}
    raise _unknown_source(where)


def _unknown_source(where: str) -> InvalidRequest:
    return unsupported("this kind of source", f"{where}.source")


def wrong(what: str, param: str) -> InvalidRequest:
    """The error for a field that is wrong."""
    return InvalidRequest(f"{what}; nothing was generated", code="invalid_field", param=param)


def unsupported(what: str, param: str) -> InvalidRequest:
    """The error for something that Anthropic has and this server has not."""
    return InvalidRequest(
        f"{param[:100]}: {what} are not served here; nothing was generated",
        code="unsupported_parameter",
        param=param[:100],
    )


_BLOCKS = TypeAdapter(list[GivenBlock])
# By type of block: the fields with the thought's text, and with what goes back to the server.
_THOUGHTS = {"thinking": ("thinking", "signature"), "redacted_thinking": ("", "data")}
# Fields of this API or its clients in a call or a text. All others come from the model's server.
_OF_CALLS = frozenset(
    {"type", "id", "name", "input", "cache_control", "caller", "index", "partial_json"}
)
_OF_TEXTS = frozenset({"type", "text", "cache_control", "citations", "index"})


def turns_of(request: MessagesRequest) -> tuple[Turn, ...]:
    """The conversation, beginning with the system's text.

    Raises:
        InvalidRequest: a message is wrong, or a call has no result.
    """
    turns = []
    if request.system:
        turns.append(_turn("system", parts_of(request.system, "system")))
    unanswered, call_path = set[str](), ""
    for place, message in enumerate(request.messages):
        where = f"messages.{place}.content"
        if not message.content:
            raise wrong(f"{where} must not be empty", where)
        if message.role == "assistant":
            turn = _assistant(message, where)
            new, results = [turn], set[str]()
        else:
            new = list(_heard(message, where))
            results = _results(new, unanswered, where)
        if unanswered - results:
            unanswered_ids = ", ".join(sorted(unanswered - results))[:100]
            raise wrong(
                f"{call_path} has calls without a tool_result behind it: {unanswered_ids}",
                call_path,
            )
        unanswered, call_path = {call.id for turn in new for call in turn.tool_calls}, where
        turns += new
    if request.messages[-1].role == "assistant":
        raise unsupported(
            "answers that an assistant's message begins", f"messages.{len(request.messages) - 1}"
        )
    return tuple(turns)


def _results(turns: list[Turn], unanswered: set[str], where: str) -> set[str]:
    """The calls that these turns answer, each once."""
    results = [turn.tool_call_id for turn in turns if turn.role == "tool"]
    for result in results:
        if result not in unanswered or results.count(result) > 1:
            raise wrong(
                f"{where} has a tool_result for {result[:64]!r}, which is no unanswered call of "
                "the message before",
                where,
            )
    return set(results)


def _heard(message: GivenMessage, where: str) -> Iterator[Turn]:
    """The turns of a message of the user or system. Each tool result is a turn, and comes first."""
    if isinstance(message.content, str):
        yield _turn(message.role, parts_of(message.content, where))
        return
    parts = list[Part]()
    for place, block in enumerate(message.content):
        path = f"{where}.{place}"
        if block.type == "tool_result" and message.role == "user":
            yield _result(block, path)
        elif block.type == "mid_conv_system":
            blocks = _blocks(block.model_dump().get("content"), f"{path}.content")
            yield _turn("system", parts_of(blocks, f"{path}.content"))
        else:
            parts.append(part_of(block, path))
    if parts:
        yield _turn(message.role, parts)


def _result(block: GivenBlock, where: str) -> Turn:
    match block.model_dump():
        case {"tool_use_id": str(call), "content": str(text)}:
            return Turn("tool", text, tool_call_id=call)
        case {"tool_use_id": str(call), "content": list(given)}:
            blocks = _blocks(given, f"{where}.content")
            turn = _turn("tool", parts_of(blocks, f"{where}.content"))
            return Turn("tool", turn.text, tool_call_id=call, parts=turn.parts)
        case {"tool_use_id": str(call), **others} if others.get("content") is None:
            return Turn("tool", "", tool_call_id=call)
    raise wrong(f"{where} must have a tool_use_id, and content that is text or blocks", where)


def _assistant(message: GivenMessage, where: str) -> Turn:
    if isinstance(message.content, str):
        return Turn("assistant", message.content)
    parts, calls = list[Part](), list[ToolCall]()
    extra, next_call = dict[str, Any](), dict[str, Any]()
    late_fields = dict[str, dict[str, Any]]()
    for place, block in enumerate(message.content):
        path = f"{where}.{place}"
        if block.type == "tool_use":
            calls.append(_call(block, next_call, path))
            next_call = {}
        elif block.type in _THOUGHTS:
            returned = _thought(block, path)
            extra = join_fields(extra, returned.fields)
            if returned.call_id:
                earlier = late_fields.get(returned.call_id, {})
                late_fields[returned.call_id] = join_fields(earlier, returned.call)
            else:
                next_call = join_fields(next_call, returned.call)
        else:
            parts.append(part_of(block, path))
            if block.type == "text":
                extra = join_fields(extra, _beside_text(block, path))
    if len({call.id for call in calls}) < len(calls) or len(calls) > MOST_CALLS:
        raise wrong(f"{where} must have calls with different ids, at most {MOST_CALLS}", where)
    turn = _turn("assistant", parts)
    whole_calls = tuple(with_late_fields(call, late_fields) for call in calls)
    return Turn("assistant", turn.text, whole_calls, parts=turn.parts, extra=extra)


def _thought(block: GivenBlock, where: str) -> Returned:
    """The server's fields of a thought, and of the call after it."""
    fields, (text_field, kept_field) = block.model_dump(), _THOUGHTS[block.type]
    thought = fields.get(text_field, "")
    text = thought if isinstance(thought, str) else ""
    return parse_returned(fields.get(kept_field), text, f"{where}.{kept_field}")


def _beside_text(block: GivenBlock, where: str) -> dict[str, Any]:
    extra = without_standard_fields(further_fields(block.model_dump(), _OF_TEXTS, f"{where}."))
    return {name: value for name, value in extra.items() if isinstance(value, dict | list)}


def _call(block: GivenBlock, before: dict[str, Any], where: str) -> ToolCall:
    match fields := block.model_dump():
        case {"id": str(call), "name": str(name), "input": dict(given)} if call and name:
            check_json(given, f"{where}.input")
            extra = before | further_fields(fields, _OF_CALLS, f"{where}.")
            return ToolCall(call, name, orjson.dumps(given).decode(), extra)
    raise wrong(f"{where} must have an id, a name, and an input that is an object", where)


def _turn(role: str, parts: list[Part]) -> Turn:
    text = only_text(parts)
    if text is not None:
        return Turn(role, text)
    return Turn(role, text_of_parts(parts), parts=tuple(parts))


def _blocks(given: object, where: str) -> list[GivenBlock]:
    try:
        return _BLOCKS.validate_python(given)
    except ValidationError:
        raise wrong(f"{where} must be a list of blocks", where) from None
