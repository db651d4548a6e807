"""A task that ECS has deactivated drains while its sockets still live; the signal comes later."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.chat_client import call, demo
from tests.integration.conftest import OpenSession, Serve
from tests.integration.ecs_agent import EcsAgent, ecs_agent


@pytest.fixture
async def agent() -> AsyncIterator[EcsAgent]:
    async with ecs_agent() as running:
        yield running


@pytest.fixture(autouse=True)
def asked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """ECS is asked every few milliseconds, not seconds."""
    monkeypatch.setattr(
        "evenflow.fargate_handler.scale_in_protection._DEACTIVATION_LOOK_SECONDS", (0.01, 0.02)
    )


async def test_deactivation_begins_the_drain_and_the_later_signal_does_not_hurry_it(
    agent: EcsAgent, serve: Serve, opened: OpenSession
) -> None:
    server = await serve(agent.environment, drain_seconds=20)
    session = await opened(server)
    async with session.connect() as reading, session.connect() as idle:
        start = await reading.message("m1", None, demo(tokens=200, gap_ms=5, seed=2))
        agent.last_status = "DEACTIVATING"
        assert (await idle.next_of("reconnect"))["after_ms"] >= 0
        assert await idle.closed() == 1001
        server.leave()
        answer = await reading.whole(start["response_id"])
        assert answer.text == "".join(demo_tokens(2, 200))
        assert await reading.closed() == 1001
    await server.ended()


async def test_a_task_that_may_not_ask_serves_on_and_leaves_by_signal(
    agent: EcsAgent, serve: Serve, http: aiohttp.ClientSession
) -> None:
    agent.refusing = True
    server = await serve(agent.environment)
    async with asyncio.timeout(30):
        await agent.asked.acquire()
        await agent.asked.acquire()
    assert (await call(http, "GET", f"{server.http_url}/health")).status == 200
    assert server.log.count("ECS can't be asked") == 1
    server.leave()
    await server.ended()


async def test_without_metadata_it_says_so_and_serves(
    serve: Serve, http: aiohttp.ClientSession, agent: EcsAgent
) -> None:
    wrong = agent.environment | {"ECS_CONTAINER_METADATA_URI_V4": f"{agent.url}/nothing"}
    server = await serve(wrong)
    assert "leaves only by SIGTERM" in server.log
    assert (await call(http, "GET", f"{server.http_url}/health")).status == 200


async def test_to_its_load_balancer_a_full_task_is_alive(
    serve: Serve, http: aiohttp.ClientSession, opened: OpenSession
) -> None:
    """ECS kills what its load balancer calls unhealthy, and a full task is not to be killed."""
    server = await serve(connections_per_node=1)
    async with (await opened(server)).connect():
        url = f"{server.http_url}/health"
        assert (await call(http, "GET", url)).status == 503
        checked = await call(http, "GET", url, headers={"User-Agent": "ELB-HealthChecker/2.0"})
        assert (checked.status, checked.json["status"]) == (200, "full")
