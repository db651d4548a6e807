"""What a handler keeps of requests: while they are answered, and behind that.

What a process has of the machine's memory is measured here for one store and a few requests, in
`make soak` for more.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.integration.chat_client import HttpAnswer, demo
from tests.integration.conftest import OpenSession, Serve, ServeProcess
from tests.integration.local_server import LocalServer
from tests.integration.openai.completions import Completions, read_stream
from tests.integration.openai.conftest import At
from tests.integration.server_process import ServerProcess

_QUICK = demo(tokens=2)
PROMPT_BYTES = 1_000_000
_REQUESTS = 6
_BOUND = 24 * PROMPT_BYTES


def values(count: int) -> dict[str, Any]:
    """A parameter that takes much more memory than it has bytes."""
    return {"x": [[] for _ in range(count)]}


async def answer_prompts(completions: Completions, requests: int, prefix: str) -> None:
    """So many requests of a megabyte each, one after the other."""
    prompt = {"role": "system", "content": "x" * PROMPT_BYTES}
    body = {"model": "demo", "messages": [prompt, {"role": "user", "content": _QUICK}]}
    for number in range(requests):
        answer = await completions.post(body, Idempotency_Key=f"{prefix}{number}")
        assert answer.status == 200


def _allocated() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_prompts_are_not_kept(
    at: At, serve: Serve, opened: OpenSession, tmp_path: Path, store: str
) -> None:
    server = await serve(
        store=store, store_path=tmp_path / "evenflow.db", history_bytes=2 * PROMPT_BYTES
    )
    completions = at(server, (await opened(server)).token)
    tracemalloc.start()
    try:
        await answer_prompts(completions, 1, "warm")
        before = _allocated()
        await answer_prompts(completions, _REQUESTS, "kept")
        grown = _allocated() - before
    finally:
        tracemalloc.stop()
    # The last one may still be on its way to the store.
    assert grown < _REQUESTS * PROMPT_BYTES / 2, grown


async def what_they_hold_is_bounded(
    server: ServerProcess, bound: int, parameters: dict[str, Any], at: At
) -> None:
    """As many as fit into `bound` bytes are answered at once; one more is refused until they
    have ended.
    """
    completions, endless = at(server), demo(tokens=5_000, gap_ms=100)
    messages = [
        {"role": "system", "content": "x" * PROMPT_BYTES},
        {"role": "user", "content": endless},
    ]
    for _ in range(3):  # so that what Python keeps for itself is there
        assert (await completions.ask(_QUICK, **parameters, more="x" * PROMPT_BYTES)).status == 200
    before = server.resident_bytes
    async with AsyncExitStack() as waiting:
        held = 0
        body = {"model": "demo", "messages": messages, **parameters}
        while (refused := await _refusal(server, held + 1, completions, waiting, body)) is None:
            held += 1
        grown = server.resident_bytes - before
        assert (refused.status, refused.error["code"]) == (503, "node_memory")
        assert int(refused.headers["Retry-After"]) >= 1
        # Allocators keep some of what reading took.
        assert grown < 1.25 * bound, f"{held} requests hold {grown} bytes"
    await server.until_metric("generations_running", 0)
    assert (await completions.ask(_QUICK, **parameters)).status == 200


async def _refusal(
    server: ServerProcess,
    number: int,
    completions: Completions,
    waiting: AsyncExitStack,
    body: dict[str, object],
) -> HttpAnswer | None:
    """Ask once more, for as long as `waiting` is open; the answer, if that is refused and
    doesn't become the `number`th.
    """
    asking = asyncio.create_task(completions.post(body))
    waiting.push_async_callback(_ended, asking)
    while await server.metric("generations_running") < number:
        done, _ = await asyncio.wait([asking], timeout=0.05)
        if done:
            return asking.result()
    return None


async def _ended(asking: asyncio.Task[HttpAnswer]) -> None:
    asking.cancel()
    await asyncio.wait([asking])


async def test_what_requests_hold_is_bounded(at: At, serve_process: ServeProcess) -> None:
    server = serve_process(requests_held_bytes=_BOUND, grace_seconds=60)
    await what_they_hold_is_bounded(server, _BOUND, {}, at)
    await what_they_hold_is_bounded(server, _BOUND, values(60_000), at)


async def test_a_body_has_a_bound_of_its_own(at: At, serve: Serve) -> None:
    completions = at(await serve(request_bytes=100_000))
    long = {"role": "system", "content": "x" * 90_000}
    quick = {"role": "user", "content": _QUICK}
    assert (await completions.post({"model": "demo", "messages": [long, quick]})).status == 200
    refused = await completions.post({"model": "demo", "messages": [long, long, quick]})
    assert (refused.status, refused.error["code"]) == (413, "message_too_large")


async def test_a_message_of_a_session_keeps_the_smaller_one(opened: OpenSession) -> None:
    session = await opened()
    refused = await session.post("m1", None, "x" * 70_000)
    assert (refused.status, refused.error["code"]) == (413, "message_too_large")


async def test_an_answer_that_nobody_can_ask_for_again_is_not_held(at: At, serve: Serve) -> None:
    completions = at(server := await serve(grace_seconds=60))
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


async def test_an_answer_with_a_key_is_held(
    completions: Completions, shared_server: LocalServer
) -> None:
    first = await completions.ask(_QUICK, key="held")
    assert await shared_server.metric("responses_held") == 1
    assert (await completions.ask(_QUICK, key="held")).json["id"] == first.json["id"]
