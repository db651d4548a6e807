"""Runs a client's scenarios, and prints what it saw as one line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

_SECONDS = 40.0


@dataclass(frozen=True)
class Server:
    """Where a scenario asks, and for which model."""

    url: str
    model: str
    asking: str

    def question(self, script: str) -> str:
        """What makes the scripted model answer so."""
        return f"{script} for {self.asking}"


Scenario = Callable[[Server], Awaitable[Any]]


def run(found: dict[str, Any]) -> None:
    """Run the scenarios that the command line names; `found` has them by their names."""
    told = json.loads(sys.argv[1])
    print(json.dumps(asyncio.run(_all(found, **told))))


async def _all(
    found: dict[str, Any], client: str, url: str, model: str, scenarios: list[str]
) -> dict[str, Any]:
    servers = {name: Server(url, model, f"{client}.{name}") for name in scenarios}
    saw = [_seen(found[name], server) for name, server in servers.items()]
    return dict(zip(scenarios, await asyncio.gather(*saw), strict=True))


async def _seen(scenario: Scenario, server: Server) -> Any:
    try:
        return await asyncio.wait_for(scenario(server), _SECONDS)
    except Exception as error:
        return {
            "raised": type(error).__name__,
            "status": getattr(error, "status_code", None),
            "code": getattr(error, "code", None),
            "message": str(error)[:500],
        }
