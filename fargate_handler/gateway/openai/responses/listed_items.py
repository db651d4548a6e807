"""`GET /v1/responses/{id}/input_items`: a request's own turns as items again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from evenflow.fargate_handler.gateway.openai.responses.response_request import own_turns
from evenflow.fargate_handler.orchestrator.whole_request import WholeRequest
from evenflow.stream_core.encoders.responses.namespaces import (
    Namespaces,
    name_fields,
    namespaces_of,
)
from evenflow.stream_core.log.conversation import Turn
from evenflow.stream_core.protocol.errors import InvalidRequest
from evenflow.stream_core.protocol.http_contract import whole_number
from evenflow.stream_core.protocol.response_ids import PublicResponse

_MOST, _DEFAULT = 100, 20


def listed_items(
    response: PublicResponse, asked: WholeRequest, query: Mapping[str, str]
) -> dict[str, Any]:
    """The page of items that a query asks for. The newest come first, unless it says `asc`.

    Raises:
        InvalidRequest: the query is wrong.
    """
    spaces = namespaces_of(asked.echo.get("tools", ()))
    own_items = (item for turn in own_turns(asked) for item in _items_of(turn, spaces))
    items = [
        {"id": response.item("item", place), "status": "completed", **item}
        for place, item in enumerate(own_items)
    ]
    if query.get("order", "desc") != "asc":
        items.reverse()
    limit = min(_MOST, whole_number("limit", query.get("limit"), _DEFAULT, lowest=1))
    page = _after(items, query.get("after"))
    shown = page[:limit]
    return {
        "object": "list",
        "data": shown,
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
        "has_more": len(page) > limit,
    }


def _after(items: list[dict[str, Any]], after: str | None) -> list[dict[str, Any]]:
    if after is None:
        return items
    ids = [item["id"] for item in items]
    if after not in ids:
        raise InvalidRequest(
            "after must be the id of one of the items", code="invalid_field", param="after"
        )
    return items[ids.index(after) + 1 :]


def _items_of(turn: Turn, spaces: Namespaces) -> Iterator[dict[str, Any]]:
    if turn.role == "tool":
        said = _content(turn, "input") if turn.parts else turn.text
        yield {"type": "function_call_output", "call_id": turn.tool_call_id, "output": said}
        return
    made = turn.extra.get("tool_calls", ())
    if turn.role != "assistant":
        yield {"type": "message", "role": turn.role, "content": _content(turn, "input")}
    elif turn.text or not (turn.tool_calls or made):
        yield {"type": "message", "role": "assistant", "content": _content(turn, "output")}
    for call in turn.tool_calls:
        named = name_fields(call.name, spaces)
        yield call.extra | _function_call(call.id, named, call.arguments)
    for call in made:
        if call["type"] == "function":
            function = call["function"]
            named = name_fields(function["name"], spaces)
            yield _function_call(call["id"], named, function["arguments"])
        else:
            named = name_fields(call["custom"]["name"], spaces)
            given = {"call_id": call["id"], **call["custom"], **named}
            yield {"type": "custom_tool_call", **given}


def _function_call(call_id: str, named: dict[str, str], arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, **named, "arguments": arguments}


def _content(turn: Turn, whose: str) -> list[dict[str, Any]]:
    if not turn.parts:
        return [_text(turn.text, whose)]
    return [_part(part, whose) for part in turn.parts]


def _text(text: str, whose: str) -> dict[str, Any]:
    told = {"type": f"{whose}_text", "text": text}
    return told | {"annotations": []} if whose == "output" else told


def _part(part: Mapping[str, Any], whose: str) -> dict[str, Any]:
    match part["type"]:
        case "text":
            return _text(part["text"], whose)
        case "image_url":
            image = part["image_url"]
            detail = image.get("detail", "auto")
            return {"type": "input_image", "image_url": image["url"], "detail": detail}
        case "file":
            return {"type": "input_file", **part["file"]}
    return dict(part)
