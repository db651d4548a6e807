"""Several handler tasks, and the poll function, on the tables of one emulated AWS."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from stream_aws.tables import TableNames
from tests.integration.lambda_function import LambdaFunction
from tests.integration.server_process import ServerProcess

SIGNING_KEYS = "signing-keys"
"""The secret that every task and function reads."""

# A process that starts has a core to itself for a second.
_AT_ONCE = 4


@dataclass(frozen=True)
class Deployment:
    """What makes several processes one system.

    Args:
        environment: where AWS is.
        serve: starts a server, see conftest.
    """

    environment: Mapping[str, str]
    tables: TableNames
    serve: Callable[..., ServerProcess]

    def start(self, count: int, **settings: object) -> list[ServerProcess]:
        """Start so many tasks."""
        common: dict[str, object] = {
            "store": "dynamodb",
            "token_keys_secret": SIGNING_KEYS,
            "sessions_table": self.tables.sessions,
            "ledger_table": self.tables.ledger,
            "responses_table": self.tables.responses,
        }
        with ThreadPoolExecutor(_AT_ONCE) as starting:
            starts = [starting.submit(self.serve, self.environment, **common, **settings) for _ in range(count)]
        return [start.result() for start in starts]

    async def handlers(self, count: int, **settings: object) -> list[ServerProcess]:
        """The same, while other things go on."""
        return await asyncio.to_thread(self.start, count, **settings)

    async def handler(self, **settings: object) -> ServerProcess:
        """One of them."""
        (server,) = await self.handlers(1, **settings)
        return server

    def poll_function(self, **further: str) -> LambdaFunction:
        """The function as Lambda has it, before its first call."""
        variables = {
            "EVENFLOW_TOKEN_KEYS_SECRET": SIGNING_KEYS,
            "EVENFLOW_RESPONSES_TABLE": self.tables.responses,
            "EVENFLOW_METRICS_ENVIRONMENT": "test",
            "POWERTOOLS_TRACE_DISABLED": "true",
        }
        return LambdaFunction("poll_response", {**self.environment, **variables, **further})
