"""Answers with parts are counted as what they take at least, and not as many times more."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from evenflow.fargate_handler.orchestrator.responses import Responses
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_account import MemoryAccount
from evenflow.stream_core.log.entries import Content, Part, PartKind
from tests.unit.fargate_handler.orchestrator.test_responses import held
from tests.unit.hand_turned_clock import HandTurnedClock

_MANY = 4_000
# Names that many parts share are counted with each.
_AT_MOST = 4


def reasoning(number: int) -> Content:
    return Part(PartKind.REASONING, f"thought {number}", name="reasoning_content")


def calls(number: int) -> Content:
    return Part(PartKind.CALL, call=number % 100, id="call_1", name="search")


def taking_turns(number: int) -> Content:
    return reasoning(number) if number % 2 else f"text {number}"


@pytest.fixture(autouse=True)
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


def taken() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("answer", [reasoning, calls, taking_turns])
def test_an_answer_with_parts_is_counted_as_what_it_takes(
    answer: Callable[[int], Content],
) -> None:
    limits = Limits()
    memory = MemoryAccount(limits)
    clock = HandTurnedClock()
    responses = Responses(limits, memory, clock.monotonic)
    stream = held(responses, clock, "r")
    stream.start()
    before = taken()
    stream.log.extend(answer(number) for number in range(_MANY))
    running = taken() - before
    responses.shorten_longest()
    assert running * 0.95 < memory.running.bytes < running * _AT_MOST
    stream.complete("stop", None)
    responses.ended(stream)
    ended = taken() - before
    assert ended * 0.95 < memory.ended.bytes < ended * _AT_MOST
