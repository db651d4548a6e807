"""The paced delivery of one response: new entries go to its readers once an interval."""

from __future__ import annotations

from collections.abc import Callable

from evenflow.stream_core.base.channel import MessageKind
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.answer_figures import TokenGaps
from evenflow.stream_core.delivery.backpressure import Backpressure
from evenflow.stream_core.delivery.batch import ENDED_BATCH, Batch
from evenflow.stream_core.delivery.delivery_clock import SLOT_SECONDS, DeliveryClock, slots_of
from evenflow.stream_core.delivery.readers import MAX_DIRECT_READERS, ResponseReaders
from evenflow.stream_core.delivery.tenant_intervals import TenantInterval
from evenflow.stream_core.delivery.token_allowance import TokenAllowance
from evenflow.stream_core.log.response_log import ResponseLog

# The weight of the newest gap in a stream's mean. Three deltas later it counts less than half.
_GAP_SMOOTHING = 0.25
_NO_GAPS = TokenGaps(0)  # of all responses without tokens of their own


class PacedDelivery:
    """Delivers what is new in the log to the readers, at once or when the interval has passed.

    The clock calls `on_due` at the end of an interval: then the batch is cut and delivered. An
    entry that comes after that is delivered at once.

    Args:
        interval: the tenant's interval.
        kind: of the message. It says how long the interval is at least.
        monotonic: seconds, to measure when a delta is really delivered.
    """

    __slots__ = (
        "_allowance",
        "_backpressure",
        "_batch",
        "_clock",
        "_delivered_at",
        "_gaps",
        "_interval",
        "_log",
        "_mean_gap",
        "_monotonic",
        "_on_first_delta",
        "_on_urgent",
        "_readers",
        "_tenant_interval",
        "_window",
        "due",
        "first_delta_at",
        "is_scheduled",
    )

    def __init__(
        self,
        log: ResponseLog,
        batch: Batch,
        readers: ResponseReaders,
        allowance: TokenAllowance,
        backpressure: Backpressure,
        clock: DeliveryClock,
        interval: TenantInterval,
        limits: Limits,
        kind: MessageKind,
        monotonic: Callable[[], float],
    ) -> None:
        self._log, self._batch, self._readers = log, batch, readers
        self._allowance, self._backpressure = allowance, backpressure
        self._clock, self._monotonic = clock, monotonic
        self._tenant_interval, self._window = interval, slots_of(limits.window_ms(kind))
        # Slots from one delivery to the next. 0: it has not begun.
        self._interval = 0
        self._delivered_at = self._mean_gap = 0.0
        self._gaps = _NO_GAPS
        self._on_first_delta: Callable[[], None] | None = None
        self._on_urgent: Callable[[], None] | None = None
        self.due = 0
        """The slot of the next delivery."""
        self.is_scheduled = False
        """Whether something waits for that slot."""
        self.first_delta_at: float | None = None
        """When the first delta was delivered, in seconds."""

    # -- callbacks ---------------------------------------------------------------------------------

    @property
    def is_recorded(self) -> bool:
        """Whether the log is being written to a store."""
        return self._on_urgent is not None

    def set_on_first_delta(self, callback: Callable[[], None] | None) -> None:
        """Set what is called when the model begins, perhaps twice. None: nothing."""
        self._on_first_delta = callback

    def set_on_urgent(self, callback: Callable[[], None] | None) -> None:
        """Set what is called when the log should be written at once. None: nothing.

        That is at the first delta, at the result of a tool, and at the end. The recorder writes the
        end at once, and the others only while no reader is on this node.
        """
        self._on_urgent = callback

    def mark_urgent(self) -> None:
        """Request that the log is written at once. The recorder may leave it to its next turn."""
        if self._on_urgent is not None:
            self._on_urgent()

    # -- what the token source brings --------------------------------------------------------------

    def deliver(self, text: str) -> None:
        """Append a text, which may be empty, and deliver all that is new."""
        clock, readers, backpressure = self._clock, self._readers, self._backpressure
        if text:
            self._log.append(text)
        now = self._monotonic()
        interval = self._tenant_interval.slots
        is_crowded = len(readers) > MAX_DIRECT_READERS
        window = clock.usual_slots if is_crowded else self._window
        if interval < window:  # noqa: PLR1730 - a call costs more
            interval = window
        if self.first_delta_at is None:
            self.first_delta_at = now
            jitter = None
            self._gaps = TokenGaps(self._allowance.tokens)
        else:
            delivered_at, mean_gap = self._delivered_at, self._mean_gap
            gap = now - delivered_at
            if backpressure.paused_at < delivered_at:
                self._gaps.record_delivery(gap, self._allowance.tokens)
            else:
                self._gaps.skip_delivery(self._allowance.tokens)
            due = self._interval * SLOT_SECONDS
            if not mean_gap:
                mean_gap = gap  # An even model has no jitter, however slow it is.
            # The stream's current interval is its own, or the mean gap of the model where that is
            # slower.
            jitter = abs(gap - due) if due > mean_gap else abs(gap - mean_gap)
            self._mean_gap = mean_gap + (gap - mean_gap) * _GAP_SMOOTHING
        self._delivered_at = now
        self.due = clock.position + interval
        if interval != self._interval:
            self._change_interval(interval)
        only = readers.only
        if only is not None:
            only.deliver(now, jitter)
        else:
            expected = None if jitter is None else max(due, self._mean_gap)
            readers.deliver_to_all(now, jitter, interval, expected)
        if jitter is None:
            self._report_first_delta()
        if backpressure.paused_readers or not readers:
            backpressure.update()

    def schedule(self) -> None:
        """Schedule the delivery of what waits for when it is due."""
        self.is_scheduled = True
        self._clock.put(self, self.due)

    def deliver_or_schedule(self) -> None:
        """Deliver now if it is due, otherwise when it is."""
        if not self._readers:
            self._backpressure.update()
        if self.is_scheduled:
            return
        if self._clock.position >= self.due:
            self._batch.cut()
            self.deliver("")
        else:
            self.schedule()

    def on_due(self, slot: int) -> None:
        """Cut the batch and deliver it: the interval has passed."""
        if slot < self.due:
            # Something was delivered since this slot was scheduled: the marker of a restart.
            self._clock.put(self, self.due)
            return
        self.is_scheduled = False
        if self._log.state is None:
            batch = self._batch
            if batch.holds_parts:
                batch.cut()
            self.deliver(batch.cut_text())

    # -- the rest of a response's life -------------------------------------------------------------

    def adopt(self, first_delta_at: float | None) -> None:
        """Resume the delivery of an earlier owner, which began at `first_delta_at`."""
        self.first_delta_at = first_delta_at
        self._delivered_at = self._monotonic()
        self._gaps = TokenGaps(0)

    def start_step(self) -> None:
        """Start the next step with its first token. The time before it was no gap: tools ran."""
        now = self._monotonic()
        self._delivered_at = now - max(self._interval * SLOT_SECONDS, self._mean_gap)
        self._backpressure.record_tool_run(now)

    def deliver_unpaced(self) -> None:
        """Deliver entries that have no due time: they come from another copy."""
        now = self._monotonic()
        if self.first_delta_at is None:
            self.first_delta_at = now
        self.deliver_to_all(now)

    def deliver_to_all(self, now: float) -> None:
        """Deliver what has no due time to all readers."""
        slots = max(self._tenant_interval.slots, self._clock.usual_slots)
        self._readers.deliver_to_all(now, None, slots, None)

    def record_end(self, *, has_new: bool) -> float:
        """Record that the log has ended. Returns when that was, in seconds.

        Args:
            has_new: whether the log has entries that were not delivered.
        """
        self._batch = ENDED_BATCH
        now = self._monotonic()
        if self.first_delta_at is None:
            self.first_delta_at = now
        elif has_new and self._backpressure.paused_at < self._delivered_at:
            self._gaps.record_delivery(now - self._delivered_at, self._allowance.tokens)
        return now

    @property
    def gaps(self) -> TokenGaps:
        """The time between tokens, where this node gives them."""
        return self._gaps

    def take_gaps(self) -> TokenGaps:
        """Remove and return the time between tokens. An ended response does not need it."""
        taken, self._gaps = self._gaps, _NO_GAPS
        return taken

    def report_first_token(self) -> None:
        """Report that the model has begun to answer. What it gives may come later: filters hold it.

        The first delta reports it, too.
        """
        if self._on_first_delta is not None:
            self._on_first_delta()

    def _report_first_delta(self) -> None:
        self.mark_urgent()
        self.report_first_token()

    def _change_interval(self, interval: int) -> None:
        """Change the interval, at another slot than streams that change theirs now."""
        due = self._clock.spread(self._interval, interval)
        # The next gap is shorter by this difference, which is no jitter.
        self._delivered_at -= (self.due - due) * SLOT_SECONDS
        self.due = due
        self._interval = interval
