from __future__ import annotations

import asyncio
import json

import pytest

from evenflow.fargate_handler.token_sources.demo.passages import Passages
from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.fargate_handler.token_sources.demo.source import SEARCH, DemoModel
from evenflow.fargate_handler.token_sources.port import ModelRequest
from evenflow.stream_core.log.entries import Content, Part, PartKind
from evenflow.stream_core.session.conversation import Turn
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink
from tests.unit.hand_turned_clock import HandTurnedClock
from tests.unit.settle import settle


async def given(question: str, prefix: str = "") -> RecordingSink:
    """What the demo model gives until it ends or fails."""
    clock, sink = HandTurnedClock(), RecordingSink()
    request = ModelRequest("demo", (Turn("user", question),), 1, prefix)
    model = DemoModel(Passages([]), clock.delivery, 1)
    generating = asyncio.get_running_loop().create_task(model.generate(request, sink))
    await settle()
    clock.turn(60)
    await asyncio.gather(generating, return_exceptions=True)
    return sink


async def said(question: str, prefix: str = "") -> list[Content]:
    return (await given(question, prefix)).answer


_TEXT = "".join(demo_tokens(7, 5))


async def test_it_reasons_before_its_text() -> None:
    thought = Part(PartKind.REASONING, "".join(demo_tokens(8, 3)), name="reasoning_content")
    assert await said("#demo tokens=5 seed=7 reasoning=3") == [thought, _TEXT]


async def test_it_searches_by_itself_and_tells_what_it_found() -> None:
    call, arguments, end, result, text = await said("#demo tokens=5 seed=7 searches=1")
    assert (call, end, text) == (
        Part(PartKind.CALL, id="search_0", name=SEARCH),
        Part(PartKind.CALL_END),
        _TEXT,
    )
    assert isinstance(arguments, Part)
    assert json.loads(arguments.text)["text"]
    found = "".join(demo_tokens(7, 20))
    assert result == Part(PartKind.RESULT, found, id="search_0", name=SEARCH)


async def test_it_names_sources_behind_its_text() -> None:
    text, *sources = await said("#demo tokens=5 seed=7 sources=2")
    assert text == _TEXT
    assert [json.loads(part.text) for part in sources if isinstance(part, Part)] == [
        {"url": "https://example.org/1", "title": "Source 1"},
        {"url": "https://example.org/2", "title": "Source 2"},
    ]


@pytest.mark.parametrize("number", [0, 2, 5])
async def test_it_fails_within_what_is_before_the_text_too(number: int) -> None:
    sink = await given(f"#demo tokens=5 reasoning=4 fail_after={number}")
    assert len(sink.contents) == number
    assert len(sink.tokens) == max(0, number - 4)


async def test_what_goes_on_behind_a_text_has_no_reasoning_any_more() -> None:
    question = "#demo tokens=5 seed=7 reasoning=3 sources=1"
    assert (await said(question, _TEXT[:3]))[:-1] == [_TEXT[3:]]
