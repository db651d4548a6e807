"""A core that works at a known speed, an event loop on it, and streams that keep it busy."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, cast

from evenflow.fargate_handler.runtime.clock_driver import ClockDriver
from evenflow.stream_core.base.answer import Transport
from evenflow.stream_core.base.channel import CHAT, Channel, MessageKind
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.base.queue_place import QueuePlace
from evenflow.stream_core.delivery.delivery_clock import SLOT_SECONDS, DeliveryClock
from evenflow.stream_core.delivery.response_stream import ResponseStream

# Seconds of work that the event loop finds in its sockets in one turn at most.
_SERVED_AT_ONCE = 0.01
_LIMITS = Limits(response_bytes=67_108_864)


class SimulatedCore:
    """A delivery clock and its driver, on a core where everything takes as long as it is told to.

    The event loop serves its sockets between its callbacks. What they need is `other`.
    """

    def __init__(self) -> None:
        self.now = 1000.0
        self.busy = 0.0
        self.other = 0.0
        """The share of the core that the loop's sockets need, whatever the interval."""
        self.waiting = 0.0
        """Seconds of work that waits in the sockets: a burst adds some."""
        self.stolen = 0.0
        """The share of the core that a neighbour takes."""
        self.clock = DeliveryClock(self.now, _LIMITS)
        self.intervals: list[tuple[float, float]] = [(self.now, self.clock.interval)]
        """Since when which interval holds."""
        self._served_until = self.now
        self._number = itertools.count()
        self._handles: list[tuple[float, int, Callable[[], None]]] = []
        loop = cast("Any", self)
        ClockDriver(self.clock, loop, lambda: self.now, lambda: None, lambda: self.busy).start()

    def compute(self, seconds: float) -> None:
        """Work for so long, if the core is there."""
        self.busy += seconds
        self.now += seconds / (1 - self.stolen)

    def call_soon(self, callback: Callable[[], None]) -> None:
        """As the event loop's."""
        heappush(self._handles, (self.now, next(self._number), callback))

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        """As the event loop's."""
        # No timer is exact.
        heappush(self._handles, (self.now + delay + 1e-5, next(self._number), callback))

    def run(self, seconds: float) -> None:
        """Let so much time pass."""
        until = self.now + seconds
        while self.now < until:
            self._serve_sockets()
            due, _, callback = self._handles[0]
            if due > self.now:
                if self.waiting:
                    continue
                self.now = due
            heappop(self._handles)
            callback()
            if self.clock.interval != self.intervals[-1][1]:
                self.intervals.append((self.now, self.clock.interval))

    def _serve_sockets(self) -> None:
        self.waiting += (self.now - self._served_until) * self.other
        self._served_until = self.now
        served = min(self.waiting, _SERVED_AT_ONCE)
        self.waiting -= served
        self.compute(served)

    def interval_at(self, moment: float) -> float:
        """The interval at a moment, in seconds."""
        return next(interval for since, interval in reversed(self.intervals) if since <= moment)


class Streams:
    """Streams whose models are faster than any interval, or give a token every `gap` seconds.

    Each delivery takes `cost` seconds of the core.
    """

    def __init__(
        self,
        core: SimulatedCore,
        count: int,
        cost: float,
        gap: float = 0.0,
        kind: MessageKind = CHAT,
        tenant: str = "t",
    ) -> None:
        channel = Channel(tenant, "a", "s")
        self.readers = [_Reader(core, cost, gap, kind, channel) for _ in range(count)]

    def end(self) -> None:
        """All of them end now."""
        for reader in self.readers:
            reader.ended = True

    @property
    def deliveries(self) -> Sequence[Sequence[int]]:
        """The slots in which each one was delivered."""
        return [reader.slots for reader in self.readers]

    def gaps_since(self, slot: int) -> set[int]:
        """The slots between two deliveries of one, from a slot of the clock on."""
        return {
            after - before
            for slots in self.deliveries
            for before, after in itertools.pairwise(slots)
            if before >= slot
        }


class _Reader:
    """The reader and the model of one stream."""

    user: str | None = None
    pauses_model = False
    transport: Transport = "http"

    def __init__(
        self, core: SimulatedCore, cost: float, gap: float, kind: MessageKind, channel: Channel
    ) -> None:
        self.slots: list[int] = []
        self.ended = False
        self._core, self._cost, self._gap = core, cost, gap
        self._at = float(core.clock.position)
        self._stream = ResponseStream(
            response_id="rsp",
            message_id="m",
            channel=channel,
            clock=core.clock,
            limits=_LIMITS,
            monotonic=lambda: core.now,
            kind=kind,
        )
        self._stream.start()
        self._stream.attach(self)
        core.clock.put(self, core.clock.position)

    def on_due(self, slot: int) -> None:
        """The model gives a token."""
        if self.ended:
            return
        self._stream.push("x")
        if self._gap:
            self._at += self._gap / SLOT_SECONDS
            self._core.clock.put(self, int(self._at))

    @property
    def next_index(self) -> int:
        """Not looked at."""
        return 0

    def deliver(self, _now: float, _jitter: float | None) -> None:
        """Take what is new. A fast model has the next token at once."""
        if not self._stream.log.entries or self.ended:
            return
        self._core.compute(self._cost)
        self.slots.append(self._core.clock.position)
        if not self._gap:
            self._stream.push("x")

    def on_queued(self, place: QueuePlace) -> None:
        """Nothing."""

    def announce_start(self) -> None:
        """Nothing."""

    def on_lost(self) -> None:
        """Never."""
