"""A client may change its transport in the middle of an answer, at any index."""

from __future__ import annotations

import asyncio

import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Answer
from tests.integration.chat_client import COMPACT, V1, demo
from tests.integration.conftest import OpenSession
from tests.integration.event_stream import read_answer


@pytest.mark.parametrize(("first", "second", "gap_ms"), [(V1, COMPACT, 10), (COMPACT, V1, 3)])
async def test_websocket_poll_sse_websocket(
    opened: OpenSession, first: str, second: str, gap_ms: int
) -> None:
    session = await opened()
    tokens = 2000 // gap_ms
    async with session.connect(first) as connection:
        start = await connection.message("m1", None, demo(tokens=tokens, gap_ms=gap_ms, seed=31))
        response_id = start["response_id"]
        answer = await connection.reach(response_id, 3)
    polled = (await session.poll(response_id, answer.last + 1)).json
    assert polled["status"] == "streaming"
    answer = Answer(polled["chunk_index"], answer.text + polled["new_text"])
    async with session.events(response_id, Last_Event_ID=str(answer.last)) as stream:
        await read_answer(stream, answer, answer.last + 3)
    async with session.connect(second) as connection:
        ended = await connection.resume(response_id, answer.last, answer.text)
        await connection.whole(response_id)
    assert ended.text == "".join(demo_tokens(31, tokens))
    assert ended.finish_reason == "stop"


async def test_all_transports_at_once(opened: OpenSession) -> None:
    session = await opened()
    response_id = (await session.post("m1", None, demo(tokens=40, bursty="true", seed=32))).json[
        "response_id"
    ]

    async def over_sse() -> str:
        answer = Answer()
        async with session.events(response_id) as stream:
            await read_answer(stream, answer)
        return answer.text

    async def over_websocket(protocol: str) -> str:
        async with session.connect(protocol) as connection:
            answer = await connection.resume(response_id, -1)
            await connection.whole(response_id)
            return answer.text

    async def over_polls() -> str:
        return (await session.poll_whole(response_id))[1]

    texts = await asyncio.gather(
        over_sse(), over_websocket(V1), over_websocket(COMPACT), over_polls()
    )
    assert set(texts) == {"".join(demo_tokens(32, 40))}
