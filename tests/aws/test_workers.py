"""Handlers and workers as two services, by the variables of their synthesized task definitions.

One address with both workers behind it stands for Service Connect, which no emulator has.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from evenflow.infra.constructs.service.workers import ServiceConnect
from evenflow.infra.settings.environment_settings import EnvironmentSettings
from evenflow.infra.settings.environments import environment
from tests.aws.running_system import RunningSystem
from tests.infrastructure.synthesis import synthesize
from tests.integration.answer import Answer
from tests.integration.chat_client import ChatSession, demo, open_session
from tests.integration.grpc_workers.one_address import OneAddress
from tests.integration.grpc_workers.workers import WorkerProcess
from tests.integration.server_process import ServerProcess

# The first test starts the system, on a machine that others may be using.
pytestmark = pytest.mark.timeout(400)

_ANSWERS = 8
_TOKENS = 150


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, str]]:
    """By the container, the variables that a dev with workers gives it and that are known before
    the deployment.
    """
    settings = EnvironmentSettings.model_validate(environment("dev").model_dump() | {"workers": {}})
    template = synthesize(settings, tmp_path_factory.mktemp("dev-workers")).templates["service"]
    return {
        container["Name"]: {
            each["Name"]: each["Value"]
            for each in container["Environment"]
            if isinstance(each["Value"], str)
        }
        for task in template["Resources"].values()
        if task["Type"] == "AWS::ECS::TaskDefinition"
        for container in task["Properties"]["ContainerDefinitions"]
    }


@pytest.fixture
def workers(
    system: RunningSystem, variables: Mapping[str, Mapping[str, str]], tmp_path: Path
) -> Iterator[list[WorkerProcess]]:
    """Two workers."""
    of_the_container = ("EVENFLOW_WORKER_HOST", "EVENFLOW_WORKER_PORT")
    environment = {
        name: value
        for name, value in {**system.aws.environment, **variables["worker"]}.items()
        if name not in of_the_container
    }
    started = [WorkerProcess(tmp_path / f"worker-{name}.log", environment) for name in "ab"]
    try:
        yield [worker.wait_until_serving() for worker in started]
    finally:
        for worker in started:
            worker.stop()


@pytest.fixture
async def handlers(
    system: RunningSystem,
    variables: Mapping[str, Mapping[str, str]],
    workers: list[WorkerProcess],
    tmp_path: Path,
) -> AsyncIterator[list[ServerProcess]]:
    """Two handlers besides those of the system, on its tables."""
    proxy = OneAddress([worker.address for worker in workers])
    await proxy.start()
    assert variables["handler"]["EVENFLOW_WORKERS"] == ServiceConnect.address
    environment = {
        **system.handler_environment,
        "EVENFLOW_MODEL": variables["handler"]["EVENFLOW_MODEL"],
        "EVENFLOW_MODEL_NAME": variables["handler"]["EVENFLOW_MODEL_NAME"],
        "EVENFLOW_WORKERS": proxy.address,
    }
    started = [ServerProcess(tmp_path / f"handler-{name}.log", environment) for name in "ab"]
    try:
        for handler in started:
            await asyncio.to_thread(handler.wait_until_serving)
        yield started
    finally:
        for handler in started:
            await asyncio.to_thread(handler.stop)
        await proxy.stop()


async def test_a_worker_that_is_killed_loses_no_answer_of_any_handler(
    system: RunningSystem,
    workers: list[WorkerProcess],
    handlers: list[ServerProcess],
    http: aiohttp.ClientSession,
) -> None:
    lost, kept = workers
    sessions = [await open_session(http, system.url) for _ in range(_ANSWERS)]
    begun = asyncio.Barrier(_ANSWERS + 1)

    async def read(number: int) -> Answer:
        session = sessions[number].at(handlers[number % 2])
        async with session.connect() as connection:
            text = demo(tokens=_TOKENS, gap_ms=30, seed=number)
            start = await connection.message("m1", None, text)
            await connection.reach(start["response_id"], 2)
            await begun.wait()
            return await connection.whole(start["response_id"])

    answers = [asyncio.ensure_future(read(number)) for number in range(_ANSWERS)]
    await begun.wait()
    assert (await lost.describe()).streams > 0
    assert (await kept.describe()).streams > 0
    lost.kill()
    for number, answer in enumerate(await asyncio.gather(*answers)):
        assert answer.text == "".join(demo_tokens(number, _TOKENS))
        assert (answer.finish_reason, answer.restarts) == ("stop", [])
    for session, handler in zip(sessions, [*handlers, *handlers], strict=False):
        assert await _next_answer(session.at(handler)) == "".join(demo_tokens(99, 3))


async def _next_answer(session: ChatSession) -> str:
    async with session.connect() as connection:
        answer: Any = await connection.ask("m2", "m1", demo(tokens=3, gap_ms=1, seed=99))
        assert (answer.finish_reason, answer.restarts) == ("stop", [])
        text: str = answer.text
        return text
