"""The items of a request, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.fargate_handler.gateway.openai_responses import listed_items as module
from evenflow.fargate_handler.gateway.openai_responses.listed_items import listed_items
from evenflow.fargate_handler.orchestrator.incoming_message import WholeRequest
from evenflow.stream_core.base.errors import InvalidRequest
from evenflow.stream_core.protocols.openai_responses.ids import PublicResponse
from evenflow.stream_core.protocols.openai_responses.namespaces import namespaces_of
from evenflow.stream_core.session.conversation import ToolCall, Turn

_RESPONSE = PublicResponse("rsp_" + "a" * 32, "b" * 40)
_CALL = ToolCall("c1", "f", "{}")
_CUSTOM = {"id": "c2", "type": "custom", "custom": {"name": "g", "input": "x"}}
_TURNS = (
    Turn("user", "Hello"),
    Turn("assistant", "Hi", (_CALL, _CALL)),
    Turn("assistant", "", (_CALL,)),
    Turn("assistant", ""),
    Turn("assistant", "", extra={"tool_calls": [_CUSTOM, _CUSTOM]}),
    Turn("tool", "7", tool_call_id="c1"),
    Turn("system", ""),
)


def _asked(turns: tuple[Turn, ...]) -> WholeRequest:
    earlier = Turn("user", "of an earlier request")
    return WholeRequest((earlier, *turns), echo={"own_turns": len(turns)})


def _pages(turns: tuple[Turn, ...], order: str, limit: int) -> list[dict[str, Any]]:
    """All items, read page by page."""
    items: list[dict[str, Any]] = []
    query = {"order": order, "limit": str(limit)}
    while True:
        page = listed_items(_RESPONSE, _asked(turns), query)
        items += page["data"]
        if not page["has_more"]:
            return items
        assert len(page["data"]) == limit
        query["after"] = page["last_id"]


@given(st.lists(st.sampled_from(_TURNS), max_size=8).map(tuple), st.integers(1, 7))
def test_pages_are_the_whole_list_in_either_order(turns: tuple[Turn, ...], limit: int) -> None:
    forward, backward = (_pages(turns, order, limit) for order in ("asc", "desc"))
    assert forward == backward[::-1]
    assert [item["id"] for item in forward] == [
        _RESPONSE.item("item", place) for place in range(len(forward))
    ]
    made = [item for turn in turns for item in module._items_of(turn, namespaces_of(()))]
    assert [{**item, "id": 0} for item in forward] == [
        {"id": 0, "status": "completed", **item} for item in made
    ]


def test_only_the_items_of_the_page_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Turn] = []
    whole = module._items_of

    def noting(turn: Turn, spaces: Any) -> Iterator[dict[str, Any]]:
        made.append(turn)
        return whole(turn, spaces)

    monkeypatch.setattr(module, "_items_of", noting)
    page = listed_items(_RESPONSE, _asked(_TURNS * 500), {"limit": "2"})
    assert [item["role"] for item in page["data"] if "role" in item] == ["system"]
    assert len(made) == 2


@pytest.mark.parametrize(
    "after",
    [
        *("", "item", "item_1", "x_1", _RESPONSE.item("item", 99), _RESPONSE.item("msg", 1)),
        *(_RESPONSE.item("item", 1) + "0" * 12, _RESPONSE.item("item", 0).removesuffix("0") + "²"),
    ],
)
def test_what_is_no_item_of_it_is_refused(after: str) -> None:
    with pytest.raises(InvalidRequest):
        listed_items(_RESPONSE, _asked(_TURNS), {"after": after})
