"""What a model's server sends beside text: reasoning, refusals, log probabilities, other
choices, and what it counted.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest

from tests.integration.answer import Frame
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.openai.completions import asking
from tests.integration.openai.conftest import At, openai_client
from tests.integration.openai.javascript_client import JavaScriptClient
from tests.integration.scripted_model import (
    DONE,
    END,
    Reply,
    ScriptedModel,
    chunk,
    event,
    scripted_model,
)

_ASKED = asking("x", model="openai")
_REASONED = [chunk(delta={"reasoning_content": said}) for said in ("Let me ", "think\x1e.")]
_REFUSED = [chunk(delta={"role": "assistant", "refusal": said}) for said in ("I can", "not.")]
_ENTRIES: list[Frame] = [
    {"token": token, "logprob": -0.25, "bytes": list(token.encode()), "top_logprobs": []}
    for token in ("Hel", "lo流")
]
_PROBABLE = [
    chunk(entry["token"], logprobs={"content": [entry], "refusal": None}) for entry in _ENTRIES
]
_CHOICES = [
    chunk("A"),
    chunk("B", index=1),
    chunk("b", index=1),
    chunk("a"),
    chunk(index=1, finish_reason="length"),
    chunk(finish_reason="stop"),
]
_USAGE: Frame = {
    "prompt_tokens": 30,
    "completion_tokens": 12,
    "total_tokens": 42,
    "prompt_tokens_details": {"cached_tokens": 20},
    "completion_tokens_details": {"reasoning_tokens": 7},
}
_COUNTED = event({"id": "c1", "object": "chat.completion.chunk", "choices": [], "usage": _USAGE})


@pytest.fixture
async def model(serve: Serve) -> AsyncIterator[ScriptedModel]:
    async with scripted_model(serve.time_passes) as model:
        yield model


@pytest.fixture
async def server(serve: Serve, model: ScriptedModel) -> LocalServer:
    return await serve(model="openai", model_url=model.url)


@pytest.fixture
async def client(server: LocalServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai_client(f"{server.http_url}/v1") as client:
        yield client


async def _both(client: openai.AsyncOpenAI, **parameters: Any) -> list[Frame]:
    """The answer whole, and as OpenAI's own client puts its chunks together."""
    whole = await client.chat.completions.create(**_ASKED, **parameters)
    async with client.chat.completions.stream(
        **_ASKED, **parameters, stream_options={"include_usage": True}
    ) as stream:
        return [whole.to_dict(), (await stream.get_final_completion()).to_dict()]


async def test_reasoning(
    client: openai.AsyncOpenAI,
    javascript: JavaScriptClient,
    server: LocalServer,
    model: ScriptedModel,
) -> None:
    model.will(Reply([*_REASONED, chunk("Yes"), END], gap=0.06))
    for answer in await _both(client):
        message = answer["choices"][0]["message"]
        assert (message["reasoning_content"], message["content"]) == ("Let me think\x1e.", "Yes")
    message = (await javascript.ask(server, "whole", _ASKED))["choices"][0]["message"]
    assert (message["reasoning_content"], message["content"]) == ("Let me think\x1e.", "Yes")
    chunks = (await javascript.ask(server, "chunks", _ASKED))["chunks"]
    deltas = [one["choices"][0]["delta"] for one in chunks]
    assert "".join(delta.get("reasoning_content", "") for delta in deltas) == "Let me think\x1e."


async def test_reasoning_comes_while_the_model_thinks_and_under_its_name(
    client: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    thought = [chunk(delta={"reasoning": said}) for said in ("Let ", "me ", "think")]
    model.will(Reply([*thought, chunk("Yes"), END], gap=0.1))
    stream = await client.chat.completions.create(**_ASKED, stream=True)
    deltas = [one.choices[0].delta.to_dict() async for one in stream]
    said = [delta["reasoning"] for delta in deltas if delta.get("reasoning")]
    assert len(said) > 1
    assert "".join(map(str, said)) == "Let me think"
    assert not any("reasoning_content" in delta for delta in deltas)


async def test_a_refusal(
    client: openai.AsyncOpenAI,
    javascript: JavaScriptClient,
    server: LocalServer,
    model: ScriptedModel,
) -> None:
    model.will(Reply([*_REFUSED, END], gap=0.06))
    for answer in await _both(client):
        message = answer["choices"][0]["message"]
        assert (message["refusal"], message["content"] or None) == ("I cannot.", None)
    message = (await javascript.ask(server, "final", _ASKED))["choices"][0]["message"]
    assert (message["refusal"], message["content"] or None) == ("I cannot.", None)


async def test_log_probabilities(
    client: openai.AsyncOpenAI,
    javascript: JavaScriptClient,
    server: LocalServer,
    model: ScriptedModel,
) -> None:
    model.will(Reply([*_PROBABLE, END], gap=0.06))
    for answer in [*await _both(client), await javascript.ask(server, "final", _ASKED)]:
        (choice,) = answer["choices"]
        assert (choice["message"]["content"], choice["logprobs"]["content"]) == (
            "Hello流",
            _ENTRIES,
        )
        assert not choice["logprobs"]["refusal"]


async def test_sources(
    client: openai.AsyncOpenAI,
    javascript: JavaScriptClient,
    server: LocalServer,
    model: ScriptedModel,
) -> None:
    cited = [
        {
            "type": "url_citation",
            "url_citation": {
                "url": f"https://{name}.example",
                "title": name,
                "start_index": 0,
                "end_index": 3,
            },
        }
        for name in "ab"
    ]
    named = [chunk(delta={"annotations": [one]}) for one in cited]
    model.will(Reply([chunk("Yes"), *named, END], gap=0.06))
    for answer in [*await _both(client), await javascript.ask(server, "final", _ASKED)]:
        message = answer["choices"][0]["message"]
        assert (message["content"], message["annotations"]) == ("Yes", cited)


async def test_several_choices(
    client: openai.AsyncOpenAI,
    javascript: JavaScriptClient,
    server: LocalServer,
    model: ScriptedModel,
) -> None:
    # OpenAI's own clients take no other end when they put chunks together.
    model.will(
        Reply([*_CHOICES[:4], chunk(index=1, finish_reason="stop"), _CHOICES[5], DONE], gap=0.06)
    )
    for answer in [
        *await _both(client, n=2),
        await javascript.ask(server, "final", _ASKED | {"n": 2}),
    ]:
        told = [
            (one["index"], one["message"]["content"], one["finish_reason"])
            for one in answer["choices"]
        ]
        assert told == [(0, "Aa", "stop"), (1, "Bb", "stop")]
        assert {one["message"]["role"] for one in answer["choices"]} == {"assistant"}


async def test_each_choice_has_its_own_end(
    client: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    model.will(Reply([*_CHOICES, DONE]))
    whole = await client.chat.completions.create(**_ASKED, n=2)
    assert [choice.finish_reason for choice in whole.choices] == ["stop", "length"]
    stream = await client.chat.completions.create(**_ASKED, n=2, stream=True)
    ends = [
        (told.index, told.finish_reason)
        async for one in stream
        for told in one.choices
        if told.finish_reason
    ]
    assert sorted(ends) == [(0, "stop"), (1, "length")]


async def test_a_choice_that_was_not_asked_for_is_nobody_s(
    client: openai.AsyncOpenAI, opened: OpenSession, server: LocalServer, model: ScriptedModel
) -> None:
    model.will(Reply([*_CHOICES, DONE]))
    for answer in await _both(client):
        assert [one["message"]["content"] for one in answer["choices"]] == ["Aa"]
    session = await opened(server)
    async with session.connect() as connection:
        assert (await connection.ask("m1", None, "x")).text == "Aa"


async def test_what_was_cached_and_what_was_reasoning(
    client: openai.AsyncOpenAI, opened: OpenSession, server: LocalServer, model: ScriptedModel
) -> None:
    model.will(Reply([chunk("Yes"), chunk(finish_reason="stop"), _COUNTED, DONE]))
    for answer in await _both(client):
        assert answer["usage"] == _USAGE
    session = await opened(server)
    told, _, _ = await session.poll_whole((await session.post("m1", None, "x")).json["response_id"])
    assert told["metadata"]["usage"] == {
        "prompt_tokens": 30,
        "completion_tokens": 12,
        "cached_tokens": 20,
        "reasoning_tokens": 7,
    }


async def test_a_server_that_does_not_count(
    at: At, client: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    model.will(Reply([chunk("Yes"), END]))
    assert [answer.get("usage") for answer in await _both(client)] == [None, None]
    server_said = (
        await client.chat.completions.with_raw_response.create(**_ASKED)
    ).http_response.json()
    assert "usage" not in server_said, "types for other languages know no null there"


async def test_an_end_by_a_filter(client: openai.AsyncOpenAI, model: ScriptedModel) -> None:
    model.will(Reply([chunk("Well"), chunk(finish_reason="content_filter"), DONE]))
    answer = await client.chat.completions.create(**_ASKED)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == (
        "Well",
        "content_filter",
    )
    stream = await client.chat.completions.create(**_ASKED, stream=True)
    assert [one.choices[0].finish_reason async for one in stream][-1] == "content_filter"


async def test_in_a_conversation_a_refusal_is_what_the_model_says(
    opened: OpenSession, server: LocalServer, model: ScriptedModel
) -> None:
    model.will(Reply([*_REASONED, *_REFUSED, END]))
    session = await opened(server)
    told, _, _ = await session.poll_whole((await session.post("m1", None, "x")).json["response_id"])
    assert (told["full_text"], told["metadata"]["finish_reason"]) == ("I cannot.", "content_filter")


async def test_from_each_id_of_an_answer_the_rest_is_the_same(
    at: At, server: LocalServer, model: ScriptedModel
) -> None:
    pieces = [*_REASONED, *_PROBABLE, *_CHOICES[1:3], *_REASONED, *_CHOICES[4:]]
    model.will(Reply([*pieces, DONE], gap=0.06))
    asked: dict[str, Any] = {"model": "openai", "Idempotency_Key": "each"}
    whole = await _chunks(at, server, **asked)
    assert len(whole) > 5
    for place, (event_id, _) in enumerate(whole):
        rest = await _chunks(at, server, Last_Event_ID=event_id, **asked)
        assert _added(whole[: place + 1] + rest) == _added(whole)


async def _chunks(at: At, server: LocalServer, **asked: Any) -> list[tuple[str, Frame]]:
    async with at(server).open("x", **asked) as answer:
        body = (await answer.read()).decode()
    blocks = [
        dict(line.split(": ", 1) for line in block.splitlines())
        for block in body.split("\n\n")
        if block
    ]
    return [
        (block["id"], json.loads(block["data"])) for block in blocks if block["data"] != "[DONE]"
    ]


def _added(chunks: list[tuple[str, Frame]]) -> dict[tuple[int, str], Any]:
    """What the chunks' choices add up to."""
    told: dict[tuple[int, str], Any] = {}
    for choice in (choice for _, one in chunks for choice in one["choices"]):
        index = choice["index"]
        for name, said in choice["delta"].items():
            if name != "role":
                told[index, name] = told.get((index, name), "") + (said or "")
        told[index, "logprobs"] = told.get((index, "logprobs"), []) + (
            (choice["logprobs"] or {}).get("content") or []
        )
        told[index, "end"] = choice["finish_reason"] or told.get((index, "end"))
    return told
