"""Backpressure: when the token source of a response should stop reading its model."""

from __future__ import annotations

from collections.abc import Callable

from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.readers import ResponseReaders
from evenflow.stream_core.delivery.token_allowance import TokenAllowance
from evenflow.stream_core.log.response_log import ResponseLog


class Backpressure:
    """Pauses the model of one response, and resumes it.

    The model pauses while all readers pause and the log is the pause window ahead of each; while
    there is no reader and the log is that far ahead of the store; while the generation has no
    slot; and while its reserved tokens are used up.
    """

    __slots__ = (
        "_allowance",
        "_limits",
        "_log",
        "_monotonic",
        "_notified",
        "_on_pause",
        "_readers",
        "_stored_bytes",
        "parked_at",
        "paused",
        "paused_at",
        "paused_readers",
    )

    def __init__(
        self,
        log: ResponseLog,
        readers: ResponseReaders,
        allowance: TokenAllowance,
        limits: Limits,
        monotonic: Callable[[], float],
    ) -> None:
        self._log = log
        self._readers = readers
        self._allowance = allowance
        self._limits = limits
        self._monotonic = monotonic
        self._stored_bytes: int | None = None
        self._on_pause: Callable[[bool], None] | None = None
        # Whether all readers paused, and their number, at the last call. None: it is called again.
        self._notified: tuple[bool, int] | None = None
        self.paused = False
        """Whether the token source should not read its model."""
        self.paused_at = -1.0
        """When the model was last paused, in seconds."""
        self.paused_readers = 0
        """The number of paused readers."""
        self.parked_at: float | None = None
        """Since when the generation has no slot, in seconds. None: it has one, or never had."""

    def set_on_pause(self, callback: Callable[[bool], None] | None) -> None:
        """Set what is called, with whether all readers pause, when readers or that have changed."""
        self._on_pause, self._notified = callback, None

    def notify_again(self) -> None:
        """Call `on_pause` with the next update, though nothing has changed here."""
        self._notified = None

    def update(self) -> None:
        """Decide again whether the model pauses."""
        readers, stored, allowance = self._readers, self._stored_bytes, self._allowance
        all_pause = 0 < self.paused_readers >= len(readers) and all(
            reader.pauses_model for reader in readers
        )
        self.paused = (
            all_pause
            or (
                stored is not None
                and not readers
                and self._log.text_bytes - stored > self._limits.pause_window_bytes
            )
            or self.parked_at is not None
            or allowance.tokens >= allowance.pauses_at
        )
        if self.paused:
            self.paused_at = self._monotonic()
        # Deliveries without a reader come here, too, many times a second.
        noticed = all_pause, len(readers)
        if noticed != self._notified and self._on_pause is not None:
            self._notified = noticed
            self._on_pause(all_pause)

    def update_if_paused(self) -> None:
        """Decide again if the model pauses: the reason may be gone."""
        if self.paused:
            self.update()

    def pause_reader(self) -> None:
        """Record that one more reader pauses."""
        self.paused_readers += 1
        self._notified = None
        self.update()

    def unpause_reader(self) -> None:
        """Record that a reader pauses no more."""
        self.paused_readers -= 1
        self._notified = None
        self.update()

    def record_stored(self, text_bytes: int) -> None:
        """Record how many UTF-8 bytes of the log's text the store has."""
        self._stored_bytes = text_bytes
        self.update_if_paused()

    def park(self) -> None:
        """Pause the model until `unpark`: the generation releases its slot."""
        self.parked_at = self._monotonic()
        self.paused = True

    def unpark(self) -> None:
        """Resume the model: the generation has a slot again."""
        self.parked_at = self._notified = None
        self.update()

    def record_tool_run(self, now: float) -> None:
        """Record that the model was not called until now: tools ran."""
        self.paused_at = now

    def detach(self) -> None:
        """Forget the callback and the lost slot: the generation has ended."""
        self._on_pause = self.parked_at = None
