from __future__ import annotations

import pytest

from evenflow.stream_core.base.errors import EvenflowError, UpstreamFailed
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream
from evenflow.stream_core.encoding.block_encoder import BlockEncoder, BlockPlace, WriteDelta
from evenflow.stream_core.encoding.blocks import Block
from evenflow.stream_core.encoding.serial_blocks import SerialBlocks
from evenflow.stream_core.log.entries import Content, Part, PartKind, Restart
from evenflow.stream_core.log.response_log import REPLACES_ALL, ResumePoint
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.stream_core.delivery.test_response_stream import new_stream


class Words:
    """A protocol that says each event in a few words."""

    def __init__(self, *, resets: bool = False) -> None:
        self.resets = resets

    def opening(self, place: BlockPlace, open_blocks: tuple[Block, ...]) -> bytes:
        return _say(place, "opening", *[f"{block.kind}:{block.text}" for block in open_blocks])

    def begin(self, place: BlockPlace, block: Block) -> bytes:
        return _say(place, "begin", block.kind)

    def deltas(self, block: Block, epoch: int) -> WriteDelta:
        return lambda text, first, last: _say(BlockPlace(first, last, epoch), text)

    def end(self, place: BlockPlace, block: Block) -> bytes:
        return _say(place, "end", block.text)

    def value(self, place: BlockPlace, part: Part, block: Block | None) -> bytes:
        return _say(place, part.name)

    def reset(self, place: BlockPlace) -> bytes:
        return _say(place, "reset")

    def finish(self, place: BlockPlace, stream: ResponseStream) -> bytes:
        return _say(place, stream.finish_reason or "")

    def failure(self, error: EvenflowError) -> bytes:
        return error.code.encode()


def _say(place: BlockPlace, *words: str) -> bytes:
    owner = f".{place.epoch}" if place.epoch > 1 else ""
    return f"{place.first}-{place.last}{owner} {' '.join(words)}\n".encode()


def answer(*contents: Content) -> ResponseStream:
    """A response without batches: each content is an entry."""
    stream = new_stream(HandTurnedClock(), Limits(batch_tokens=1))
    push(stream, *contents)
    return stream


def push(stream: ResponseStream, *contents: Content) -> None:
    for content in contents:
        if isinstance(content, str):
            stream.push(content)
        else:
            stream.push_part(content)


def encoder(stream: ResponseStream, next_index: int = 0, *, resets: bool = False) -> BlockEncoder:
    return BlockEncoder(Words(resets=resets), stream, ResumePoint(next_index), 100)


def taken(encoder: BlockEncoder) -> list[str]:
    said = b""
    while data := encoder.take():
        said += data
    return said.decode().splitlines()


def test_an_answer_is_its_blocks_and_its_end() -> None:
    stream = answer(Part(PartKind.REASONING, "x"), "a", "b")
    read = encoder(stream)
    assert read.opening == b"-1--1 opening\n"
    assert taken(read) == [
        *("0-0 begin reasoning", "0-0 x", "1-2 end x", "1-2 begin text", "1-2 ab")
    ]
    push(stream, "c")
    assert taken(read) == ["3-3 c"]
    stream.complete("stop", None)
    assert taken(read) == ["3-3 end abc", "3-3 stop"]
    assert read.ended


def test_who_begins_in_the_middle_of_a_block_is_told_of_it() -> None:
    stream = answer("a", "b")
    read = encoder(stream, 1)
    assert read.opening == b"0-0 opening text:a\n"
    assert taken(read) == ["1-1 b"]
    stream.complete("stop", None)
    assert taken(read) == ["1-1 end ab", "1-1 stop"]


def test_an_answer_that_begins_again_and_is_the_same_goes_on() -> None:
    stream = answer("a")
    read = encoder(stream)
    taken(read)
    stream.next_attempt()
    stream.restart()
    push(stream, "ab")
    assert taken(read) == ["2-2 b"]


def test_an_answer_that_begins_again_otherwise_ends_with_an_error() -> None:
    stream = answer("a")
    read = encoder(stream)
    taken(read)
    stream.next_attempt()
    stream.restart()
    push(stream, "b")
    with pytest.raises(UpstreamFailed) as replaced:
        read.take()
    assert read.failure(replaced.value) == b"response_restarted"


def test_a_protocol_that_can_reset_says_so_and_tells_what_stands() -> None:
    stream = answer("a", Part(PartKind.CALL, id="call_1", name="add"))
    read = encoder(stream, resets=True)
    taken(read)
    stream.next_attempt()
    stream.restart()
    push(stream, "b")
    stream.complete("stop", None)
    assert taken(read) == [*("3-3 reset", "3-3 begin text", "3-3 b", "3-3 end b", "3-3 stop")]


def test_an_answer_that_is_shorter_the_second_time_is_reset_at_its_end() -> None:
    stream = answer("ab")
    read = encoder(stream, resets=True)
    taken(read)
    stream.next_attempt()
    stream.restart()
    push(stream, "a")
    assert taken(read) == []
    stream.complete("stop", None)
    assert taken(read) == ["2-2 reset", "2-2 begin text", "2-2 a", "2-2 end a", "2-2 stop"]


def test_text_that_is_longer_than_an_event_and_comes_alone_is_one_event() -> None:
    stream = answer("a")
    read = encoder(stream)
    taken(read)
    push(stream, "b" * 101)
    assert taken(read) == [f"1-1 {'b' * 101}"]


def test_what_the_client_has_is_not_told_again_however_it_is_cut_the_second_time() -> None:
    stream = answer("a", "bc")
    read = encoder(stream)
    taken(read)
    stream.next_attempt()
    stream.restart()
    assert taken(read) == []
    for text, told in [("ab", []), ("cd", ["4-4 d"]), ("e", ["5-5 e"])]:
        push(stream, text)
        assert read.take().decode().splitlines() == told
    stream.complete("stop", None)
    assert taken(read) == ["5-5 end abcde", "5-5 stop"]


def test_text_behind_log_probabilities_has_them() -> None:
    stream = answer("a")
    read = encoder(stream)
    taken(read)
    push(stream, "b", Part(PartKind.DATA, "[1]", name="logprobs"))
    taken(read)
    push(stream, "c", "d")
    (open_text,) = read._blocks.open
    assert taken(read) == ["3-4 cd"]
    assert [value.name for value in open_text.values] == ["logprobs"]


def test_the_next_owner_s_text_is_told_as_its_own() -> None:
    """In this copy, and in another one that the reader goes on in."""
    stream = answer("a", "b")
    read = encoder(stream)
    taken(read)
    push(stream, "c")
    assert read.take() == b"2-2 c\n"
    assert (read.cursor.first, read.cursor.last, read.epoch) == (2, 2, 1)
    stream.log.restart(2, 2, 2)
    assert taken(read) == []
    for index in (4, 5):
        stream.log.append("d")
        assert read.take() == b"%d-%d.2 d\n" % (index, index)
    third = answer()
    third.adopt_log(stream.log.entries, 3, None)
    read.go_on(third, ResumePoint(6))
    third.log.append("e")
    assert taken(read) == ["7-7.3 e"]


def test_another_copy_is_compared_with_what_the_client_has() -> None:
    stream = answer("a", "b")
    read = encoder(stream, 1)
    assert read.take() == b"1-1 b\n"
    read.go_on(answer("abc"), ResumePoint(0, Restart(REPLACES_ALL, 2, 2)))
    assert taken(read) == ["0-0 c"]


def test_what_waits_for_another_block_comes_before_an_error() -> None:
    call = Part(PartKind.CALL, id="call_1", name="add")
    stream = answer(call, "a", Part(PartKind.ARGUMENTS, "{"))
    serial = BlockEncoder(Words(), stream, ResumePoint(0), 100, SerialBlocks)
    assert taken(serial) == ["0-0 begin call", "2-2 {"]
    stream.fail({"type": "upstream_error", "code": "upstream_failed", "message": "it broke off"})
    assert taken(serial) == [
        *("2-2 end {", "2-2 begin text", "2-2 a", "2-2 end a"),
        "2-2 ",
    ]
