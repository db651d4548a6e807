"""One attempt at an answer: when it counts as silent, and when it replaces the last."""

from __future__ import annotations

from stream_core.log.response_stream import ResponseStream
from stream_core.policy.limits import Limits
from stream_core.protocol.errors import UpstreamTimeout


class ReplacingSink:
    """A `TokenSink`. What was delivered stands until the first token of this attempt: it may never come."""

    __slots__ = ("_begun", "_stream")

    def __init__(self, stream: ResponseStream) -> None:
        self._stream = stream
        self._begun = False

    @property
    def paused(self) -> bool:
        """See `TokenSink.paused`."""
        return self._stream.paused

    def push(self, token: str) -> None:
        """See `TokenSink.push`.

        Raises:
            ResponseFull, LogClosed: as `ResponseStream.push` does.
        """
        if token and not self._begun:
            self._begun = True
            self._stream.restart()
        self._stream.push(token)

    def alive(self) -> None:
        """See `TokenSink.alive`."""
        self._stream.alive()


class ModelWatch:
    """Looks now and then whether tokens or other signs of life have come meanwhile. While the model is paused, no time passes.

    Args:
        now: seconds; the response has so long in all from here, however many attempts it takes.
    """

    def __init__(self, stream: ResponseStream, limits: Limits, now: float) -> None:
        self._stream = stream
        self._limits = limits
        self._finish_by = now + limits.model_deadline_seconds
        self.begin(now)

    def begin(self, now: float) -> None:
        """An attempt begins."""
        self._looked_at = self._heard_at = now
        self._heard = self._signs
        self._silent_at_first = True

    @property
    def due(self) -> float:
        """When to look again at the latest, in seconds."""
        return min(self._finish_by, self._heard_at + self._patience)

    def look(self, now: float) -> UpstreamTimeout | None:
        """The deadline that has passed, if one has."""
        if self._stream.paused:
            # A paused model owes nothing; its readers are bounded by the pause limit.
            self._finish_by += now - self._looked_at
            self._heard_at += now - self._looked_at
        self._looked_at = now
        if self._heard != self._signs:
            self._heard, self._heard_at, self._silent_at_first = self._signs, now, False
        if self.is_over(now):
            most = self._limits.model_deadline_seconds
            return UpstreamTimeout(f"the model did not finish within {most:g} s; ask for less", code="model_timeout")
        if now < self._heard_at + self._patience:
            return None
        if self._silent_at_first:
            return UpstreamTimeout(
                f"the model gave no sign of life for {self._patience:g} s; nothing was generated, ask again",
                code="first_token_timeout",
            )
        return UpstreamTimeout(
            f"the model fell silent for {self._patience:g} s; what was delivered was kept, ask again",
            code="model_timeout",
        )

    def is_over(self, now: float) -> bool:
        """Whether the time that the whole response has is over."""
        return now >= self._finish_by

    @property
    def _patience(self) -> float:
        limits = self._limits
        return limits.model_first_sign_seconds if self._silent_at_first else limits.model_silence_seconds

    @property
    def _signs(self) -> int:
        return self._stream.tokens + self._stream.signs_of_life
