"""One WebSocket client that answers pings and says nothing:
`python -m bench.lone_client URL TOKEN`.

It prints when the server last heard of it (`time.monotonic` seconds) and waits to be cut off.
"""

import sys

import uvloop

from bench.client import all_ready, open_connections
from bench.processes import end_with_parent


async def wait(url: str, token: str) -> None:
    connections = await open_connections(url, [token])
    await all_ready(connections)
    print(connections[0].arrivals[0], flush=True)
    await connections[0].transport.wait_disconnected()


if __name__ == "__main__":
    end_with_parent()
    uvloop.run(wait(*sys.argv[1:3]))
