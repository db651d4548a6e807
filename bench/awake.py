"""Keeps the load's event loop from sleeping while something is measured.

On one machine the sender pays for waking a sleeping receiver: three microseconds a frame here, in
the kernel, on the server's core. The readers of a real node are other machines, which it doesn't
wake. So the load core polls instead, for the bare sender and for Evenflow alike; the CPU that it
shows meanwhile is that of polling.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


@asynccontextmanager
async def awake() -> AsyncIterator[None]:
    """Poll the sockets without a pause until the block ends."""
    polling = asyncio.get_running_loop().create_task(_poll())
    try:
        yield
    finally:
        polling.cancel()


async def _poll() -> None:
    while True:  # noqa: ASYNC110 - not sleeping is the purpose
        await asyncio.sleep(0)
