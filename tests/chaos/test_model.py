"""The model says what its script says, goes on from a prefix, and remembers who asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest

from tests.chaos.conftest import Start
from tests.chaos.script import TOOL, Script
from tests.chaos.system import ModelControl

SCRIPT = Script("key", tokens=6, gap_ms=20, size=16)


class Model:
    """The model's process, asked as a handler asks it."""

    def __init__(self, http: aiohttp.ClientSession, port: int) -> None:
        self.control = ModelControl(http, port)
        self._http = http
        self._url = f"http://127.0.0.1:{port}/v1/chat/completions"

    async def ask(self, *turns: tuple[str, str], key: str = "rsp_1:1:1") -> str:
        """The whole text that it says."""
        deltas = await self.deltas(*turns, key=key)
        return "".join(delta.get("content", "") for delta in deltas)

    async def deltas(
        self, *turns: tuple[str, str], key: str = "rsp_1:1:1", ends: str = "stop"
    ) -> list[dict[str, Any]]:
        """All that it says, and for which reason it ends."""
        messages = [{"role": role, "content": text} for role, text in turns]
        body = orjson.dumps({"messages": messages, "stream": True})
        async with self._http.post(
            self._url, data=body, headers={"Idempotency-Key": key}
        ) as answer:
            answer.raise_for_status()
            lines = (await answer.text()).split("\n\n")
        chunks = [
            orjson.loads(line.removeprefix("data: "))
            for line in lines
            if line.startswith("data: {")
        ]
        choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
        assert choices[-1]["finish_reason"] == ends
        return [choice["delta"] for choice in choices]


@pytest.fixture
async def model(start: Start) -> AsyncIterator[Model]:
    async with aiohttp.ClientSession() as http:
        yield Model(http, start("model"))


async def test_it_says_the_script_of_the_last_question(model: Model) -> None:
    other = Script("another", 3, 10)
    said = await model.ask(("user", other.question), ("assistant", "…"), ("user", SCRIPT.question))
    assert said == SCRIPT.text()


async def test_it_reasons_before_the_text_and_calls_a_tool_behind_it(model: Model) -> None:
    script = Script("parts", tokens=3, gap_ms=10, reasoning=2, call=4)
    deltas = await model.deltas(("user", script.question), ends="tool_calls")
    assert [next(iter(delta), "") for delta in deltas] == [
        *["reasoning_content"] * 2,
        *["content"] * 3,
        *["tool_calls"] * 4,
        "",
    ]
    calls = [delta["tool_calls"][0] for delta in deltas if "tool_calls" in delta]
    assert (calls[0]["id"], calls[0]["function"]["name"]) == (script.call_id, TOOL)
    arguments = "".join(call["function"]["arguments"] for call in calls)
    assert list(orjson.loads(arguments)) == ["query"]


async def test_no_prefix_is_continued_where_it_reasons(model: Model) -> None:
    script = Script("parts", tokens=3, gap_ms=10, reasoning=2)
    with pytest.raises(aiohttp.ClientResponseError):
        await model.ask(("user", script.question), ("assistant", script.text()[:5]))


@pytest.mark.parametrize("length", [1, 16, 40, 95])
async def test_it_goes_on_from_a_prefix(model: Model, length: int) -> None:
    text = SCRIPT.text()
    assert await model.ask(("user", SCRIPT.question), ("assistant", text[:length])) == text[length:]


async def test_a_prefix_that_it_never_said_is_refused_and_counted(model: Model) -> None:
    with pytest.raises(aiohttp.ClientResponseError):
        await model.ask(("user", SCRIPT.question), ("assistant", "something else"))
    assert (await model.control.calls())["wrong_prefixes"] == 1


async def test_it_counts_the_calls_of_each_key(model: Model) -> None:
    for key in ("rsp_1:1:1", "rsp_1:1:1", "rsp_1:2:1"):
        await model.ask(("user", SCRIPT.question), key=key)
    assert (await model.control.calls())["calls"] == {"rsp_1:1:1": 2, "rsp_1:2:1": 1}


async def test_broken_off_streams_end_without_their_end(model: Model) -> None:
    long = Script("long", tokens=1_000, gap_ms=20)

    asked = asyncio.create_task(model.ask(("user", long.question)))
    while not (await model.control.calls())["open"]:
        assert not asked.done()
    await model.control.break_off(1.0)
    with pytest.raises(aiohttp.ClientPayloadError):
        await asked


def test_another_key_is_another_text_of_the_same_length() -> None:
    one, other = Script("one", 40, 10, 24), Script("other", 40, 10, 24)
    assert one.text() != other.text()
    assert Script.asked_by(one.question) == one
