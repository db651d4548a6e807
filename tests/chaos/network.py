"""The network of the chaos harness: TCP links that can be cut, delayed and silenced,
`python -m tests.chaos.network PORT`.

Each link listens on one port and passes on to another. Commands are lines of JSON on PORT, each
answered by one line:

    {"do": "link", "name": "client-a", "listen": 4001, "target": 5001}
    {"do": "set", "names": ["client-a"], "mode": "open" | "refuse" | "silent", "delay_ms": 0}
    {"do": "reset", "names": ["client-a"], "share": 1.0}   resets such a share of what is open

`refuse` resets new connections; `silent` passes nothing on, in either direction, and accepts
connections as a network does that swallows packets: nobody learns anything. Back in `open`, what
was underway arrives, as TCP sends it again.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import orjson
import uvloop

from bench.processes import end_with_parent

_HIGH_WATER = 262_144
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Link:
    """One listening port and the connections that came by it."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.mode = "open"
        self.delay = 0.0
        self.ends: set[_End] = set()
        self.waiting: list[Callable[[], None]] = []
        """Connections that nobody answers while the link is silent."""

    def set(self, mode: str, delay: float) -> None:
        """Change what happens on this link from now on."""
        self.mode, self.delay = mode, delay
        for end in tuple(self.ends):
            end.look()
        if mode == "open":
            waiting, self.waiting = self.waiting, []
            for connect in waiting:
                connect()

    def reset(self, share: float = 1.0) -> None:
        """Reset every connection, or of their ends so large a share, drawn at random."""
        if share >= 1.0:
            self.waiting.clear()
        for end in tuple(self.ends):
            if random.random() < share:
                end.reset()


class _End(asyncio.Protocol):
    """One end of a connection: what comes in here goes out at its peer."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._peer: _End | None = None
        self._transport: asyncio.Transport
        self._held: list[bytes] = []
        self._peer_is_full = False
        self._underway: deque[Callable[[], None]] = deque()
        self._latest_due = 0.0
        self._closed = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(
            "asyncio.Transport", transport
        )  # uvloop's is one in all but its base class
        transport.set_write_buffer_limits(high=_HIGH_WATER)  # type: ignore[attr-defined]
        self._link.ends.add(self)
        self.look()

    def join(self, peer: _End) -> None:
        """From now on `peer` is the other end."""
        self._peer = peer
        for data in self._held:
            self._pass_on(data)
        self._held.clear()

    def data_received(self, data: bytes) -> None:
        if self._peer is None:
            self._held.append(data)
        else:
            self._pass_on(data)

    def connection_lost(self, _exc: Exception | None) -> None:
        self._closed = True
        self._link.ends.discard(self)
        if self._peer is not None:
            self._after_delay(self._peer.close)

    def pause_writing(self) -> None:
        if self._peer is not None:
            self._peer.hold(full=True)

    def resume_writing(self) -> None:
        if self._peer is not None:
            self._peer.hold(full=False)

    def hold(self, *, full: bool) -> None:
        """The other end can't take more, or can again."""
        self._peer_is_full = full
        self.look()

    def look(self) -> None:
        """Read, or don't, as the link's mode and the peer want it."""
        if self._closed:
            return
        if self._link.mode == "silent" or self._peer_is_full:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def write(self, data: bytes) -> None:
        """Send, unless it is closed."""
        if not self._closed:
            self._transport.write(data)

    def close(self) -> None:
        """Close once all is sent."""
        if not self._closed:
            self._transport.close()

    def reset(self) -> None:
        """Close with a reset."""
        if not self._closed:
            self._transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE
            )
            self._transport.abort()

    def _pass_on(self, data: bytes) -> None:
        peer = self._peer
        assert peer is not None
        self._after_delay(lambda: peer.write(data))

    def _after_delay(self, act: Callable[[], None]) -> None:
        if not self._link.delay and not self._underway:
            act()
            return
        # Never before what came earlier, however late its timer is.
        self._latest_due = max(self._loop.time() + self._link.delay, self._latest_due)
        self._underway.append(act)
        self._loop.call_at(self._latest_due, self._act)

    def _act(self) -> None:
        self._underway.popleft()()


class _Front(_End):
    """The end that the caller made; it makes the other one."""

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if self._link.mode == "refuse":
            self.reset()
        elif self._link.mode == "silent":
            self._link.waiting.append(self._begin)
        else:
            self._begin()

    def _begin(self) -> None:
        self._connecting = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            _, back = await self._loop.create_connection(
                lambda: _End(self._link), "127.0.0.1", self._link.target
            )
        except OSError:
            self.reset()  # nobody listens there, and the caller learns it
            return
        back.join(self)
        self.join(back)
        if self._closed:
            back.close()


class _Network:
    """All links, and the control port's commands."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}

    async def obey(self, command: dict[str, Any]) -> None:
        """Do what a line of the control port says."""
        names = command.get("names", ())
        if command["do"] == "link":
            link = self._links[command["name"]] = Link(command["target"])
            loop = asyncio.get_running_loop()
            await loop.create_server(
                lambda: _Front(link), "127.0.0.1", command["listen"], backlog=8192
            )
        elif command["do"] == "set":
            for name in names:
                self._links[name].set(command["mode"], command.get("delay_ms", 0) / 1000)
        elif command["do"] == "reset":
            for name in names:
                self._links[name].reset(command["share"])

    async def control(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection to the control port."""
        while line := await reader.readline():
            await self.obey(orjson.loads(line))
            writer.write(b"{}\n")
        writer.close()


async def _serve(port: int) -> None:
    server = await asyncio.start_server(_Network().control, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    end_with_parent()
    uvloop.run(_serve(int(sys.argv[1])))
