"""What a transport does for one client: the port that a new transport fills."""

from __future__ import annotations

from typing import Protocol


class ClientTransport(Protocol):
    """Carries one client's frames. Nothing here waits or raises; one that is gone ignores it all.

    `send_text` is the hot path. What doesn't fit into the transport's buffer is kept by it, and
    told by `ClientConnection.block` before the next frame.
    """

    def send_text(self, data: bytes) -> None:
        """Send a text frame."""

    def send_ping(self) -> None:
        """Ask the client to show that it lives."""

    def send_pong(self, payload: bytes) -> None:
        """Answer a ping."""

    def send_close(self, code: int | None, reason: str) -> None:
        """Say that the connection ends, and why; code None answers a close frame without one."""

    def disconnect(self, *, flush: bool) -> None:
        """Hang up; with `flush` when what is kept has gone out, else at once."""


class NoTransport:
    """Stands where there is none yet, or none any more."""

    def send_text(self, data: bytes) -> None:
        """Nothing."""

    def send_ping(self) -> None:
        """Nothing."""

    def send_pong(self, payload: bytes) -> None:
        """Nothing."""

    def send_close(self, code: int | None, reason: str) -> None:
        """Nothing."""

    def disconnect(self, *, flush: bool) -> None:
        """Nothing."""


NO_TRANSPORT = NoTransport()
