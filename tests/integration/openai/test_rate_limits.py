"""What callers of `/v1` are told of their rates, where they have any."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import aiohttp
import openai
import pytest

from evenflow.stream_core.tenants.tenant import ApiKey, QuotaLimits, Tenant
from tests.integration.chat_client import call, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.local_server import LocalServer
from tests.integration.openai.conftest import openai_client

_KEY, _PAGE = "acme-key-0123456789", "https://app.example.com"
_QUICK = demo(tokens=30, gap_ms=0, seed=5)
_LIMITS = QuotaLimits(requests_per_minute=60, tokens_per_minute=6_000)
_OF_USER = QuotaLimits(requests_per_minute=2)
_NAMES = [
    f"x-ratelimit-{what}-{of}"
    for of in ("requests", "tokens")
    for what in ("limit", "remaining", "reset")
]


def _bound(server: LocalServer, *, limits: QuotaLimits = _LIMITS) -> None:
    key = ApiKey.of_text("k1", _KEY)
    record = Tenant(id="acme", keys=(key,), limits=limits, user_limits=_OF_USER)
    server.handler._tenants.replace([record])


@pytest.fixture
async def server(serve: Serve) -> LocalServer:
    server = await serve(allowed_origins=_PAGE)
    _bound(server)
    return server


@pytest.fixture
async def client(server: LocalServer) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai_client(f"{server.http_url}/v1", _KEY) as client:
        yield client


async def _ask(
    client: openai.AsyncOpenAI, *, user: str | openai.Omit = openai.omit
) -> dict[str, str]:
    """Ask for a whole answer. Returns its headers."""
    answer = await client.chat.completions.with_raw_response.create(
        model="demo", messages=[{"role": "user", "content": _QUICK}], user=user, max_tokens=100
    )
    return dict(answer.headers)


async def test_a_whole_answer_has_the_headers_of_openai(client: openai.AsyncOpenAI) -> None:
    headers = await _ask(client)
    assert [headers[name] for name in _NAMES[:2]] == ["60", "59"]
    assert [headers["x-ratelimit-limit-tokens"]] == ["6000"]
    # The answer was given whole: 30 tokens, and its question.
    assert 5_950 <= int(headers["x-ratelimit-remaining-tokens"]) <= 5_970
    assert headers["x-ratelimit-reset-requests"] in {"1s", *(f"{ms}ms" for ms in range(500, 1000))}


async def test_the_head_of_a_stream_tells_what_is_reserved(client: openai.AsyncOpenAI) -> None:
    create = client.chat.completions.with_streaming_response.create
    async with create(
        model="demo",
        messages=[{"role": "user", "content": demo(tokens=500, gap_ms=20)}],
        max_tokens=1_000,
        stream=True,
    ) as answer:
        assert 4_950 <= int(answer.headers["x-ratelimit-remaining-tokens"]) <= 5_100


async def test_a_refusal_names_the_bound_and_the_client_comes_again_when_it_says(
    client: openai.AsyncOpenAI, server: LocalServer, serve: Serve
) -> None:
    for _ in range(2):
        assert (await _ask(client, user="ann"))["x-ratelimit-limit-requests"] == "2"
    with pytest.raises(openai.RateLimitError) as told:
        await _ask(client, user="ann")
    assert told.value.code == "user_limit"
    assert isinstance(told.value.body, dict)
    assert told.value.body["limit"] == "user.requests_per_minute"
    headers = told.value.response.headers
    assert headers["x-ratelimit-remaining-requests"] == "0"
    assert headers["retry-after"] in ("29", "30")
    assert (await _ask(client, user="bob"))["x-ratelimit-remaining-requests"] == "1"
    await serve.time_passes(float(headers["retry-after"]))
    await _ask(client, user="ann")


async def test_every_call_of_v1_tells_it_and_one_without_a_key_nothing(
    client: openai.AsyncOpenAI, http: aiohttp.ClientSession, server: LocalServer
) -> None:
    models = await client.models.with_raw_response.list()
    assert set(_NAMES) <= set(models.headers)
    response = await client.responses.with_raw_response.create(model="demo", input=_QUICK)
    assert response.headers["x-ratelimit-remaining-requests"] == "59"
    stranger = await call(http, "GET", f"{server.http_url}/v1/models")
    assert stranger.status == 401
    assert not [name for name in stranger.headers if "ratelimit" in name.lower()]


async def test_anthropic_s_endpoint_has_anthropic_s_headers(
    http: aiohttp.ClientSession, server: LocalServer
) -> None:
    body = {"model": "demo", "max_tokens": 50, "messages": [{"role": "user", "content": _QUICK}]}
    url, headers = f"{server.http_url}/v1/messages", {"x-api-key": _KEY}
    answer = await call(http, "POST", url, body, headers=headers)
    told = {name.lower(): value for name, value in answer.headers.items()}
    assert told["anthropic-ratelimit-requests-remaining"] == "59"
    reset = datetime.fromisoformat(told["anthropic-ratelimit-tokens-reset"])
    assert 0 <= (reset - datetime.now(UTC)).total_seconds() < 5
    assert not [name for name in told if name.startswith("x-ratelimit")]
    _bound(server, limits=QuotaLimits(requests_per_minute=1))
    refused = await call(http, "POST", url, body, headers=headers)
    assert refused.status == 429
    assert refused.headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert refused.json["error"]["type"] == "rate_limit_error"


async def test_a_page_of_another_origin_may_read_them(
    http: aiohttp.ClientSession, server: LocalServer
) -> None:
    headers = {"Authorization": f"Bearer {_KEY}", "Origin": _PAGE}
    answer = await call(http, "GET", f"{server.http_url}/v1/models", headers=headers)
    readable = answer.headers["Access-Control-Expose-Headers"].split(", ")
    assert {"Retry-After", *_NAMES} <= set(readable)


async def test_where_nothing_is_bound_there_are_no_such_headers(
    shared_server: LocalServer, opened: OpenSession
) -> None:
    async with openai_client(f"{shared_server.http_url}/v1") as client:
        headers = await _ask(client, user="ann")
    assert not [name for name in headers if "ratelimit" in name]
