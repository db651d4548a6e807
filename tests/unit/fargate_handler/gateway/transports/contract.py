"""What a transport brings to the suite that all of them pass: a listener, and a client for it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, Self

from evenflow.fargate_handler.gateway.connections.context import GatewayContext

Frame = dict[str, Any]

RECEIVE_BUFFER_BYTES = 4096
"""The kernel's buffer of a client: a client that doesn't read is seen by the server soon."""


class RefusedError(Exception):
    """The client was not let in. `code` is the error's."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


class ClosedError(Exception):
    """The server has ended the connection, and said why; None where it said nothing."""

    def __init__(self, code: int | None, reason: str = "") -> None:
        super().__init__(code, reason)
        self.code = code
        self.reason = reason


class Listener(Protocol):
    """Accepts clients."""

    async def start(self, sockets: Iterable[socket.socket]) -> None:
        """Listen on these sockets, which are bound."""

    def stop_accepting(self) -> None:
        """New connections are refused from now on; those that are open stay."""


class TransportClient(Protocol):
    """A client as a program would have it.

    It answers pings and close frames by itself while it reads.
    """

    @classmethod
    async def connect(cls, port: int, token: str, *, replaces: bool = False) -> Self:
        """Come in with a session's token; on 127.0.0.1, with a receive buffer of
        `RECEIVE_BUFFER_BYTES`.

        Raises:
            RefusedError: it wasn't let in.
        """

    async def send(self, data: bytes) -> None:
        """Send a frame."""

    async def receive(self) -> Frame:
        """The next frame.

        Raises:
            ClosedError: there is none any more.
        """

    def stop_reading(self) -> None:
        """Leave what comes in the kernel."""

    def go_on_reading(self) -> None:
        """Read again."""

    async def close(self) -> None:
        """Say that it goes, and wait until the server has answered."""

    def vanish(self) -> None:
        """Be gone without a word."""


@dataclass(frozen=True)
class Transport:
    """One way to reach the gateway."""

    listener: Callable[[GatewayContext], Listener]
    client: type[TransportClient]
