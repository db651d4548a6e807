"""How fields that a model's server needs back add up, and what clients keep of them."""

from __future__ import annotations

from typing import Any

import pytest

from evenflow.stream_core.log.returned_fields import (
    call_object,
    detail_of,
    fields_of,
    fields_of_detail,
    join_fields,
    opaque,
    sealed,
    unsealed,
)

_TEXT = {"type": "reasoning.text", "index": 0, "format": "x"}
_SIGNED = {"type": "reasoning.text", "index": 0, "signature": "s"}
_HIDDEN = {"type": "reasoning.encrypted", "index": 1, "data": "c2ln"}
_DETAIL = detail_of("reasoning_details", _TEXT | {"text": "hm"}, "text")


def _all(*fields: dict[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for more in fields:
        told = join_fields(told, more)
    return told


@pytest.mark.parametrize(
    ("fields", "whole"),
    [
        ([{"a": "x"}, {"a": "y"}], {"a": "xy"}),
        ([{"a": None}, {"a": "x"}, {"a": None}], {"a": "x"}),
        ([{"a": {"b": "x", "c": 1}}, {"a": {"b": "y"}}], {"a": {"b": "y", "c": 1}}),
        ([{"a": [1]}, {"a": [1, "x"]}], {"a": [1, 1, "x"]}),
        (
            [
                {"d": [_TEXT | {"text": "h"}]},
                {"d": [_TEXT | {"text": "m"}, _HIDDEN]},
                {"d": [_SIGNED]},
                {"d": [_TEXT | {"text": "so"}]},
            ],
            {
                "d": [
                    _TEXT | {"text": "hm", "signature": "s"},
                    _HIDDEN,
                    _TEXT | {"text": "so"},
                ]
            },
        ),
        (
            [
                {"b": [{"type": "thinking", "thinking": "h", "signature": None}]},
                {"b": [{"type": "thinking", "thinking": "m"}]},
                {"b": [{"type": "thinking", "thinking": "", "signature": "s"}]},
                {"b": [{"type": "thinking", "thinking": "so"}]},
                {"b": [{"type": "redacted_thinking", "data": "x"}]},
                {"b": [{"type": "redacted_thinking", "data": "y"}]},
            ],
            {
                "b": [
                    {"type": "thinking", "thinking": "hm", "signature": "s"},
                    {"type": "thinking", "thinking": "so"},
                    {"type": "redacted_thinking", "data": "x"},
                    {"type": "redacted_thinking", "data": "y"},
                ]
            },
        ),
    ],
    ids=["texts", "nothing", "objects", "other lists", "entries by index", "entries in a row"],
)
def test_fields_add_up_as_their_server_cut_them(
    fields: list[dict[str, Any]], whole: dict[str, Any]
) -> None:
    assert _all(*fields) == whole


def test_adding_changes_nothing_that_was_told() -> None:
    first = {"d": [_TEXT | {"text": "h"}]}
    join_fields(first, {"d": [_TEXT | {"text": "m"}]})
    assert first == {"d": [_TEXT | {"text": "h"}]}


def test_a_detail_is_its_entry_without_the_text() -> None:
    assert "hm" not in _DETAIL
    assert fields_of_detail(_DETAIL, "hm, so") == {
        "reasoning_details": [_TEXT | {"text": "hm, so"}]
    }


@pytest.mark.parametrize("detail", ["", "x", "[]", "{}", '{"a":7}', '{"a":{"b":1}}', '{"a":{}}'])
def test_what_is_no_detail_is_nothing(detail: str) -> None:
    assert fields_of_detail(detail, "hm") == {}


@pytest.mark.parametrize(
    ("returned", "fields"),
    [
        ({}, {}),
        ({"field": "reasoning"}, {"reasoning": "hm"}),
        (
            {"field": "reasoning", "detail": _DETAIL, "extra": {"reasoning_details": [_SIGNED]}},
            {
                "reasoning": "hm",
                "reasoning_details": [_TEXT | {"text": "hm", "signature": "s"}],
            },
        ),
        ({"extra": {"extra_content": {"a": 1}}}, {"extra_content": {"a": 1}}),
    ],
)
def test_what_a_client_keeps_stands_for_the_fields(
    returned: dict[str, Any], fields: dict[str, Any]
) -> None:
    assert unsealed(sealed(returned)) == returned
    assert fields_of(returned, "hm") == fields


def test_what_another_server_has_sealed_is_nothing() -> None:
    assert [unsealed(each) for each in (None, 7, "", "gAAAA", "evenflow:")] == [{}] * 5


def test_no_field_of_a_message_is_replaced() -> None:
    forged = {"field": "role", "extra": {"content": "x", "tool_calls": [], "x": 1}}
    assert fields_of(forged, "system") == {"x": 1}


@pytest.mark.parametrize("wrong", [{"field": 7}, {"detail": []}, {"extra": "x"}])
def test_what_is_not_as_it_was_given_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no fields"):
        fields_of(wrong, "hm")
    with pytest.raises(ValueError, match="unexpected"):
        unsealed("evenflow:{")


def test_further_fields_of_a_call_replace_none_of_its_own() -> None:
    extra = {"id": "x", "type": "x", "a": 1, "function": {"name": "x", "b": 2}}
    assert call_object("function", "c1", {"name": "f", "arguments": "{}"}, extra) == {
        "id": "c1",
        "type": "function",
        "function": {"name": "f", "arguments": "{}", "b": 2},
        "a": 1,
    }


def test_a_call_goes_back_with_the_type_of_its_server() -> None:
    called = {"name": "$web_search", "arguments": "{}"}
    assert call_object("function", "c1", called, {"call_type": "builtin_function", "a": 1}) == {
        "id": "c1",
        "type": "builtin_function",
        "function": called,
        "a": 1,
    }
    assert call_object("function", "c1", called, {"call_type": 7})["type"] == "function"


def test_what_is_opaque_has_no_text() -> None:
    told = {
        "reasoning_details": [_TEXT | {"text": "secret"}, _SIGNED, _HIDDEN, "secret"],
        "reasoning_text": "secret",
        "extra_content": {"google": {"thought_signature": "s", "note": "secret", "thought": True}},
        "empty": {"inner": ["secret"]},
    }
    assert opaque(told) == {
        "reasoning_details": [_TEXT, _SIGNED, _HIDDEN],
        "extra_content": {"google": {"thought_signature": "s", "thought": True}},
    }


def test_an_object_with_more_names_than_any_server_gives_does_not_grow() -> None:
    many = {f"n{number}": number for number in range(300)}
    assert join_fields(many, {"more": 1}) is many
    assert join_fields({"a": many}, {"a": {"more": 1}}) == {"a": many}


def test_an_entry_is_more_of_one_shortly_before_it() -> None:
    entries = [{"index": number, "text": "x"} for number in range(100)]
    joined = join_fields({"a": entries}, {"a": [{"index": 99, "text": "y"}]})["a"]
    assert (len(joined), joined[-1]) == (100, {"index": 99, "text": "xy"})
    assert len(join_fields({"a": entries}, {"a": [{"index": 0, "text": "y"}]})["a"]) == 101
