"""The stock OpenAI client for JavaScript, unmodified."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Frame
from tests.integration.chat_client import demo
from tests.integration.conftest import Serve
from tests.integration.local_server import LocalServer
from tests.integration.openai.completions import asking
from tests.integration.openai.javascript_client import JavaScriptClient
from tests.integration.openai.tools import TOOLS, demo_call

_QUICK = demo(tokens=30, gap_ms=2, seed=5)
_TEXT = "".join(demo_tokens(5, 30))
_KEY = "acme-key-0123456789"

Ask = Callable[..., Coroutine[Any, Any, Frame]]


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    return await serve(tenant_keys=json.dumps({"acme": _KEY}), messages_in_flight_per_tenant=1)


@pytest.fixture
def ask(server: LocalServer, javascript: JavaScriptClient) -> Ask:
    """Let the client ask the server."""

    async def ask(action: str, body: Frame, key: str = _KEY, **more: Any) -> Frame:
        return await javascript.ask(server, action, body, key, **more)

    return ask


async def test_a_stream(ask: Ask) -> None:
    told = await ask("stream", asking(_QUICK, stream_options={"include_usage": True}))
    usage = {"prompt_tokens": 4, "completion_tokens": 30, "total_tokens": 34}
    assert told == {"text": _TEXT, "finish_reason": "stop", "usage": usage}


async def test_its_own_reading_of_a_stream(ask: Ask) -> None:
    assert await ask("helper", asking(_QUICK)) == {"text": _TEXT}


async def test_a_whole_answer(ask: Ask) -> None:
    told = await ask("whole", asking(_QUICK, max_tokens=5))
    (choice,) = told["choices"]
    assert choice["message"]["content"] == "".join(demo_tokens(5, 5))
    assert (choice["finish_reason"], told["usage"]["total_tokens"]) == ("length", 9)


async def test_its_own_reading_of_calls(ask: Ask) -> None:
    told = await ask("calls", asking(demo(tokens=5, gap_ms=2, seed=5, calls=2), tools=TOOLS))
    message, called = told["choice"]["message"], [demo_call(0), demo_call(1)]
    assert (message["content"], told["choice"]["finish_reason"]) == (
        "".join(demo_tokens(5, 5)),
        "tool_calls",
    )
    assert message["tool_calls"] == called
    assert told["argumentsOnTheWay"] == "".join(call["function"]["arguments"] for call in called)


async def test_calls_in_a_whole_answer(ask: Ask) -> None:
    (choice,) = (await ask("whole", asking(demo(tokens=0, gap_ms=2, calls=2), tools=TOOLS)))[
        "choices"
    ]
    assert choice["message"]["tool_calls"] == [demo_call(0), demo_call(1)]
    assert (choice["message"]["content"], choice["finish_reason"]) == (None, "tool_calls")


@pytest.mark.parametrize("stream", [False, True])
async def test_it_calls_the_tools_itself(ask: Ask, stream: bool) -> None:
    body = asking(
        demo(tokens=2, gap_ms=2, calls=2), tools=TOOLS, stream=stream, gives=demo(tokens=3, seed=6)
    )
    told = await ask("runTools", body)
    calls = [demo_call(0)["function"], demo_call(1)["function"]]
    assert told == {
        "text": "".join(demo_tokens(6, 3)),
        "given": [[call["name"], json.loads(call["arguments"])] for call in calls],
    }


async def test_the_models(ask: Ask) -> None:
    assert await ask("models", {}) == {"ids": ["demo"]}


@pytest.mark.parametrize(
    ("body", "key", "expected"),
    [
        (asking("x"), "sk-wrong", ("AuthenticationError", 401, "invalid_api_key")),
        (asking("x", model="gpt-x"), _KEY, ("NotFoundError", 404, "model_not_found")),
        (asking("x", n=0), _KEY, ("BadRequestError", 400, "invalid_field")),
        (asking(demo(refuse="true")), _KEY, ("UnprocessableEntityError", 422, "model_refused")),
        (
            asking(demo(fail_after=0, fail_attempts=3)),
            _KEY,
            ("InternalServerError", 502, "upstream_failed"),
        ),
    ],
)
async def test_errors(ask: Ask, body: Frame, key: str, expected: tuple[str, int, str]) -> None:
    for action in ("whole", "stream"):
        error = (await ask(action, body, key))["error"]
        assert (error["class"], error["status"], error["code"]) == expected


async def test_an_error_in_the_middle_of_a_stream(ask: Ask) -> None:
    error = (await ask("stream", asking(demo(tokens=9, gap_ms=20, fail_after=5, fail_attempts=9))))[
        "error"
    ]
    assert (error["class"], error["code"], error["type"]) == (
        "APIError",
        "upstream_failed",
        "upstream_error",
    )


async def test_an_abort_stops_the_model(ask: Ask, server: LocalServer) -> None:
    told = await ask("abort", asking(demo(tokens=5000, gap_ms=20)))
    assert len(told["text"]) > 20
    await server.until_metric("generations_running", 0)  # long before the grace period is over
    assert await server.metric("responses_cancelled_total") == 1


async def test_a_full_tenant(ask: Ask, server: LocalServer, serve: Serve) -> None:
    first = asyncio.create_task(ask("whole", asking(demo(tokens=300, gap_ms=20))))
    await server.until_metric("generations_running", 1)
    error = (await ask("whole", asking("x")))["error"]
    assert (error["class"], error["status"], error["code"]) == (
        "RateLimitError",
        429,
        "tenant_in_flight",
    )
    await serve.time_passes(7)
    assert "choices" in await first
