from __future__ import annotations

import pytest

from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.base.errors import Overloaded, RateLimited
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.bounds.memory_account import MemoryPart
from evenflow.stream_core.http.routes import RESPONSES_WEBSOCKET
from evenflow.stream_core.protocols.evenflow.session_init import OPEN_TENANT
from tests.unit.fargate_handler.gateway.client_harness import CHANNEL, Gateway
from tests.unit.fargate_handler.gateway.socket_in_memory import connected
from tests.unit.settle import settle

ELSE = Channel("public", "demo", "ses_2")
SENDER = ("public", "127.0.0.1")
OTHER = ("public", "203.0.113.1")


async def test_a_full_node_takes_no_one_more_not_even_to_replace() -> None:
    gateway = Gateway(Limits(connections_per_node=2))
    gateway.connect()
    assert not gateway.registry.full
    gateway.registry.check(CHANNEL, SENDER, replaces=False)
    gateway.connect()
    assert gateway.registry.full
    for replaces in (False, True):
        with pytest.raises(Overloaded) as refusal:
            gateway.registry.check(ELSE, SENDER, replaces)
        assert refusal.value.code == "node_full"
        assert refusal.value.retry_after_ms


async def test_a_session_has_so_many_connections_unless_it_asks_to_replace_them() -> None:
    gateway = Gateway(Limits(connections_per_session=2))
    for _ in range(2):
        gateway.registry.check(CHANNEL, SENDER, replaces=False)
        gateway.connect()
    with pytest.raises(RateLimited) as refusal:
        gateway.registry.check(CHANNEL, SENDER, replaces=False)
    assert refusal.value.code == "session_connections"
    gateway.registry.check(CHANNEL, SENDER, replaces=True)
    gateway.registry.check(ELSE, SENDER, replaces=False)


async def test_readers_with_a_ticket_are_not_counted_as_the_session_s() -> None:
    gateway = Gateway(Limits(connections_per_session=2, connections_per_node=6))
    crowd = [gateway.connect(only_for="rsp_1") for _ in range(5)]
    gateway.registry.check(CHANNEL, SENDER, replaces=False)
    gateway.registry.check(None, SENDER, replaces=False)
    assert not gateway.registry.of(CHANNEL)
    gateway.connect()
    assert gateway.registry.full
    for reader in crowd:
        reader.connection.disconnected()
    assert len(gateway.registry) == 1


async def test_one_address_that_has_all_connections_does_not_keep_others_out() -> None:
    gateway = Gateway(Limits(connections_per_node=8))
    for _ in range(8):
        gateway.connect(only_for="rsp_1")
    assert gateway.registry.full
    gateway.registry.check(ELSE, OTHER, replaces=False)
    with pytest.raises(Overloaded):
        gateway.registry.check(ELSE, SENDER, replaces=False)


# -- what sockets have not taken -------------------------------------------------------------------


async def test_what_sockets_have_not_taken_has_a_limit_and_those_with_the_most_are_let_go() -> None:
    gateway = Gateway()
    memory = MemoryPart(1_000)
    clients = [gateway.connect() for _ in range(4)]
    for client, unsent in zip(clients, (100, 500, 200, 0), strict=True):
        client.transport.unsent_bytes = unsent
        client.connection.block()
    assert gateway.registry.limit_unsent_bytes(memory) == 0
    assert memory.bytes == gateway.registry.unsent_bytes == 800
    assert [client.transport.close for client in clients] == [None] * 4
    clients[2].transport.unsent_bytes = 300
    assert gateway.registry.limit_unsent_bytes(memory) == 1
    assert memory.bytes == 400
    assert [client.transport.close is not None for client in clients] == [False, True, False, False]
    code, reason = clients[1].transport.close or (None, "")
    assert (code, reason) == (4008, "too slow; connect again")
    clients[0].connection.unblock()
    clients[2].connection.disconnected()
    gateway.registry.limit_unsent_bytes(memory)
    assert memory.bytes == 0


@pytest.mark.parametrize("path", ["/ws", RESPONSES_WEBSOCKET.path])
async def test_where_no_tenant_has_a_key_made_up_tenants_are_one_sender(path: str) -> None:
    gateway = Gateway()
    channels = [Channel(tenant, "demo", "ses_1") for tenant in ("acme", "globex")]
    sockets = [connected(gateway, path, channel) for channel in channels]
    assert [each.sender[0] for each in gateway.registry] == [OPEN_TENANT] * 2
    for each in sockets:
        each.lose()
    await settle()
