"""The deadlines of a model: its first sign of life, its silence, and the whole response."""

from __future__ import annotations

from evenflow.stream_core.base.errors import UpstreamTimeout
from evenflow.stream_core.base.limits import Limits
from evenflow.stream_core.delivery.response_stream import ResponseStream


class ModelWatch:
    """Checks that a model gives signs of life in time. While it is paused, the time stops.

    Args:
        now: seconds. The deadline of the whole response counts from here, over all attempts.
    """

    def __init__(self, stream: ResponseStream, limits: Limits, now: float) -> None:
        self._stream = stream
        self._limits = limits
        self._finish_by = now + limits.model_deadline_seconds
        self.begin(now)

    def begin(self, now: float) -> None:
        """Begin an attempt."""
        self._looked_at = self._alive_at = now
        self._known_signs = self._signs
        self._silent_at_first = True

    @property
    def due(self) -> float:
        """When to look again at the latest, in seconds."""
        return min(self._finish_by, self._alive_at + self._patience)

    def look(self, now: float, starved: float) -> UpstreamTimeout | None:
        """The error for a deadline that has passed. None if none has.

        Args:
            starved: the seconds since the last look in which this node could not read the model.
        """
        # A paused model is not late. Another limit bounds the pauses of readers.
        left_out = now - self._looked_at if self._stream.paused else starved
        self._finish_by += left_out
        self._alive_at += left_out
        self._looked_at = now
        if self._known_signs != self._signs:
            self._known_signs, self._alive_at, self._silent_at_first = self._signs, now, False
        if self.is_over(now):
            most = self._limits.model_deadline_seconds
            return UpstreamTimeout(
                f"the model did not finish within {most:g} s; ask for less", code="model_timeout"
            )
        if now < self._alive_at + self._patience:
            return None
        if self._silent_at_first:
            return UpstreamTimeout(
                f"the model gave no sign of life for {self._patience:g} s; nothing was generated, "
                "ask again",
                code="first_token_timeout",
            )
        return UpstreamTimeout(
            f"the model fell silent for {self._patience:g} s; what was delivered was kept, ask "
            "again",
            code="model_timeout",
        )

    def is_over(self, now: float) -> bool:
        """Whether the deadline of the whole response has passed."""
        return now >= self._finish_by

    @property
    def _patience(self) -> float:
        limits = self._limits
        return (
            limits.model_first_sign_seconds
            if self._silent_at_first
            else limits.model_silence_seconds
        )

    @property
    def _signs(self) -> int:
        return self._stream.tokens + self._stream.signs_of_life
