"""The server under measurement: `python -m fargate_handler` with its limits raised above what
the load needs.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.machine import SERVER_CORE
from bench.processes import Child, child
from bench.sessions import KEY_ID, SECRET
from tests.integration.server_process import free_port

ROOM = 30_000  # above every count of a plan, so that no admission limit shapes a measurement
JITTER = "evenflow_ws_delivery_jitter_ms"
ACTIVE_CONNECTIONS = "evenflow_ws_active_connections"


@dataclass(frozen=True)
class Evenflow:
    """A running server and its addresses."""

    process: Child
    http_url: str
    ws_url: str


@asynccontextmanager
async def evenflow(
    *, core: int | None = SERVER_CORE, address: str = "127.0.0.1", **settings: object
) -> AsyncIterator[Evenflow]:
    """Run Evenflow until the block ends.

    `settings` are its environment variables without the prefix, in lower case.
    """
    # A file of its own: what a killed server left would be gone on with.
    with TemporaryDirectory() as folder:
        port = free_port()
        environment = {
            "http_port": port,
            "store_path": Path(folder) / "evenflow.db",
            "token_keys": f"{KEY_ID}:{SECRET}",
            "model": "demo",
            "connections_per_node": ROOM,
            "generations_per_node": ROOM,
            "queue_depth": ROOM,
            "sessions_per_node": 2 * ROOM,
            **settings,
        }
        async with child(
            ["fargate_handler"],
            ports=(port,),
            environment={
                f"EVENFLOW_{name.upper()}": str(value) for name, value in environment.items()
            },
            core=core,
        ) as process:
            yield Evenflow(process, f"http://{address}:{port}", f"ws://{address}:{port}/ws")
