"""Several processes that serve one port: their sockets, their supervisor and their metrics."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import chain

from pydantic import BaseModel, ConfigDict

from evenflow.fargate_handler.runtime.leave import Leave
from evenflow.fargate_handler.settings.handler_settings import ConfigurationError, HandlerSettings
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.protocols.evenflow.peer_log import PeerUnreachable

SERVING = b"serving\n"
"""A process sends this on the line once it serves."""

ALIVE = b"alive\n"
"""A process that serves sends this on the line each `ALIVE_SECONDS`, if its event loop turns."""

ALIVE_SECONDS = 1.0

LEAVE = b"leave\n"
"""A process sends this on the line to make all processes leave."""

STAND_IN = b"stand-in"
"""The supervisor sends this with the number of a process that has ended."""

STAND_DOWN = b"stand-down"
"""The supervisor sends this with the number of a process that serves again."""

_LINE_BYTES = 65_536
_LOOPBACK = "127.0.0.1"
# libuv accepts one connection of each listening socket in a turn of the loop. On a saturated node,
# whose turns take milliseconds, one socket would accept two hundred a second.
_SOCKETS_OF_A_PROCESS = 32


def listening_sockets(
    host: str, port: int, limits: Limits, processes: int = 1
) -> list[list[socket.socket]]:
    """Bind sockets for each process to one address. The kernel spreads connections over them all.

    Raises:
        OSError: the address can't be used, or another process uses it.
    """
    # Sockets that share a port would share it with a foreign process, too. A socket that does not
    # share the port detects that.
    listening_socket(host, port, limits).close()
    return [
        [listening_socket(host, port, limits, shares=True) for _ in range(_SOCKETS_OF_A_PROCESS)]
        for _ in range(processes)
    ]


def listening_socket(
    host: str, port: int, limits: Limits, *, shares: bool = False
) -> socket.socket:
    """Bind a TCP socket. With `shares`, other sockets may have the same address.

    Connections inherit its buffers. A fixed send buffer bounds the kernel's memory for a slow
    reader, and shows early that it is slow. A fixed receive buffer bounds what is read from a fast
    sender at once.

    Raises:
        OSError: the address can't be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # Linux doubles the numbers.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.write_buffer_bytes // 2)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.read_buffer_bytes // 2)
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    return listening


class ProcessIdentity(BaseModel):
    """Which of several processes this one is.

    Args:
        number: its number, from 0.
        ports: by number, where each process alone is reached on the loopback.
        line: the descriptor of the line to the supervisor.
        listening: by number, the descriptors of each process' sockets with the shared port.
    """

    model_config = ConfigDict(frozen=True)

    number: int
    ports: tuple[int, ...]
    line: int = -1
    listening: tuple[tuple[int, ...], ...] = ()

    @property
    def own_port(self) -> int:
        """Where this process alone is reached on the loopback."""
        return self.ports[self.number]

    @property
    def own_address(self) -> str:
        """The URL at which the other processes call this one."""
        return _address(self.own_port)

    @property
    def siblings(self) -> list[str]:
        """The URLs of the other processes."""
        return [_address(port) for port in self.ports if port != self.own_port]

    def sockets(self, limits: Limits) -> list[socket.socket]:
        """The sockets on which this process listens: its part of the shared port, and its own."""
        private = listening_socket(_LOOPBACK, self.own_port, limits, shares=True)
        return [*self.sockets_of(self.number), private]

    def sockets_of(self, number: int) -> list[socket.socket]:
        """A process' part of the shared port."""
        # Copies, so that they can be closed and opened again.
        return [socket.socket(fileno=os.dup(descriptor)) for descriptor in self.listening[number]]


def reserved_ports(count: int, limits: Limits) -> list[socket.socket]:
    """Sockets that keep ports of the loopback for processes. They don't listen.

    So a connection to a process that has ended is refused at once.
    """
    return [listening_socket(_LOOPBACK, 0, limits, shares=True) for _ in range(count)]


def public_addresses(settings: HandlerSettings) -> str:
    """Where clients reach this machine, for the log."""
    addresses = f"http://{settings.http_host}:{settings.http_port}"
    if settings.has_page:
        addresses += " with the chat page"
    if settings.ws_port is not None:
        addresses += f" (WebSocket ws://{settings.http_host}:{settings.ws_port}/ws)"
    if settings.metrics_port is not None:
        addresses += f" (metrics http://{settings.http_host}:{settings.metrics_port}/metrics)"
    return addresses


def public_sockets(settings: HandlerSettings) -> list[list[socket.socket]]:
    """Bind the sockets on which clients reach each of the processes.

    Raises:
        ConfigurationError: a port can't be used. The message names the variable.
    """
    sockets = _bound(settings, "HTTP_PORT", settings.http_port)
    further_ports = {"WS_PORT": settings.ws_port, "METRICS_PORT": settings.metrics_port}
    for name, port in further_ports.items():
        if port is None:
            continue
        try:
            more = _bound(settings, name, port)
        except ConfigurationError:
            for listening in chain(*sockets):
                listening.close()
            raise
        sockets = [[*of_both] for of_both in map(chain, sockets, more)]
    return sockets


def _bound(settings: HandlerSettings, name: str, port: int) -> list[list[socket.socket]]:
    host = settings.http_host
    try:
        return listening_sockets(host, port, settings, settings.processes)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise ConfigurationError(
                f"EVENFLOW_HTTP_HOST={host} (EVENFLOW_{name}={port}): cannot listen there "
                f"({error.strerror or error})"
            ) from error
        raise ConfigurationError(
            f"EVENFLOW_{name}={port}: cannot listen on {host}:{port} "
            f"({error.strerror or error}); choose another, e.g. `make run {name}={port + 100}`"
        ) from error


class SupervisorLine:
    """The line from a process to its supervisor. When it ends, the process leaves at once."""

    def __init__(self, descriptor: int, leave: Leave) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.setblocking(False)
        self._leave = leave
        self._orders: dict[bytes, Callable[[int], None]] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._read)

    def serve(self, stand_in: Callable[[int], None], stand_down: Callable[[int], None]) -> None:
        """Report that this process serves. From now on it accepts for processes that end.

        Args:
            stand_in: called with the number of a process that has ended.
            stand_down: called with the number of a process that serves again.
        """
        self._orders = {STAND_IN: stand_in, STAND_DOWN: stand_down}
        self._send(SERVING)
        self._report_alive()

    def ask_to_leave(self) -> None:
        """Ask that all processes leave."""
        self._send(LEAVE)

    def _report_alive(self) -> None:
        self._send(ALIVE)
        self._loop.call_later(ALIVE_SECONDS, self._report_alive)

    def _read(self) -> None:
        # Each order is written at once, and is so short that it comes whole.
        received = self._socket.recv(_LINE_BYTES)
        for order, _, number in (line.partition(b" ") for line in received.splitlines()):
            self._orders[order](int(number))
        if not received:
            self._loop.remove_reader(self._socket)
            self._leave.at_once()

    def _send(self, message: bytes) -> None:
        with suppress(OSError):  # the line has ended
            self._socket.send(message)


class Siblings:
    """The other processes of this machine, for one page of metrics of all.

    Args:
        page: reads the metrics of the process at an address.
    """

    def __init__(self, process: ProcessIdentity, page: Callable[[str], Awaitable[bytes]]) -> None:
        self._process = process
        self._page = page

    def is_own_address(self, address: tuple[str, int]) -> bool:
        """Whether an address, a host and a port, is that of this process alone."""
        return address[1] == self._process.own_port

    async def metrics_page(self, own_page: bytes) -> bytes:
        """The metrics of all processes. A process that does not answer is left out.

        Args:
            own_page: the metrics of this process.
        """
        pages = await asyncio.gather(*map(self._read, self._process.siblings))
        return joined_pages([own_page, *pages])

    async def _read(self, address: str) -> bytes:
        try:
            return await self._page(address)
        except PeerUnreachable:
            return b""


def joined_pages(pages: Iterable[bytes]) -> bytes:
    """One page of Prometheus' text format from several, whose samples have different labels."""
    samples: dict[bytes, list[bytes]] = {}
    for page in pages:
        for family in page.split(b"# HELP ")[1:]:
            meaning, kind, lines = family.split(b"\n", 2)
            samples.setdefault(b"# HELP %b\n%b\n" % (meaning, kind), []).append(lines)
    return b"".join(head + b"".join(lines) for head, lines in samples.items())


def _address(port: int) -> str:
    return f"http://{_LOOPBACK}:{port}"
