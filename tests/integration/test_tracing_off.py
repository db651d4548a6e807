from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = """
import asyncio, sys
import evenflow.fargate_handler.__main__, fargate_handler.worker
from evenflow.fargate_handler.chosen_adapters import open_tracing

async def opened():
    async with open_tracing("evenflow-handler") as tracing:
        return tracing

print(asyncio.run(opened()), any(name.startswith("opentelemetry") for name in sys.modules))
"""


def test_without_an_endpoint_opentelemetry_is_not_even_imported() -> None:
    told = subprocess.run(
        [sys.executable, "-c", _PROGRAM], cwd=_ROOT, env={}, check=True, capture_output=True
    )
    assert told.stdout == b"None False\n"
