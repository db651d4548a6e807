"""Sends text frames over picows. It is compiled, which a picows listener can't be."""

from __future__ import annotations

from picows import WSMsgType, WSTransport

_TEXT = WSMsgType.TEXT
# Above 8 KiB picows 2.3.1 queues its own header buffer by reference and reuses it for the next
# frame. Then what a socket doesn't take at once goes out with another frame's length. It copies
# smaller frames, and buffers of ours.
_COPIED_BYTES = 8_192
_HEADER_ROOM = 14


class TextFrames:
    """The text frames of one WebSocket."""

    __slots__ = ("_transport",)

    def __init__(self, transport: WSTransport) -> None:
        self._transport = transport

    def send_text(self, data: bytes) -> None:
        """Send a text frame of any size."""
        if len(data) <= _COPIED_BYTES:
            self._transport.send(_TEXT, data)
        else:
            self._transport.send_reuse_external_bytearray(
                _TEXT, bytearray(_HEADER_ROOM) + data, _HEADER_ROOM
            )
