"""Runs a client's scenarios at two addresses, and prints what it saw at each as one line of
JSON.
"""

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
    key: str
    asking: str

    def question(self, script: str) -> str:
        """What makes the scripted upstream answer so."""
        return f"{script} for {self.asking}"


Scenario = Callable[[Server], Awaitable[Any]]


def run(found: dict[str, Any]) -> None:
    """Run the scenarios that the command line names; `found` has them by their names."""
    told = json.loads(sys.argv[1])
    sides = {
        side: _at(told["client"], found, told["scenarios"], **server)
        for side, server in told["servers"].items()
    }
    print(json.dumps(asyncio.run(_both(sides))))


async def _both(sides: dict[str, Awaitable[Any]]) -> dict[str, Any]:
    return dict(zip(sides, await asyncio.gather(*sides.values()), strict=True))


async def _at(
    client: str, found: dict[str, Any], names: list[str], url: str, model: str, key: str
) -> dict[str, Any]:
    return {
        name: await _seen(found[name], Server(url, model, key, f"{client}.{name}"))
        for name in names
    }


async def _seen(scenario: Scenario, server: Server) -> Any:
    try:
        return await asyncio.wait_for(scenario(server), _SECONDS)
    except Exception as error:
        return _raised(error)


def _raised(error: BaseException) -> dict[str, Any]:
    response = getattr(error, "response", None)
    return {
        "raised": type(error).__name__,
        "status": getattr(error, "status_code", None),
        "code": getattr(error, "code", None),
        "retry_after": None if response is None else response.headers.get("retry-after"),
        "message": str(error)[:300],
    }
