"""What a handler keeps of a request whose answer has ended."""

from __future__ import annotations

import asyncio

import pytest

from tests.integration.chat_client import demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.openai.completions import read_stream
from tests.integration.openai.conftest import At
from tests.integration.server_process import ServerProcess

_QUICK = demo(tokens=2)
_PROMPT_BYTES = 1_000_000
_REQUESTS = 40


async def _answered(at: At, server: ServerProcess, token: str, prefix: str) -> None:
    """Requests of a megabyte each, and their answers."""
    prompt = {"role": "system", "content": "x" * _PROMPT_BYTES}
    for number in range(_REQUESTS):
        body = {"model": "demo", "messages": [prompt, {"role": "user", "content": _QUICK}]}
        answer = await at(server, token).post(body, Idempotency_Key=f"{prefix}{number}")
        assert answer.status == 200


@pytest.mark.timeout(120)
async def test_prompts_are_not_kept(at: At, serve: Serve, opened: OpenSession) -> None:
    server = serve(message_bytes=2 * _PROMPT_BYTES, history_bytes=2 * _PROMPT_BYTES, messages_per_second=1_000)
    token = (await opened(server)).token
    await _answered(at, server, token, "warm")
    before = server.resident_bytes
    await _answered(at, server, token, "kept")
    grown = server.resident_bytes - before
    assert grown < _REQUESTS * _PROMPT_BYTES / 2, grown


async def test_an_answer_that_nobody_can_ask_for_again_is_not_held(at: At, serve: Serve) -> None:
    completions = at(server := serve(grace_seconds=60))
    for stream in (False, True):
        assert (await completions.ask(_QUICK, stream=stream)).status == 200
    async with completions.open(demo(tokens=5000, gap_ms=20)) as answer:
        await read_stream(answer, until_index=2)
        assert await server.metric("responses_held") == 1
    late = await completions.ask(demo(tokens=5000, gap_ms=20), timeout_ms=200)
    assert late.status == 504
    given_up = asyncio.create_task(completions.ask(demo(first_token_ms=60_000)))
    await server.until_metric("generations_running", 1)
    given_up.cancel()
    await server.until_metric("generations_running", 0)
    await server.until_metric("responses_held", 0)


async def test_an_answer_with_a_key_is_held(at: At, serve: Serve) -> None:
    completions = at(server := serve())
    first = await completions.ask(_QUICK, key="held")
    assert await server.metric("responses_held") == 1
    assert (await completions.ask(_QUICK, key="held")).json["id"] == first.json["id"]
