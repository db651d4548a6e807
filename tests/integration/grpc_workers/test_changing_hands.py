"""An answer changes hands between two handlers in front of one worker: it is continued there,
and not begun again.
"""

from __future__ import annotations

import asyncio

import aiohttp

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.answer import Answer
from tests.integration.chat_client import V1, demo, open_session
from tests.integration.deployment import LocalDeployment
from tests.integration.grpc_workers.conftest import Workers
from tests.integration.transports import AT_HANDLERS, over_websocket, read_whole

_TOKENS = 200


async def test_a_handler_leaves_and_the_worker_goes_on_for_the_next(
    deployment: LocalDeployment, workers: Workers, http: aiohttp.ClientSession
) -> None:
    worker = await workers()
    leaving, staying = await deployment.handlers(
        2, model="grpc", workers=worker.address, drain_seconds=0.5
    )
    session = await open_session(http, leaving.http_url)
    posted = await session.post("m1", None, demo(tokens=_TOKENS, gap_ms=15, seed=41))
    response_id = posted.json["response_id"]
    reading = asyncio.create_task(
        read_whole(AT_HANDLERS["websocket"], [session, session.at(staying)], response_id)
    )
    await over_websocket(V1, session, response_id, Answer(), 12)
    leaving.leave()
    answer = await reading
    assert (answer.text, answer.finish_reason, answer.epoch) == (
        "".join(demo_tokens(41, _TOKENS)),
        "stop",
        2,
    )
    # What had been generated and not written yet came twice; begun again, it would be all of what
    # came before: 60 and more.
    assert (await worker.describe()).tokens_taken < _TOKENS * 1.2
