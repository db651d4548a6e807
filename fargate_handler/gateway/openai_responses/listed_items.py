"""`GET /v1/responses/{id}/input_items`: the turns of a request, as items."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from itertools import accumulate
from typing import Any

from evenflow.fargate_handler.gateway.openai_responses.request import own_turns
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.http.http_contract import whole_number
from evenflow.stream_core.protocols.openai_responses.ids import PublicResponse
from evenflow.stream_core.protocols.openai_responses.namespaces import (
    Namespaces,
    name_fields,
    namespaces_of,
)
from evenflow.stream_core.session.conversation import Turn

_MAX_LIMIT, _DEFAULT_LIMIT = 100, 20
_ITEM, _MAX_DIGITS = "item", 10


def listed_items(
    response: PublicResponse, request: WholeRequest, query: Mapping[str, str]
) -> dict[str, Any]:
    """A page of a request's items. The newest come first, unless `order` is `asc`.

    Only the items of the page are built: a request may have thousands.

    Raises:
        InvalidRequest: the query is wrong.
    """
    turns = own_turns(request)
    ends = list(accumulate(map(_item_count, turns)))  # the number of items up to each turn
    total = ends[-1] if ends else 0
    places = range(total) if query.get("order", "desc") == "asc" else range(total - 1, -1, -1)
    limit = min(_MAX_LIMIT, whole_number("limit", query.get("limit"), _DEFAULT_LIMIT, lowest=1))
    first = (
        0 if (after_id := query.get("after")) is None else _place(after_id, response, places) + 1
    )
    spaces = namespaces_of(request.echo.get("tools", ()))
    items_of_turn: dict[int, list[dict[str, Any]]] = {}
    page = []
    for place in places[first : first + limit]:
        turn = bisect_right(ends, place)
        if turn not in items_of_turn:
            items_of_turn[turn] = list(_items_of(turns[turn], spaces))
        item = items_of_turn[turn][place - ends[turn]]  # a negative index: from the last item
        page.append({"id": response.item(_ITEM, place), "status": "completed", **item})
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": first + limit < total,
    }


def _place(item_id: str, response: PublicResponse, places: range) -> int:
    """The index of an item in the order of the query."""
    number = item_id.rpartition("_")[2]
    if number.isascii() and number.isdecimal() and len(number) < _MAX_DIGITS:
        place = int(number)
        if place in places and item_id == response.item(_ITEM, place):
            return places.index(place)
    raise InvalidRequest(
        "after must be the id of one of the items", code="invalid_field", param="after"
    )


def _item_count(turn: Turn) -> int:
    """The number of items that `_items_of` makes of a turn."""
    calls = len(turn.tool_calls) + len(turn.extra.get("tool_calls", ()))
    if turn.role == "tool":
        return 1
    return calls + (turn.role != "assistant" or bool(turn.text) or not calls)


def _items_of(turn: Turn, spaces: Namespaces) -> Iterator[dict[str, Any]]:
    if turn.role == "tool":
        output = _content(turn, "input") if turn.parts else turn.text
        yield {"type": "function_call_output", "call_id": turn.tool_call_id, "output": output}
        return
    extra_calls = turn.extra.get("tool_calls", ())
    if turn.role != "assistant":
        yield {"type": "message", "role": turn.role, "content": _content(turn, "input")}
    elif turn.text or not (turn.tool_calls or extra_calls):
        yield {"type": "message", "role": "assistant", "content": _content(turn, "output")}
    for call in turn.tool_calls:
        name_and_space = name_fields(call.name, spaces)
        yield call.extra | _function_call(call.id, name_and_space, call.arguments)
    for call in extra_calls:
        if call["type"] == "function":
            function = call["function"]
            name_and_space = name_fields(function["name"], spaces)
            yield _function_call(call["id"], name_and_space, function["arguments"])
        else:
            name_and_space = name_fields(call["custom"]["name"], spaces)
            fields = {"call_id": call["id"], **call["custom"], **name_and_space}
            yield {"type": "custom_tool_call", **fields}


def _function_call(call_id: str, name_and_space: dict[str, str], arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, **name_and_space, "arguments": arguments}


def _content(turn: Turn, direction: str) -> list[dict[str, Any]]:
    if not turn.parts:
        return [_text(turn.text, direction)]
    return [_part(part, direction) for part in turn.parts]


def _text(text: str, direction: str) -> dict[str, Any]:
    item = {"type": f"{direction}_text", "text": text}
    return item | {"annotations": []} if direction == "output" else item


def _part(part: Mapping[str, Any], direction: str) -> dict[str, Any]:
    match part["type"]:
        case "text":
            return _text(part["text"], direction)
        case "image_url":
            image = part["image_url"]
            detail = image.get("detail", "auto")
            return {"type": "input_image", "image_url": image["url"], "detail": detail}
        case "file":
            return {"type": "input_file", **part["file"]}
    return dict(part)
