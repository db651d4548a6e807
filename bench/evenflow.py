"""The server under measurement, `python -m evenflow.fargate_handler`: at its defaults, or with
limits that are lifted above what the load needs. What is lifted is in the report.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from bench.machine import SERVER_CORE
from bench.processes import Child, child
from bench.report import Row
from bench.sessions import KEY_ID, SECRET
from evenflow.fargate_handler.settings.handler_settings import HandlerSettings
from tests.integration.server_process import free_port

ROOM = 30_000  # above every count of a plan, so that no admission limit shapes a measurement
ADMISSION = {
    "connections_per_node": ROOM,
    "requests_per_node": ROOM,
    "generations_per_node": ROOM,
    "queue_depth": ROOM,
    "sessions_per_node": 2 * ROOM,
    "running_held_bytes": 2**32,
    "unsent_held_bytes": 2**32,
}
JITTER = "evenflow_ws_delivery_jitter_ms"
ACTIVE_CONNECTIONS = "evenflow_ws_active_connections"


@dataclass(frozen=True)
class Evenflow:
    """A running server and its addresses."""

    process: Child
    http_url: str
    ws_url: str


def settings_row(scenario: str, **settings: int) -> Row:
    """The line of the report that says which settings are not the defaults."""
    fields = HandlerSettings.model_fields
    changed = [f"{name} {it:,} (default {fields[name].default:,})" for name, it in settings.items()]
    return Row(f"settings of `{scenario}`", ", ".join(changed) or "the defaults")


@asynccontextmanager
async def evenflow(
    *,
    core: int | None = SERVER_CORE,
    address: str = "127.0.0.1",
    admission: Mapping[str, int] = ADMISSION,
    module: Sequence[str] = ("evenflow.fargate_handler",),
    **settings: object,
) -> AsyncIterator[Evenflow]:
    """Run Evenflow until the block ends.

    `settings` are its environment variables without the prefix, in lower case. So is `admission`:
    empty for the default limits. `module` starts it, with arguments.
    """
    # A file of its own: what a killed server left would be gone on with.
    with TemporaryDirectory() as folder:
        port = free_port()
        environment = {
            "http_port": port,
            "store_path": Path(folder) / "evenflow.db",
            "token_keys": f"{KEY_ID}:{SECRET}",
            "model": "demo",
            **admission,
            **settings,
        }
        async with child(
            module,
            ports=(port,),
            environment={
                f"EVENFLOW_{name.upper()}": str(value) for name, value in environment.items()
            },
            core=core,
        ) as process:
            yield Evenflow(process, f"http://{address}:{port}", f"ws://{address}:{port}/ws")
