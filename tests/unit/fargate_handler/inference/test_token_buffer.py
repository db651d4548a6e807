from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.inference.service import TokenBuffer
from evenflow.stream_core.delivery.response_stream import ResponseFull
from tests.unit.settle import settle


async def test_tokens_come_out_as_they_went_in_and_the_end_behind_them() -> None:
    buffer = TokenBuffer(10, 1000)
    for token in ("a", "b", "Größe"):
        buffer.push(token)
    buffer.end()
    assert await buffer.take() == ["a", "b", "Größe"]
    assert await buffer.take() is None
    assert await buffer.take() is None, "the end stays"


async def test_who_takes_waits_for_a_token() -> None:
    buffer = TokenBuffer(10, 1000)
    taking = asyncio.ensure_future(buffer.take())
    await settle()
    assert not taking.done()
    buffer.push("a")
    assert await taking == ["a"]


async def test_who_takes_is_woken_by_the_end() -> None:
    buffer = TokenBuffer(10, 1000)
    taking = asyncio.ensure_future(buffer.take())
    await settle()
    buffer.end()
    assert await taking is None


async def test_the_model_is_held_while_as_many_wait_as_may() -> None:
    buffer = TokenBuffer(3, 1000)
    paused = []
    for token in "abcd":
        buffer.push(token)
        paused.append(buffer.paused)
    assert paused == [False, False, True, True]
    assert await buffer.take() == ["a", "b", "c"]
    assert (buffer.paused, len(buffer), buffer.tokens_received) == (False, 1, 4)


async def test_a_model_that_gives_all_at_once_is_stopped_at_the_longest_answer() -> None:
    buffer = TokenBuffer(3, 10)
    for _ in range(3):  # the third begins below the limit
        buffer.push("word")
    with pytest.raises(ResponseFull):
        buffer.push("word")
    await buffer.take()
    buffer.push("word")
    assert buffer.tokens_received == 4


async def test_signs_of_life_are_told_at_most_once_a_second_and_tokens_at_once() -> None:
    now = 100.0
    buffer = TokenBuffer(10, 1000, lambda: now)
    buffer.alive()
    assert await buffer.take() == []
    taking = asyncio.ensure_future(buffer.take())
    for _ in range(9):
        now += 0.1
        buffer.alive()
    await settle()
    assert not taking.done()
    now += 0.2
    buffer.alive()
    assert await taking == []
    taking = asyncio.ensure_future(buffer.take())
    buffer.alive()
    buffer.push("a")
    assert await taking == ["a"]


async def test_a_sign_of_life_is_no_token() -> None:
    buffer = TokenBuffer(1, 1000, lambda: 100.0)
    buffer.alive()
    assert (len(buffer), buffer.tokens_received, buffer.paused) == (0, 0, False)
