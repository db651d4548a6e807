from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from evenflow.stream_core.encoding.blocks import Block
from evenflow.stream_core.log.entries import PartKind
from evenflow.stream_core.protocols.openai_responses.ids import PublicResponse
from evenflow.stream_core.protocols.openai_responses.namespaces import joined_name, namespaces_of
from evenflow.stream_core.protocols.openai_responses.output_items import whole_item

_PUBLIC = PublicResponse(f"rsp_{7:032x}", f"{9:040x}")
_TOOLS: list[dict[str, Any]] = [
    {"type": "function", "name": "find"},
    {"type": "namespace", "name": "mcp__crm__", "tools": [{"type": "function", "name": "find"}]},
]


def test_a_call_has_the_namespace_and_the_name_of_its_function() -> None:
    spaces = namespaces_of(_TOOLS)
    calls = [Block(0, PartKind.CALL, id="c", name=name) for name in ("mcp__crm__find", "find")]
    inner, plain = (whole_item(_PUBLIC, call, "completed", spaces) for call in calls)
    assert (inner["namespace"], inner["name"]) == ("mcp__crm__", "find")
    assert (plain["name"], "namespace" in plain) == ("find", False)


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_joined_name_is_one_that_servers_take(namespace: str, name: str) -> None:
    joined = joined_name(namespace, name)
    assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", joined)
    assert joined == joined_name(namespace, name)


def test_long_and_odd_names_stay_different() -> None:
    names = {joined_name("n" * 60, name) for name in ("find", "fine", "f.d", "f d")}
    assert len(names | {joined_name("a.b", "c"), joined_name("a b", "c")}) == 6
