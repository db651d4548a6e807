"""The system under test: three handlers, the store, the model, the load balancer, and a network
that can be cut between them.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp
import orjson

from tests.aws.child_process import ChildProcess
from tests.chaos.load_balancer import LoadBalancerControl, configuration
from tests.chaos.node import Node
from tests.chaos.plan import Plan
from tests.chaos.usage_rows import UsageTable
from tests.integration.aws_emulator import CREDENTIALS, table_names
from tests.integration.server_process import clean_environment, free_ports

NODES = ("a", "b", "c")
KEY_ID = "chaos"
_START_SECONDS = 30.0
_HEALTHY_SECONDS = 30.0


class NotHealthy(Exception):
    """Nodes don't answer their health checks."""


@dataclass
class System:
    """What runs.

    Args:
        url: the entry.
        secret: of the key that signs tokens.
    """

    url: str
    secret: str
    nodes: dict[str, Node]
    store: StoreControl
    balancer: LoadBalancerControl
    network: NetworkControl
    model: ModelControl
    usage: UsageTable
    children: dict[str, int]
    """Name → process id, of everything but the nodes."""

    async def until_healthy(self) -> None:
        """Wait until every node gets new connections.

        Raises:
            NotHealthy: that takes too long.
        """
        give_up_at = monotonic() + _HEALTHY_SECONDS
        while (serving := await self.balancer.serving()) != set(self.nodes):
            if monotonic() > give_up_at:
                raise NotHealthy(
                    f"after {_HEALTHY_SECONDS:g} s only these nodes are healthy: {sorted(serving)}"
                )
            await asyncio.sleep(0.1)


class NetworkControl:
    """Commands to `tests.chaos.network`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._turn = asyncio.Lock()

    async def link(self, name: str, listen: int, target: int) -> None:
        """A new link."""
        await self._say({"do": "link", "name": name, "listen": listen, "target": target})

    async def set(self, names: Sequence[str], mode: str = "open", delay_ms: float = 0) -> None:
        """See `tests.chaos.network`."""
        await self._say({"do": "set", "names": names, "mode": mode, "delay_ms": delay_ms})

    async def reset(self, names: Sequence[str], share: float = 1.0) -> None:
        """Reset what is connected, or a share of it, drawn at random."""
        await self._say({"do": "reset", "names": names, "share": share})

    def close(self) -> None:
        """Give no more commands."""
        self._writer.close()

    async def _say(self, command: dict[str, Any]) -> None:
        async with self._turn:
            self._writer.write(orjson.dumps(command) + b"\n")
            if not await self._reader.readline():
                raise RuntimeError("the network process has ended")


class _Administered:
    """A process that takes its commands over HTTP."""

    def __init__(self, http: aiohttp.ClientSession, port: int) -> None:
        self._http = http
        self._url = f"http://127.0.0.1:{port}/admin"

    async def _post(self, what: str, body: object) -> dict[str, Any]:
        async with self._http.post(f"{self._url}/{what}", data=orjson.dumps(body)) as answer:
            value: dict[str, Any] = orjson.loads(await answer.read())
            return value


class StoreControl(_Administered):
    """Commands to `tests.chaos.store`."""

    async def throttle(self, share: float) -> None:
        """Refuse that share of the requests, or do them in part."""
        await self._post("throttle", {"share": share})

    async def reset(self) -> None:
        """Reset the connections of whoever asks."""
        await self._post("reset", {})

    async def heal(self) -> None:
        """End both."""
        await self._post("heal", {})


class ModelControl(_Administered):
    """Commands to `tests.chaos.model`."""

    async def stall(self, seconds: float) -> None:
        """No token for so long."""
        await self._post("stall", {"seconds": seconds})

    async def break_off(self, share: float) -> None:
        """Cut that share of the streams."""
        await self._post("break", {"share": share})

    async def calls(self) -> dict[str, Any]:
        """What it was asked so far."""
        return await self._post("calls", {})


@asynccontextmanager
async def running_system(
    plan: Plan, folder: Path, say: Callable[[str], None]
) -> AsyncIterator[System]:
    """Start everything; all of it is ended when left.

    Args:
        folder: for logs.
    """
    async with AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession())
        say("starting the store, the model and the network")
        store_port, model_port, network_port, entry_port = free_ports(4)
        store = _child(stack, folder, "store", str(store_port), _prefix(plan))
        model = _child(stack, folder, "model", str(model_port))
        network = _child(stack, folder, "network", str(network_port))
        store.wait_until_accepting(store_port, _START_SECONDS)
        model.wait_until_accepting(model_port, _START_SECONDS)
        network.wait_until_accepting(network_port, _START_SECONDS)
        secret = secrets.token_urlsafe(32)
        environment = _environment(plan, secret, model_port)
        nodes = {name: Node(name, environment | _of_node(name), folder) for name in NODES}
        control = NetworkControl(*await asyncio.open_connection("127.0.0.1", network_port))
        stack.callback(control.close)
        await _lay_links(control, nodes, store_port)
        tenants = str(table_names(_prefix(plan)).tenants)
        usage = UsageTable(f"http://127.0.0.1:{store_port}", tenants)
        await usage.make_tenant()
        say("starting three handlers and the load balancer")
        for node in nodes.values():
            stack.callback(node.kill)
        await asyncio.gather(*(node.start() for node in nodes.values()))
        balancer = _start_balancer(stack, folder, entry_port, nodes)
        children = {
            "model": model.process.pid,
            "network": network.process.pid,
            "balancer": balancer.process.pid,
        }
        system = System(
            url=f"http://127.0.0.1:{entry_port}",
            secret=secret,
            nodes=nodes,
            store=StoreControl(http, store_port),
            balancer=LoadBalancerControl(folder / "haproxy.sock"),
            network=control,
            model=ModelControl(http, model_port),
            usage=usage,
            children=children | {"store": store.process.pid},
        )
        await system.until_healthy()
        yield system


def _prefix(plan: Plan) -> str:
    return f"chaos-{plan.run}"


def _environment(plan: Plan, secret: str, model_port: int) -> dict[str, str]:
    tables = table_names(_prefix(plan))
    settings = {
        "store": "dynamodb",
        "sessions_table": tables.sessions,
        "ledger_table": tables.ledger,
        "responses_table": tables.responses,
        "tenants_table": tables.tenants,
        "lease_seconds": plan.lease_seconds,
        "drain_seconds": plan.drain_seconds,
        "token_keys": f"{KEY_ID}:{secret}",
        "model": "openai",
        "model_url": f"http://127.0.0.1:{model_port}/v1",
        "model_name": "chaos",
        # It says words, and runs no tools.
        "model_repeatable": True,
        # An answer of the fallback would be taken for the model's.
        "fallback_text": "",
        # Who can't come back for a minute, since nothing is there to come back to, has not left.
        "grace_seconds": plan.patience_seconds,
        # One tenant is the whole load here.
        "generations_per_node": 4_000,
    }
    return CREDENTIALS | {
        f"EVENFLOW_{name.upper()}": str(value) for name, value in settings.items()
    }


def _of_node(name: str) -> dict[str, str]:
    # Two go on from what a lost task had said, one begins again, so that readers meet both.
    return {"EVENFLOW_MODEL_CONTINUES": str(name != "c").lower()}


async def _lay_links(control: NetworkControl, nodes: dict[str, Node], store_port: int) -> None:
    for node in nodes.values():
        for name, (listen, target) in node.links.items():
            await control.link(name, listen, target)
        await control.link(node.store_link, node.store_port, store_port)


def _child(stack: AsyncExitStack, folder: Path, module: str, *arguments: str) -> ChildProcess:
    command = [sys.executable, "-m", f"tests.chaos.{module}", *arguments]
    child = ChildProcess(command, clean_environment({}), folder / f"{module}.log")
    stack.callback(child.stop)
    return child


def _start_balancer(
    stack: AsyncExitStack, folder: Path, port: int, nodes: dict[str, Node]
) -> ChildProcess:
    path = folder / "haproxy.cfg"
    path.write_text(
        configuration(
            port, {name: node.client_port for name, node in nodes.items()}, folder / "haproxy.sock"
        )
    )
    balancer = ChildProcess(
        ["haproxy", "-db", "-f", str(path)], dict(os.environ), folder / "haproxy.log"
    )
    stack.callback(balancer.stop)
    return balancer.wait_until_accepting(port, _START_SECONDS)
