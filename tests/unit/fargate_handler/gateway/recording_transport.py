"""A client's transport: what was sent, in the test's hand."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class RecordingTransport:
    """Fills the port `ClientTransport`."""

    name = "recording"
    frames: list[Any] = field(default_factory=list)
    """The text frames, decoded."""
    pings: int = 0
    pongs: list[bytes] = field(default_factory=list)
    close: tuple[int | None, str] | None = None
    reads: bool = True
    disconnected: bool = False
    unsent_bytes: int = 0

    def send_text(self, data: bytes) -> None:
        assert self.close is None, "nothing is sent behind the close frame"
        self.frames.append(json.loads(data))

    def send_ping(self) -> None:
        self.pings += 1

    def send_pong(self, payload: bytes) -> None:
        self.pongs.append(payload)

    def send_close(self, code: int | None, reason: str) -> None:
        assert self.close is None, "closed once"
        self.close = (code, reason)

    def stop_reading(self) -> None:
        self.reads = False

    def disconnect(self, *, flush: bool) -> None:
        self.disconnected = True

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        """The frames of one type."""
        return [frame for frame in self.frames if isinstance(frame, dict) and frame["type"] == kind]
