"""An answer that is read: its text, its times, and server-sent events as they arrive."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Frame = Mapping[str, Any]
# A proxy that buffers a stream sends it within milliseconds. A model takes longer.
_AT_ONCE_SECONDS = 0.1


class WrongAnswer(Exception):
    """An answer breaks the contract. The message says what came."""


class CameAtOnce(WrongAnswer):
    """All text of a stream came in one piece."""


class StreamCut(WrongAnswer):
    """A stream ended before its answer did."""


@dataclass(frozen=True, slots=True)
class TimedAnswer:
    """An answer's text, and seconds from the question to its first text and to its last."""

    text: str
    first_seconds: float
    last_seconds: float

    def streamed(self) -> TimedAnswer:
        """Check that the text came in pieces, and return the same.

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
    """Measures the times of an answer, from the request on."""

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
        """Record the arrival of some text."""
        self.arrivals.append((index, self.elapsed))

    def ended(self, text: str) -> TimedAnswer:
        """The timed answer, at its end.

        Raises:
            WrongAnswer: there was no text.
        """
        if not self.arrivals or not text.strip():
            raise WrongAnswer("the answer ended without any text")
        return TimedAnswer(text, self.arrivals[0][1], self.arrivals[-1][1])


class LogText:
    """The text of a response, from the frames of its log."""

    def __init__(self) -> None:
        self._deltas: list[tuple[int, str]] = []
        self.ended = False

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(text for _, text in self._deltas)

    def take(self, frame: Frame, stopwatch: Stopwatch) -> None:
        """Add the next frame. Frames without text are ignored.

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


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event. `data` is "" for an event without, `event_id` None where it names none."""

    kind: str
    data: str
    event_id: str | None


def server_events(lines: Iterable[bytes]) -> Iterator[ServerEvent]:
    """The events of a body's lines, without comments and unfinished events."""
    kind, data, event_id = "message", list[str](), None
    for line in lines:
        text = line.decode().rstrip("\r\n")
        name, _, value = text.partition(":")
        value = value.removeprefix(" ")
        if not text:
            if data:
                yield ServerEvent(kind, "\n".join(data), event_id)
            kind, data, event_id = "message", [], None
        elif name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif name == "id":
            event_id = value
