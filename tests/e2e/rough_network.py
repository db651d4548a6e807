"""A network that is as networks are: one address in front of servers, whose connections are cut,
swallowed, slow or held back.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import random
import re
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from enum import Enum
from typing import Any, Self, TypeVar

from tests.integration.server_process import Server

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
_PACKET = 1400
_UNDERWAY = 64
"""Packets that a slow line takes before its sender has to wait."""
_TURNS_OF_AN_ACCEPT = 8
_LOOK_SECONDS = 0.05
# As Linux has it. A packet that is lost is sent again after this time, then after twice as long.
_PACKET_AGAIN_SECONDS, _CONNECT_AGAIN_SECONDS, _LONGEST_AGAIN_SECONDS = 0.2, 1.0, 120.0
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_LOGIN = b"<!doctype html><title>Wi-Fi</title><h1>Accept the terms to go online</h1>"
_END_OF_HEAD = b"\r\n\r\n"

Write = Callable[[bytes], Awaitable[None]]
T = TypeVar("T")


@dataclass(frozen=True)
class Line:
    """How quick a connection is, each way.

    Every `stall_every` seconds it stands still for `stall_seconds`, as TCP does that has lost a
    packet; then all comes at once.
    """

    delay_seconds: tuple[float, float] = (0.0, 0.0)
    bytes_per_second: float = math.inf
    stall_every: float = 3.0
    stall_seconds: float = 0.0

    def arrival(self, now: float, after: float, size: int, chance: random.Random) -> float:
        """When `size` bytes arrive that are sent at `now`, behind those that arrive `after`."""
        due = now + size / self.bytes_per_second + chance.uniform(*self.delay_seconds)
        due = max(due, after + size / self.bytes_per_second)
        return max(due, due - due % self.stall_every + self.stall_seconds)


LIKE_3G = Line(delay_seconds=(0.1, 0.3), bytes_per_second=750_000 / 8, stall_seconds=0.8)


class _Way:
    """Whether packets pass; those that are lost are sent again, as TCP does.

    The browser sees the difference to packets that are lost in a real network in one thing: it is
    connected at once, where it would still be connecting. Its page sees none.
    """

    def __init__(self) -> None:
        self.is_open = True

    async def passed(self, again_seconds: float = _PACKET_AGAIN_SECONDS) -> None:
        """Return when a packet that is sent now has passed.

        Args:
            again_seconds: after so many it is sent again, then after twice as many each time.
        """
        while not self.is_open:
            await asyncio.sleep(again_seconds)
            again_seconds = min(2 * again_seconds, _LONGEST_AGAIN_SECONDS)


class WebSockets(Enum):
    """What becomes of the WebSockets that are opened."""

    PASS = "pass"
    REFUSED = "refused"
    SWALLOWED = "swallowed"
    """Accepted, and never answered."""
    MUTE = "mute"
    """The handshake is answered, and then nothing comes."""


class RoughNetwork:
    """Passes connections on to the first of its servers that takes them; `with` starts and ends it.

    What is set holds for what is sent from then on, a `line` also for what is underway;
    `websockets`, `held_back` and `portal` for connections that are made from then on.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._ends: set[asyncio.StreamWriter] = set()
        self._passing: set[asyncio.Task[None]] = set()
        self._ports: tuple[int, ...] = ()
        self._chance = random.Random(7)
        self._way = _Way()
        self._reachable = True
        self._redirects = False
        self._port = 0
        self.line = Line()
        self.websockets = WebSockets.PASS
        self.held_back: int | None = None
        """A proxy passes event streams on in blocks of so many bytes; with 0 only once they have
        ended.
        """
        self.portal = False
        """A Wi-Fi's portal answers every request with its page, or a redirect to that, by turns."""

    @property
    def url(self) -> str:
        """The address, by HTTP."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def ws_url(self) -> str:
        """The address of `/ws`, which is that of HTTP as behind a load balancer."""
        return f"ws://127.0.0.1:{self._port}/ws"

    def lead_to(self, *servers: Server) -> None:
        """From now on these are the servers, the preferred one first."""
        self._ports = tuple(server.port for server in servers)

    def heal(self) -> None:
        """All is well again; connections that are open are cut."""
        self.line, self.websockets, self.held_back = Line(), WebSockets.PASS, None
        self.portal = False
        self.come_back()
        self.let_flow()
        self.cut()

    def cut(self) -> int:
        """Reset every connection that is open; returns how many were."""
        return self._do(self._cut())

    def go_away(self) -> None:
        """There is no network: connections are reset, and no more can be made."""
        self._reachable = False
        self.cut()

    def come_back(self) -> None:
        """There is one again."""
        self._reachable = True

    def swallow(self) -> None:
        """Nothing gets through any more, and nobody learns it."""
        self._way.is_open = False

    def let_flow(self) -> None:
        """What was swallowed arrives, when TCP sends it again."""
        self._way.is_open = True

    def forget(self) -> None:
        """Connections that are open are dead, and nobody learns it; others can be made, as when
        a phone changes networks.
        """
        self._way.is_open = False
        self._way = _Way()

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._start())
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            self._do(self._stop())
        finally:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(5)
        self._loop.close()

    def _do(self, what: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(5)

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()
        is_cut = True
        while is_cut:
            for _ in range(_TURNS_OF_AN_ACCEPT):  # one that was accepted just now isn't served yet
                await asyncio.sleep(0)
            is_cut = await self._cut() > 0

    async def _cut(self) -> int:
        ends, passing = tuple(self._ends), tuple(self._passing)
        for end in ends:
            _reset(end)
        for task in passing:
            task.cancel()
        await asyncio.gather(*passing, return_exceptions=True)
        return (len(ends) + 1) // 2

    # -- a connection ------------------------------------------------------------------------------

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Known at once: whoever cuts all connections cuts one that isn't served yet, too.
        self._ends.add(writer)
        serving = self._loop.create_task(self._serve(reader, writer))
        self._passing.add(serving)
        serving.add_done_callback(self._passing.discard)
        serving.add_done_callback(lambda _: self._ends.discard(writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends = {writer}
        try:
            await self._connect(reader, writer, ends)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # a client that has left, no server, or the end of the test
        finally:
            self._ends -= ends
            for end in ends:
                end.transport.abort()

    async def _connect(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ends: set[asyncio.StreamWriter],
    ) -> None:
        if not self._reachable:
            return _reset(writer)
        way = self._way
        await way.passed(_CONNECT_AGAIN_SECONDS)
        head = await reader.readuntil(_END_OF_HEAD)
        await way.passed()
        if reader.at_eof():
            return None  # it has given up before it was connected
        if self.portal:
            return await self._answer_as_portal(head, reader, writer)
        is_websocket = b"upgrade: websocket" in head.lower()
        if is_websocket and self.websockets is WebSockets.REFUSED:
            return _reset(writer)
        if is_websocket and self.websockets is WebSockets.SWALLOWED:
            await reader.read()
            return None
        back_reader, back = await self._dial()
        ends.add(back)
        self._ends.add(back)
        if self.held_back is not None and not is_websocket:
            # A connection of its own for each request, so that an answer's end is the connection's.
            head = head.replace(_END_OF_HEAD, b"\r\nConnection: close\r\n\r\n")
        back.write(head)
        carry = _Carrier(self, way, self._chance).carry
        answers = self._answers(
            head, writer, mute=is_websocket and self.websockets is WebSockets.MUTE
        )
        await asyncio.gather(
            carry(reader, _to(back), back),
            carry(back_reader, answers, writer),
            return_exceptions=True,
        )
        return None

    async def _answer_as_portal(
        self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if found := _LENGTH.search(head):
            await reader.readexactly(int(found[1]))
        self._redirects = not self._redirects
        # Its own page has another origin than the one that was asked for.
        login = f"http://localhost:{self._port}/login"
        status = f"302 Found\r\nLocation: {login}" if self._redirects else "200 OK"
        if head.startswith(b"GET /login "):
            status = "200 OK"
        writer.write(
            f"HTTP/1.1 {status}\r\nContent-Type: text/html\r\nConnection: close\r\n"
            f"Content-Length: {len(_LOGIN)}\r\n\r\n".encode()
            + _LOGIN
        )
        writer.close()
        await writer.wait_closed()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for port in self._ports:
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        raise ConnectionRefusedError

    def _answers(self, head: bytes, writer: asyncio.StreamWriter, *, mute: bool) -> Write:
        """Where the bytes of an answer go to."""
        if mute:
            return _first_only(_to(writer))
        if self.held_back is not None and b"/events" in head.split(b"\r\n", 1)[0]:
            return _in_blocks(_to(writer), self.held_back or None)
        return _to(writer)


class _Carrier:
    """Carries the bytes of one connection."""

    def __init__(self, network: RoughNetwork, way: _Way, chance: random.Random) -> None:
        self._network = network
        self._way = way
        self._chance = chance

    async def carry(
        self, reader: asyncio.StreamReader, write: Write, writer: asyncio.StreamWriter
    ) -> None:
        """Carry one way, until its sender ends."""
        underway: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_UNDERWAY)
        arriving = asyncio.create_task(self._arrive(underway, write))
        clock = asyncio.get_running_loop().time
        try:
            while data := await reader.read(_PACKET):
                await underway.put((clock(), data))
            await underway.put((clock(), b""))
            await arriving
        finally:
            arriving.cancel()
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _arrive(self, underway: asyncio.Queue[tuple[float, bytes]], write: Write) -> None:
        due = 0.0
        while True:
            sent_at, data = await underway.get()
            due = await self._arrived(sent_at, due, len(data))
            await self._way.passed()
            await write(data)
            if not data:
                return

    async def _arrived(self, sent_at: float, after: float, size: int) -> float:
        """Wait until it has arrived; returns when that was. A line that changes counts at once."""
        clock, due = asyncio.get_running_loop().time, 0.0
        line: Line | None = None
        while True:
            if line is not self._network.line:
                line = self._network.line
                due = line.arrival(sent_at, after, size, self._chance)
            if clock() >= due:
                return due
            await asyncio.sleep(min(due - clock(), _LOOK_SECONDS))


def _to(writer: asyncio.StreamWriter) -> Write:
    async def write(data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    return write


def _first_only(write: Write) -> Write:
    """Passes on the first write alone, which is a handshake's answer."""
    number = itertools.count()

    async def first_only(data: bytes) -> None:
        if next(number) == 0:
            await write(data[: data.find(_END_OF_HEAD) + len(_END_OF_HEAD)])

    return first_only


def _in_blocks(write: Write, size: int | None) -> Write:
    """Collects what is written to blocks of this size (None: to one), as a proxy that buffers.

    An empty write is the end.
    """
    held = bytearray()

    async def in_blocks(data: bytes) -> None:
        held.extend(data)
        if not data or (size is not None and len(held) >= size):
            await write(bytes(held))
            held.clear()

    return in_blocks


def _reset(end: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):  # it is closed already
        end.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE
        )
    end.transport.abort()
