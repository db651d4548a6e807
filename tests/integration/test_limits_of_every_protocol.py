"""Whoever asks, by whichever protocol: the same limits, keys and counts."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest

from evenflow.stream_core.tenants.tenant import QuotaLimits, Tenant
from tests.integration.chat_client import HttpAnswer, call, checked_error, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer

_LONG = demo(tokens=5000, gap_ms=20)
_QUICK = demo(tokens=2)
_KEYS = {"acme": "acme-key-0123456789"}


@dataclass(frozen=True)
class _Protocol:
    """How a question is asked. `request_id`: the header with the id of its response."""

    name: str
    path: str
    body: dict[str, Any]
    request_id: str = "x-request-id"

    def asking(self, text: str) -> dict[str, Any]:
        """The body with this question. It streams."""
        body: dict[str, Any] = json.loads(json.dumps(self.body).replace("TEXT", text))
        return body


_USER = [{"role": "user", "content": "TEXT"}]
_PARTS = [{"role": "user", "parts": [{"type": "text", "text": "TEXT"}]}]
_STREAM = {"model": "demo", "stream": True}
_PROTOCOLS = (
    _Protocol("openai_chat", "/v1/chat/completions", _STREAM | {"messages": _USER}),
    _Protocol("openai_responses", "/v1/responses", _STREAM | {"input": "TEXT"}),
    _Protocol(
        *("anthropic", "/v1/messages", _STREAM | {"messages": _USER, "max_tokens": 9_000}),
        request_id="request-id",
    ),
    _Protocol("ai_sdk", "/api/chat", {"id": "c", "messages": _PARTS}),
    _Protocol(
        "ag_ui", "/agui", {"threadId": "t", "runId": "r", "messages": [{"id": "u1", **_USER[0]}]}
    ),
)
_each = pytest.mark.parametrize("protocol", _PROTOCOLS, ids=lambda protocol: protocol.name)


class _Client:
    """Asks one server, with one key or token."""

    def __init__(self, http: aiohttp.ClientSession, server: LocalServer, key: str) -> None:
        self._http = http
        self._url = server.http_url
        self.headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    @asynccontextmanager
    async def running(self, protocol: _Protocol) -> AsyncIterator[None]:
        """A long answer has begun."""
        body, url = protocol.asking(_LONG), self._url + protocol.path
        async with self._http.post(url, json=body, headers=self.headers) as answer:
            assert answer.status == 200, await answer.text()
            await answer.content.readline()
            yield

    async def ask(self, protocol: _Protocol, text: str = _QUICK, **headers: str) -> HttpAnswer:
        """Ask, and read all of the answer."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body, url = json.dumps(protocol.asking(text)).encode(), self._url + protocol.path
        return await call(self._http, "POST", url, body, headers=self.headers | named)

    async def refused(self, protocol: _Protocol) -> tuple[int, str]:
        """Ask in vain. Returns the status and the code, after a check of what clients read."""
        answer = await self.ask(protocol)
        assert (answer.json.get("type") == "error") is (protocol.name == "anthropic")
        assert int(answer.headers["Retry-After"]) >= 1
        return answer.status, checked_error(answer.json)["code"]


@_each
async def test_a_session_s_answers_count_together(
    http: aiohttp.ClientSession, serve: Serve, opened: OpenSession, protocol: _Protocol
) -> None:
    server = await serve(messages_in_flight_per_session=1)
    client = _Client(http, server, (await opened(server)).token)
    async with client.running(protocol):
        for other in _PROTOCOLS:
            if other is not protocol:
                assert await client.refused(other) == (429, "session_in_flight")


async def test_a_message_over_a_websocket_counts_with_them(
    http: aiohttp.ClientSession, serve: Serve, opened: OpenSession
) -> None:
    server = await serve(messages_in_flight_per_session=1)
    token = (await opened(server)).token
    url, headers = f"{server.http_url}/v1/responses", {"Authorization": f"Bearer {token}"}
    create = {"type": "response.create", "model": "demo", "input": _QUICK}
    async with http.ws_connect(url, headers=headers) as socket:
        async with _Client(http, server, token).running(_PROTOCOLS[0]):
            await socket.send_json(create)
            refused = await socket.receive_json()
        assert (refused["type"], refused["code"]) == ("error", "session_in_flight")
        assert await server.metric('http_requests_total{protocol="openai_responses"}') == 1


@_each
async def test_a_tenant_s_answers_count_together(
    http: aiohttp.ClientSession, serve: Serve, protocol: _Protocol
) -> None:
    server = await serve(messages_in_flight_per_tenant=1, tenant_keys=json.dumps(_KEYS))
    client = _Client(http, server, _KEYS["acme"])
    async with client.running(protocol):
        for other in _PROTOCOLS:
            if other is not protocol:
                assert await client.refused(other) == (429, "tenant_in_flight")


@_each
async def test_a_tenant_s_requests_count_together(
    http: aiohttp.ClientSession, serve: Serve, protocol: _Protocol
) -> None:
    server = await serve(tenant_keys=json.dumps(_KEYS))
    limits = QuotaLimits(requests_per_minute=1)
    server.handler._tenants.replace([Tenant(id="acme", limits=limits)])
    client = _Client(http, server, _KEYS["acme"])
    assert (await client.ask(protocol)).status == 200
    for other in _PROTOCOLS:
        if other is not protocol:
            assert await client.refused(other) == (429, "tenant_limit")
    assert await server.metric('messages_refused_total{code="tenant_limit"}') == 4


@_each
async def test_a_session_s_requests_come_only_so_fast(
    http: aiohttp.ClientSession, serve: Serve, opened: OpenSession, protocol: _Protocol
) -> None:
    server = await serve(messages_per_second=0.1)  # one, and ten seconds until the next
    client = _Client(http, server, (await opened(server)).token)
    assert (await client.ask(protocol)).status == 200
    for other in _PROTOCOLS:
        if other is not protocol:
            assert await client.refused(other) == (429, "rate_limited")


def _again(protocol: _Protocol, times: int) -> dict[str, Any]:
    """The question so many times in one request."""
    body = protocol.asking(_QUICK)
    if isinstance(body.get("input"), str):
        return body | {"input": [{"role": "user", "content": _QUICK}] * times}
    return body | {"messages": body["messages"] * times}


@_each
async def test_a_request_has_so_many_messages(
    http: aiohttp.ClientSession, serve: Serve, protocol: _Protocol
) -> None:
    server = await serve(messages_per_request=16)
    url, headers = server.http_url + protocol.path, {"Content-Type": "application/json"}
    for times, status in ((16, 200), (400, 400)):
        body = json.dumps(_again(protocol, times)).encode()
        answer = await call(http, "POST", url, body, headers=headers)
        assert answer.status == status, answer.json
    assert (answer.json.get("type") == "error") is (protocol.name == "anthropic")
    error = checked_error(answer.json)
    param = "input" if protocol.name == "openai_responses" else "messages"
    assert (error["code"], error["param"]) == ("array_above_max_length", param)
    assert server.handler._orchestrator.answering == 0


@_each
async def test_what_is_read_for_an_address_is_rated_unpacked(
    http: aiohttp.ClientSession, serve: Serve, opened: OpenSession, protocol: _Protocol
) -> None:
    server = await serve(request_bytes_per_address_per_second=1_024)  # 16 KiB at once
    client = _Client(http, server, (await opened(server)).token)
    body = gzip.compress(json.dumps(protocol.asking(_QUICK + " " * 30_000)).encode())
    url = server.http_url + protocol.path
    headers = client.headers | {"Content-Encoding": "gzip", "X-Forwarded-For": "203.0.113.7"}
    assert len(body) < 1_024
    assert (await call(http, "POST", url, body, headers=headers)).status == 200
    refused = await call(http, "POST", url, body, headers=headers)
    assert (refused.status, checked_error(refused.json)["code"]) == (429, "address_bytes")
    assert int(refused.headers["Retry-After"]) >= 10
    other = headers | {"X-Forwarded-For": "203.0.113.8"}
    assert (await call(http, "POST", url, body, headers=other)).status == 200


@_each
async def test_a_full_queue_refuses_all(
    http: aiohttp.ClientSession, serve: Serve, protocol: _Protocol
) -> None:
    server = await serve(generations_per_node=1, queue_depth=0)
    client = _Client(http, server, "sk-anything")
    async with client.running(_PROTOCOLS[0]):
        assert await client.refused(protocol) == (429, "queue_full")


@_each
async def test_while_the_model_s_server_is_down_all_are_refused_at_once(
    http: aiohttp.ClientSession, serve: Serve, protocol: _Protocol
) -> None:
    server = await serve(breaker_failures=1, model_retries=0)
    client = _Client(http, server, "sk-anything")
    await client.ask(_PROTOCOLS[0], demo(tokens=2, fail_after=0))
    status = 529 if protocol.name == "anthropic" else 503
    assert await client.refused(protocol) == (status, "upstream_unavailable")


@_each
async def test_a_key_makes_two_requests_one(
    http: aiohttp.ClientSession, serve: Serve, protocol: _Protocol
) -> None:
    client = _Client(http, await serve.shared(), "sk-anything")
    keyed = [await client.ask(protocol, Idempotency_Key="one") for _ in range(2)]
    assert [answer.status for answer in keyed] == [200, 200]
    if protocol.name != "ag_ui":  # a run is a key
        ids = [answer.headers[protocol.request_id] for answer in keyed]
        assert ids[0] == ids[1]
        assert (await client.ask(protocol)).headers[protocol.request_id] != ids[0]


@_each
async def test_a_key_of_any_bytes_is_a_key(serve: Serve, protocol: _Protocol) -> None:
    server, body = await serve.shared(), json.dumps(protocol.asking(_QUICK)).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(
        b"POST %b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nIdempotency-Key: \xff\r\nContent-Length: %d\r\n\r\n%b"
        % (protocol.path.encode(), len(body), body)
    )
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 200 "), answer


@pytest.mark.parametrize("protocol", _PROTOCOLS[:3], ids=lambda protocol: protocol.name)
async def test_a_key_is_for_one_request(
    http: aiohttp.ClientSession, serve: Serve, protocol: _Protocol
) -> None:
    client = _Client(http, await serve.shared(), "sk-anything")
    assert (await client.ask(protocol, Idempotency_Key="other")).status == 200
    reused = await client.ask(protocol, demo(tokens=3), Idempotency_Key="other")
    assert (reused.status, reused.json["error"]["code"]) == (400, "idempotency_key_reused")


@_each
async def test_they_are_counted_by_their_protocol(
    http: aiohttp.ClientSession, serve: Serve, opened: OpenSession, protocol: _Protocol
) -> None:
    server = await serve(messages_per_second=0.1)
    client = _Client(http, server, (await opened(server)).token)
    assert (await client.ask(protocol)).status == 200
    other = _PROTOCOLS[0] if protocol is not _PROTOCOLS[0] else _PROTOCOLS[1]
    await client.refused(other)
    measured = await server.metrics()
    counted = {
        each.name: measured.get(f'evenflow_http_requests_total{{protocol="{each.name}"}}')
        for each in (protocol, other)
    }
    assert counted == {protocol.name: 1, other.name: 1}
    assert measured['evenflow_messages_refused_total{code="rate_limited"}'] == 1
