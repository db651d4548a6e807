"""The client's side of "exactly once", by docs/protocol.md alone: each index once, each byte as the
model said it, one end.

It shares no code with the server, so that a mistake there can't be made here as well.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import Any

_FRAMES_KEPT = 40
_CONTEXT = 24


class Kind(StrEnum):
    """What can be wrong with an answer; each fails the run."""

    GAP = "gap"
    DUPLICATE = "duplicate"
    WRONG_BYTES = "wrong bytes"
    PROTOCOL = "protocol"
    LOST = "lost"
    UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong, and what the reader knew at that moment."""

    kind: Kind
    detail: str


class AnswerCheck:
    """What one reader has of one answer.

    Args:
        expected: the whole text that the model gives.
    """

    def __init__(self, expected: str) -> None:
        self.last = -1
        """The last index held."""
        self.epoch = 1
        """The newest that a frame said."""
        self.restarts = 0
        self.taken_back = 0
        """Restarts that took text back which the reader had."""
        self.deltas = 0
        self.ended = False
        self.error_code: str | None = None
        """Of the error that the answer ended with."""
        self.problems: list[Problem] = []
        self.frames: deque[tuple[float, str, Any]] = deque(maxlen=_FRAMES_KEPT)
        """The latest frames: when, by which connection, and what."""
        self._expected = expected
        self._length = 0
        self._marks: list[tuple[int, int]] = []  # after which index the text had which length
        self._text_is_wrong = False

    @property
    def length(self) -> int:
        """Characters of text held."""
        return self._length

    def note(self, by: str, frame: object) -> None:
        """Keep a frame for whoever has to find out."""
        self.frames.append((monotonic(), by, frame))

    def problem(self, kind: Kind, detail: str) -> None:
        """Something is wrong."""
        held = (
            f"held: index {self.last}, epoch {self.epoch}, {self._length} of {len(self._expected)} "
            "characters"
        )
        self.problems.append(Problem(kind, f"{detail} ({held})"))

    # -- frames ------------------------------------------------------------------------------------

    def take(self, frame: Mapping[str, Any]) -> None:
        """A frame of this answer, by WebSocket or SSE."""
        kind = frame["type"]
        if self.ended:
            self.problem(Kind.PROTOCOL, f"{kind} after the end")
        elif kind == "chat.response.delta":
            self.delta(frame.get("from", frame["index"]), frame["index"], frame["delta"])
        elif kind == "chat.response.start":
            self._started(frame["next_index"], frame.get("epoch", 1))
        elif kind == "chat.response.restarted":
            self._restarted(frame["from_index"], frame["index"], frame.get("epoch", 1))
        elif kind == "chat.response.completed":
            self._ended_at(frame["last_index"])
            self._completed(frame["finish_reason"], frame.get("degraded", False))
        elif kind == "chat.response.error":
            self._ended_at(frame["last_index"])
            self._failed(frame["error"])
        elif kind not in ("lag", "chat.response.queued"):
            self.problem(Kind.PROTOCOL, f"a frame of type {kind}")

    def delta(self, first: int, last: int, text: str) -> None:
        """The deltas `first` to `last`, joined."""
        self.deltas += 1
        if first > self.last + 1:
            self.problem(Kind.GAP, f"{first}…{last} came, {self.last + 1} was due")
            self._text_is_wrong = True
        elif first <= self.last:
            self.problem(Kind.DUPLICATE, f"{first}…{last} came, {self.last + 1} was due")
            self._text_is_wrong = True
        if last < first or not text:
            self.problem(Kind.PROTOCOL, f"a delta {first}…{last} with the text {text!r}")
        self._append(last, text)

    def _started(self, next_index: int, epoch: int) -> None:
        if next_index not in (0, self.last + 1):
            self.problem(Kind.PROTOCOL, f"the start says next_index {next_index}")
        self.epoch = max(epoch, self.epoch)

    def _restarted(self, from_index: int, index: int, epoch: int) -> None:
        self.restarts += 1
        # What is given anew from index 0 has the markers of earlier owners in it.
        self.epoch = max(epoch, self.epoch)
        if index not in (-1, self.last + 1):
            self.problem(
                Kind.GAP if index > self.last else Kind.DUPLICATE,
                f"a restart with the index {index}",
            )
        if index == -1 and from_index != -1:
            self.problem(
                Kind.PROTOCOL, f"a restart that stands nowhere keeps the text up to {from_index}"
            )
        self._cut(from_index)
        self.last = index
        if index >= 0:
            self._marks.append((index, self._length))

    def _completed(self, finish_reason: str, degraded: object) -> None:
        if finish_reason != "stop" or degraded:
            self.problem(
                Kind.LOST, f"completed with finish_reason {finish_reason}, degraded {degraded}"
            )
        elif self._length != len(self._expected) and not self._text_is_wrong:
            self.problem(Kind.WRONG_BYTES, "completed, but the text is not whole")

    def _failed(self, error: Mapping[str, Any]) -> None:
        self.error_code = error.get("code")
        if not self.error_code or not error.get("message"):
            self.problem(Kind.PROTOCOL, f"an error that doesn't say what it is: {dict(error)}")

    def _ended_at(self, last_index: int) -> None:
        self.ended = True
        if last_index != self.last:
            kind = Kind.GAP if last_index > self.last else Kind.DUPLICATE
            self.problem(kind, f"it ended with the last index {last_index}")

    # -- polls -------------------------------------------------------------------------------------

    def polled(self, asked_from: int, body: Mapping[str, Any]) -> None:
        """The answer to a poll from `asked_from`."""
        about = body["metadata"]
        restarted, next_index, text = about["restarted"], about["next_index"], body["new_text"]
        self.epoch = max(about.get("epoch", 1), self.epoch)
        if body["chunk_index"] != next_index - 1:
            self.problem(
                Kind.PROTOCOL, f"chunk_index {body['chunk_index']} with next_index {next_index}"
            )
        if restarted is not None:
            self.restarts += 1
            self._cut(restarted["from_index"])
        elif next_index < asked_from:
            self.problem(
                Kind.DUPLICATE, f"polled from {asked_from}, the next index is {next_index}"
            )
        elif text and next_index == asked_from:
            self.problem(
                Kind.PROTOCOL,
                f"polled from {asked_from}, next index {next_index}, {len(text)} characters",
            )
        self.deltas += bool(text)
        self._append(next_index - 1, text)
        if body["status"] in ("completed", "error", "cancelled"):
            self._poll_ended(body, about)

    def _poll_ended(self, body: Mapping[str, Any], about: Mapping[str, Any]) -> None:
        self.ended = True
        if body["status"] == "error":
            self._failed(about.get("error") or {})
            return
        self._completed(about["finish_reason"], about["degraded"])
        if body.get("full_text") != self._expected:
            self.problem(
                Kind.WRONG_BYTES, f"full_text has {len(body.get('full_text') or '')} characters"
            )

    # -- text --------------------------------------------------------------------------------------

    def _append(self, last: int, text: str) -> None:
        begin, end = self._length, self._length + len(text)
        if not self._text_is_wrong and self._expected[begin:end] != text:
            self._text_is_wrong = True
            place = _first_difference(self._expected[begin:end], text)
            due = self._expected[begin:][max(0, place - _CONTEXT) : place + _CONTEXT]
            came = text[max(0, place - _CONTEXT) : place + _CONTEXT]
            self.problem(
                Kind.WRONG_BYTES, f"at character {begin + place}: {came!r} came, {due!r} was due"
            )
        self.last, self._length = last, end
        self._marks.append((last, end))

    def _cut(self, from_index: int) -> None:
        """Keep the text up to and including `from_index`."""
        before = self._length
        while self._marks and self._marks[-1][0] > from_index:
            self._marks.pop()
        if from_index >= 0 and (not self._marks or self._marks[-1][0] != from_index):
            self.problem(
                Kind.PROTOCOL, f"a restart from {from_index}, where no frame of mine ended"
            )
        self._length = self._marks[-1][1] if self._marks else 0
        self.taken_back += self._length < before
        self._text_is_wrong = self._text_is_wrong and self._length > 0


def _first_difference(one: str, other: str) -> int:
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )
