"""The limit that Evenflow is compared with: a picows server that sends ready-made frames and does
nothing else.

No Evenflow code runs here. Every connection has a frame of its own, of the size of a real delta
frame, made before the clock starts, so that a send is all that is measured. A text frame from any
client starts sending: its payload is the interval in milliseconds, 0 for as fast as the sockets
take it.
"""

import asyncio
import logging
import sys

import orjson
import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, WSUpgradeRequest, ws_create_server

SLICE = 500  # sends between two looks at the sockets, so that pings and closes are answered
QUIET = logging.LoggerAdapter(
    logging.getLogger("bench.bare")
)  # picows makes a logger per connection otherwise


class Reader(WSListener):
    """One connection: its transport, its frame, and whether its socket takes more."""

    def __init__(self, server: "BareServer") -> None:
        self.server = server
        self.writable = True
        self.frame = b""

    def on_ws_connected(self, transport: WSTransport) -> None:
        self.transport = transport
        self.server.readers.append(self)

    def on_ws_disconnected(self, _transport: WSTransport) -> None:
        self.server.readers.remove(self)

    def on_ws_frame(self, _transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type == WSMsgType.TEXT:
            self.server.start(interval=int(frame.get_payload_as_bytes()) / 1000)

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True


class BareServer:
    """Sends every reader its own frame, round after round."""

    def __init__(self) -> None:
        self.readers: list[Reader] = []
        self.sending: asyncio.Task[None] | None = None

    def start(self, interval: float) -> None:
        for number, reader in enumerate(self.readers):
            reader.frame = delta_frame(number)
        self.sending = asyncio.get_running_loop().create_task(self.send_rounds(interval))

    async def send_rounds(self, interval: float) -> None:
        """One frame to every writable reader a round; rounds begin `interval` seconds apart (0:
        at once).
        """
        loop = asyncio.get_running_loop()
        slices = range(0, len(self.readers), SLICE)
        due = loop.time()
        while self.readers:
            for first in slices:
                for reader in self.readers[first : first + SLICE]:
                    if reader.writable:
                        reader.transport.send(WSMsgType.TEXT, reader.frame)
                due += interval / len(
                    slices
                )  # spread over the interval, as Evenflow's delivery clock does
                await asyncio.sleep(max(0.0, due - loop.time()))


def delta_frame(number: int) -> bytes:
    """A frame with the fields, and about the size, that a delta of Evenflow has
    (docs/protocol.md).
    """
    return orjson.dumps(
        {
            "type": "chat.response.delta",
            "session_id": f"ses_{number:022d}",
            "response_id": f"rsp_{number:022d}",
            "delta": f" words {number:05d} more",
            "index": 100 + number % 900,
        }
    )


async def serve(port: int) -> None:
    bare = BareServer()

    def accept(_request: WSUpgradeRequest) -> Reader:
        return Reader(bare)

    server = await ws_create_server(
        accept,
        "127.0.0.1",
        port,
        logger_name=QUIET,
        use_aiofastnet=False,
        read_buffer_init_size=512,
        backlog=4096,
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
