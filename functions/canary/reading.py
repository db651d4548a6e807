"""What came of an answer, and when."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Frame = Mapping[str, Any]
# A proxy that holds a stream back gives it away within milliseconds. A model takes longer.
_AT_ONCE_SECONDS = 0.1


class WrongAnswer(Exception):
    """What came is not what the contract says. The message says what came."""


class CameAtOnce(WrongAnswer):
    """All text of a stream came in one piece."""


class StreamCut(WrongAnswer):
    """A stream ended before its answer did."""


@dataclass(frozen=True, slots=True)
class Reading:
    """An answer's text, and seconds from the question to its first text and to its last."""

    text: str
    first_seconds: float
    last_seconds: float

    def streamed(self) -> Reading:
        """The same reading.

        Raises:
            CameAtOnce: all text came at once.
        """
        if self.last_seconds - self.first_seconds < _AT_ONCE_SECONDS:
            raise CameAtOnce(
                f"all {len(self.text)} characters came at once after {self.first_seconds:.1f} s: "
                "something holds the stream back, or the answer is too short to tell"
            )
        return self


class Stopwatch:
    """Takes the times of an answer that was asked for just now."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = clock()
        self.arrivals: list[tuple[int, float]] = []
        """For each piece of text: its last index (0 if it has none), and its arrival in seconds."""

    @property
    def elapsed(self) -> float:
        """Seconds since it was started."""
        return self._clock() - self._began

    def text_came(self, index: int = 0) -> None:
        """Some text is there."""
        self.arrivals.append((index, self.elapsed))

    def ended(self, text: str) -> Reading:
        """The whole reading.

        Raises:
            WrongAnswer: there was no text.
        """
        if not self.arrivals or not text.strip():
            raise WrongAnswer("the answer ended without any text")
        return Reading(text, self.arrivals[0][1], self.arrivals[-1][1])


class LogText:
    """The text of a response, from the frames of its log."""

    def __init__(self) -> None:
        self._deltas: list[tuple[int, str]] = []
        self.ended = False

    @property
    def text(self) -> str:
        """All of it so far."""
        return "".join(text for _, text in self._deltas)

    def take(self, frame: Frame, stopwatch: Stopwatch) -> None:
        """The next frame; those that are not about the text are passed over.

        Raises:
            WrongAnswer: the response failed, or is the fallback answer.
        """
        match frame["type"]:
            case "chat.response.delta":
                self._deltas.append((frame["index"], frame["delta"]))
                stopwatch.text_came(frame["index"])
            case "chat.response.restarted":
                kept = frame["from_index"]
                self._deltas = [delta for delta in self._deltas if delta[0] <= kept]
            case "chat.response.completed":
                _check_end(frame)
                self.ended = True
            case "chat.response.error" | "error":
                raise WrongAnswer(f"the answer failed: {frame['error']['code']}")


def _check_end(frame: Frame) -> None:
    if frame.get("degraded"):
        raise WrongAnswer("the fallback answer came: the model failed")
    if frame["finish_reason"] not in {"stop", "length"}:
        raise WrongAnswer(f"the answer ended with {frame['finish_reason']}")
