"""A WebSocket as the transport of a client, over picows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, cast

from picows import WSCloseCode, WSFrame, WSListener, WSMsgType, WSTransport

from evenflow.fargate_handler.gateway.websocket.client_transport import ClientTransport
from evenflow.fargate_handler.gateway.websocket.text_frames import TextFrames
from evenflow.stream_core.protocols.evenflow.close_codes import CloseCode

WEBSOCKET: Final = "websocket"
"""The name of this transport in the log."""

# Bytes of a close frame's reason, beside its code.
_REASON_BYTES = 120
_PROTOCOL_ERROR = CloseCode.PROTOCOL.to_bytes(2, "big")


class WebSocketClient(Protocol):
    """The client of a WebSocket, in any protocol."""

    def connected(self, transport: ClientTransport) -> None:
        """The handshake is done."""

    def receive(self, kind: int, payload: bytes, *, final: bool, reserved: bool) -> None:
        """The client sent a frame. `kind` is its opcode."""

    def disconnected(self) -> None:
        """The socket is gone."""

    def block(self) -> None:
        """The kernel's buffer is full."""

    def unblock(self) -> None:
        """The kernel's buffer has room again."""

    def malformed(self, code: int) -> None:
        """The client sent an invalid or too large frame. A close frame with this code was sent."""

    def arriving(self, size: int) -> None:
        """Handle a frame larger than one read. `size` bytes of it have arrived."""


class WebSocketTransport(WSListener):
    """One WebSocket: the transport of its client."""

    __slots__ = ("_transport", "arrived", "client", "send_text", "stopped")

    name = WEBSOCKET

    def __init__(self, client: WebSocketClient) -> None:
        self.client = client
        self.arrived = 0
        """Bytes received since the last complete frame. It may count up to one read too many."""
        self.stopped = False
        """Whether nothing more is read."""
        self._transport: WSTransport
        self.send_text: Callable[[bytes], None]
        """Sends a text frame of any size."""

    # -- called by picows --------------------------------------------------------------------------

    def on_ws_connected(self, transport: WSTransport) -> None:
        """The handshake is done."""
        self._transport = transport
        self.send_text = TextFrames(transport).send_text
        # The kernel's buffer is the write buffer. What it doesn't take would be kept here, as one
        # object a frame that is several times as large.
        transport.underlying_transport.set_write_buffer_limits(high=0)
        # The request has the token, which is no longer needed.
        transport.request.headers.clear()
        self.client.connected(self)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        """The client sent a frame."""
        self.arrived = 0
        if self.stopped:
            return  # it came in the same read
        reserved = bool(frame.rsv1 or frame.rsv2 or frame.rsv3)
        kind, payload = cast("int", frame.msg_type), frame.get_payload_as_bytes()
        if frame.msg_type == WSMsgType.CLOSE and frame.tail_size:
            # Nothing may follow a close frame. An empty one as the answer would not be picows' own:
            # it would close a second time if what follows is broken.
            payload = _PROTOCOL_ERROR
        self.client.receive(kind, payload, final=frame.fin, reserved=reserved)

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        """The socket is gone."""
        self.client.disconnected()

    def pause_writing(self) -> None:
        """The kernel's buffer is full."""
        self.client.block()

    def resume_writing(self) -> None:
        """The kernel's buffer has room again."""
        self.client.unblock()

    # -- called by the client's connection ---------------------------------------------------------

    @property
    def unsent_bytes(self) -> int:
        """The bytes that the kernel has not taken."""
        return self._transport.underlying_transport.get_write_buffer_size()

    def send_ping(self) -> None:
        """Send a ping."""
        self._transport.send_ping()

    def send_pong(self, payload: bytes) -> None:
        """Send a pong."""
        self._transport.send_pong(payload)

    def send_close(self, code: int | None, reason: str) -> None:
        """Send a close frame, unless picows has sent one of its own."""
        if self._transport.is_close_frame_sent:
            return
        if code is None:
            # Not picows' send_close: without a code it would send the illegal code 0.
            self._transport.send(WSMsgType.CLOSE, b"")
        else:
            shortened = reason.encode()[:_REASON_BYTES].decode(errors="ignore")
            self._transport.send_close(cast("WSCloseCode", code), shortened)

    def stop_reading(self) -> None:
        """Read nothing more of what the client sends."""
        self.stopped = True
        self._transport.underlying_transport.pause_reading()

    def disconnect(self, *, flush: bool) -> None:
        """Close the socket."""
        self._transport.disconnect(flush)
