"""What an OpenAI-compatible server answers reaches the client of `/v1` with its status and code,
but not its words, and nothing is asked twice for it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import openai
import pytest

from tests.integration.chat_client import checked_error
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.openai.completions import asking
from tests.integration.openai.conftest import At, openai_client
from tests.integration.scripted_model import END, Reply, ScriptedModel, chunk, scripted_model
from tests.integration.server_process import free_port

_GOOD = Reply([chunk("yes"), END])


def _says(status: int, code: object, kind: str = "invalid_request_error", **headers: str) -> Reply:
    error = {"message": "Their words.", "type": kind, "param": "messages", "code": code}
    return Reply(
        [json.dumps({"error": error}).encode()], status, "application/json", headers=headers
    )


@pytest.fixture
async def model(serve: Serve) -> AsyncIterator[ScriptedModel]:
    """The model server."""
    async with scripted_model(serve.time_passes) as serving:
        yield serving


@pytest.fixture
async def server(serve: Serve, model: ScriptedModel) -> LocalServer:
    """Ours in front of it, with default settings."""
    return await serve(model="openai", model_url=model.url, model_api_key="sk-of-the-tests")


@pytest.fixture
async def client(server: LocalServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai_client(f"{server.http_url}/v1") as client:
        yield client


async def _ask(
    client: openai.AsyncOpenAI, *, stream: bool = False, text: str = "?"
) -> openai.APIStatusError | None:
    try:
        await client.chat.completions.create(**asking(text, model="openai"), stream=stream)
    except openai.APIStatusError as error:
        return error
    return None


_PASSED_ON = {
    "too long": (_says(400, "context_length_exceeded"), 400, "context_length_exceeded"),
    "policy": (_says(400, "content_policy_violation"), 400, "content_policy_violation"),
    "too large": (_says(413, None), 413, "model_refused"),
    "loading": (
        _says(503, None, "server_error", **{"retry-after-ms": "1500"}),
        503,
        "upstream_overloaded",
    ),
    "no quota": (_says(429, "insufficient_quota", "insufficient_quota"), 429, "insufficient_quota"),
    "broken": (_says(500, None, "server_error"), 502, "upstream_failed"),
    "a wrong key": (_says(401, "invalid_api_key"), 502, "model_not_set_up"),
    "moved": (_says(307, None, Location="/v1/chat/completions"), 502, "model_not_set_up"),
    "a wrong model": (_says(404, "model_not_found"), 502, "model_not_set_up"),
}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_status_reaches_the_client_and_is_asked_for_once(
    client: openai.AsyncOpenAI, model: ScriptedModel, stream: bool
) -> None:
    wrong = {}
    for what, (reply, status, code) in _PASSED_ON.items():
        model.will(reply)
        error = await _ask(client, stream=stream)
        seen = (error and error.status_code, error and error.code, len(model.requests))
        if seen != (status, code, 1) or "Their words." in str(error and error.body):
            wrong[what] = seen
    assert not wrong


async def test_when_to_ask_again_reaches_the_client(
    client: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    for what, seconds in (("loading", "2"), ("broken", None)):
        model.will(_PASSED_ON[what][0])
        error = await _ask(client, stream=True)
        assert error is not None
        assert error.response.headers.get("Retry-After") == seconds, what


def _throttles(**retry_after: str) -> Reply:
    return _says(429, "rate_limit_exceeded", "requests", **retry_after)


async def test_with_a_key_who_is_throttled_waits_in_the_queue_and_is_not_told(
    at: At, server: LocalServer, model: ScriptedModel
) -> None:
    throttled = _throttles(**{"retry-after-ms": "100"})
    model.will(throttled, throttled, throttled, _GOOD)
    assert (await at(server).ask("?", key="k1", model="openai")).status == 200
    assert len(model.requests) == 4


async def test_without_a_key_who_is_throttled_is_told_and_others_are_answered(
    client: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    model.will(_throttles(**{"retry-after-ms": "200"}), _GOOD)
    error = await _ask(client)
    assert error is not None
    assert (error.status_code, error.code) == (429, "rate_limit_exceeded")
    assert await _ask(client) is None
    assert len(model.requests) == 2


async def test_a_throttle_that_is_too_long_to_wait_for_reaches_the_client(
    client: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    model.will(_throttles(**{"Retry-After": "90"}))
    error = await _ask(client)
    assert error is not None
    assert (error.status_code, error.code) == (429, "rate_limit_exceeded")
    assert error.response.headers["Retry-After"] == "90"
    # Who asks again without a key decides itself when, as directly.
    error = await _ask(client, text="another?")
    assert error is not None
    assert error.code == "rate_limit_exceeded"
    assert len(model.requests) == 2


@pytest.mark.parametrize("what", ["no quota", "a wrong key"])
async def test_a_stock_client_does_not_repeat_what_only_stays(
    client: openai.AsyncOpenAI, model: ScriptedModel, what: str
) -> None:
    model.will(_PASSED_ON[what][0])
    error = await _ask(client.with_options(max_retries=2))
    assert error is not None
    assert error.response.headers["x-should-retry"] == "false"
    assert len(model.requests) == 1


async def test_a_stock_client_repeats_as_often_as_it_would_directly(
    client: openai.AsyncOpenAI, model: ScriptedModel
) -> None:
    for url in (model.url, client.base_url):
        model.will(_says(503, None, "server_error", **{"retry-after-ms": "100"}))
        error = await _ask(client.with_options(base_url=url, max_retries=2))
        assert error is not None
        assert error.status_code == 503
        assert len(model.requests) == 3, url


@pytest.mark.parametrize(("reply", "status"), [(_throttles(), 429), (_PASSED_ON["broken"][0], 502)])
async def test_a_response_that_is_kept_costs_one_call_too(
    client: openai.AsyncOpenAI, model: ScriptedModel, reply: Reply, status: int
) -> None:
    model.will(reply)
    with pytest.raises(openai.APIStatusError) as told:
        await client.responses.create(model="openai", input="?")
    assert (told.value.status_code, len(model.requests)) == (status, 1)


async def test_with_a_key_it_is_asked_again_here_since_its_error_would_stay(
    at: At, server: LocalServer, model: ScriptedModel
) -> None:
    model.will(_PASSED_ON["broken"][0], _GOOD)
    assert (await at(server).ask("?", key="k1", model="openai")).status == 200
    assert len(model.requests) == 2


async def test_a_reader_of_the_chat_is_told_that_the_model_is_not_set_up(
    opened: OpenSession, server: LocalServer, model: ScriptedModel
) -> None:
    model.will(_PASSED_ON["a wrong key"][0])
    session = await opened(server)
    async with session.connect() as connection:
        for number in range(3):
            answer = await connection.ask(
                f"m{number}", f"m{number - 1}" if number else None, "a question"
            )
            error = checked_error(answer.end or {})
            assert (error["type"], error["code"]) == ("upstream_error", "model_not_set_up")
            assert "Their words." not in json.dumps(answer.end)
    assert len(model.requests) == 3
    assert (
        server.log.count("check EVENFLOW_MODEL_URL, EVENFLOW_MODEL_NAME and EVENFLOW_MODEL_API_KEY")
        == 1
    )


async def test_a_dead_server_is_an_error_and_one_line(opened: OpenSession, serve: Serve) -> None:
    server = await serve(model="openai", model_url=f"http://127.0.0.1:{free_port()}/v1")
    session = await opened(server)
    async with session.connect() as connection:
        for number in range(3):
            answer = await connection.ask(
                f"m{number}", f"m{number - 1}" if number else None, "a question"
            )
            assert checked_error(answer.end or {})["code"] == "upstream_failed"
    assert server.log.count("cannot be reached") == 1


async def test_thirty_answers_come_over_one_connection(
    opened: OpenSession, server: LocalServer, model: ScriptedModel
) -> None:
    model.will(_GOOD)
    session = await opened(server)
    async with session.connect() as connection:
        for number in range(30):
            answer = await connection.ask(
                f"m{number}", f"m{number - 1}" if number else None, "a question"
            )
            assert answer.text == "yes"
    assert len(model.requests) == 30
    assert len(model.connections) == 1


@pytest.mark.parametrize("sign", [b": keep-alive\n\n", chunk(""), chunk(reasoning="hm")])
async def test_a_model_that_says_that_it_works_is_waited_for(
    opened: OpenSession, serve: Serve, model: ScriptedModel, sign: bytes
) -> None:
    server = await serve(
        model="openai", model_url=model.url, model_first_sign_seconds=0.6, model_silence_seconds=0.6
    )
    model.will(Reply([*[sign] * 10, chunk("42"), END], gap=0.2))
    session = await opened(server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, "a question")
    assert (answer.text, answer.finish_reason, len(model.requests)) == ("42", "stop", 1)


async def test_a_filtered_answer_says_so(
    opened: OpenSession, server: LocalServer, model: ScriptedModel
) -> None:
    model.will(Reply([chunk("half"), chunk(finish_reason="content_filter"), b"data: [DONE]\n\n"]))
    session = await opened(server)
    async with session.connect() as connection:
        answer = await connection.ask("m1", None, "a question")
    assert (answer.text, answer.finish_reason) == ("half", "content_filter")
