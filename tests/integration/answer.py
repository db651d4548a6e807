"""What a client makes of the frames of one response, by the contract: the text, and whether each index came exactly once."""

from __future__ import annotations

from typing import Any

Frame = dict[str, Any]

TERMINAL = ("chat.response.completed", "chat.response.error")


class Answer:
    """Collects a response's frames, over whichever transport they come, and insists on the contract.

    Args:
        last: the last index that is held already.
        text: what is held already.
    """

    def __init__(self, last: int = -1, text: str = "") -> None:
        self.last = last
        self.deltas = 0
        self.joined = 0
        self.end: Frame | None = None
        self.restarts: list[Frame] = []
        self.frames: list[Frame] = []
        self._pieces = [(last, text)] if text else []

    @property
    def text(self) -> str:
        """The text that stands."""
        return "".join(text for _, text in self._pieces)

    @property
    def finish_reason(self) -> str | None:
        """How it ended, when it completed."""
        return self.end.get("finish_reason") if self.end else None

    def take(self, frame: Frame) -> None:
        """The next frame of this response."""
        assert self.end is None, f"{frame} came after the end {self.end}"
        self.frames.append(frame)
        kind = frame["type"]
        if kind == "chat.response.delta":
            self._take_delta(frame)
        elif kind == "chat.response.restarted":
            assert frame["index"] == self.last + 1, f"{frame} does not follow index {self.last}"
            self.last = frame["index"]
            self.restarts.append(frame)
            self._pieces = [piece for piece in self._pieces if piece[0] <= frame["from_index"]]
        elif kind in TERMINAL:
            assert frame["last_index"] == self.last, f"{frame}, but the last index that came is {self.last}"
            self.end = frame

    def _take_delta(self, frame: Frame) -> None:
        first = frame.get("from", frame["index"])
        assert first == self.last + 1, f"{frame} does not follow index {self.last}"
        assert frame["index"] >= first
        assert frame["delta"], f"an empty delta: {frame}"
        if "from" in frame:
            assert frame["from"] < frame["index"], f"`from` belongs to joined deltas only: {frame}"
            self.joined += 1
        self.last = frame["index"]
        self.deltas += 1
        self._pieces.append((self.last, frame["delta"]))
