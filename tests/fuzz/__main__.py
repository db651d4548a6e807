"""`python -m tests.fuzz --seconds 600`: random bytes and odd requests, and a model's odd answers.

They go to a real process at its defaults (but for what `SETTINGS` names). Meanwhile honest readers
are answered, byte for byte. It ends at the first thing that is wrong, with the inputs that were
sent just before and how to send them again.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from tests.fuzz.campaign import SETTINGS, Found, Fuzzing
from tests.fuzz.model_server import model_server
from tests.integration.server_process import ServerProcess, free_port


@asynccontextmanager
async def fuzzing(log: Path, seed: int, first: int = 0) -> AsyncIterator[Fuzzing]:
    """A server and its model, to be sent inputs. The server's file is beside its log.

    Raises:
        AssertionError: at the end, the server did not leave in order.
    """
    async with model_server() as model, aiohttp.ClientSession() as http:
        ws_port = free_port()
        places = {
            "EVENFLOW_WS_PORT": str(ws_port),
            "EVENFLOW_MODEL_URL": model.url,
            "EVENFLOW_STORE_PATH": str(log.with_name("evenflow.db")),
        }
        server = ServerProcess(log, SETTINGS | places)
        try:
            await asyncio.to_thread(server.wait_until_serving)
            yield Fuzzing(server, ws_port, model, http, seed, first)
        finally:
            await asyncio.to_thread(server.stop)


async def _run(seconds: float, seed: int, first: int, most: int | None) -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        async with fuzzing(Path(folder) / "server.log", seed, first) as running:
            try:
                await running.run(seconds, most)
            except Found as found:
                print(found, file=sys.stderr)
                return 1
    sent = ", ".join(f"{count} {kind}" for kind, count in sorted(running.sent.items()))
    grown = running.grown_bytes / 1_048_576
    print(
        f"seed {seed}: {sent} in {time.monotonic() - began:.0f} s; nothing found; "
        f"memory grew by {grown:.0f} MiB"
    )
    return 0


def main() -> int:
    """Run. Returns the exit status: 1 if something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--most", type=int, help="how many inputs; default: as many as there come")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    return asyncio.run(_run(arguments.seconds, arguments.seed, arguments.first, arguments.most))


if __name__ == "__main__":
    sys.exit(main())
