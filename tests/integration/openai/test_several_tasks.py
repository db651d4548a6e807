"""A request is a message like any other: any task has its answer, and a lost task's is gone on
with.
"""

from __future__ import annotations

import asyncio

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.chat_client import demo
from tests.integration.conftest import OpenSession
from tests.integration.deployment import AwsDeployment, LocalDeployment
from tests.integration.openai.completions import Completions, Streamed, read_stream
from tests.integration.openai.conftest import At
from tests.integration.openai.tools import TOOLS, demo_call
from tests.integration.server_process import STATE_SECONDS

_TEXT = "".join(demo_tokens(31, 300))
_ANSWER = demo(tokens=900, gap_ms=8, seed=31)
_BOUND = {"max_tokens": 300}
# Each token is a delta, however busy the machine is.
_FINE = {"batch_tokens": 1}
# A client that comes back waits for an answer's next task no longer than 20 s.
_LEASE_SECONDS = 10


async def _followed(
    completions: Completions, key: str, streamed: Streamed, until_index: int | None = None
) -> None:
    headers = {"Last_Event_ID": streamed.last_id} if streamed.last_id else {}
    async with completions.open(_ANSWER, Idempotency_Key=key, **headers, **_BOUND) as answer:
        assert answer.status == 200, await answer.text()
        await read_stream(answer, streamed, until_index)


async def _reached(streamed: Streamed, index: int) -> None:
    async with asyncio.timeout(STATE_SECONDS):
        while streamed.last_index < index:  # noqa: ASYNC110 - somebody else reads it
            await asyncio.sleep(0.005)


async def test_a_stream_goes_on_at_another_task(
    deployment: LocalDeployment, at: At, opened: OpenSession
) -> None:
    first, second = await deployment.handlers(2, **_FINE)
    token = (await opened(first)).token
    streamed = Streamed()
    for task, until_index in ((first, 10), (second, 20), (first, 30)):
        await _followed(at(task, token), "moves", streamed, until_index)
    await deployment.serve.time_passes_until(_followed(at(second, token), "moves", streamed))
    assert (streamed.text, streamed.finish_reason) == (_TEXT, "length")
    whole = await at(second, token).ask(_ANSWER, key="moves", **_BOUND)
    assert whole.json["choices"][0]["message"]["content"] == _TEXT
    assert await first.metric("responses_completed_total") == 1
    assert await second.metric("responses_completed_total") == 0


async def test_a_lost_task_s_answer_goes_on_and_ends_as_the_request_said(
    deployment: LocalDeployment, at: At, opened: OpenSession
) -> None:
    owner, other = await deployment.handlers(2, lease_seconds=_LEASE_SECONDS, **_FINE)
    token = (await opened(owner)).token
    staying, back = Streamed(), Streamed()
    await _followed(at(owner, token), "lost", back, 10)
    reading = asyncio.create_task(_followed(at(other, token), "lost", staying))
    whole = asyncio.create_task(at(other, token).ask(_ANSWER, key="lost", **_BOUND))
    await _reached(staying, 20)
    await owner.vanish()
    coming_back = asyncio.create_task(_followed(at(other, token), "lost", back))
    await deployment.serve.time_passes_until(asyncio.gather(coming_back, reading))
    for streamed in (staying, back):
        assert (streamed.text, streamed.finish_reason, streamed.error) == (_TEXT, "length", None)
        assert streamed.last_id.endswith(".2")
    answer = (await whole).json
    assert answer["choices"][0]["message"]["content"] == _TEXT
    assert answer["choices"][0]["finish_reason"] == "length"


_CALLING = demo(tokens=2, gap_ms=8, seed=31, calls=6)
_CALLS = {index: demo_call(index) for index in range(6)}


async def _read_calls(
    completions: Completions, streamed: Streamed, until_index: int | None = None
) -> None:
    headers = {"Last_Event_ID": streamed.last_id} if streamed.last_id else {}
    async with completions.open(
        _CALLING, Idempotency_Key="calls", tools=TOOLS, **headers
    ) as answer:
        assert answer.status == 200, await answer.text()
        await read_stream(answer, streamed, until_index)


async def test_calls_go_on_at_another_task(
    deployment: LocalDeployment, at: At, opened: OpenSession
) -> None:
    first, second = await deployment.handlers(2, **_FINE)
    token = (await opened(first)).token
    streamed = Streamed()
    for task, until_index in ((first, 10), (second, 20), (first, 30)):
        await _read_calls(at(task, token), streamed, until_index)
    await deployment.serve.time_passes_until(_read_calls(at(second, token), streamed))
    assert (streamed.calls, streamed.finish_reason) == (_CALLS, "tool_calls")
    whole = await at(second, token).ask(_CALLING, key="calls", tools=TOOLS)
    assert whole.json["choices"][0]["message"]["tool_calls"] == list(_CALLS.values())
    assert whole.json["choices"][0]["finish_reason"] == "tool_calls"


async def test_a_lost_task_s_calls_are_made_again_and_nobody_sees_it(
    deployment: LocalDeployment, at: At, opened: OpenSession
) -> None:
    owner, other = await deployment.handlers(2, lease_seconds=_LEASE_SECONDS, **_FINE)
    token = (await opened(owner)).token
    staying, back = Streamed(), Streamed()
    await _read_calls(at(owner, token), back, 10)
    reading = asyncio.create_task(_read_calls(at(other, token), staying))
    await _reached(staying, 20)
    await owner.vanish()
    coming_back = asyncio.create_task(_read_calls(at(other, token), back))
    await deployment.serve.time_passes_until(asyncio.gather(coming_back, reading))
    for streamed in (staying, back):
        assert (streamed.calls, streamed.finish_reason, streamed.error) == (
            _CALLS,
            "tool_calls",
            None,
        )
        assert streamed.last_id.endswith(".2")


async def test_a_leaving_task_finishes_what_a_client_without_a_key_waits_for(
    deployment: LocalDeployment, at: At, opened: OpenSession
) -> None:
    leaving = await deployment.handler(drain_seconds=20)
    token = (await opened(leaving)).token
    async with at(leaving, token).open(_ANSWER, **_BOUND) as answer:
        streamed = await read_stream(answer, until_index=5)
        leaving.leave()
        await deployment.serve.time_passes_until(read_stream(answer, streamed))
    assert (streamed.text, streamed.finish_reason) == (_TEXT, "length")
    await leaving.ended()


async def test_where_the_tenants_keys_are_not_known_a_session_s_token_is_needed(
    aws_deployment: AwsDeployment, at: At
) -> None:
    server = await aws_deployment.handler()
    refused = await at(server).ask(_ANSWER)
    assert (refused.status, refused.error["code"]) == (401, "invalid_api_key")
