"""The port of transports, such as WebSockets: it sends frames to one client."""

from __future__ import annotations

from typing import Protocol


class ClientTransport(Protocol):
    """Carries one client's frames. Its methods never wait or raise. After the end they do nothing.

    `send_text` is the hot path. The transport keeps what does not fit into its buffer, and then
    calls `SocketConnection.block` before the next frame.
    """

    @property
    def name(self) -> str:
        """Its name in the log."""

    @property
    def unsent_bytes(self) -> int:
        """The bytes that it keeps, since they are not sent yet."""

    def send_text(self, data: bytes) -> None:
        """Send a text frame."""

    def send_ping(self) -> None:
        """Send a ping, which a live client answers."""

    def send_pong(self, payload: bytes) -> None:
        """Answer a ping."""

    def send_close(self, code: int | None, reason: str) -> None:
        """Send a close frame. It has no code if `code` is None."""

    def stop_reading(self) -> None:
        """Stop reading what the client sends."""

    def disconnect(self, *, flush: bool) -> None:
        """Disconnect: with `flush` after everything was sent, otherwise at once."""


class NoTransport:
    """The transport of a client that has none yet, or none any more."""

    name = "none"
    unsent_bytes = 0

    def send_text(self, data: bytes) -> None:
        """Does nothing."""

    def send_ping(self) -> None:
        """Does nothing."""

    def send_pong(self, payload: bytes) -> None:
        """Does nothing."""

    def send_close(self, code: int | None, reason: str) -> None:
        """Does nothing."""

    def stop_reading(self) -> None:
        """Does nothing."""

    def disconnect(self, *, flush: bool) -> None:
        """Does nothing."""


NO_TRANSPORT = NoTransport()
