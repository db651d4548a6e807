"""A node that alone can't reach the store."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from evenflow.fargate_handler.isolation import Isolation
from evenflow.fargate_handler.runtime.background import Background
from evenflow.stream_core.base.limits import Limits
from tests.unit.settle import settle


class Client:
    """A connection that reconnects when it is asked to."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def ask_to_reconnect(self, reason: str, after_ms: int) -> None:
        self._registry.asked.append((reason, after_ms))


class Registry(list[Client]):
    """Open connections."""

    def __init__(self) -> None:
        super().__init__()
        self.streams: set[Client] = set()
        self.asked: list[tuple[str, int]] = []
        self.is_closed = False

    def close_all(self, _code: int, _reason: str) -> None:
        self.is_closed = True


class Node:
    """A node with 20 clients, and two others."""

    def __init__(self) -> None:
        self.lease = SimpleNamespace(in_force=True, lapsed_for=0.0)
        self.registry = Registry()
        self.registry.extend(Client(self.registry) for _ in range(20))
        self.orchestrator: Any = SimpleNamespace(draining=False)
        self.orchestrator.stop_accepting = lambda: setattr(self.orchestrator, "draining", True)
        self.orchestrator.accept_again = lambda: setattr(self.orchestrator, "draining", False)
        self.holders: set[str] = set()
        self.background = Background()
        leases: Any = SimpleNamespace(other_addresses=lambda: ["http://b", "http://c"])
        registry: Any = self.registry
        lease: Any = self.lease
        orchestrator: Any = self.orchestrator
        self.isolation = Isolation(
            Limits(lease_seconds=3.0, drain_connections_per_second=1_000_000),
            lease,
            leases,
            self._holds_lease,
            orchestrator,
            registry,
            self.background,
        )

    async def _holds_lease(self, address: str) -> bool:
        return address in self.holders

    def lose_store(self, seconds: float) -> None:
        self.lease.in_force, self.lease.lapsed_for = False, seconds

    async def sweep(self) -> bool:
        self.isolation.check_lease()
        await settle()
        return self.isolation.is_isolated


@pytest.fixture
async def node() -> Any:
    node = Node()
    yield node
    await node.background.aclose()


async def test_its_clients_are_sent_to_nodes_that_reach_the_store(node: Node) -> None:
    node.holders = {"http://c"}
    node.lose_store(3.0)
    assert await node.sweep()
    assert node.orchestrator.draining
    assert len(node.registry.asked) == 20


async def test_it_takes_clients_again_when_its_lease_is_in_force(node: Node) -> None:
    node.holders = {"http://b"}
    node.lose_store(3.0)
    assert await node.sweep()
    node.lease.in_force = True
    assert not await node.sweep()
    assert not node.orchestrator.draining


async def test_while_no_node_reaches_the_store_all_stay(node: Node) -> None:
    node.lose_store(60.0)
    assert not await node.sweep()
    assert node.registry.asked == []
    assert not node.orchestrator.draining


async def test_a_lease_that_has_just_lapsed_is_waited_for(node: Node) -> None:
    node.holders = {"http://b", "http://c"}
    node.lose_store(2.9)
    assert not await node.sweep()
    assert node.registry.asked == []


async def test_a_leaving_node_is_left_alone(node: Node) -> None:
    node.holders = {"http://b"}
    node.orchestrator.draining = True
    node.lose_store(3.0)
    assert not await node.sweep()
