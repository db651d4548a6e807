"""The stock OpenAI client for Python, unmodified."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionChunk, ChatCompletionMessageParam

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Frame
from tests.integration.chat_client import demo
from tests.integration.conftest import Serve
from tests.integration.local_server import LocalServer
from tests.integration.openai.conftest import openai_client
from tests.integration.openai.tools import TOOLS, demo_call

_QUICK = demo(tokens=30, gap_ms=2, seed=5)
_LONG = demo(tokens=5000, gap_ms=20)
_TEXT = "".join(demo_tokens(5, 30))
_KEY = "acme-key-0123456789"


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    return await serve(tenant_keys=json.dumps({"acme": _KEY}), messages_in_flight_per_tenant=2)


@pytest.fixture
async def client(server: LocalServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai_client(f"{server.http_url}/v1", _KEY) as client:
        yield client


def _ask(text: str) -> list[ChatCompletionMessageParam]:
    return [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]


async def _read(stream: openai.AsyncStream[ChatCompletionChunk], pieces: list[str]) -> None:
    async for chunk in stream:
        pieces += [choice.delta.content or "" for choice in chunk.choices]


async def test_a_stream(client: openai.AsyncOpenAI) -> None:
    text, reasons, usage = "", [], None
    stream = await client.chat.completions.create(
        model="demo", messages=_ask(_QUICK), stream=True, stream_options={"include_usage": True}
    )
    async for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            reasons.append(choice.finish_reason)
        usage = chunk.usage or usage
    assert text == _TEXT
    assert reasons[-1] == "stop"
    assert set(reasons[:-1]) == {None}
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (6, 30, 36)


async def test_its_own_reading_of_a_stream(client: openai.AsyncOpenAI) -> None:
    async with client.chat.completions.stream(model="demo", messages=_ask(_QUICK)) as stream:
        completion = await stream.get_final_completion()
    assert completion.choices[0].message.content == _TEXT
    assert completion.choices[0].finish_reason == "stop"


async def test_a_whole_answer_and_a_second_message(client: openai.AsyncOpenAI) -> None:
    messages = _ask(_QUICK)
    first = await client.chat.completions.create(
        model="demo", messages=messages, temperature=0, max_tokens=5
    )
    (choice,) = first.choices
    assert (choice.message.content, choice.finish_reason) == ("".join(demo_tokens(5, 5)), "length")
    assert first.usage is not None
    assert first.usage.completion_tokens == 5
    again = await client.chat.completions.create(
        model="demo",
        messages=[*messages, choice.message.to_dict(), {"role": "user", "content": _QUICK}],  # type: ignore[list-item]
    )
    assert again.choices[0].message.content == _TEXT


async def test_the_client_that_blocks(server: LocalServer) -> None:
    def ask() -> str:
        with openai.OpenAI(base_url=f"{server.http_url}/v1", api_key=_KEY) as client:
            stream = client.chat.completions.create(
                model="demo", messages=_ask(_QUICK), stream=True
            )
            return "".join(chunk.choices[0].delta.content or "" for chunk in stream)

    assert await asyncio.to_thread(ask) == _TEXT


async def test_the_models(client: openai.AsyncOpenAI) -> None:
    assert [model.id async for model in client.models.list()] == ["demo"]
    assert (await client.models.retrieve("demo")).owned_by == "evenflow"
    with pytest.raises(openai.NotFoundError):
        await client.models.retrieve("gpt-x")


async def test_a_wrong_key(server: LocalServer) -> None:
    async with openai_client(f"{server.http_url}/v1", "sk-wrong") as client:
        with pytest.raises(openai.AuthenticationError) as refused:
            await client.chat.completions.create(model="demo", messages=_ask("x"))
    assert refused.value.code == "invalid_api_key"


@pytest.mark.parametrize(
    ("text", "model", "raised", "code"),
    [
        ("x", "gpt-x", openai.NotFoundError, "model_not_found"),
        (demo(refuse="true"), "demo", openai.UnprocessableEntityError, "model_refused"),
        (
            demo(fail_after=0, fail_attempts=3),
            "demo",
            openai.InternalServerError,
            "upstream_failed",
        ),
        ("x" * 5_000_000, "demo", openai.APIStatusError, "message_too_large"),
    ],
)
@pytest.mark.parametrize("stream", [True, False])
async def test_errors(
    client: openai.AsyncOpenAI,
    text: str,
    model: str,
    raised: type[openai.APIStatusError],
    code: str,
    stream: bool,
) -> None:
    with pytest.raises(raised) as told:
        await client.chat.completions.create(model=model, messages=_ask(text), stream=stream)
    assert told.value.code == code


async def test_what_is_wrong_is_named(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as told:
        await client.chat.completions.create(model="demo", messages=_ask("x"), n=0)
    assert (told.value.code, told.value.param) == ("invalid_field", "n")


async def test_what_the_model_judges_is_taken(client: openai.AsyncOpenAI) -> None:
    answer = await client.chat.completions.create(
        model="demo",
        messages=_ask(demo(tokens=2, seed=5)),
        response_format={"type": "json_object"},
        extra_body={"top_k": 5},
    )
    assert answer.choices[0].message.content == "".join(demo_tokens(5, 2))


async def test_an_error_in_the_middle_of_a_stream(client: openai.AsyncOpenAI) -> None:
    pieces: list[str] = []
    stream = await client.chat.completions.create(
        model="demo",
        messages=_ask(demo(tokens=9, gap_ms=20, fail_after=5, fail_attempts=9, seed=5)),
        stream=True,
    )
    with pytest.raises(openai.APIError, match="was told to fail") as told:
        await _read(stream, pieces)
    assert ("".join(pieces), told.value.code) == ("".join(demo_tokens(5, 5)), "upstream_failed")


async def test_an_abort_stops_the_model(client: openai.AsyncOpenAI, server: LocalServer) -> None:
    async with await client.chat.completions.create(
        model="demo", messages=_ask(_LONG), stream=True
    ) as stream:
        await anext(stream)
        assert await server.metric("generations_running") == 1
    await server.until_metric("generations_running", 0)  # long before the grace period is over


async def test_a_client_that_waits_no_longer_stops_the_model(
    client: openai.AsyncOpenAI, server: LocalServer
) -> None:
    with pytest.raises(openai.APITimeoutError):
        await client.with_options(timeout=0.2).chat.completions.create(
            model="demo", messages=_ask(_LONG)
        )
    await server.until_metric("generations_running", 0)  # long before the grace period is over


async def test_our_timeout_is_not_tried_again(
    client: openai.AsyncOpenAI, server: LocalServer
) -> None:
    with pytest.raises(openai.InternalServerError) as told:
        await client.with_options(max_retries=2).chat.completions.create(
            model="demo", messages=_ask(_LONG), extra_body={"timeout_ms": 300}
        )
    assert told.value.code == "timeout"
    await server.until_metric("generations_running", 0)
    assert await server.metric("responses_cancelled_total") == 1


async def test_a_full_tenant_is_tried_again_when_the_server_says(
    client: openai.AsyncOpenAI, server: LocalServer, serve: Serve
) -> None:
    create = client.chat.completions.create
    running = [
        asyncio.create_task(create(model="demo", messages=_ask(demo(tokens=100, gap_ms=20))))
        for _ in range(2)
    ]
    await server.until_metric("generations_running", 2)
    with pytest.raises(openai.RateLimitError) as told:
        await create(model="demo", messages=_ask(_QUICK))
    assert told.value.code == "tenant_in_flight"
    assert told.value.response.headers["Retry-After"] == "1"
    patient = client.with_options(max_retries=1).chat.completions
    asked = asyncio.create_task(patient.create(model="demo", messages=_ask(_QUICK)))
    await server.until_metric('messages_refused_total{code="tenant_in_flight"}', 2)
    await serve.time_passes(3)
    assert (await asked).choices[0].message.content == _TEXT
    await asyncio.gather(*running)


async def test_what_is_repeated_with_a_key_is_generated_once(client: openai.AsyncOpenAI) -> None:
    key = {"Idempotency-Key": "from the SDK"}
    one, two = [
        await client.chat.completions.create(model="demo", messages=_ask(_QUICK), extra_headers=key)
        for _ in range(2)
    ]
    assert one.id == two.id


async def test_its_own_reading_of_calls_and_what_it_sends_back(client: openai.AsyncOpenAI) -> None:
    messages: list[Any] = _ask(demo(tokens=5, gap_ms=2, seed=5, calls=2))
    called = [demo_call(0, 2), demo_call(1, 2)]
    async with client.chat.completions.stream(
        model="demo", messages=messages, tools=TOOLS
    ) as stream:
        arguments = "".join(
            [
                event.arguments_delta
                async for event in stream
                if event.type == "tool_calls.function.arguments.delta"
            ]
        )
        (choice,) = (await stream.get_final_completion()).choices
    assert arguments == "".join(call["function"]["arguments"] for call in called)
    assert (choice.message.content, choice.finish_reason) == (
        "".join(demo_tokens(5, 5)),
        "tool_calls",
    )
    assert [_told(call) for call in choice.message.tool_calls or ()] == called
    # The message as the client made it, with all that it added.
    messages += [choice.message, *_gave(called, demo(tokens=3, seed=6))]
    async with client.chat.completions.stream(
        model="demo", messages=messages, tools=TOOLS
    ) as stream:
        (choice,) = (await stream.get_final_completion()).choices
    assert (choice.message.content, choice.finish_reason) == ("".join(demo_tokens(6, 3)), "stop")


async def test_whole_answers_with_calls(client: openai.AsyncOpenAI) -> None:
    messages: list[Any] = _ask(demo(tokens=0, gap_ms=2, calls=1))
    create = client.chat.completions.create
    named: Any = {"type": "function", "function": {"name": "note"}}
    (choice,) = (
        await create(model="demo", messages=messages, tools=TOOLS, tool_choice=named)
    ).choices
    assert (choice.message.content, choice.finish_reason) == (None, "tool_calls")
    (call,) = [_told(call) for call in choice.message.tool_calls or ()]
    assert call["function"] == demo_call(0)["function"] | {"name": "note"}
    messages += [choice.message, *_gave([call], demo(tokens=3, seed=6))]
    (choice,) = (await create(model="demo", messages=messages, tools=TOOLS)).choices
    assert choice.message.content == "".join(demo_tokens(6, 3))


async def test_a_wrong_tool_is_named(client: openai.AsyncOpenAI) -> None:
    tools: Any = [*TOOLS, {"type": "function", "function": {"name": ""}}]
    with pytest.raises(openai.BadRequestError) as told:
        await client.chat.completions.create(model="demo", messages=_ask("x"), tools=tools)
    assert told.value.param == "tools.2.function.name"


def _told(call: Any) -> Frame:
    function = {"name": call.function.name, "arguments": call.function.arguments}
    return {"id": call.id, "type": call.type, "function": function}


def _gave(calls: list[Frame], text: str) -> list[Frame]:
    return [{"role": "tool", "tool_call_id": call["id"], "content": text} for call in calls]
