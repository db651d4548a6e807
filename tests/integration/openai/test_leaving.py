"""Who leaves, stops the model; who may come back, has a while for it.

And what fills the silence.
"""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from tests.integration.chat_client import demo
from tests.integration.conftest import Serve
from tests.integration.local_server import LocalServer
from tests.integration.openai.completions import asking, read_stream
from tests.integration.openai.conftest import At
from tests.integration.raw_websocket import RawWebSocket
from tests.integration.scripted_model import Reply, chunk, scripted_model

_LONG = demo(tokens=5000, gap_ms=20)


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    return await serve(grace_seconds=60, sse_heartbeat_seconds=0.1)


async def test_leaving_a_stream_stops_the_model_at_once(at: At, server: LocalServer) -> None:
    async with at(server).open(_LONG) as answer:
        await read_stream(answer, until_index=2)
        assert await server.metric("generations_running") == 1
    await server.until_metric("generations_running", 0)  # long before the grace period is over


async def test_leaving_before_a_whole_answer_stops_the_model_at_once(
    at: At, server: LocalServer
) -> None:
    asking = asyncio.create_task(at(server).ask(_LONG))
    await server.until_metric("generations_running", 1)
    asking.cancel()
    await server.until_metric("generations_running", 0)  # long before the grace period is over


async def test_leaving_before_the_first_token_closes_the_model_s_connection(
    at: At, serve: Serve
) -> None:
    async with scripted_model() as model:
        model.will(Reply(then="silence before the head"))
        server = await serve(model="openai", model_url=model.url)
        asking = asyncio.create_task(at(server).ask("hello", model="openai"))
        await model.until_open(1)
        asking.cancel()
        await model.until_open(0)


async def test_with_a_key_the_model_goes_on_for_the_grace_period(at: At, serve: Serve) -> None:
    server = await serve(grace_seconds=4)
    async with at(server).open(_LONG, Idempotency_Key="goes on") as answer:
        await read_stream(answer, until_index=2)
    await serve.time_passes(3)
    assert await server.metric("generations_running") == 1
    await serve.time_passes(2)
    await server.until_metric("generations_running", 0)


async def test_silence_is_filled_with_comments(at: At, server: LocalServer) -> None:
    streamed = await at(server).stream(demo(first_token_ms=350, tokens=2, gap_ms=350))
    assert streamed.comments >= 4
    assert streamed.finish_reason == "stop"


async def test_an_error_after_the_first_comment_is_told_in_the_stream(
    at: At, server: LocalServer
) -> None:
    streamed = await at(server).stream(demo(first_token_ms=250, fail_after=0, fail_attempts=2))
    assert streamed.comments
    assert streamed.error is not None
    assert streamed.error["code"] == "upstream_failed"
    assert (streamed.text, streamed.done) == ("", True)


async def test_a_client_says_how_long_it_waits(at: At, serve: Serve) -> None:
    server = await serve()
    began = time.monotonic()
    late = await at(server).ask(_LONG, timeout_ms=200)
    assert 0.15 < time.monotonic() - began < 20  # the answer would take a hundred seconds
    assert (late.status, late.error["code"], late.headers["x-should-retry"]) == (
        504,
        "timeout",
        "false",
    )
    await server.until_metric("generations_running", 0)  # long before the grace period is over


async def test_the_header_says_the_same(at: At, serve: Serve) -> None:
    server = await serve()
    body = {"model": "demo", "messages": [{"role": "user", "content": _LONG}]}
    late = await at(server).post(body, Evenflow_Timeout_Ms="300")
    assert (late.status, late.error["code"]) == (504, "timeout")
    wrong = await at(server).post(body, Evenflow_Timeout_Ms="soon")
    assert (wrong.status, wrong.error["param"]) == (400, "Evenflow-Timeout-Ms")


async def test_a_stream_that_takes_too_long_ends_with_an_error(at: At, server: LocalServer) -> None:
    streamed = await at(server).stream(_LONG, timeout_ms=400)
    assert streamed.error is not None
    assert streamed.error["code"] == "timeout"
    assert (streamed.finish_reason, streamed.done) == (None, True)
    assert streamed.text
    await server.until_metric("generations_running", 0)  # long before the grace period is over


async def test_a_stream_that_gave_nothing_in_time_has_a_status(at: At, serve: Serve) -> None:
    answer = await at(await serve()).post(
        {
            "model": "demo",
            "messages": [{"role": "user", "content": demo(first_token_ms=5000)}],
            "stream": True,
            "timeout_ms": 300,
        }
    )
    assert (answer.status, answer.error["code"]) == (504, "timeout")


async def test_what_a_model_server_was_told_of_the_request(at: At, serve: Serve) -> None:
    async with scripted_model() as model:
        model.will(Reply([chunk("Yes."), chunk(finish_reason="length")]))
        options = {
            "temperature": 0,
            "top_p": 0.5,
            "max_completion_tokens": 9,
            "stop": "x",
            "seed": 4,
        }
        server = await serve(model="openai", model_url=model.url, model_name="m")
        body = {
            "model": "m",
            "messages": [{"role": "developer", "content": "s"}, {"role": "user", "content": "u"}],
        }
        answer = await at(server).post(body | options)
        assert answer.json["choices"][0]["finish_reason"] == "length"
        assert "usage" not in answer.json, "it was not counted"
        assert model.requests == [
            {
                **options,
                "stop": ["x"],
                "model": "m",
                "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}],
                "stream": True,
                "stream_options": {"include_usage": True},
            }
        ]


async def test_a_client_that_takes_nothing_is_cut_off_and_its_model_stopped(serve: Serve) -> None:
    server = await serve(lag_notice_seconds=0.2, lag_close_seconds=0.5, write_buffer_bytes=4096)
    body = json.dumps(asking(demo(tokens=100_000, gap_ms=0.1), stream=True))
    async with await RawWebSocket.connect(server.port, receive_buffer=2048) as client:
        client.write(
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        await server.until_metric("responses_cancelled_total", 1)
        assert await server.metric("generations_running") == 0
