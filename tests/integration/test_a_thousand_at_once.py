"""A thousand answers at once under default settings and of one tenant: none is refused, and each
comes whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import aiohttp

from tests.integration.chat_client import demo, open_session
from tests.integration.conftest import Serve
from tests.integration.local_server import LocalServer

_ANSWERS, _PER_SESSION = 1_000, 4
# The first token waits until all have asked.
_FIRST_TOKEN_SECONDS = 30
_QUESTION = demo(tokens=5, gap_ms=20, first_token_ms=1_000 * (_FIRST_TOKEN_SECONDS - 1))
_PATIENCE = aiohttp.ClientTimeout(total=50)


async def _none_was_refused(server: LocalServer) -> None:
    refused = {
        name: count
        for name, count in (await server.metrics()).items()
        if "messages_refused" in name
    }
    assert refused == {}
    assert await server.metric("responses_completed_total") == _ANSWERS


async def _all_at_once(
    server: LocalServer, serve: Serve, ask: Callable[[], Coroutine[Any, Any, None]], clients: int
) -> None:
    """They come in ten parts, for what the loop that they share can do in a moment; no answer
    begins before all are there.
    """
    async with asyncio.TaskGroup() as asking:
        for part in range(1, 11):
            for _ in range(clients // 10):
                asking.create_task(ask())
            await server.until_metric("generations_running", part * _ANSWERS // 10)
        # The last one's reader comes a moment after its generation.
        await asyncio.sleep(0.1)
        await serve.time_passes(_FIRST_TOKEN_SECONDS)


async def test_over_websockets(http: aiohttp.ClientSession, serve: Serve) -> None:
    server = await serve(
        model_first_sign_seconds=2 * _FIRST_TOKEN_SECONDS, grace_seconds=2 * _FIRST_TOKEN_SECONDS
    )

    async def ask() -> None:
        session = await open_session(http, server.http_url)
        async with session.connect() as connection:
            starts, previous = [], None
            for number in range(_PER_SESSION):
                starts.append(await connection.message(f"m{number}", previous, _QUESTION))
                previous = f"m{number}"
            for start in starts:
                await connection.whole(start["response_id"], 40)

    await _all_at_once(server, serve, ask, _ANSWERS // _PER_SESSION)
    await _none_was_refused(server)


async def test_over_openai_s_api(http: aiohttp.ClientSession, serve: Serve) -> None:
    server = await serve(
        model_first_sign_seconds=2 * _FIRST_TOKEN_SECONDS, grace_seconds=2 * _FIRST_TOKEN_SECONDS
    )
    body = {"model": "demo", "stream": True, "messages": [{"role": "user", "content": _QUESTION}]}

    async def ask() -> None:
        url = f"{server.http_url}/v1/chat/completions"
        async with http.post(url, json=body, timeout=_PATIENCE) as answer:
            assert answer.status == 200, await answer.text()
            text = (await answer.read()).decode()
        assert text.endswith("data: [DONE]\n\n")
        assert '"finish_reason":"stop"' in text

    await _all_at_once(server, serve, ask, _ANSWERS)
    await _none_was_refused(server)
