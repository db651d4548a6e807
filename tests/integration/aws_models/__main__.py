"""`python -m tests.integration.aws_models --port 4580`: serve both services until SIGTERM or
Ctrl-C.
"""

from __future__ import annotations

import argparse
import asyncio
import signal

import uvloop

from tests.integration.aws_models.model_server import ModelServer
from tests.integration.aws_models.signature import Credentials


def main() -> None:
    """Run."""
    parser = argparse.ArgumentParser(
        description="Bedrock and SageMaker streaming, their wire format on one port."
    )
    parser.add_argument("--port", type=int, default=4580)
    parser.add_argument(
        "--access-key", default=Credentials.access_key, help="the one that may call"
    )
    parser.add_argument("--secret-key", default=Credentials.secret_key)
    arguments = parser.parse_args()
    credentials = Credentials(arguments.access_key, arguments.secret_key)
    uvloop.run(_serve(ModelServer(credentials), arguments.port))


async def _serve(server: ModelServer, port: int) -> None:
    await server.start(port)
    print(f"serving Bedrock and SageMaker on {server.url}", flush=True)
    leave = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, leave.set)
    await leave.wait()
    await server.stop()


if __name__ == "__main__":
    main()
