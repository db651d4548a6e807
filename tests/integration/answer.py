"""What a client makes of the frames of one response, by the contract: the text, and whether each
index came exactly once.
"""

from __future__ import annotations

from typing import Any

from evenflow.stream_core.log.entries import Content, joined
from evenflow.stream_core.protocols.evenflow.part_objects import PartObject

Frame = dict[str, Any]

TERMINAL = ("chat.response.completed", "chat.response.error")


class Answer:
    """Collects a response's frames, over whichever transport they come, and insists on the
    contract.

    Args:
        last: the last index that is held already.
        text: what is held already.
    """

    def __init__(self, last: int = -1, text: str = "") -> None:
        self.last = last
        self.deltas = 0
        self.joined = 0
        self.epoch = 1
        """The newest owner of the response that a frame told of."""
        self._log_epoch = 1
        """The owner of what comes now: when everything comes again, an earlier one than the
        newest.
        """
        self.end: Frame | None = None
        self.restarts: list[Frame] = []
        self.frames: list[Frame] = []
        self._pieces: list[tuple[int, Content]] = [(last, text)] if text else []

    @property
    def text(self) -> str:
        """The text that stands."""
        return "".join(said for _, said in self._pieces if isinstance(said, str))

    @property
    def contents(self) -> list[Content]:
        """The text and the parts that stand, joined."""
        return [*joined(said for _, said in self._pieces)]

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
            assert frame["delta"], f"an empty delta: {frame}"
            self._take_content(frame, frame["delta"])
        elif kind == "chat.response.event":
            self._take_content(frame, PartObject.model_validate(frame).to_part())
        elif kind == "chat.response.restarted":
            self._take_restart(frame)
        elif kind in TERMINAL:
            assert frame["last_index"] == self.last, (
                f"{frame}, but the last index that came is {self.last}"
            )
            self.end = frame

    def take_poll(self, body: Frame) -> None:
        """The answer to a poll for what is behind `last`."""
        assert self.end is None, f"a poll was answered after the end {self.end}"
        index, metadata = body["chunk_index"], body["metadata"]
        restarted = metadata["restarted"]
        assert metadata["next_index"] == index + 1
        assert metadata["epoch"] >= self.epoch, f"{body} is of an earlier owner than {self.epoch}"
        if restarted is not None:
            self.restarts.append(restarted)
            self._pieces = [piece for piece in self._pieces if piece[0] <= restarted["from_index"]]
        else:
            assert index >= self.last, f"{body} is behind index {self.last}"
        text, at = body["new_text"], 0
        self.deltas += bool(text)
        for event in [*body.get("events", ()), {"at": len(text), "index": index}]:
            if at < event["at"]:
                self._pieces.append((event["index"], text[at : event["at"]]))
            if "kind" in event:
                self._pieces.append((event["index"], PartObject.model_validate(event).to_part()))
            at = event["at"]
        self.last, self.epoch = index, metadata["epoch"]
        if body["status"] in ("completed", "error", "cancelled"):
            assert body["full_text"] == self.text
            self.end = {**metadata, "status": body["status"]}

    def _take_restart(self, frame: Frame) -> None:
        epoch = frame.get("epoch", 1)
        if frame["index"] == -1:
            # No entry of the log: everything comes again, from index 0 on.
            assert frame["from_index"] == -1
            assert epoch > self.epoch, f"{frame} says nothing new: the epoch is {self.epoch}"
            self._log_epoch = 1
        else:
            assert frame["index"] == self.last + 1, f"{frame} does not follow index {self.last}"
            assert epoch >= self._log_epoch, (
                f"{frame} is of an earlier owner than {self._log_epoch}"
            )
            self._log_epoch = epoch
            # A frame that joined several can't be cut.
            ends = (-1, self.last, *(last for last, _ in self._pieces))
            assert frame["from_index"] in ends, f"{frame} cuts inside a delta"
        self.last = frame["index"]
        self.epoch = max(epoch, self.epoch)
        self.restarts.append(frame)
        self._pieces = [piece for piece in self._pieces if piece[0] <= frame["from_index"]]

    def _take_content(self, frame: Frame, said: Content) -> None:
        first = frame.get("from", frame["index"])
        assert first == self.last + 1, f"{frame} does not follow index {self.last}"
        assert frame["index"] >= first
        if "from" in frame:
            assert frame["from"] < frame["index"], f"`from` belongs to joined deltas only: {frame}"
            self.joined += 1
        self.last = frame["index"]
        self.deltas += 1
        self._pieces.append((self.last, said))
