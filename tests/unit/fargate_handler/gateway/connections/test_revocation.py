"""What was opened with a key, a token or neither ends when that is no longer valid."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from evenflow.fargate_handler.gateway.connections.revocation import Revocation
from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.tenants.tenant import ApiKey, Tenant
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.gateway.http_calls import Calls, RecordingWriter
from tests.unit.fargate_handler.orchestrator.tasks_on_one_store import CHANNEL, Shared, Task
from tests.unit.settle import settle

pytestmark = pytest.mark.usefixtures("tasks_end_with_the_test")
HEARTBEAT = 25.0


class Node:
    """A node that sweeps once a second, as the handler does."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.revocation = Revocation(gateway.context)

    async def pass_time(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            await self.gateway.clock.pass_time(1.0, step=0.25)
            self.revocation.sweep(self.gateway.clock.now)
            await settle()


async def test_a_socket_ends_with_its_token_within_a_heartbeat() -> None:
    gateway = Gateway()
    node, client = Node(gateway), gateway.connect()
    session = client.connection.session
    session.claims = SessionClaims(CHANNEL, int(gateway.clock.now + 10), 0)
    await node.pass_time(9)
    assert client.transport.close is None
    await node.pass_time(HEARTBEAT + 1)
    assert client.transport.close is not None
    assert client.transport.close[0] == 1000, "its client may come back with another token"


async def test_a_session_that_is_ended_at_another_task_loses_its_sockets_here() -> None:
    shared = Shared()
    a, b = await Task.join(shared, "a"), await Task.join(shared, "b")
    gateway = Gateway(task=b)
    node, client, ticket = Node(gateway), gateway.connect(), gateway.connect(only_for="rsp_1")
    await a.orchestrator.end_session(client.channel)
    await node.pass_time(HEARTBEAT + 1)
    for each in (client, ticket):
        assert each.transport.close is not None
        assert each.transport.close[0] == 1000


async def test_what_was_opened_without_a_key_ends_once_the_first_tenant_has_one() -> None:
    gateway = Gateway()
    node, client = Node(gateway), gateway.connect()
    await client.say()
    (answer,) = gateway.orchestrator.responses.of(client.channel)
    await node.pass_time(2)
    assert (client.transport.close, answer.state.terminal) == (None, False)
    gateway.task.tenants.replace([Tenant(id="acme", keys=(ApiKey.of_text("k1", "1"),))])
    await node.pass_time(1)
    assert client.transport.close is not None
    assert answer.state == "cancelled"


async def test_a_removed_tenant_has_no_socket_and_need_not_come_back() -> None:
    gateway = Gateway()
    node, client = Node(gateway), gateway.connect()
    gateway.task.tenants.replace([], removed={client.channel.tenant})
    await node.pass_time(1)
    assert client.transport.close is not None
    assert client.transport.close[0] == 1008


async def test_what_is_known_here_counts_at_once_while_the_store_is_silent() -> None:
    task = await Task.join(Shared(), "a")
    gateway = Gateway(task=task)
    node, client = Node(gateway), gateway.connect()
    task.sessions.network.hold("find_ended")
    task.tenants.replace([], removed={client.channel.tenant})
    await node.pass_time(1)
    task.sessions.network.release()
    assert client.transport.close is not None


@pytest.mark.parametrize("end", ["expiry", "removal"])
async def test_a_stream_of_events_ends_with_its_token_and_its_tenant(end: str) -> None:
    gateway = Gateway()
    node, client = Node(gateway), gateway.connect()
    await client.say()
    await settle()
    response = gateway.stream(client)
    writer = RecordingWriter()
    calls = Calls(gateway.context, client.channel)
    reading = asyncio.create_task(
        calls.call("GET", f"/chat/message/{response.response_id}/events", writer=writer)
    )
    await settle()
    response.push("begun")
    await gateway.clock.pass_time(1.0)
    assert b"begun" in writer.written
    if end == "expiry":
        for stream in gateway.registry.streams:
            assert stream.grant is not None
            stream.grant = stream.grant._replace(expires_at=gateway.clock.now)  # type: ignore[misc]
        await node.pass_time(HEARTBEAT + 1)
        assert not response.log.closed, "the answer goes on"
        assert b"event: error" not in writer.written, "its client comes back with another token"
    else:
        gateway.task.tenants.replace([], removed={client.channel.tenant})
        await node.pass_time(1)
        assert response.state == "cancelled"
    assert reading.done()
    assert isinstance(await reading, web.StreamResponse)
