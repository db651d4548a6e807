"""The socket's side of a WebSocket connection: what was written, and a write buffer that a test fills and empties."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from picows import WSMsgType


@dataclass
class Request:
    """The upgrade request, of which only the headers matter."""

    headers: dict[str, str] = field(default_factory=lambda: {"Authorization": "Bearer secret"})


@dataclass
class UnderlyingTransport:
    """asyncio's transport below picows'."""

    high: int | None = None
    waiting: int = 0
    """Bytes that the socket has not taken."""

    def set_write_buffer_limits(self, high: int) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.waiting


@dataclass
class ClientFrame:
    """A frame of the client."""

    payload: bytes = b""
    msg_type: WSMsgType = WSMsgType.TEXT
    fin: bool = True
    rsv1: bool = False
    rsv2: bool = False
    rsv3: bool = False

    def get_payload_as_bytes(self) -> bytes:
        return self.payload


@dataclass
class RecordingTransport:
    """See `picows.WSTransport`."""

    request: Request = field(default_factory=Request)
    underlying_transport: UnderlyingTransport = field(default_factory=UnderlyingTransport)
    frames: list[Any] = field(default_factory=list)
    """The text frames, decoded."""
    pings: int = 0
    pongs: list[bytes] = field(default_factory=list)
    close: tuple[int, str | None] | None = None
    disconnected: bool = False

    @property
    def is_close_frame_sent(self) -> bool:
        return self.close is not None

    def send(self, kind: WSMsgType, frame: bytes) -> None:
        assert self.close is None, "nothing is sent behind the close frame"
        if kind == WSMsgType.CLOSE:
            self.close = (int.from_bytes(frame[:2], "big"), None)
            return
        assert kind == WSMsgType.TEXT
        self.frames.append(json.loads(frame))

    def send_ping(self) -> None:
        self.pings += 1

    def send_pong(self, payload: bytes) -> None:
        self.pongs.append(payload)

    def send_close(self, code: int, reason: str | None = None) -> None:
        assert self.close is None, "closed once"
        self.close = (int(code), reason)

    def disconnect(self, graceful: bool = True) -> None:
        self.disconnected = True

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        """The frames of one type."""
        return [frame for frame in self.frames if isinstance(frame, dict) and frame["type"] == kind]
