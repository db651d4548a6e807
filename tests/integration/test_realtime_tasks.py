"""`/realtime` where several tasks share their responses: come back to any of them, and outlive
the one that answered.
"""

from __future__ import annotations

import asyncio

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.chat_client import demo
from tests.integration.conftest import OpenSession
from tests.integration.deployment import LocalDeployment
from tests.integration.realtime_client import Spoken, realtime


async def test_resumed_at_another_task_with_a_pace_of_its_own(
    deployment: LocalDeployment, opened: OpenSession
) -> None:
    here, there = await deployment.handlers(2)
    session = await opened(here)
    async with realtime(session) as connection:
        response_id = await connection.start(
            "m1", None, demo(tokens=80, gap_ms=20, seed=41), credit=4
        )
        held = await connection.reach(response_id, 3)
    async with realtime(session.at(there)) as connection:
        started = await connection.resume(response_id, held, epoch=1, credit=3)
        assert (started["next_index"], started["via"]) == (4, "peer")
        assert (await connection.reach(response_id, 6)).last == 6
        assert await connection.silent_for(0.3) == []
        await connection.send("credit", response_id=response_id, n=1000)
        spoken = await deployment.serve.time_passes_until(connection.whole(response_id))
    assert spoken.text == "".join(demo_tokens(41, 80))


async def test_a_leaving_task_hands_its_answer_over_and_the_client_resumes_it(
    deployment: LocalDeployment, opened: OpenSession
) -> None:
    here, there = await deployment.handlers(2, drain_seconds=0.5)
    session = await opened(here)
    async with realtime(session) as connection:
        response_id = await connection.start(
            "m1", None, demo(tokens=120, gap_ms=20, seed=42), credit=10_000
        )
        await connection.reach(response_id, 3)
        here.leave()
        told = await connection.next_of("reconnect")
        held = connection.spoken[response_id]
    await asyncio.sleep(told["after_ms"] / 1000)
    async with realtime(session.at(there)) as connection:
        await connection.resume(response_id, held, epoch=held.epoch, credit=10_000)
        spoken = await deployment.serve.time_passes_until(connection.whole(response_id))
    assert spoken.text == "".join(demo_tokens(42, 120))
    assert not [frame for frame in spoken.restarts if frame["index"] == -1], (
        "nobody begins again after a deployment"
    )
    await here.ended()


async def test_credit_outlives_the_task_that_answered(
    deployment: LocalDeployment, opened: OpenSession
) -> None:
    here, there = await deployment.handlers(2)
    session = await opened(here)
    posted = await session.post("m1", None, demo(tokens=150, gap_ms=20, seed=43))
    response_id: str = posted.json["response_id"]
    async with realtime(session.at(there)) as connection:
        await connection.resume(response_id, Spoken(), epoch=1, credit=5)
        await connection.reach(response_id, 4)
        await here.vanish()
        await deployment.lease_runs_out()
        # Without more credit nothing but the news of the next owner comes.
        began = await connection.next_of("started", seconds=30)
        assert began["next_index"] in (0, 5)
        came = await connection.silent_for(0.5)
        assert "token" not in [frame["type"] for frame in came]
        await connection.send("credit", response_id=response_id, n=10_000)
        spoken = await deployment.serve.time_passes_until(connection.whole(response_id, seconds=30))
    assert spoken.text == "".join(demo_tokens(43, 150))
