"""haproxy as the load balancer: one port for HTTP and WebSockets, sticky by WSID; a target can be
deregistered.

Checks are quicker than the load balancer's of the stacks, so that a run has time for more faults.
As there, all nodes get requests again when none of them is healthy: each stands a second time,
unchecked, as a backup of all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

_UNCHECKED = "-unchecked"


def configuration(port: int, nodes: Mapping[str, int], control: Path) -> str:
    """haproxy's configuration file.

    Args:
        nodes: the port by which each is reached.
    """
    checked = "\n".join(
        f"    server {name} 127.0.0.1:{node_port} check inter 1s fall 2 rise 1"
        for name, node_port in nodes.items()
    )
    backups = "\n".join(
        f"    server {name}{_UNCHECKED} 127.0.0.1:{node_port} backup"
        for name, node_port in nodes.items()
    )
    return f"""\
global
    maxconn 9000
    nbthread 1
    stats socket {control} mode 600 level admin

defaults
    mode http
    option http-no-delay
    option redispatch
    retries 2
    timeout connect 3s
    timeout http-request 10s
    timeout client 90s
    timeout server 90s
    timeout tunnel 90s
    timeout check 3s

frontend edge
    bind 127.0.0.1:{port} backlog 8192
    option forwardfor
    default_backend nodes

backend nodes
    balance leastconn
    stick-table type string len 64 size 100k expire 3600s
    stick match req.cook(WSID)
    stick store-response res.cook(WSID)
    option httpchk GET /health
    http-check expect status 200
    option allbackups
{checked}
{backups}
"""


class LoadBalancerControl:
    """haproxy's run-time commands."""

    def __init__(self, control: Path) -> None:
        self._control = str(control)

    async def deregister(self, name: str) -> None:
        """No new connection goes to this node; those that are open stay."""
        await self._set(name, "maint")

    async def register(self, name: str) -> None:
        """It takes part again, once it is healthy."""
        await self._set(name, "ready")

    async def serving(self) -> set[str]:
        """The nodes that get new connections."""
        lines = (await self._say("show stat nodes 4 -1")).splitlines()
        columns = lines[0].lstrip("# ").split(",")
        rows = [dict(zip(columns, line.split(","), strict=False)) for line in lines[1:] if line]
        return {
            row["svname"]
            for row in rows
            if row["pxname"] == "nodes" and row["status"].startswith("UP")
        }

    async def _set(self, name: str, state: str) -> None:
        for server in (f"nodes/{name}", f"nodes/{name}{_UNCHECKED}"):
            await self._say(f"set server {server} state {state}")

    async def _say(self, command: str) -> str:
        reader, writer = await asyncio.open_unix_connection(self._control)
        writer.write(f"{command}\n".encode())
        answer = (await reader.read()).decode()
        writer.close()
        return answer
