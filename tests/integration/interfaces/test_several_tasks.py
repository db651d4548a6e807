"""A chat is found at every task, by its id alone: read, gone on with, stopped."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest

from evenflow.fargate_handler.token_sources.demo.script import demo_tokens
from tests.integration.chat_client import demo
from tests.integration.conftest import OpenSession
from tests.integration.deployment import AwsDeployment, LocalDeployment
from tests.integration.interfaces.interface_client import Heard, InterfaceClient, hear
from tests.integration.local_server import LocalServer

_COUNT = 300
_TEXT = "".join(demo_tokens(31, _COUNT))
_LONG = demo(tokens=_COUNT, gap_ms=8, seed=31)
_SHORT = demo(tokens=2)
# Each token is a delta, however busy the machine is.
_FINE = {"batch_tokens": 1}
_LEASE_SECONDS = 10

Tasks = tuple[LocalServer, LocalServer, str]
Clients = tuple[InterfaceClient, InterfaceClient]


@pytest.fixture
async def tasks(deployment: LocalDeployment, opened: OpenSession) -> Tasks:
    """Two tasks, and a session's token."""
    first, second = await deployment.handlers(2, lease_seconds=_LEASE_SECONDS, **_FINE)
    return first, second, (await opened(first)).token


@pytest.fixture
def clients(http: aiohttp.ClientSession, tasks: Tasks) -> Clients:
    """A client of each task, for the session."""
    first, second, token = tasks
    return InterfaceClient(http, first, token), InterfaceClient(http, second, token)


async def test_an_answer_is_read_from_its_beginning_at_another_task(
    deployment: LocalDeployment, clients: Clients
) -> None:
    one, other = clients
    async with one.send("chat", _LONG) as answer:
        first = await hear(answer, characters=50)
        async with other.resume("chat") as again:
            second = asyncio.create_task(hear(again))
            await deployment.serve.time_passes_until(hear(answer, first))
            assert (await second).message_id == first.message_id
    assert (first.text, second.result().text) == (_TEXT, _TEXT)
    assert first.types[-2:] == ["finish-step", "finish"]


async def test_stop_at_another_task_stops_the_model(tasks: Tasks, clients: Clients) -> None:
    one, other = clients
    async with one.send("chat", _LONG) as answer:
        heard = await hear(answer, characters=50)
        assert (await other.stop("chat")).json == {"success": True}
        await hear(answer, heard)
    assert heard.types[-1] == "abort"
    assert len(heard.text) < len(_TEXT)
    await tasks[0].until_metric("generations_running", 0)
    async with other.resume("chat") as nothing:
        assert nothing.status == 204


async def test_a_chat_goes_on_at_another_task(clients: Clients) -> None:
    one, other = clients
    ids = set()
    for client in (one, other, one, one, other):
        async with client.send("chat", _SHORT) as answer:
            ids.add((await hear(answer)).message_id)
    assert len(ids) == 5


async def test_a_chat_is_found_by_its_last_message_alone(
    aws_deployment: AwsDeployment, http: aiohttp.ClientSession, opened: OpenSession
) -> None:
    """Its messages are whole conversations: all of them would be megabytes."""
    first, second = await aws_deployment.handlers(2, **_FINE)
    token = (await opened(first)).token
    one, other = (InterfaceClient(http, task, token) for task in (first, second))
    for client, key in ((one, "a"), (other, "b"), (one, "c")):
        async with client.send("chat", _SHORT, Idempotency_Key=key) as answer:
            last = await hear(answer)
    async with other.send("chat", _SHORT, Idempotency_Key="c") as again:
        assert (await hear(again)).message_id == last.message_id
    async with other.resume("chat", last.message_id, Last_Event_ID="0") as rest:
        assert (await hear(rest)).text == "".join(demo_tokens(1, 2)[1:])


async def test_a_lost_task_s_answer_goes_on(
    deployment: LocalDeployment, http: aiohttp.ClientSession, tasks: Tasks
) -> None:
    owner, survivor, token = tasks
    one, other = (InterfaceClient(http, task, token) for task in (owner, survivor))
    async with one.send("chat", _LONG) as answer:
        await hear(answer, characters=50)
        async with other.resume("chat") as again:
            heard = await hear(again, characters=60)
            await owner.vanish()
            await deployment.serve.time_passes_until(hear(again, heard))
    assert (heard.text, heard.types[-1]) == (_TEXT, "finish")


async def test_a_client_with_a_cursor_goes_on_where_it_was_to_the_end_and_after(
    deployment: LocalDeployment, clients: Clients
) -> None:
    one, other = clients
    async with one.send("chat", _LONG) as answer:
        heard = await hear(answer, characters=50)
    response_id = heard.message_id
    async with other.resume("chat", response_id, Last_Event_ID=heard.last_id) as again:
        await hear(again, heard, characters=100)
    partly = Heard(heard.text, heard.last_id)
    async with other.resume("chat", response_id, Last_Event_ID=heard.last_id) as again:
        await deployment.serve.time_passes_until(hear(again, heard))
    async with one.send("chat", _SHORT) as newer:
        await hear(newer)
    async with one.resume("chat", response_id, Last_Event_ID=partly.last_id) as ended:
        await hear(ended, partly)
    assert (heard.text, partly.text) == (_TEXT, _TEXT)
    assert "start" not in partly.types


async def test_a_run_is_the_same_at_another_task(
    deployment: LocalDeployment, tasks: Tasks, clients: Clients
) -> None:
    one, other = clients
    async with one.run("run", _LONG) as answer:
        heard = await hear(answer, characters=50)
    async with other.run("run", _LONG, Last_Event_ID=heard.last_id) as again:
        await deployment.serve.time_passes_until(hear(again, heard))
    assert (heard.text, heard.types[-1]) == (_TEXT, "RUN_FINISHED")
    assert await tasks[0].metric("responses_completed_total") == 1
    assert await tasks[1].metric("responses_completed_total") == 0


async def test_a_run_is_stopped_at_another_task(tasks: Tasks, clients: Clients) -> None:
    one, other = clients
    async with one.run("run", _LONG) as answer:
        heard = await hear(answer, characters=50)
        assert (await other.stop_run("run")).json == {"success": True}
        await hear(answer, heard)
    assert heard.events[-1]["outcome"] == {"type": "cancelled"}
    await tasks[0].until_metric("generations_running", 0)
