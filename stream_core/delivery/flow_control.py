"""Flow control of a slow reader: join its deltas, notify it, and finally disconnect it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from evenflow.stream_core.base.limits import Limits


class FlowState(StrEnum):
    """Whether a reader keeps up."""

    CURRENT = "current"
    BEHIND = "behind"
    LAGGING = "lagging"  # behind, and notified
    PAUSED = "paused"  # at its own request
    TOO_SLOW = "too_slow"  # to be disconnected


class FlowEvent(StrEnum):
    """What changes the state of a reader."""

    FALL_BEHIND = "fall_behind"  # its socket buffer is full
    CATCH_UP = "catch_up"  # it has received everything
    LAG = "lag"  # its lag is over the limit for a notice
    EXCEED = "exceed"  # its lag is over the limit for a close, or it paused too long
    PAUSE = "pause"
    CONTINUE = "continue"


_S, _E = FlowState, FlowEvent

FLOW_TRANSITIONS: dict[tuple[FlowState, FlowEvent], FlowState] = {
    (_S.CURRENT, _E.FALL_BEHIND): _S.BEHIND,
    (_S.CURRENT, _E.PAUSE): _S.PAUSED,
    (_S.BEHIND, _E.CATCH_UP): _S.CURRENT,
    (_S.BEHIND, _E.LAG): _S.LAGGING,
    (_S.BEHIND, _E.EXCEED): _S.TOO_SLOW,
    (_S.BEHIND, _E.PAUSE): _S.PAUSED,
    (_S.LAGGING, _E.CATCH_UP): _S.CURRENT,
    (_S.LAGGING, _E.EXCEED): _S.TOO_SLOW,
    (_S.LAGGING, _E.PAUSE): _S.PAUSED,
    (_S.PAUSED, _E.CONTINUE): _S.CURRENT,
    (_S.PAUSED, _E.EXCEED): _S.TOO_SLOW,
}


@dataclass(frozen=True, slots=True)
class Lag:
    """How far behind a reader is."""

    deltas: int
    seconds: float
    text_bytes: int


class ReaderFlow:
    """The flow control of one reader. It only decides: the transport sends and closes.

    Lag counts the text since the reader fell behind. A reader that resumes far back is not slow.
    """

    __slots__ = ("_bytes_then", "_limits", "_since", "state")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._since = 0.0
        self._bytes_then = 0
        self.state = FlowState.CURRENT

    @property
    def may_send(self) -> bool:
        """Whether deltas may be sent to this reader, if its socket takes them."""
        return self.state is not FlowState.PAUSED and self.state is not FlowState.TOO_SLOW

    def fell_behind(self, now: float, log_bytes: int) -> None:
        """Record that the reader's socket is full. `log_bytes` is the size of the log's text."""
        if self.state is FlowState.CURRENT:
            self._since = now
            self._bytes_then = log_bytes
            self._fire(FlowEvent.FALL_BEHIND)

    def caught_up(self) -> None:
        """Record that the reader has received everything."""
        if self.state in (FlowState.BEHIND, FlowState.LAGGING):
            self._fire(FlowEvent.CATCH_UP)

    def pause(self, now: float, log_bytes: int) -> bool:
        """Pause the reader. Returns whether that changes anything."""
        if (self.state, FlowEvent.PAUSE) not in FLOW_TRANSITIONS:
            return False
        self._since = now
        self._bytes_then = log_bytes
        self._fire(FlowEvent.PAUSE)
        return True

    def unpause(self) -> bool:
        """End the reader's pause. Returns whether it paused."""
        if self.state is not FlowState.PAUSED:
            return False
        self._fire(FlowEvent.CONTINUE)
        return True

    def pauses_model(self, log_bytes: int) -> bool:
        """Whether the reader pauses, and the log has grown by the pause window since."""
        return (
            self.state is FlowState.PAUSED
            and log_bytes - self._bytes_then >= self._limits.pause_window_bytes
        )

    def end_long_pause(self, now: float, parked_at: float | None = None) -> bool:
        """Make a reader that has paused too long too slow. Returns whether it has.

        Args:
            parked_at: when its response was parked, if it is.
        """
        limits = self._limits
        ends_at = self._since + limits.pause_seconds
        if parked_at is not None:
            ends_at = min(ends_at, max(self._since, parked_at) + limits.parked_seconds)
        if self.state is not FlowState.PAUSED or now < ends_at:
            return False
        self._fire(FlowEvent.EXCEED)
        return True

    def measure(self, now: float, behind_deltas: int, log_bytes: int) -> Lag:
        """How far behind the reader is now. Zero while it keeps up or pauses."""
        if self.state not in (FlowState.BEHIND, FlowState.LAGGING):
            return Lag(0, 0.0, 0)
        return Lag(behind_deltas, now - self._since, log_bytes - self._bytes_then)

    def check(self, lag: Lag) -> FlowEvent | None:
        """Compare `lag` with the limits.

        Returns:
            LAG once when the reader is to be notified, EXCEED to disconnect it, else None.
        """
        limits = self._limits
        if lag.seconds >= limits.lag_close_seconds or lag.text_bytes >= limits.lag_close_bytes:
            self._fire(FlowEvent.EXCEED)
            return FlowEvent.EXCEED
        notice = lag.deltas >= limits.lag_notice_deltas or lag.seconds >= limits.lag_notice_seconds
        if notice and self.state is FlowState.BEHIND:
            self._fire(FlowEvent.LAG)
            return FlowEvent.LAG
        return None

    def _fire(self, event: FlowEvent) -> None:
        self.state = FLOW_TRANSITIONS[self.state, event]
