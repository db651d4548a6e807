"""Which block a value belongs to."""

from __future__ import annotations

from typing import Any

import pytest

from evenflow.stream_core.encoding.blocks import Begin, Block, Blocks, SealingBlocks
from evenflow.stream_core.log.entries import CALL_EXTRA, CHUNK_EXTRA, EXTRA, Content, Part, PartKind
from evenflow.stream_core.log.returned_fields import detail_of

_SOURCE = Part(PartKind.DATA, '{"url":"https://a"}', name="source")
_LOGPROBS = Part(PartKind.DATA, '{"content":[]}', name="logprobs")
_CHUNK = Part(PartKind.DATA, '{"chunk":{"a":1}}', name=CHUNK_EXTRA)
_REASONING = Part(PartKind.REASONING, "so")


def _blocks(contents: list[Content]) -> list[Block]:
    blocks = Blocks()
    events = [event for content in contents for event in blocks.take(content)]
    return [event.block for event in events if isinstance(event, Begin)]


@pytest.mark.parametrize(
    ("contents", "values"),
    [
        (["a", _SOURCE, "b"], [[_SOURCE]]),
        ([_SOURCE, "a"], [[_SOURCE]]),
        ([_REASONING, _SOURCE, "a"], [[_SOURCE], []]),
        ([_REASONING, _LOGPROBS, "a"], [[], [_LOGPROBS]]),
        (["a", _LOGPROBS, "b", _REASONING], [[_LOGPROBS], []]),
        (["a", _CHUNK], [[]]),
    ],
    ids=["within", "before", "of the open one", "of the next token", "of the same block", "none"],
)
def test_a_value_belongs_to(contents: list[Content], values: list[list[Part]]) -> None:
    assert [block.values for block in _blocks(contents)] == values


_EXTRA = Part(PartKind.DATA, '{"extra_content":{"a":1}}', name=EXTRA)
_MORE = Part(PartKind.DATA, '{"reasoning_details":[7]}', name=EXTRA)
_OF_CALL = Part(PartKind.DATA, '{"extra_content":{"b":1}}', call=1, name=CALL_EXTRA)
_CALL = Part(PartKind.CALL, call=1, id="c", name="f")
_END = Part(PartKind.CALL_END, call=1)


@pytest.mark.parametrize(
    ("contents", "blocks"),
    [
        ([_REASONING, _EXTRA, "a"], [("reasoning", {"extra_content": {"a": 1}}), ("text", {})]),
        (
            ["a", _EXTRA, "b", _MORE],
            [("text", {"extra_content": {"a": 1}, "reasoning_details": [7]})],
        ),
        ([_EXTRA, "a"], [("silent", {"extra_content": {"a": 1}}), ("text", {})]),
        (
            [_EXTRA, _MORE, _REASONING],
            [
                ("silent", {"extra_content": {"a": 1}}),
                ("silent", {"reasoning_details": [7]}),
                ("reasoning", {}),
            ],
        ),
        ([_OF_CALL, "a", _CALL], [("text", {}), ("call", {"extra_content": {"b": 1}})]),
        ([_CALL, _OF_CALL, _END], [("call", {"extra_content": {"b": 1}})]),
        (
            [_CALL, _EXTRA, _MORE, _END],
            [("call", {}), ("silent", {"extra_content": {"a": 1}, "reasoning_details": [7]})],
        ),
        ([Part(PartKind.RESULT, "3", id="c", name=EXTRA), "a"], [("text", {})]),
    ],
    ids=[
        *("of a reasoning", "of a text", "before a text", "each of its own", "before a call"),
        *("within a call", "behind a call", "no fields"),
    ],
)
def test_fields_that_the_server_needs_back_belong_to(
    contents: list[Content], blocks: list[tuple[str, dict[str, Any]]]
) -> None:
    told = [
        ("silent" if block.silent else str(block.kind), block.extra) for block in _blocks(contents)
    ]
    assert told == blocks


def test_what_is_told_again_otherwise_is_another_reasoning() -> None:
    one, other = (
        Part(PartKind.REASONING, "x", id=detail_of("d", {"index": index}, "text"), name="reasoning")
        for index in (0, 1)
    )
    first, second = _blocks([one, one, other])
    assert (first.text, second.text) == ("xx", "x")
    assert first.returned == {"field": "reasoning", "detail": one.id}


def test_fields_of_a_call_are_a_silent_reasoning_before_it_where_calls_are_sealed() -> None:
    blocks = SealingBlocks()
    contents: list[Content] = ["a", _OF_CALL, _CALL]
    events = [event for content in contents for event in blocks.take(content)]
    _, silent, call = [event.block for event in events if isinstance(event, Begin)]
    assert (silent.silent, silent.returned) == (True, {"call": {"extra_content": {"b": 1}}})
    assert call.returned == {"extra": {"extra_content": {"b": 1}}}
    assert [block.number for block in blocks.open] == [2]
