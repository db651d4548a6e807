"""Several handler tasks, and the poll function, on the tables of one emulated AWS."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from evenflow.fargate_handler.adapters import memory_stores
from evenflow.stream_aws.tables import TableNames
from tests.integration.lambda_function import LambdaFunction
from tests.integration.local_server import LocalServer, LocalServers
from tests.integration.server_process import ServerProcess

SIGNING_KEYS = "signing-keys"
"""The secret that every task and function reads."""
EDGE_KEYS = "edge-keys"
"""The one by which functions know CloudFront."""

# A process that starts has a core to itself for a second.
_AT_ONCE = 4


@dataclass(frozen=True)
class Tables:
    """What tasks and functions share in AWS, as variables.

    Args:
        environment: where AWS is.
    """

    environment: Mapping[str, str]
    tables: TableNames

    @property
    def settings(self) -> dict[str, Any]:
        """The same for every task."""
        return {
            "store": "dynamodb",
            "token_keys_secret": SIGNING_KEYS,
            "sessions_table": self.tables.sessions,
            "ledger_table": self.tables.ledger,
            "responses_table": self.tables.responses,
            "tenants_table": self.tables.tenants,
        }

    def poll_function(self, **further: str) -> LambdaFunction:
        """The function as Lambda has it, before its first call."""
        variables = {
            "EVENFLOW_EDGE_KEYS_SECRET": EDGE_KEYS,
            "EVENFLOW_TOKEN_KEYS_SECRET": SIGNING_KEYS,
            "EVENFLOW_RESPONSES_TABLE": self.tables.responses,
            "EVENFLOW_TENANTS_TABLE": self.tables.tenants or "",
            "EVENFLOW_METRICS_ENVIRONMENT": "test",
            "POWERTOOLS_TRACE_DISABLED": "true",
        }
        return LambdaFunction("poll_response", {**self.environment, **variables, **further})


@dataclass(frozen=True)
class Deployment(Tables):
    """Tasks that are processes.

    Args:
        serve: starts one, see conftest.
    """

    serve: Callable[..., ServerProcess]

    def start(self, count: int, **settings: Any) -> list[ServerProcess]:
        """Start so many tasks."""
        all_settings = {**self.settings, **settings}
        with ThreadPoolExecutor(_AT_ONCE) as starting:
            starts = [
                starting.submit(self.serve, self.environment, **all_settings) for _ in range(count)
            ]
        return [start.result() for start in starts]

    async def handlers(self, count: int, **settings: Any) -> list[ServerProcess]:
        """The same, while other things go on."""
        return await asyncio.to_thread(self.start, count, **settings)

    async def handler(self, **settings: Any) -> ServerProcess:
        """One of them."""
        (server,) = await self.handlers(1, **settings)
        return server


# Long, so that a busy machine loses none; what a test waits for is turned, not slept. Shorter than
# the patience of who resumes, whose time is turned, too.
_LEASE_SECONDS = 10


async def _lease_runs_out(serve: LocalServers) -> None:
    # One of the others sees it within half a second.
    await serve.time_passes(_LEASE_SECONDS + 2)


@dataclass(frozen=True)
class AwsDeployment(Tables):
    """Tasks in the test's loop, on tables."""

    serve: LocalServers

    async def lease_runs_out(self) -> None:
        """Let so much time pass that the answers of a task that is gone are another's."""
        await _lease_runs_out(self.serve)

    async def handler(self, **settings: Any) -> LocalServer:
        """Start one."""
        return await self.serve(
            self.environment, **{**self.settings, "lease_seconds": _LEASE_SECONDS, **settings}
        )

    async def handlers(self, count: int, **settings: Any) -> list[LocalServer]:
        """Start so many."""
        return [await self.handler(**settings) for _ in range(count)]


class LocalDeployment:
    """Tasks in the test's loop that share stores in memory: all that several tasks do with each
    other, but AWS.
    """

    def __init__(self, serve: LocalServers) -> None:
        self.serve = serve
        self.stores = replace(memory_stores(), outlives_process=True)
        self._keys = f"k1:{secrets.token_hex(32)}"

    async def lease_runs_out(self) -> None:
        """Let so much time pass that the answers of a task that is gone are another's."""
        await _lease_runs_out(self.serve)

    async def handler(
        self, environment: Mapping[str, str] | None = None, **settings: Any
    ) -> LocalServer:
        """Start one."""
        return await self.serve(
            environment,
            stores=self.stores,
            **{"token_keys": self._keys, "lease_seconds": _LEASE_SECONDS, **settings},
        )

    async def handlers(self, count: int, **settings: Any) -> list[LocalServer]:
        """Start so many."""
        return [await self.handler(**settings) for _ in range(count)]
