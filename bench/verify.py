"""Judges what a client received, after the clock has stopped: order, gaps, duplicates and every
byte of the text.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields

import orjson

DELTA_START = b'{"type":"chat.response.delta"'
START_START = b'{"type":"chat.response.start"'
COMPLETED_START = b'{"type":"chat.response.completed"'


@dataclass
class Tally:
    """Counts over the responses judged.

    A joined frame counts once in `frames` and with all its deltas in `deltas`.
    """

    responses: int = 0
    frames: int = 0
    deltas: int = 0
    gaps: int = 0  # deltas that never came although a later one did
    duplicates: int = 0  # deltas that came again
    wrong_texts: int = 0  # responses whose text differs from what the model produced
    unfinished: int = 0  # responses that did not complete though they should have, or had an error

    def __iadd__(self, other: "Tally") -> "Tally":
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        return self

    @property
    def faults(self) -> int:
        return self.gaps + self.duplicates + self.wrong_texts + self.unfinished

    @property
    def joined(self) -> int:
        """Deltas that arrived inside another one's frame."""
        return self.deltas - self.frames


class Response:
    """One response as its client saw it: the text so far and the index of the next delta."""

    def __init__(self) -> None:
        self.tally = Tally(responses=1)
        self.parts: list[str] = []
        self.finish_reason: str | None = None
        self._next_index = 0

    def take(self, frame: dict[str, object]) -> None:
        kind = frame["type"]
        if kind == "chat.response.delta":
            self._take_delta(frame)
        elif kind == "chat.response.completed":
            self.finish_reason = str(frame["finish_reason"])
            self.tally.gaps += max(0, _integer(frame["last_index"]) + 1 - self._next_index)
        elif kind == "chat.response.error":
            self.finish_reason = "error"

    def append(self, text: str) -> None:
        """Take a piece of text that doesn't say its index."""
        self.tally.frames += 1
        self.tally.deltas += 1
        self.parts.append(text)

    def _take_delta(self, frame: dict[str, object]) -> None:
        last = _integer(frame["index"])
        first = _integer(frame.get("from", last))
        self.tally.frames += 1
        self.tally.deltas += last - first + 1
        self.tally.gaps += max(0, first - self._next_index)
        self.tally.duplicates += max(0, min(last + 1, self._next_index) - first)
        self._next_index = max(self._next_index, last + 1)
        self.parts.append(str(frame["delta"]))

    def judged(self, expected: str, *, must_finish: bool) -> Tally:
        """The tally against what the model produced; a text that was cut off on purpose has to
        be a beginning of it.
        """
        text = "".join(self.parts)
        right = text == expected if self.finish_reason == "stop" else expected.startswith(text)
        self.tally.wrong_texts += not right
        self.tally.unfinished += self.finish_reason not in (
            ("stop",) if must_finish else ("stop", None)
        )
        return self.tally


def responses(frames: Sequence[bytes]) -> dict[str, Response]:
    """The responses that one connection carried, by message id; for one that never began, one
    that received nothing.
    """
    by_response: dict[object, Response] = {}
    by_message: dict[str, Response] = defaultdict(Response)
    for raw in frames:
        frame = orjson.loads(raw)
        if frame["type"] == "chat.response.start":
            response = by_response.setdefault(frame["response_id"], Response())
            by_message[frame["message_id"]] = response
        elif frame["type"].startswith("chat.response."):
            by_response[frame["response_id"]].take(frame)
    return by_message


def _integer(value: object) -> int:
    assert isinstance(value, int)
    return value
