"""A client as the protocol wants it: it holds each entry once, begins again where it is told to,
and comes back.
"""

from __future__ import annotations

import json
from typing import Any

from evenflow.fargate_handler.gateway.evenflow.client_connection import ClientConnection
from evenflow.stream_core.auth.session_token import SessionClaims
from evenflow.stream_core.base.channel import Channel
from evenflow.stream_core.protocols.evenflow.client_session import ClientSession
from evenflow.stream_core.protocols.evenflow.socket_session import Opcode
from tests.unit.fargate_handler.gateway.client_harness import Gateway
from tests.unit.fargate_handler.gateway.recording_transport import RecordingTransport


class Browser:
    """Reads one response, at whichever gateway it is connected to."""

    def __init__(self, channel: Channel, response_id: str) -> None:
        self.response_id = response_id
        self.ended: dict[str, Any] | None = None
        """The terminal frame."""
        self.refusals: list[str] = []
        self.resumed = 0
        self._channel = channel
        self._spans: list[tuple[int, str]] = []
        self._next_index = 0
        self._epoch = 1
        self._transport: RecordingTransport | None = None
        self._connection: ClientConnection | None = None
        self._seen = 0

    @property
    def text(self) -> str:
        """What the user sees."""
        return "".join(text for _, text in self._spans)

    @property
    def connected(self) -> bool:
        """Whether it has a connection that the gateway has not closed."""
        return self._transport is not None and self._transport.close is None

    def connect(self, gateway: Gateway) -> None:
        """Open a connection there, and resume."""
        self.leave()
        now = gateway.clock.now
        claims = SessionClaims(self._channel, expires_at=2_000_000_000, issued_at=0)
        self._transport, self._seen = RecordingTransport(), 0
        session = ClientSession(claims, gateway.limits, expires_in=3600.0, now=now)
        self._connection = ClientConnection(gateway.context, session, now, ("public", "127.0.0.1"))
        self._connection.connected(self._transport)
        self.resume()

    def leave(self) -> None:
        """The socket is gone. What was written to it arrived."""
        if self._connection is not None and self._transport is not None:
            self.look()
            self._connection.disconnected()
            self._transport = self._connection = None

    def resume(self) -> None:
        """Go on behind what it has."""
        self.resumed += 1
        self.refusals.clear()
        self.send("response.resume", after=self._next_index - 1, epoch=self._epoch)

    def send(self, kind: str, **fields: object) -> None:
        assert self._connection is not None
        frame = {"type": kind, "response_id": self.response_id, **fields}
        self._connection.receive(Opcode.TEXT, json.dumps(frame).encode())

    def look(self) -> None:
        """Take what has arrived."""
        if self._transport is None:
            return
        arrived, self._seen = self._transport.frames[self._seen :], len(self._transport.frames)
        for frame in arrived:
            if frame.get("response_id") == self.response_id:
                self._take(frame)

    def _take(self, frame: dict[str, Any]) -> None:
        match frame["type"]:
            case "chat.response.start":
                self._epoch = max(self._epoch, frame.get("epoch", 1))
            case "chat.response.restarted":
                self._restart(frame)
            case "chat.response.delta":
                assert frame.get("from", frame["index"]) == self._next_index, (
                    "each index once, none left out"
                )
                self._spans.append((frame["index"], frame["delta"]))
                self._next_index = frame["index"] + 1
            case "chat.response.completed" | "chat.response.error":
                assert self.ended is None or self.ended == frame, "one end"
                assert frame["last_index"] == self._next_index - 1
                self.ended = frame
            case _:
                self.refusals.append(frame["error"]["code"])

    def _restart(self, frame: dict[str, Any]) -> None:
        index = frame["index"]
        if index == -1:
            self._next_index = 0
        else:
            assert index == self._next_index
            self._next_index = index + 1
        self._spans = [span for span in self._spans if span[0] <= frame["from_index"]]
        self._epoch = frame.get("epoch", 1)
