"""Workers whose names stand for others from one look to the next, or can't be looked up for a
while.
"""

from __future__ import annotations

import asyncio
import socket

import pytest

from evenflow.fargate_handler.inference import worker_source as grpc_worker
from evenflow.fargate_handler.inference.llm_v1 import inference_pb2 as wire
from evenflow.fargate_handler.inference.service import InferenceService
from evenflow.fargate_handler.token_sources.port import ModelOptions, ModelRequest
from evenflow.stream_core.session.conversation import Turn
from tests.integration.grpc_workers.conftest import Opened, Serving
from tests.integration.grpc_workers.scripted_source import FINISH, ScriptedSource, says
from tests.integration.openai.tools import TOOLS
from tests.integration.server_process import free_port
from tests.unit.fargate_handler.token_sources.recording_sink import RecordingSink

_ASKED = ModelRequest("demo", (Turn("user", "x"),), 1, options=ModelOptions(tools=tuple(TOOLS)))


class Names:
    """What names stand for; without an address, a name can't be looked up."""

    def __init__(self, **hosts: list[str]) -> None:
        self.hosts = hosts
        self.looks = 0

    async def look_up(self, host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        """See `getaddrinfo`."""
        self.looks += 1
        if not self.hosts[host]:
            raise socket.gaierror(socket.EAI_AGAIN, "for a while")
        return [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))
            for address in self.hosts[host]
        ]

    async def until_looked_up(self, times: int) -> None:
        """Wait until there were so many look-ups from now on."""
        wanted = self.looks + times
        async with asyncio.timeout(20):
            while self.looks < wanted:  # noqa: ASYNC110 - the other side is what is tested
                await asyncio.sleep(0.01)


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    """`a` and `b`, looked up ever so often."""
    names = Names(a=["127.0.0.1"], b=["127.0.0.2"])
    monkeypatch.setattr(grpc_worker, "_LOOK_SECONDS", 0.05)
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", names.look_up)
    return names


async def test_the_workers_of_a_name_that_cannot_be_looked_up_stay(
    serving: Serving, opened: Opened, names: Names
) -> None:
    models = [ScriptedSource(says("x")), ScriptedSource(says("x"))]
    port = free_port()
    for host, model in zip(("127.0.0.1", "127.0.0.2"), models, strict=True):
        await serving(model, address=f"{host}:{port}")
    source = opened([f"a:{port}", f"b:{port}"])
    await names.until_looked_up(4)
    connections = {worker.connection for worker in source._pool.workers}
    assert len(connections) == 2
    names.hosts["b"] = []
    await names.until_looked_up(6)
    assert {worker.connection for worker in source._pool.workers} == connections


async def test_a_worker_that_is_named_no_more_while_it_says_what_it_can_still_answers(
    serving: Serving, opened: Opened, names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, may_say = asyncio.Event(), asyncio.Event()

    async def describe(*_: object) -> wire.DescribeResponse:
        asked.set()
        await may_say.wait()
        return wire.DescribeResponse(tools=True, parts=True)

    monkeypatch.setattr(InferenceService, "Describe", describe)
    monkeypatch.setattr(grpc_worker, "_DESCRIBE_SECONDS", 20.0)
    may_say.set()
    port = free_port()
    await serving(ScriptedSource(says("x")), address=f"127.0.0.1:{port}")
    source = opened([f"a:{port}"])
    await names.until_looked_up(2)
    (worker,) = source._pool.workers
    worker.tools = None  # as of one that was away; `continues` stays, so that only the answer asks
    asked.clear()
    may_say.clear()
    answer = asyncio.ensure_future(source.generate(_ASKED, RecordingSink()))
    await asked.wait()
    names.hosts["a"] = ["127.0.0.2"]
    async with asyncio.timeout(20):
        while not worker.is_removed:  # noqa: ASYNC110 - the other side is what is tested
            await asyncio.sleep(0.01)
    may_say.set()
    assert await answer == FINISH
