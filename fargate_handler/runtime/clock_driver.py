"""Drives the delivery clock from the event loop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from evenflow.stream_core.delivery.delivery_clock import DeliveryClock

_logger = logging.getLogger(__name__)

# The longest turn. Then the loop serves its sockets, so that a saturated node still accepts.
_TURN_SECONDS = 0.004
# How many entries are called between two looks at the time. One may be a group of readers.
_STEP = 32


class ClockDriver:
    """Calls the clock at each slot.

    Args:
        monotonic: seconds.
        after_step: called after every few entries, to send their frames.
        busy: CPU seconds of the process so far. A store's threads may share the loop's core.
    """

    def __init__(
        self,
        clock: DeliveryClock,
        loop: asyncio.AbstractEventLoop,
        monotonic: Callable[[], float],
        after_step: Callable[[], None],
        busy: Callable[[], float] = time.process_time,
    ) -> None:
        self._clock = clock
        self._loop = loop
        self._monotonic = monotonic
        self._after_step = after_step
        self._busy = busy
        self._handle: asyncio.Handle | None = None

    def start(self) -> None:
        """Start the turns."""
        self._handle = self._loop.call_soon(self._turn)

    def stop(self) -> None:
        """Stop the turns."""
        if self._handle is not None:
            self._handle.cancel()

    def _turn(self) -> None:
        clock, monotonic = self._clock, self._monotonic
        now = monotonic()
        target = clock.begin_turn(now, self._busy())
        stop_at = now + _TURN_SECONDS
        turned = False
        while not turned and now < stop_at:
            turned = self._turned(target)
            self._after_step()
            now = monotonic()
        clock.end_turn(now, self._busy())
        if turned:
            self._handle = self._loop.call_later(max(0.0, clock.next_turn_at() - now), self._turn)
        else:
            self._handle = self._loop.call_soon(self._greet)

    def _greet(self) -> None:
        """Let the loop look at its sockets a second time before the next turn.

        At the first look it accepts connections, at the second it reads what they have sent. So new
        ones are greeted before the next deliveries, and twice as many come in.
        """
        self._handle = self._loop.call_soon(self._turn)

    def _turned(self, target: int) -> bool:
        try:
            return self._clock.turn(target, _STEP)
        except Exception:
            # A broken entry must not stop everyone's clock. It was removed before it was called.
            _logger.exception("something on the delivery clock failed; the others go on")
            return False
