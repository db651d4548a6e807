"""Which block a value belongs to."""

from __future__ import annotations

import pytest

from evenflow.stream_core.encoders.blocks import Begin, Block, Blocks
from evenflow.stream_core.log.entries import Content, Kind, Part

_SOURCE = Part(Kind.DATA, '{"url":"https://a"}', name="source")
_LOGPROBS = Part(Kind.DATA, '{"content":[]}', name="logprobs")
_REASONING = Part(Kind.REASONING, "so")


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
    ],
    ids=["within", "before", "of the open one", "of the next token", "of the same block"],
)
def test_a_value_belongs_to(contents: list[Content], values: list[list[Part]]) -> None:
    assert [block.values for block in _blocks(contents)] == values
