"""What to do about a reader that does not keep up: join, tell it, and at last let it go with a resume point (rule 2)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from stream_core.policy.limits import Limits


class FlowState(StrEnum):
    """Where a reader stands."""

    CURRENT = "current"
    BEHIND = "behind"
    LAGGING = "lagging"  # behind, and was told so
    PAUSED = "paused"  # by its own wish
    TOO_SLOW = "too_slow"  # to be disconnected


class FlowEvent(StrEnum):
    """What happens to a reader."""

    FALL_BEHIND = "fall_behind"  # its socket took no more
    CATCH_UP = "catch_up"  # it has everything
    LAG = "lag"  # over the notice limit
    EXCEED = "exceed"  # over the close limit, or paused for too long
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
    """The flow of one reader. It decides; sending, telling and closing are the transport's.

    A reader that resumes far back is not slow: lag counts what came since it fell behind.
    """

    __slots__ = ("_bytes_then", "_limits", "_since", "state")

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._since = 0.0
        self._bytes_then = 0
        self.state = FlowState.CURRENT

    @property
    def may_send(self) -> bool:
        """Whether deltas go to this reader now (if its socket takes them)."""
        return self.state is not FlowState.PAUSED and self.state is not FlowState.TOO_SLOW

    def fell_behind(self, now: float, log_bytes: int) -> None:
        """Its socket took no more; `log_bytes` is the size of the log's text now."""
        if self.state is FlowState.CURRENT:
            self._since = now
            self._bytes_then = log_bytes
            self._fire(FlowEvent.FALL_BEHIND)

    def caught_up(self) -> None:
        """It was given everything that there is."""
        if self.state in (FlowState.BEHIND, FlowState.LAGGING):
            self._fire(FlowEvent.CATCH_UP)

    def pause(self, now: float, log_bytes: int) -> bool:
        """The reader asks for a pause; whether that changes anything (asking twice doesn't)."""
        if (self.state, FlowEvent.PAUSE) not in FLOW_TRANSITIONS:
            return False
        self._since = now
        self._bytes_then = log_bytes
        self._fire(FlowEvent.PAUSE)
        return True

    def resume(self) -> bool:
        """The reader asks to go on; whether it paused."""
        if self.state is not FlowState.PAUSED:
            return False
        self._fire(FlowEvent.CONTINUE)
        return True

    def holds_model(self, log_bytes: int) -> bool:
        """Whether this reader pauses and the log has grown by the pause window since."""
        return self.state is FlowState.PAUSED and log_bytes - self._bytes_then >= self._limits.pause_window_bytes

    def end_long_pause(self, now: float) -> bool:
        """Whether this reader has paused for longer than it may; it is too slow from now on."""
        if self.state is not FlowState.PAUSED or now - self._since < self._limits.pause_seconds:
            return False
        self._fire(FlowEvent.EXCEED)
        return True

    def measure(self, now: float, behind_deltas: int, log_bytes: int) -> Lag:
        """How far behind the reader is now."""
        if self.state not in (FlowState.BEHIND, FlowState.LAGGING):
            return Lag(0, 0.0, 0)
        return Lag(behind_deltas, now - self._since, log_bytes - self._bytes_then)

    def check(self, lag: Lag) -> FlowEvent | None:
        """Compare `lag` with the limits: LAG once when it must be told, EXCEED when it must go, else None."""
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
