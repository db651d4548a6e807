from __future__ import annotations

from hypothesis import given

from evenflow.stream_core.encoding.blocks import (
    Begin,
    Block,
    BlockEvent,
    Blocks,
    Delta,
    End,
    SealingBlocks,
    Value,
)
from evenflow.stream_core.encoding.serial_blocks import SerialBlocks
from evenflow.stream_core.log.entries import Content, Part, PartKind, joined
from tests.unit.stream_core.log.contents import CONTENTS

_BEGIN = Part(PartKind.CALL, id="call_1", name="add")
_SOURCE = Part(PartKind.DATA, '{"url":"https://example.org/"}', name="source")


def told(blocks: Blocks, *contents: Content) -> list[str]:
    """What the contents do, a short word each."""
    return [_word(event) for content in contents for event in blocks.take(content)]


def _word(event: BlockEvent) -> str:
    if isinstance(event, Begin):
        return f"begin {event.block.number} {event.block.kind}"
    if isinstance(event, Delta):
        return f"{event.block.number} {event.text}"
    if isinstance(event, End):
        return f"end {event.block.number}"
    return f"value {event.part.name} in {event.block.number if event.block else None}"


def test_text_is_a_block_to_the_end_of_the_answer() -> None:
    blocks = Blocks()
    assert told(blocks, "a", "b") == ["begin 0 text", "0 a", "0 b"]
    assert [_word(event) for event in blocks.end()] == ["end 0"]
    assert not blocks.open


def test_a_block_of_text_ends_where_another_begins() -> None:
    blocks = Blocks()
    assert told(blocks, Part(PartKind.REASONING, "x"), "a", _BEGIN) == [
        *("begin 0 reasoning", "0 x"),
        *("end 0", "begin 1 text", "1 a"),
        *("end 1", "begin 2 call"),
    ]


def test_a_call_ends_where_it_is_said() -> None:
    blocks = Blocks()
    arguments = Part(PartKind.ARGUMENTS, "{}")
    assert told(blocks, _BEGIN, arguments, Part(PartKind.CALL_END), arguments) == [
        *("begin 0 call", "0 {}", "end 0")
    ]


def test_calls_may_be_open_side_by_side() -> None:
    blocks = Blocks()
    other = Part(PartKind.CALL, call=1, id="call_2", name="now")
    told(blocks, _BEGIN, other)
    assert told(blocks, Part(PartKind.ARGUMENTS, "1"), Part(PartKind.ARGUMENTS, "2", call=1)) == [
        *("0 1", "1 2")
    ]
    assert [block.id for block in blocks.open] == ["call_1", "call_2"]
    assert [_word(event) for event in blocks.end()] == ["end 0", "end 1"]


def test_data_belongs_to_the_text_that_it_comes_with() -> None:
    blocks = Blocks()
    assert told(blocks, _SOURCE, "a", _SOURCE, "b") == [
        *("value source in None", "begin 0 text", "0 a", "value source in 0", "0 b")
    ]


def test_later_choices_are_left_out() -> None:
    assert told(Blocks(), Part(PartKind.TEXT, "a", choice=1)) == []


@given(CONTENTS)
def test_every_block_begins_once_ends_once_and_has_its_whole_text(contents: list[Content]) -> None:
    blocks = Blocks()
    events = [event for content in contents for event in blocks.take(content)] + blocks.end()
    open_blocks: dict[int, list[str]] = {}
    begun: list[Block] = []
    for event in events:
        if isinstance(event, Begin):
            assert event.block.number == len(begun)
            begun.append(event.block)
            open_blocks[event.block.number] = []
        elif isinstance(event, Delta):
            open_blocks[event.block.number].append(event.text)
        elif isinstance(event, End):
            assert "".join(open_blocks.pop(event.block.number)) == event.block.text
    assert not open_blocks


@given(CONTENTS)
def test_blocks_do_not_depend_on_how_the_contents_are_joined(contents: list[Content]) -> None:
    def whole(given: list[Content]) -> list[object]:
        blocks = Blocks()
        events = [event for content in given for event in blocks.take(content)] + blocks.end()
        return [
            (event.block.kind, event.block.id, event.block.text)
            if isinstance(event, End)
            else event.part
            for event in events
            if isinstance(event, End | Value)
        ]

    assert whole(contents) == whole(list(joined(contents)))


def test_of_serial_blocks_each_begins_where_the_one_before_has_ended() -> None:
    blocks = SerialBlocks()
    other = Part(PartKind.CALL, call=1, id="call_2", name="now")
    contents: list[Content] = [
        *(_BEGIN, "a", other, Part(PartKind.ARGUMENTS, "2", call=1), Part(PartKind.ARGUMENTS, "1")),
        Part(PartKind.CALL_END, call=1),
    ]
    assert told(blocks, *contents) == ["begin 0 call", "0 1"]
    assert [block.id for block in blocks.open] == ["call_1"]
    assert blocks.text is None
    assert told(blocks, Part(PartKind.CALL_END), "b") == [
        *("end 0", "begin 1 text", "1 a", "end 1", "begin 2 call", "2 2", "end 2"),
        *("begin 3 text", "3 b"),
    ]


@given(CONTENTS)
def test_serial_blocks_are_the_same_blocks_in_the_same_order(contents: list[Content]) -> None:
    serial, side_by_side = SerialBlocks(), SealingBlocks()
    in_turn = [event for content in contents for event in serial.take(content)] + serial.end()
    events = [event for content in contents for event in side_by_side.take(content)]
    events += side_by_side.end()

    def of_block(among: list[BlockEvent], number: int) -> list[str]:
        return [_word(event) for event in among if event.block and event.block.number == number]

    numbers = [event.block.number for event in events if isinstance(event, Begin)]
    assert [event.block.number for event in in_turn if isinstance(event, Begin)] == numbers
    assert [event.block.number for event in in_turn if isinstance(event, End)] == numbers
    for number in numbers:
        assert of_block(in_turn, number) == of_block(events, number)
