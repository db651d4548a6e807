"""Parts as JSON objects."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given

from evenflow.stream_core.log.entries import CUSTOM, Content, NotAPart, Part, PartKind
from evenflow.stream_core.protocols.evenflow.part_objects import PartObject, part_json, part_object
from tests.unit.stream_core.log.contents import CONTENT


@given(CONTENT)
def test_an_object_says_everything(content: Content) -> None:
    if isinstance(content, Part):
        assert PartObject.model_validate(part_object(content)).to_part() == content
        assert part_json(content) == orjson.dumps(part_object(content))


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (
            Part(PartKind.REASONING, "hm", name="reasoning"),
            {"kind": "reasoning", "text": "hm", "name": "reasoning"},
        ),
        (Part(PartKind.TEXT, "a", choice=1), {"kind": "text", "text": "a", "choice": 1}),
        (
            Part(PartKind.CALL, id="call_1", name="add"),
            {"kind": "call", "call": 0, "id": "call_1", "name": "add"},
        ),
        (
            Part(PartKind.CALL, CUSTOM, call=1, id="call_2", name="sql"),
            {"kind": "call", "call": 1, "id": "call_2", "name": "sql", "custom": True},
        ),
        (Part(PartKind.ARGUMENTS, "{", call=1), {"kind": "arguments", "text": "{", "call": 1}),
        (Part(PartKind.CALL_END), {"kind": "call_end", "call": 0}),
        (
            Part(PartKind.RESULT, "", id="call_1", name="add"),
            {"kind": "result", "text": "", "id": "call_1", "name": "add"},
        ),
        (
            Part(PartKind.DATA, '{"url":"https://example.org/"}', name="source"),
            {"kind": "data", "value": {"url": "https://example.org/"}, "name": "source"},
        ),
        (Part(PartKind.DATA, "null", name="x"), {"kind": "data", "value": None, "name": "x"}),
    ],
    ids=lambda each: each.kind if isinstance(each, Part) else "",
)
def test_only_the_fields_that_apply_are_said(part: Part, said: dict[str, Any]) -> None:
    assert part_object(part) == said
    assert PartObject.model_validate(said).to_part() == part


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ({}, "kind"),
        ({"kind": "picture"}, "kind"),
        ({"kind": "reasoning", "text": 7}, "text"),
        ({"kind": "call", "call": 0, "name": "add"}, "without a name or an id"),
        ({"kind": "call_end", "call": 1_000_000}, "out of range"),
        ({"kind": "data", "value": 1}, "without a name"),
        ({"kind": "data", "name": "n", "value": 2**70}, "can't be written as JSON"),
    ],
)
def test_what_is_no_part_is_refused(said: dict[str, Any], what: str) -> None:
    with pytest.raises(ValueError, match=what):
        PartObject.model_validate(said).to_part()


def test_data_is_json() -> None:
    with pytest.raises(NotAPart, match="not JSON"):
        Part(PartKind.DATA, "{", name="source").check()
