"""Protection from scale-in against an agent and an API of ECS over real sockets."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import closing

import pytest
from aiobotocore.session import AioSession, get_session
from aiohttp import web
from botocore.exceptions import ClientError

from evenflow.fargate_handler.scale_in_protection import ScaleInProtection
from evenflow.stream_aws.ecs_task import CLIENT_CONFIG, EcsTask, ProtectionUnchanged, TaskProtection
from tests.integration.aws_emulator import REGION
from tests.integration.ecs_agent import DEPLOYMENT, HOST, EcsAgent, deployment, ecs_agent


@pytest.fixture
async def agent() -> AsyncIterator[EcsAgent]:
    async with ecs_agent() as running:
        yield running


@pytest.fixture(scope="module")
def sdk() -> AioSession:
    """It reads its descriptions of ECS once."""
    return get_session()


@pytest.fixture
async def task(sdk: AioSession, agent: EcsAgent) -> AsyncIterator[EcsTask]:
    async with sdk.create_client(
        "ecs",
        config=CLIENT_CONFIG,
        endpoint_url=agent.url,
        region_name=REGION,
        aws_access_key_id="testing",
        aws_secret_access_key="testing",
    ) as client:
        yield await EcsTask.own(client, agent.environment["ECS_CONTAINER_METADATA_URI_V4"])


async def test_the_agent_is_told_and_gives_its_answer(agent: EcsAgent) -> None:
    protection = TaskProtection(agent.agent_uri)
    await protection.protect(2)
    await protection.release()
    assert agent.protections == [(True, 2), (False, None)]


async def test_what_ecs_does_not_do_is_said_with_its_reason(agent: EcsAgent) -> None:
    protection = TaskProtection(agent.agent_uri)
    agent.blocked = "DEPLOYMENT_BLOCKED"
    with pytest.raises(ProtectionUnchanged, match="DEPLOYMENT_BLOCKED"):
        await protection.protect(2)
    agent.refusing = True
    with pytest.raises(ProtectionUnchanged, match="AccessDeniedException: not authorized"):
        await protection.release()


async def test_an_agent_that_is_none_or_not_there(agent: EcsAgent) -> None:
    with pytest.raises(ProtectionUnchanged):
        await TaskProtection(f"{agent.url}/nothing").protect(2)
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        free = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with pytest.raises(ProtectionUnchanged, match="did not answer"):
        await TaskProtection(free).protect(2)


@pytest.mark.parametrize(
    "body", ["null", "[]", "7", '{"protection": null}', '{"failure": {}}', "{", "\xff"]
)
async def test_an_agent_that_talks_nonsense(body: str) -> None:
    async def answer(_request: web.Request) -> web.Response:
        return web.Response(body=body.encode("latin-1"), content_type="application/json")

    app = web.Application()
    app.add_routes([web.put("/task-protection/v1/state", answer)])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        with pytest.raises(ProtectionUnchanged):
            await TaskProtection(f"http://127.0.0.1:{runner.addresses[0][1]}").release()
    finally:
        await runner.cleanup()


@pytest.mark.parametrize(
    ("deployments", "surplus"),
    [
        ([deployment(DEPLOYMENT, "PRIMARY", running=3, desired=3)], False),
        ([deployment(DEPLOYMENT, "PRIMARY", running=2, desired=3)], False),
        ([deployment(DEPLOYMENT, "PRIMARY", running=4, desired=3)], True),
        (
            [
                deployment("ecs-svc/2", "PRIMARY", running=1, desired=3),
                deployment(DEPLOYMENT, "ACTIVE"),
            ],
            True,
        ),
        # The tasks of the deployment before are on their way out, those of this one are as many as
        # they should be.
        (
            [
                deployment(DEPLOYMENT, "PRIMARY", running=3, desired=3),
                deployment("ecs-svc/0", "ACTIVE", desired=0),
            ],
            False,
        ),
        ([], False),
    ],
    ids=["as wanted", "too few", "too many", "a newer deployment", "an older deployment", "none"],
)
async def test_a_task_is_surplus_when_ecs_wants_to_end_some_like_it(
    agent: EcsAgent, task: EcsTask, deployments: list[dict[str, object]], surplus: bool
) -> None:
    agent.deployments = deployments
    assert await task.is_surplus() is surplus


async def test_a_task_that_may_not_ask_says_so(agent: EcsAgent, task: EcsTask) -> None:
    agent.refusing = True
    with pytest.raises(ClientError, match="AccessDenied"):
        await task.is_surplus()


async def test_a_task_knows_where_others_reach_it(task: EcsTask) -> None:
    assert task.host == HOST


async def test_a_busy_task_lets_a_deployment_go_on(agent: EcsAgent, task: EcsTask) -> None:
    keeping = ScaleInProtection(TaskProtection(agent.agent_uri), task.is_surplus, lambda: True)
    await keeping.look(1000)
    assert agent.protections == [(True, 2)]
    agent.deployments = [deployment("ecs-svc/2", "PRIMARY"), deployment(DEPLOYMENT, "ACTIVE")]
    await keeping.look(1061)
    assert agent.protections[1:] == [(False, None)]
    await keeping.look(1122)
    assert len(agent.protections) == 2
