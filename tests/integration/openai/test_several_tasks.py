"""A request is a message like any other: any task has its answer, and a lost task's is gone on with."""

from __future__ import annotations

import asyncio

from fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.chat_client import demo
from tests.integration.conftest import OpenSession
from tests.integration.deployment import Deployment
from tests.integration.openai.completions import Completions, Streamed, read_stream
from tests.integration.openai.conftest import At
from tests.integration.openai.tools import TOOLS, demo_call

_TEXT = "".join(demo_tokens(31, 300))
_LONG = demo(tokens=900, gap_ms=40, seed=31)
_QUICK = demo(tokens=900, gap_ms=8, seed=31)
_BOUND = {"max_tokens": 300}


async def _followed(
    completions: Completions, key: str, streamed: Streamed, until_index: int | None = None, text: str = _LONG
) -> None:
    headers = {"Last_Event_ID": streamed.last_id} if streamed.last_id else {}
    async with completions.open(text, Idempotency_Key=key, **headers, **_BOUND) as answer:
        assert answer.status == 200, await answer.text()
        await read_stream(answer, streamed, until_index)


async def test_a_stream_goes_on_at_another_task(process_deployment: Deployment, at: At, opened: OpenSession) -> None:
    first, second = await process_deployment.handlers(2)
    token = (await opened(first)).token
    streamed = Streamed()
    for task, until_index in ((first, 10), (second, 20), (first, 30), (second, None)):
        await _followed(at(task, token), "moves", streamed, until_index, _QUICK)
    assert (streamed.text, streamed.finish_reason) == (_TEXT, "length")
    whole = await at(second, token).ask(_QUICK, key="moves", **_BOUND)
    assert whole.json["choices"][0]["message"]["content"] == _TEXT
    assert await first.metric("responses_completed_total") == 1
    assert await second.metric("responses_completed_total") == 0


async def test_a_lost_task_s_answer_goes_on_and_ends_as_the_request_said(
    process_deployment: Deployment, at: At, opened: OpenSession
) -> None:
    owner, other = await process_deployment.handlers(2)
    token = (await opened(owner)).token
    staying, back = Streamed(), Streamed()
    await _followed(at(owner, token), "lost", back, 10)
    reading = asyncio.create_task(_followed(at(other, token), "lost", staying))
    whole = asyncio.create_task(at(other, token).ask(_LONG, key="lost", **_BOUND))
    await asyncio.sleep(1)
    owner.kill()
    await _followed(at(other, token), "lost", back)
    await reading
    for streamed in (staying, back):
        assert (streamed.text, streamed.finish_reason, streamed.error) == (_TEXT, "length", None)
        assert streamed.last_id.endswith(".2")
    answer = (await whole).json
    assert answer["choices"][0]["message"]["content"] == _TEXT
    assert answer["choices"][0]["finish_reason"] == "length"


_CALLING = demo(tokens=2, gap_ms=40, seed=31, calls=6)
_CALLS = {index: demo_call(index) for index in range(6)}


async def _read_calls(completions: Completions, streamed: Streamed, until_index: int | None = None) -> None:
    headers = {"Last_Event_ID": streamed.last_id} if streamed.last_id else {}
    async with completions.open(_CALLING, Idempotency_Key="calls", tools=TOOLS, **headers) as answer:
        assert answer.status == 200, await answer.text()
        await read_stream(answer, streamed, until_index)


async def test_calls_go_on_at_another_task(process_deployment: Deployment, at: At, opened: OpenSession) -> None:
    first, second = await process_deployment.handlers(2)
    token = (await opened(first)).token
    streamed = Streamed()
    for task, until_index in ((first, 10), (second, 20), (first, 30), (second, None)):
        await _read_calls(at(task, token), streamed, until_index)
    assert (streamed.calls, streamed.finish_reason) == (_CALLS, "tool_calls")
    whole = await at(second, token).ask(_CALLING, key="calls", tools=TOOLS)
    assert whole.json["choices"][0]["message"]["tool_calls"] == list(_CALLS.values())
    assert whole.json["choices"][0]["finish_reason"] == "tool_calls"


async def test_a_lost_task_s_calls_are_made_again_and_nobody_sees_it(
    process_deployment: Deployment, at: At, opened: OpenSession
) -> None:
    owner, other = await process_deployment.handlers(2)
    token = (await opened(owner)).token
    staying, back = Streamed(), Streamed()
    await _read_calls(at(owner, token), back, 10)
    reading = asyncio.create_task(_read_calls(at(other, token), staying))
    await asyncio.sleep(1)
    owner.kill()
    await _read_calls(at(other, token), back)
    await reading
    for streamed in (staying, back):
        assert (streamed.calls, streamed.finish_reason, streamed.error) == (_CALLS, "tool_calls", None)
        assert streamed.last_id.endswith(".2")


async def test_a_leaving_task_finishes_what_a_client_without_a_key_waits_for(
    process_deployment: Deployment, at: At, opened: OpenSession
) -> None:
    leaving = await process_deployment.handler(drain_seconds=20)
    token = (await opened(leaving)).token
    async with at(leaving, token).open(_QUICK, **_BOUND) as answer:
        streamed = await read_stream(answer, until_index=5)
        leaving.send_signal()
        await read_stream(answer, streamed)
    assert (streamed.text, streamed.finish_reason) == (_TEXT, "length")
    assert await leaving.ended(20) == 0


async def test_where_the_tenants_keys_are_not_known_a_session_s_token_is_needed(
    process_deployment: Deployment, at: At
) -> None:
    server = await process_deployment.handler()
    refused = await at(server).ask(_QUICK)
    assert (refused.status, refused.error["code"]) == (401, "invalid_api_key")
