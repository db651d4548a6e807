"""Frames on their way to the sockets, a few hundred at a time.

Working out a frame and sending it use different code and data. Frame by frame, in turns, each drives the other out of the
processor's caches, and the receiver is woken for each; in batches a frame costs a tenth less (10,000 streams, `bench`).
"""

from __future__ import annotations

from collections.abc import Callable

from picows import WSMsgType, WSTransport

from fargate_handler.gateway.delivery_measures import DeliveryMeasures

_TEXT = WSMsgType.TEXT
# Above 8 KiB picows 2.3.1 queues its own header buffer by reference and reuses it for the next frame: what a socket doesn't
# take at once would go out with another frame's length. Below, and for a buffer of ours, it copies.
_COPIED_BYTES = 8_192
_HEADER_ROOM = 14


def send_text(transport: WSTransport, frame: bytes) -> None:
    """Send a text frame of any size."""
    if len(frame) <= _COPIED_BYTES:
        transport.send(_TEXT, frame)
    else:
        transport.send_reuse_external_bytearray(_TEXT, bytearray(_HEADER_ROOM) + frame, _HEADER_ROOM)


class Outbox(list[tuple[WSTransport, bytes]]):
    """The deltas of a step of the delivery clock. Whoever puts in the first one calls `flush_soon`; what goes past it must
    `flush` first, to keep the order.

    Args:
        call_soon: the event loop's; it flushes what nobody else does.
        measures: where its frames are counted, each a delta delivered in its own interval.
    """

    def __init__(self, call_soon: Callable[[Callable[[], None]], object], measures: DeliveryMeasures) -> None:
        super().__init__()
        self._call_soon = call_soon
        self._measures = measures

    def flush_soon(self) -> None:
        """Flush at the end of the event loop's turn at the latest."""
        self._call_soon(self.flush)

    def flush(self) -> None:
        """Hand everything to the sockets."""
        if self:
            frames = self.copy()
            self.clear()
            self._measures.frames.value += len(frames)
            self._measures.due.whole += len(frames)
            for transport, frame in frames:
                if len(frame) <= _COPIED_BYTES:
                    transport.send(_TEXT, frame)
                else:
                    send_text(transport, frame)
