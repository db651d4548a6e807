"""`python -m tests.dynamodb_emulator --port 8000`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import signal

import uvloop

from tests.dynamodb_emulator.database import Database
from tests.dynamodb_emulator.http_server import HttpServer
from tests.dynamodb_emulator.service import Service

# Bursts of connections must not wait for a repeated SYN.
_BACKLOG = 4096


async def serve(host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    server = await loop.create_server(HttpServer(Service(Database())).connection, host, port, backlog=_BACKLOG)
    print(f"DynamoDB is emulated on http://{host}:{server.sockets[0].getsockname()[1]}", flush=True)
    await stopped.wait()
    server.close()


def main() -> None:
    """Parse the command line and serve."""
    parser = argparse.ArgumentParser(prog="python -m tests.dynamodb_emulator", description="DynamoDB, in memory")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    # A collection would go through all that is kept, a tenth of a second at a time. No request leaves anything to collect.
    gc.disable()
    uvloop.run(serve(arguments.host, arguments.port))


if __name__ == "__main__":
    main()
