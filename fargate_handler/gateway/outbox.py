"""Frames on their way to the sockets, a few hundred at a time.

Working out a frame and sending it use different code and data. Frame by frame, in turns, each drives the other out of the
processor's caches, and the receiver is woken for each; in batches a frame costs a tenth less (10,000 streams, `bench`).
"""

from __future__ import annotations

from collections.abc import Callable

from fargate_handler.gateway.delivery_measures import DeliveryMeasures

SendText = Callable[[bytes], None]
"""`ClientTransport.send_text` of one client."""


class Outbox(list[tuple[SendText, bytes]]):
    """The deltas of a step of the delivery clock. Whoever puts in the first one calls `flush_soon`;
    what goes past it must `flush` first, to keep the order.

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
        """Hand everything to the transports."""
        if self:
            frames = self.copy()
            self.clear()
            self._measures.frames.value += len(frames)
            self._measures.due.whole += len(frames)
            for send_text, frame in frames:
                send_text(frame)
