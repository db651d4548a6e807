"""Plays a script of the demo model by the delivery clock."""

from __future__ import annotations

import asyncio

from evenflow.fargate_handler.token_sources.demo.script import Script
from evenflow.fargate_handler.token_sources.port import TokenSink
from evenflow.stream_core.delivery.delivery_clock import SLOT_MS, DeliveryClock

# From one look at a paused response to the next.
_PAUSE_SLOTS = 5


class Playback:
    """Plays one script by the clock."""

    __slots__ = (
        "_at",
        "_clock",
        "_contents",
        "_gaps",
        "_is_stopped",
        "_remaining",
        "_script",
        "_sink",
        "ended",
    )

    def __init__(
        self, script: Script, sink: TokenSink, clock: DeliveryClock, ended: asyncio.Future[None]
    ) -> None:
        self._script = script
        contents = script.contents[: script.stops_after]
        self._contents = iter(contents)
        self._remaining = len(contents)
        self._is_stopped = False
        self._gaps = script.gaps_ms
        self._sink = sink
        self._clock = clock
        self.ended = ended
        # In slots and fractions of them, so that gaps are right on average.
        self._at = clock.position + script.first_token_ms / SLOT_MS
        clock.put(self, int(self._at))

    def stop(self) -> None:
        """Push no more tokens."""
        self._is_stopped = True

    def on_due(self, slot: int) -> None:
        """Push the contents that are due."""
        sink = self._sink
        if self._is_stopped:
            return
        try:
            while self._at < slot + 1:
                # Any token may be the one with which it pauses.
                if sink.paused:
                    self._at = float(slot + _PAUSE_SLOTS)
                    break
                remaining = self._remaining
                if remaining:
                    content = next(self._contents)
                    if isinstance(content, str):
                        sink.push(content)
                    else:
                        sink.push_part(content)
                    self._remaining = remaining = remaining - 1
                # After the last token there is nothing to wait for.
                if not remaining:
                    self._end()
                    return
                self._at += next(self._gaps) / SLOT_MS
        except Exception as error:  # whatever the sink raises ends this model, not the clock
            self._is_stopped = True
            if not self.ended.done():
                self.ended.set_exception(error)
            return
        self._clock.put(self, int(self._at))

    def _end(self) -> None:
        if self._script.failure is not None:
            self.ended.set_exception(self._script.failure)
        elif not self._script.hangs:
            self.ended.set_result(None)
