"""Clients that end their side of a connection with their request (`nc -N`), and wait."""

from __future__ import annotations

import json
import time

import pytest

from tests.integration.chat_client import demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.raw_websocket import RawWebSocket
from tests.integration.scripted_model import Reply, scripted_model

_SHORT = demo(tokens=20, gap_ms=5)
_MESSAGES = [{"role": "user", "content": _SHORT}]


def _request(path: str, body: object = None, headers: str = "") -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    method = "GET" if body is None else "POST"
    length = f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n" if data else ""
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}{length}\r\n".encode() + data


async def _answers(server: LocalServer, *requests: bytes) -> bytes:
    async with await RawWebSocket.connect(server.port) as raw:
        raw.write(b"".join(requests))
        raw.end()
        return await raw.ended()


@pytest.mark.parametrize(
    ("request_", "end"),
    [
        (_request("/health"), b"}"),
        (_request("/openapi.json"), b"}"),  # more than a socket takes at once
        (_request("/session", {}), b"}"),
        (_request("/v1/chat/completions", {"model": "demo", "messages": _MESSAGES}), b"}"),
        (
            _request(
                "/v1/chat/completions", {"model": "demo", "messages": _MESSAGES, "stream": True}
            ),
            b"data: [DONE]\n\n\r\n0\r\n\r\n",
        ),
        (_request("/v1/responses", {"model": "demo", "input": _SHORT}), b"}"),
        (
            _request("/v1/messages", {"model": "demo", "messages": _MESSAGES, "max_tokens": 100}),
            b"}",
        ),
    ],
    ids=["health", "document", "session", "completion", "stream", "response", "message"],
)
async def test_its_answer_comes_whole(serve: Serve, request_: bytes, end: bytes) -> None:
    came = await _answers(await serve.shared(), request_)
    assert came.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201"))
    assert came.endswith(end)


async def test_all_requests_of_one_connection_are_answered(serve: Serve) -> None:
    came = await _answers(await serve.shared(), *[_request("/health")] * 3)
    assert came.count(b"HTTP/1.1 200") == 3


async def test_what_is_no_request_is_refused(serve: Serve) -> None:
    assert (await _answers(await serve.shared(), b"GET /health HTTP/9\r\n\r\n")).startswith(
        b"HTTP/1.0 400"
    )


@pytest.mark.parametrize(
    "half",
    [
        b"GET /health HTTP/1.1\r\nHost: loc",
        _request("/session", {"metadata": {"a": "x" * 100}})[:-50],
        b"POST /session HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}",
    ],
    ids=["head", "body", "chunks"],
)
async def test_half_a_request_is_not_answered(serve: Serve, half: bytes) -> None:
    assert await _answers(await serve.shared(), half) == b""


async def test_an_idle_connection_is_closed(serve: Serve) -> None:
    async with await RawWebSocket.connect((await serve.shared()).port) as raw:
        raw.write(_request("/health"))
        await raw.read_head()
        await raw.read_body()
        raw.end()
        assert await raw.ended(5.0) == b""


async def test_a_whole_answer_shows_early_that_the_server_is_at_it(serve: Serve) -> None:
    """By which the server notices, too, whether the client is still there."""
    body = {"model": "demo", "messages": [{"role": "user", "content": demo(first_token_ms=2500)}]}
    came = await _answers(await serve.shared(), _request("/v1/chat/completions", body))
    head, _, rest = came.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert rest.count(b"1\r\n\n\r\n") >= 2
    assert b'"object":"chat.completion"' in rest


async def test_a_poll_ends_early(opened: OpenSession, serve: Serve) -> None:
    session = await opened(server := await serve())
    posted = (await session.post("m1", None, demo(hang_after=0))).json
    path = f"/chat/message/{posted['response_id']}?timeout_ms=30000"
    began = time.monotonic()
    came = await _answers(
        server, _request(path, headers=f"Authorization: Bearer {session.token}\r\n")
    )
    assert came.startswith(b"HTTP/1.1 200")
    assert time.monotonic() - began < 15


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_is_gone_stops_a_silent_model(serve: Serve, stream: bool) -> None:
    async with scripted_model() as model:
        model.will(Reply(then="silence before the head"))
        server = await serve(model="openai", model_url=model.url, model_name="m")
        body = {"model": "m", "messages": _MESSAGES, "stream": stream}
        async with await RawWebSocket.connect(server.port) as raw:
            raw.write(_request("/v1/chat/completions", body))
            await model.until_open(1)
        await model.until_open(0)
        await server.until_metric("generations_running", 0)
