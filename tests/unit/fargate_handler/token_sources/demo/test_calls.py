from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from evenflow.fargate_handler.token_sources.demo.passages import Passages
from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.fargate_handler.token_sources.demo.source import SEARCH, DemoModel, demo_arguments
from evenflow.fargate_handler.token_sources.port import ModelFinish, ModelOptions, ModelRequest
from evenflow.stream_core.base.errors import ModelRefused
from evenflow.stream_core.log.entries import Content, Part, PartKind
from evenflow.stream_core.session.conversation import Turn
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.settle import settle

_TOOLS = tuple({"type": "function", "function": {"name": name}} for name in ("add", "now"))
_NAMED = {"type": "function", "function": {"name": "now"}}
_TEXT = "".join(demo_tokens(1, 5))


async def answered(
    question: str, *before: Turn, **options: Any
) -> tuple[list[Content], ModelFinish]:
    """What the demo model says and calls, joined."""
    clock, sink = HandTurnedClock(), RecordingSink()
    model = DemoModel(Passages([]), clock.delivery, 1)
    asked = ModelOptions(**{"tools": _TOOLS} | options)
    request = ModelRequest("demo", (*before, Turn("user", question)), 1, options=asked)
    generating = asyncio.get_running_loop().create_task(model.generate(request, sink))
    await settle()
    clock.turn(60)
    finish = await generating
    return sink.answer, finish


def call(index: int, name: str, turn: int = 1) -> list[Content]:
    return [
        Part(PartKind.CALL, call=index, id=f"call_{turn}_{index}", name=name),
        Part(PartKind.ARGUMENTS, demo_arguments(index), call=index),
        Part(PartKind.CALL_END, call=index),
    ]


def called(answer: list[Content]) -> list[str]:
    return [part.name for part in answer if isinstance(part, Part) and part.kind is PartKind.CALL]


async def test_it_calls_what_a_message_says_behind_its_text() -> None:
    said, finish = await answered("#demo tokens=5 calls=3")
    assert said == [_TEXT, *call(0, "add"), *call(1, "now"), *call(2, "add")]
    assert finish.finish_reason == "tool_calls"
    assert json.loads(demo_arguments(0))["text"]


async def test_what_it_calls_counts_on_behind_its_own_searches() -> None:
    said, _ = await answered("#demo tokens=0 searches=2 calls=1")
    numbers = [part.call for part in said if isinstance(part, Part) and part.kind is PartKind.CALL]
    assert (called(said), numbers) == ([SEARCH, SEARCH, "add"], [0, 1, 2])


async def test_a_later_call_of_the_conversation_has_another_id() -> None:
    said, _ = await answered("#demo tokens=0 calls=1", Turn("user", "x"), Turn("assistant", "y"))
    assert said == call(0, "add", 3)


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"tool_choice": "none"}, []),
        ({"tool_choice": "auto"}, ["add", "now"]),
        ({"tool_choice": "required"}, ["add", "now"]),
        ({"tool_choice": _NAMED}, ["now", "now"]),
        ({"parallel_tool_calls": False}, ["add"]),
        ({"max_tokens": 4}, []),
        ({"stop": (demo_tokens(1, 5)[2],)}, []),
    ],
)
async def test_it_calls_as_the_request_allows(options: dict[str, Any], names: list[str]) -> None:
    said, finish = await answered("#demo tokens=5 calls=2", **options)
    assert called(said) == names
    assert (finish.finish_reason == "tool_calls") is bool(names)


async def test_an_answer_without_calls_is_one() -> None:
    said, finish = await answered("#demo tokens=5")
    assert (said, finish.finish_reason) == ([_TEXT], "stop")


@pytest.mark.parametrize(
    ("question", "options"),
    [
        ("#demo calls=1", {"tools": ()}),
        ("#demo tokens=5", {"tool_choice": "required"}),
        ("What is a cursor?", {"tool_choice": _NAMED}),
        ("#demo calls=129", {}),
    ],
)
async def test_what_it_cannot_call_it_says(question: str, options: dict[str, Any]) -> None:
    with pytest.raises(ModelRefused):
        await answered(question, **options)
